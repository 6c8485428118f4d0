// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people who are not root ask of root's pisted: its files are made as they would make them themselves. Only root can become another
//! user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use piste_suite::build_tree::build;
use piste_suite::process::Finished;
use piste_suite::{Trace, Workplace, kernel, process};

const NOBODY: u32 = 65534;
const GROUP: u32 = 65533;

/// Root's pisted, which lets everybody ask, as if all were in the group.
struct Open<'a> {
    place: &'a Workplace,
    piste: PathBuf,
}

/// `None`, once said why, where nobody can be anybody else.
fn open(place: &Workplace) -> Option<Open<'_>> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return None;
    }
    // Where nobody else may enter the build tree, the programs are taken out of it.
    let copied = process::run(
        Command::new("cp")
            .arg("-a")
            .args([build().join("bin"), build().join("lib")])
            .arg(place.path("")),
    );
    copied.expect_success();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).expect("it is ours");
    place.start_pisted();
    let control = place.run_folder().join("control.sock");
    fs::set_permissions(&control, Permissions::from_mode(0o666)).expect("it is ours");
    Some(Open {
        place,
        piste: place.path("bin/piste"),
    })
}

impl Open<'_> {
    /// A folder of the member's own.
    fn home(&self) -> PathBuf {
        let home = self.place.path("home");
        fs::create_dir(&home).expect("a folder can be made there");
        chown(&home, Some(NOBODY), Some(NOBODY)).expect("it is ours");
        home
    }

    fn member(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Finished {
        self.member_with("--clear-groups", program, arguments)
    }

    fn member_with(&self, groups: &str, program: impl AsRef<Path>, arguments: &[&str]) -> Finished {
        let mut command = self.place.command("setpriv");
        let command = command
            .args(["--reuid=65534", "--regid=65534", groups, "--"])
            .arg(program.as_ref())
            .args(arguments)
            .env("LD_LIBRARY_PATH", self.place.path("lib"));
        process::run(command)
    }

    fn piste(&self, arguments: &[&str]) -> Finished {
        self.member(&self.piste, arguments)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Every file and folder there, but for links.
fn all(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(self::all(&entry.path()));
        } else {
            all.push(entry.path());
        }
    }
    all
}

fn expect_owner(folder: &Path) {
    for path in all(folder) {
        let owner = fs::symlink_metadata(&path).expect("it is there").uid();
        assert_eq!(owner, NOBODY, "{}", path.display());
    }
}

/// A file of root's, and a way to it in the place of each file that a trace of a domain has.
fn lead_astray(place: &Workplace, folder: &Path, names: &[&str], link: impl Fn(&Path, &Path)) -> PathBuf {
    let victim = place.path("victim");
    fs::write(&victim, "precious").expect("it can be written");
    fs::set_permissions(&victim, Permissions::from_mode(0o600)).expect("it is ours");
    fs::create_dir_all(folder.join("index")).expect("folders can be made there");
    for name in names {
        link(&victim, &folder.join(name));
    }
    for path in all(folder).into_iter().filter(|path| path.is_dir()) {
        chown(&path, Some(NOBODY), Some(NOBODY)).expect("it is ours");
    }
    victim
}

fn expect_untouched(victim: &Path) {
    assert_eq!(fs::read_to_string(victim).expect("it is there"), "precious");
    assert_eq!(fs::metadata(victim).expect("it is there").uid(), 0);
}

const PROGRAMS_FILES: [&str; 4] = [".metadata.part", "metadata", "default_1", "index/default_1.idx"];

/// A way from the second path to the first.
type Lead = fn(&Path, &Path);

