// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session daemon of LTTng of its own. Root's daemon has its files in fixed places, /run and /dev/shm, so that root's one runs with others
//! mounted there; anybody else's has them below LTTNG_HOME.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use piste_reason::reason;
use rustix::process::geteuid;

use crate::error::{Absence, Error};
use crate::processes::{Daemon, Patience, bound, find, output_of};
use crate::workshop::Workshop;

/// Starts a program with folders of its own where root's session daemon has its files.
const APART: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs -o mode=755 tmpfs /run && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec \"$@\"",
];
const DAEMON: &str = "lttng-sessiond";
/// Takes the right to load and to unload kernel modules from a program (Debian: util-linux).
const WITHOUT_MODULES: [&str; 3] = ["setpriv", "--bounding-set=-sys_module", "--inh-caps=-sys_module"];
/// What programs with LTTng's events are linked with.
pub(crate) const LIBRARIES: [&str; 3] = ["-llttng-ust", "-llttng-ust-common", "-ldl"];

/// Whose events a daemon records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// Those of programs.
    Programs,
    /// Those of the kernel, with the modules that are loaded. By itself, a session daemon loads those that are missing, and unloads all of them when
    /// it ends, also those that were loaded before. This one may do neither.
    Kernel,
}

/// Ends with this value, and all its sessions too.
pub(crate) struct Sessiond {
    daemon: Daemon,
    home: PathBuf,
    patience: Patience,
}

impl Sessiond {
    /// Whether LTTng is on this machine, with what programs need.
    pub(crate) fn find(workshop: &Workshop) -> Result<(), Absence> {
        Sessiond::is_installed()?;
        if !workshop.has_header("lttng/tracepoint.h", &[])? {
            return Err(Absence::new(
                "there is no header lttng/tracepoint.h",
                "install it (Debian: apt install liblttng-ust-dev)",
            ));
        }
        Sessiond::can_run_apart(workshop)
    }

    /// Whether its programs are on this machine.
    pub(crate) fn is_installed() -> Result<(), Absence> {
        match ["lttng", DAEMON].into_iter().find(|program| find(program).is_none()) {
            Some(program) => Err(Absence::of_program(program, "lttng-tools")),
            None => Ok(()),
        }
    }

    /// Whether one can run beside that of the system.
    pub(crate) fn can_run_apart(workshop: &Workshop) -> Result<(), Absence> {
        let mut apart = Command::new(APART[0]);
        apart.args(&APART[1..]).args(["sh", "true"]);
        if geteuid().is_root() && output_of(&mut apart, &workshop.patience).is_err() {
            return Err(Absence::for_good(
                "its session daemon would interfere with the one of the system, because root may not mount folders of its own here (unshare --mount)",
            ));
        }
        Ok(())
    }

    /// Starts one with its files in `home`, which is made, and waits until it answers.
    pub(crate) fn start(workshop: &Workshop, home: PathBuf, domain: Domain) -> Result<Sessiond, Error> {
        fs::create_dir(&home)
            .map_err(|error| Error::new(format!("cannot create {}: {}", home.display(), reason(&error))))?;
        let mut sessiond = Sessiond {
            daemon: start_daemon(&home, domain)?,
            home,
            patience: workshop.patience.clone(),
        };
        sessiond.wait()?;
        Ok(sessiond)
    }

    fn wait(&mut self) -> Result<(), Error> {
        let (pid, home) = (self.daemon.pid(), self.home.clone());
        let name = format!("/proc/{pid}/comm");
        // Before that, the folders are not mounted, and lttng would ask the daemon of the machine.
        let has_started = || fs::read_to_string(&name).is_ok_and(|name| name.trim() == DAEMON);
        let patience = &self.patience;
        let answers = || {
            let mut command = beside(pid, "lttng");
            output_of(at_home(command.args(["--no-sessiond", "list"]), &home), patience).is_ok()
        };
        self.daemon
            .wait_for(patience, "lttng-sessiond to answer", || has_started() && answers())
    }

    /// Runs `lttng`, and returns what it prints.
    pub(crate) fn lttng(&self, arguments: &[&str]) -> Result<String, Error> {
        self.lttng_within(&self.patience, arguments)
    }

    /// From now on, Ctrl-C ends no command: what is known by then shall be told.
    pub(crate) fn ignore_ctrl_c(&mut self) {
        self.patience = Patience::for_the_end();
    }

    fn lttng_within(&self, patience: &Patience, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.beside("lttng");
        output_of(command.arg("--no-sessiond").args(arguments), patience)
    }

    /// A program beside the daemon, which finds it.
    pub(crate) fn beside(&self, program: impl AsRef<Path>) -> Command {
        let mut command = beside(self.daemon.pid(), program);
        at_home(&mut command, &self.home);
        command
    }

    /// A path for the trace.
    pub(crate) fn trace(&self) -> PathBuf {
        self.home.join("trace")
    }
}

impl Drop for Sessiond {
    fn drop(&mut self) {
        // Its consumer would outlive it otherwise, as long as there is a session.
        let _ = self.lttng_within(&Patience::for_the_end(), &["destroy", "--all"]);
    }
}

fn start_daemon(home: &Path, domain: Domain) -> Result<Daemon, Error> {
    let arguments = match domain {
        Domain::Programs => vec![DAEMON, "--no-kernel", "--quiet"],
        Domain::Kernel => [&WITHOUT_MODULES[..], &[DAEMON, "--quiet"]].concat(),
    };
    let mut command = match geteuid().is_root() {
        true => {
            let mut command = bound(APART[0]);
            command.args(&APART[1..]).arg("sh").args(&arguments);
            command
        }
        false => {
            let mut command = bound(arguments[0]);
            command.args(&arguments[1..]);
            command
        }
    };
    Daemon::start(at_home(&mut command, home).stdin(Stdio::null()).stdout(Stdio::null()))
}

fn at_home<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    command.env("HOME", home).env("LTTNG_HOME", home)
}

/// A program with the same folders. A namespace has its root folder at its top, which is not ours if this process was started by chroot.
fn beside(pid: u32, program: impl AsRef<Path>) -> Command {
    if !geteuid().is_root() {
        return Command::new(program.as_ref());
    }
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--mount=/proc/{pid}/ns/mnt"))
        .args(["--root", "--wd"].map(|option| format!("{option}=/proc/{pid}/root")))
        .arg("--")
        .arg(program.as_ref());
    command
}
