// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian systems in which packages are installed and tried, as on a machine that never had Piste: made by debootstrap, in namespaces of
//! their own. tests/debian has the scripts that make them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;

use crate::build_tree::repository;
use crate::process::{self, Finished, Running, exists, send, wait_until};

/// A Debian system. Everything in it is gone when this is dropped, processes too.
pub struct Debian {
    /// The process whose namespaces are the system.
    holder: i32,
    /// Its `unshare`.
    running: Running,
    /// Whether processes in it have PIDs of their own.
    boots: bool,
    cgroup: Option<PathBuf>,
}

impl Debian {
    /// One that shares this machine's processes, and has a folder of it as /shared. `None`, once said why, where there can be none.
    pub fn new(shared: &Path) -> Option<Debian> {
        Debian::enter(shared, None)
    }

    /// One that has booted systemd, with a folder as /shared. `None`, once said why, where there can be none.
    pub fn boot(shared: &Path) -> Option<Debian> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let Some(mount) = mounts.find(|mount| mount.get(2) == Some(&"cgroup2")) else {
            println!("skipped: no cgroup2 is mounted, which systemd needs");
            return None;
        };
        let name = format!("piste-test-{}", std::process::id());
        let debian = Debian::enter(shared, Some(Path::new(mount[1]).join(name)))?;
        wait_until("systemd has booted", || {
            let state = debian.try_run("systemctl is-system-running || true").stdout;
            ["running\n", "degraded\n"].contains(&&*state)
        });
        Some(debian)
    }

    fn enter(shared: &Path, cgroup: Option<PathBuf>) -> Option<Debian> {
        let base = base()?;
        let script = repository().join("tests/debian/enter");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--fork", "--kill-child"]);
        if let Some(cgroup) = &cgroup {
            fs::create_dir(cgroup).expect("root may make a cgroup");
            let procs = cgroup.join("cgroup.procs");
            // The shell is in the cgroup when the namespace is made, which begins there.
            let enter = "echo $$ >\"$0\" && exec unshare \"$@\"";
            command = Command::new("sh");
            command.args(["-c", enter]).arg(procs);
            command.args(["--mount", "--cgroup", "--pid", "--fork", "--kill-child"]);
        }
        command.arg(script).arg(base).arg(shared);
        if cgroup.is_some() {
            command.arg("systemd");
        }
        let mut running = Running::start(&mut command);
        assert_eq!(running.line(), "ready");
        let children = format!("/proc/{pid}/task/{pid}/children", pid = running.pid());
        let holder = fs::read_to_string(children).expect("`unshare` runs");
        Some(Debian {
            holder: holder.trim().parse().expect("it has one child"),
            running,
            boots: cgroup.is_some(),
            cgroup,
        })
    }

    /// A path there, as it is seen from here.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.holder))
    }

    /// Runs a shell script there, as root and in root's home, up to the first command that fails.
    pub fn try_run(&self, script: &str) -> Finished {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder));
        command.args(["--mount", "--root"]);
        if self.boots {
            command.args(["--pid", "--cgroup"]);
        }
        command.args([
            "env",
            "--ignore-environment",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ]);
        command.args([
            "HOME=/root",
            "LC_ALL=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive",
            "MANWIDTH=100",
        ]);
        process::run(command.args(["bash", "-euo", "pipefail", "-c", &format!("cd; {script}")]))
    }

    /// What a script prints that must succeed.
    ///
    /// # Panics
    /// It fails.
    pub fn run(&self, script: &str) -> String {
        self.try_run(script).expect_success().stdout.clone()
    }

    /// The files there, but for those of running processes and of package managers.
    pub fn files(&self) -> String {
        self.run(
            "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /shared -o -path /root -o -path /tmp -o -path /var/lib/dpkg \
             -o -path /var/lib/systemd -o -path /var/cache -o -path /var/log -o -path /run \\) -prune -o -print | sort",
        )
    }

    fn processes(&self) -> Vec<i32> {
        let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let own = namespace(self.holder);
        let entries = fs::read_dir("/proc").expect("/proc is mounted");
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|&pid| own.is_some() && namespace(pid) == own).collect()
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        // Its own last: the others are found by it.
        let mut processes = self.processes();
        processes.sort_by_key(|&pid| pid == self.holder);
        processes.iter().for_each(|&pid| send(pid, Signal::KILL));
        wait_until("the processes of the system have ended", || {
            !processes.iter().any(|&pid| exists(pid)) && !self.running.runs()
        });
        if let Some(cgroup) = &self.cgroup {
            remove_cgroup(cgroup);
        }
    }
}

/// Removes a cgroup with those in it, which have no processes.
fn remove_cgroup(cgroup: &Path) {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.path().is_dir()) {
        remove_cgroup(&entry.path());
    }
    let _ = fs::remove_dir(cgroup);
}

/// Runs a command that makes something, however long it takes. What it prints.
///
/// # Panics
/// It fails.
pub fn build(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The system that all begin with; `None`, once said why, where there can be none.
fn base() -> Option<&'static Path> {
    static BASE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let base = BASE.get_or_init(|| {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can make a Debian system".into());
        }
        if process::run(Command::new("sh").args(["-c", "command -v debootstrap"])).status != 0 {
            return Err("debootstrap is not installed".into());
        }
        Ok(PathBuf::from(
            build(&mut Command::new(repository().join("tests/debian/base"))).trim(),
        ))
    });
    match base {
        Ok(base) => Some(base),
        Err(lack) => {
            println!("skipped: {lack}");
            None
        }
    }
}