#[test]
fn member_leads_pisted_to_no_file_of_others() {
    let links: [(&str, Lead); 2] = [
        ("symlink", |victim, path| symlink(victim, path).expect("a link")),
        ("hard link", |victim, path| fs::hard_link(victim, path).expect("a link")),
    ];
    for (name, link) in links {
        let place = Workplace::new();
        let Some(open) = open(&place) else { return };
        let program = place.program("brackets.c");
        let output = open.home().join("trace");
        open.piste(&["create", "astray", "-o", text(&output)]).expect_success();
        open.piste(&["enable-event", "-u", "brackets:*"]).expect_success();
        let victim = lead_astray(&place, &output.join("user"), &PROGRAMS_FILES, link);
        let pids = (place.pisted(), place.consumer());
        let started = open.piste(&["start"]);
        place.run(&program, &["100"]).expect_success();
        let stopped = open.piste(&["stop"]);
        expect_untouched(&victim);
        let told = format!("{name}: {started}{stopped}");
        let is_told = told.contains("cannot be written") && told.contains(text(&output.join("user")));
        assert!(is_told, "{told}");
        open.piste(&["destroy"]);
        assert_eq!((place.pisted(), place.consumer()), pids, "both live on");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_nobody_up() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    let program = place.program("brackets.c");
    let output = open.home().join("trace");
    open.piste(&["create", "held", "-o", text(&output)]).expect_success();
    open.piste(&["enable-event", "-u", "brackets:*"]).expect_success();
    fs::create_dir_all(output.join("user")).expect("a folder can be made there");
    chown(output.join("user"), Some(NOBODY), Some(NOBODY)).expect("it is ours");
    open.member("mkfifo", &[text(&output.join("user/.metadata.part"))])
        .expect_success();
    let started = open.piste(&["start"]);
    assert!(!started.success(), "{started}");
    open.piste(&["destroy"]);
    // Another session is recorded as ever.
    let recorded = place.record(&["-u", "brackets:*"], program, &["100"]);
    recorded.expect_whole();
}

#[test]
fn member_leads_pisted_to_no_file_of_others_with_the_kernel() {
    let Some(place) = kernel::workplace() else { return };
    let Some(open) = open(&place) else { return };
    let output = open.home().join("trace");
    open.piste(&["create", "astray", "-o", text(&output)]).expect_success();
    open.piste(&["enable-event", "-k", "sched_switch"]).expect_success();
    open.piste(&["start"]).expect_success();
    std::thread::sleep(std::time::Duration::from_millis(200));
    fs::rename(output.join("kernel"), output.join("kernel.old")).expect("it can be renamed");
    let files: Vec<String> = (0..64)
        .flat_map(|cpu| [format!("default_{cpu}"), format!("index/default_{cpu}.idx")])
        .chain([".metadata.part".into(), "statedump_0".into()])
        .collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let victim = lead_astray(&place, &output.join("kernel"), &files, |victim, path| {
        symlink(victim, path).expect("a link");
    });
    open.piste(&["enable-event", "-k", "sched_waking"]);
    let pids = (place.pisted(), place.kernel_consumer());
    // A chunk that has begun to be finished is waited for until it can be written.
    open.member("timeout", &["5", text(&open.piste), "rotate"]);
    open.piste(&["stop"]);
    expect_untouched(&victim);
    assert_eq!((place.pisted(), place.kernel_consumer()), pids, "both live on");
    open.piste(&["destroy"]);
    expect_untouched(&victim);
}

/// Only root may read it.
fn hide(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o700)).expect("it is ours");
}

fn expect_denied(finished: &Finished) {
    let told = finished.to_string();
    assert!(!finished.success() && told.contains("Permission denied"), "{told}");
}

/// A program of the same functions under other names.
fn renamed_probed(place: &Workplace, name: &str) -> PathBuf {
    let program = place.path(name);
    let rename = ["--redefine-sym", "work=secret_work"];
    process::run(
        Command::new("objcopy")
            .args(rename)
            .arg(place.program("probed.c"))
            .arg(&program),
    )
    .expect_success();
    program
}

#[test]
fn member_learns_no_names_of_what_the_member_may_not_read() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    let program = place.program("probed.c");
    let list = |path: &Path, kind: &str| open.piste(&["list", kind, text(path)]);
    assert!(list(&program, "--symbols").expect_success().stdout.contains("work"));
    assert!(list(&program, "--usdt").expect_success().stdout.contains("shop:order"));

    // The names of a program that was stripped are in its debug file.
    let (stripped, debug) = (place.path("stripped"), place.path("stripped.debug"));
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let binutils = |arguments: &[&str]| {
        process::run(Command::new("objcopy").args(arguments)).expect_success();
    };
    binutils(&["--only-keep-debug", text(&program), text(&debug)]);
    binutils(&["--strip-all", &link, text(&program), text(&stripped)]);
    assert!(list(&stripped, "--symbols").stdout.contains("work"));
    hide(&debug);
    let said = list(&stripped, "--symbols");
    for said in [&said.stdout, &said.stderr] {
        assert!(!said.replace(text(&place.path("")), "").contains("work"), "{said}");
    }
    let of_root = place.piste_succeeds(&["list", "--symbols", text(&stripped)]);
    assert!(of_root.contains("work"), "{of_root}");

    hide(&program);
    expect_denied(&list(&program, "--symbols"));
    expect_denied(&list(&program, "--usdt"));
}

