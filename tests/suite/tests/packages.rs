// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people install: the Debian packages, the wheel, and what cargo installs. Each is installed in a Debian system that never had Piste,
//! is used there, and is removed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use piste_support::build_tree::{build, repository};
use piste_support::process::{self, wait_until};
use piste_support::{Debian, debian};

/// A program with events, and two ways to build it.
const SHOP: &str = r#"
#include <piste/tracepoint.h>

PISTE_EVENT(shop, order, (int, id))

int main(void)
{
	for (int id = 0; id < 5; id++)
		piste(shop, order, id);
}
"#;
const SHOP_CMAKE: &str = "
cmake_minimum_required(VERSION 3.20)
project(shop C)
find_package(piste 0.1 REQUIRED)
add_executable(shared shop.c)
target_link_libraries(shared piste::piste)
add_executable(static shop.c)
target_link_libraries(static piste::piste_static)
";

/// Prints the files of the viewer's page, and how many bytes they have.
const VIEWER: &str = r#"
import json, re, subprocess
from urllib.parse import urljoin
from urllib.request import urlopen
server = subprocess.Popen(["piste", "--json", "web", "heap"], stdout=subprocess.PIPE, text=True)
said = ""
while not said.rstrip().endswith("}"):
    line = server.stdout.readline()
    if not line:
        raise SystemExit(server.wait())
    said += line
url = json.loads(said)["url"]
page = urlopen(url).read().decode()
for name in re.findall(r'(?:src|href)="([^"]+)"', page):
    print(name, len(urlopen(urljoin(url, name)).read()))
server.terminate()
server.wait()
"#;

/// A folder of packages, kept until they are made again.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("cargo's folder for tests can be written to");
    folder
}

/// The folder with the Debian packages of what is built.
fn debian_packages() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        build();
        let folder = folder("deb");
        let mut deb = Command::new(repository().join("tools/deb"));
        // Compressing them and their debug information would take most of the time.
        deb.env("DPKG_DEB_COMPRESSOR_TYPE", "none")
            .env("DEB_BUILD_OPTIONS", "noautodbgsym");
        debian::build(deb.arg(&folder));
        folder
    })
}

fn kernel_can_be_recorded() -> bool {
    let lack = process::run(&mut Command::new(repository().join("tools/kernel-lack")));
    lack.expect_success().stdout.trim().is_empty()
}

/// The number of events of a name in a trace there.
fn count(debian: &Debian, trace: &str, event: &str) -> usize {
    let text = debian.run(&format!("piste view {trace} --event '{event}'"));
    text.lines().count()
}

fn expect_version(debian: &Debian) {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(debian.run("piste --version"), format!("piste {version}\n"));
    assert_eq!(debian.run("pisted --version"), format!("pisted {version}\n"));
}

/// The installed `piste` serves the viewer, or says what it was built without.
fn expect_viewer(debian: &Debian, environment: &str) {
    fs::write(debian.path("/root/viewer.py"), VIEWER).expect("root may");
    let finished = debian.try_run(&format!("{environment}; python3 viewer.py"));
    if repository().join("viewer/dist/viewer.js").exists() {
        let files = &finished.expect_success().stdout;
        let bytes = |name: &str| -> Option<u64> {
            files
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        assert!(
            bytes("viewer.js") > Some(50_000) && bytes("viewer.css") > Some(5_000),
            "{files}"
        );
    } else {
        assert!(finished.stderr.contains("Node.js"), "{finished}");
    }
}

#[test]
fn debian_packages_are_used_and_leave_nothing() {
    let Some(debian) = Debian::new(debian_packages()) else {
        return;
    };
    let before = debian.files();
    debian.run("dpkg --install /shared/libpiste0_*.deb /shared/piste_*.deb");
    expect_version(&debian);
    debian.run("getent group tracing; test -L /etc/systemd/system/multi-user.target.wants/pisted.service");
    debian.run("systemd-analyze verify pisted.service");
    debian.run("test -f /usr/share/doc/piste/docs/reference/filter.md");

    let kernel = if kernel_can_be_recorded() { "" } else { "--no-kernel" };
    debian.run(&format!("piste record {kernel} --preload libc -o heap -- ls /"));
    assert!(count(&debian, "heap", "lttng_ust_libc:malloc") > 10);
    assert!(kernel == "--no-kernel" || count(&debian, "heap", "syscall_entry_getdents64") > 0);
    expect_viewer(&debian, "true");

    let query = "piste query heap \"SELECT count(*) > 10 AS many FROM events WHERE name = 'lttng_ust_libc:malloc'\" --format csv";
    let finished = debian.try_run(query);
    assert!(
        finished.stderr.contains("install the package piste-query"),
        "{finished}"
    );
    debian.run("dpkg --install /shared/piste-query_*.deb");
    assert_eq!(debian.run(query), "many\ntrue\n");

    debian.run("dpkg --install /shared/libpiste-dev_*.deb");
    debian.run("mandb --quiet");
    for page in [
        "piste(1)",
        "piste-record(1)",
        "piste(3)",
        "piste-trace-format(5)",
        "piste-filter(7)",
        "pisted(8)",
    ] {
        let (name, section) = page.split_once('(').expect("a section");
        let section = section.trim_end_matches(')');
        let finished = debian.try_run(&format!(
            "man --warnings {section} {name}; whatis -s {section} {name} >&2"
        ));
        assert!(finished.stdout.contains("NAME"), "{finished}");
        assert!(
            finished.stderr.starts_with(&format!("{name} ({section})")),
            "{finished}"
        );
        assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
    }

    fs::create_dir(debian.path("/root/shop")).expect("root may");
    fs::write(debian.path("/root/shop/shop.c"), SHOP).expect("root may");
    fs::write(debian.path("/root/shop/CMakeLists.txt"), SHOP_CMAKE).expect("root may");
    assert_eq!(debian.run("pkg-config --cflags --libs piste").trim(), "-lpiste");
    debian.run("cd shop; gcc -Wall -Werror shop.c $(pkg-config --cflags --libs piste) -o plain");
    debian.run("cd shop; cmake -S . -B . -DCMAKE_C_FLAGS='-Wall -Werror' && make");
    for program in ["plain", "shared", "static"] {
        let links = debian
            .run(&format!("ldd shop/{program}"))
            .contains("libpiste.so.0 => /");
        assert_eq!(links, program != "static", "{program}");
        debian.run(&format!(
            "piste record --no-kernel -u 'shop:*' -o {program} -- shop/{program}"
        ));
        assert_eq!(count(&debian, program, "shop:order"), 5, "{program}");
    }

    let pisted = debian.run("cat /run/piste/pisted.pid");
    let pisted = pisted.trim().parse().expect("a PID");
    assert!(process::exists(pisted));
    debian.run("dpkg --purge piste-query piste libpiste-dev libpiste0");
    wait_until("pisted has ended", || !process::exists(pisted));
    assert_eq!(debian.files(), before);
    debian.run("test ! -e /run/piste && test ! -e /dev/shm/piste-state-0");
}

#[test]
fn the_service_of_the_packages_serves_members_and_outlives_its_end() {
    let Some(debian) = Debian::boot(debian_packages()) else {
        return;
    };
    let pid = || debian.run("systemctl show --property MainPID --value pisted");
    let is_active = || debian.try_run("systemctl is-active --quiet pisted").success();

    debian.run("dpkg --install /shared/libpiste0_*.deb /shared/piste_*.deb");
    assert!(is_active());

    debian.run("useradd --create-home --groups tracing ada");
    let as_ada = |command: &str| debian.run(&format!("cd /home/ada; runuser -u ada -- {command}"));
    as_ada("piste record --no-kernel --preload libc -o heap -- ls /");
    assert!(count(&debian, "/home/ada/heap", "lttng_ust_libc:malloc") > 10);
    if kernel_can_be_recorded() {
        as_ada("piste record -a -d 500ms -o system");
        assert!(count(&debian, "/home/ada/system", "sched_switch") > 10);
        debian.run("piste create opened -o opened && piste enable-event -k --uprobe /bin/bash:main && piste start");
        debian.run("bash -c true && piste destroy");
        assert!(count(&debian, "opened", "*main*") > 0);
    }
    assert_eq!(debian.run("find /home/ada/heap ! -user ada"), "");

    debian.run("piste create web -o web && piste enable-event -u 'lttng_ust_libc:*' && piste start");
    fs::write(
        debian.path("/root/busy.py"),
        "import time\nwhile True:\n\tbytes(100000)\n\ttime.sleep(0.001)\n",
    )
    .expect("root may");
    debian.run("LD_PRELOAD=/usr/lib/piste/libpiste-libc.so python3 busy.py >/dev/null 2>&1 &");
    let consumer = debian.run("pgrep pisted-consumer");
    for end in [
        "systemctl restart pisted",
        "systemctl kill --signal KILL --kill-whom main pisted",
        "dpkg --install /shared/piste_*.deb",
    ] {
        let old = pid();
        debian.run(end);
        wait_until("another pisted serves", || is_active() && pid() != old);
        assert!(debian.run("piste list --sessions").contains("web"), "{end}");
        assert_eq!(debian.run("pgrep pisted-consumer"), consumer, "{end}");
    }
    let stopped = debian.run("piste stop");
    assert!(stopped.contains("nothing lost"), "{stopped}");

    debian.run("dpkg --purge piste libpiste0");
    assert_eq!(debian.try_run("pgrep pisted").stdout, "");
    assert!(count_files(&debian, "/root/web") > 2);
}

fn count_files(debian: &Debian, folder: &str) -> usize {
    debian.run(&format!("find {folder} -type f")).lines().count()
}

#[test]
fn the_wheel_puts_piste_on_the_path_of_its_environment() {
    let folder = folder("wheel");
    let Some(debian) = Debian::new(&folder) else {
        return;
    };
    build();
    debian::build(Command::new(repository().join("tools/wheel")).arg(&folder));
    // The environment's pip is Debian's, but not compiled beforehand, which takes longer than all that it does here.
    debian.run("python3 -m venv --without-pip env; python3 -m zipfile -e /usr/share/python-wheels/pip-*.whl env/lib/python3.*/site-packages");
    debian.run("find env ! -type d | sort > before; env/bin/python -m pip install --no-index /shared/*.whl");
    debian.run("ln -s $PWD/env/bin/piste $PWD/env/bin/pisted /usr/local/bin/");
    expect_version(&debian);
    debian.run("rm /usr/local/bin/piste /usr/local/bin/pisted");

    let activated = |script: &str| debian.try_run(&format!("source env/bin/activate; {script}"));
    activated("piste record --no-kernel --preload libc -o heap -- ls /").expect_success();
    let viewed = activated("piste view heap --event lttng_ust_libc:malloc");
    assert!(viewed.expect_success().stdout.lines().count() > 10);
    expect_viewer(&debian, "source env/bin/activate");
    for page in ["piste-record", "piste-filter", "pisted"] {
        let finished = activated(&format!("man -w {page}"));
        assert!(finished.stdout.starts_with("/root/env/share/man/"), "{finished}");
    }
    let query = activated("piste query heap 'SELECT 1'");
    assert!(query.stderr.contains("install the package piste-query"), "{query}");

    activated("python -m pip uninstall --yes piste").expect_success();
    debian.run("find env ! -type d ! -name '*.pyc' | sort | diff <(grep -v '[.]pyc' before) -");
}

#[test]
fn what_cargo_installs_says_how_to_get_the_rest() {
    let folder = folder("cargo");
    let Some(debian) = Debian::new(&folder) else {
        return;
    };
    let install = |path: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["install", "--locked", "--path", path, "--root"])
            .arg(&folder);
        debian::build(cargo.current_dir(repository()));
    };
    let run = |script: &str| debian.try_run(&format!("PATH=/shared/bin:$PATH; {script}"));

    install("crates/cli");
    let missing = run("piste list");
    assert!(
        missing.stderr.contains("cargo install --path crates/daemon"),
        "{missing}"
    );

    install("crates/daemon");
    run("piste record --no-kernel -o heap -- ls /").expect_success();
    expect_viewer(&debian, "PATH=/shared/bin:$PATH");
    let missing = run("piste record --no-kernel --preload libc -- ls /");
    assert!(missing.stderr.contains("make install"), "{missing}");
    let missing = run("piste query heap 'SELECT 1'");
    assert!(
        missing
            .stderr
            .contains("cargo install --profile query --path crates/query"),
        "{missing}"
    );
}