#[test]
fn member_probes_nothing_that_the_member_may_not_read() {
    let Some(place) = kernel::workplace() else { return };
    let Some(open) = open(&place) else { return };
    let (program, secret) = (place.program("probed.c"), renamed_probed(&place, "secret"));
    hide(&secret);
    let home = open.home();
    open.piste(&["create", "probes", "-o", text(&home.join("trace"))])
        .expect_success();
    let enable = |options: &[&str]| open.piste(&[&["enable-event", "-k"], options].concat());
    expect_denied(&enable(&["--uprobe", &format!("{}:secret_work", secret.display())]));
    expect_denied(&enable(&["--usdt", &format!("{}:shop:order", secret.display())]));

    // What was looked at may be something else when it is probed.
    let way = home.join("way");
    symlink(&program, &way).expect("a link");
    enable(&["--uprobe", &format!("{}:work", way.display())]).expect_success();
    fs::remove_file(&way).expect("it is ours");
    symlink(&secret, &way).expect("a link");
    enable(&["sched_switch"]).expect_success();
    let status = open.piste(&["status", "probes"]);
    assert!(!status.to_string().contains("secret_work"), "{status}");
    assert!(status.to_string().contains("Permission denied"), "{status}");

    // Nor does anybody probe it for somebody who may not.
    let of_root = format!("{}:secret_work", secret.display());
    expect_denied(&place.piste(&["enable-event", "-k", "-s", "probes", "--uprobe", &of_root]));
    open.piste(&["destroy", "probes"]).expect_success();
}

#[test]
fn folders_are_made_only_where_the_member_may_and_are_the_members() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    let program = place.program("brackets.c");
    let roots = place.path("roots");
    fs::create_dir(&roots).expect("a folder can be made there");
    let refused = open.piste(&["create", "x", "-o", text(&roots.join("x"))]);
    assert!(
        !refused.success() && refused.stderr.contains("Permission denied"),
        "{refused}"
    );
    // One that is there and is empty.
    let refused = open.piste(&["create", "x", "-o", text(&roots)]);
    assert!(
        !refused.success() && refused.stderr.contains("Permission denied"),
        "{refused}"
    );

    // What a group of theirs may write to.
    chown(&roots, Some(0), Some(GROUP)).expect("it is ours");
    fs::set_permissions(&roots, Permissions::from_mode(0o770)).expect("it is ours");
    let of_group = text(&roots.join("of group")).to_owned();
    let create = ["create", "x", "-o", &of_group];
    let refused = open.piste(&create);
    assert!(!refused.success(), "{refused}");
    let groups = format!("--groups={GROUP}");
    open.member_with(&groups, &open.piste, &create).expect_success();
    expect_owner(Path::new(&of_group));
    open.piste(&["destroy", "x"]).expect_success();

    let home = open.home();
    let output = home.join("flight");
    open.piste(&["create", "flight", "--snapshot", "-o", text(&output)])
        .expect_success();
    open.piste(&["enable-event", "-u", "brackets:*"]).expect_success();
    open.piste(&["start"]).expect_success();
    place.run(&program, &["100"]).expect_success();
    let refused = open.piste(&["snapshot", "record", "-o", text(&roots.join("y"))]);
    assert!(
        !refused.success() && refused.stderr.contains("Permission denied"),
        "{refused}"
    );
    assert_eq!(all(&roots).len(), 1, "the folder itself");
    open.piste(&["snapshot", "record", "-o", text(&home.join("snapshot"))])
        .expect_success();
    open.piste(&["snapshot", "record"]).expect_success();
    open.piste(&["destroy"]).expect_success();
    assert_eq!(Trace::at(home.join("snapshot")).event_count(), 200);

    let output = home.join("streamed");
    open.piste(&["create", "streamed", "-o", text(&output)])
        .expect_success();
    open.piste(&["enable-event", "-u", "brackets:*"]).expect_success();
    open.piste(&["start"]).expect_success();
    place.run(&program, &["100"]).expect_success();
    open.piste(&["rotate"]).expect_success();
    place.run(&program, &["100"]).expect_success();
    // Whoever takes over knows whose it is.
    place.kill_pisted();
    process::send(place.consumer(), rustix::process::Signal::KILL);
    place.start_pisted();
    let control = place.run_folder().join("control.sock");
    fs::set_permissions(&control, Permissions::from_mode(0o666)).expect("it is ours");
    place.run(&program, &["100"]).expect_success();
    open.piste(&["rotate"]).expect_success();
    open.piste(&["destroy"]).expect_success();
    expect_owner(&home);
    assert_eq!(fs::metadata(&output).expect("it is there").mode() & 0o777, 0o700);
    open.piste(&["stats", text(&output)]).expect_success();
    open.member("rm", &["-rf", text(&output)]).expect_success();
    assert!(!output.exists());
}

#[test]
fn what_a_member_asks_for_without_a_place_goes_to_the_members_home() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    // Nobody's home is where nothing can be made.
    let refused = open.piste(&["create", "x"]);
    assert!(
        !refused.success() && refused.stderr.contains("/nonexistent"),
        "{refused}"
    );
}
