// SPDX-License-Identifier: MIT OR Apache-2.0
//! LTTng-UST's events, recorded by a session daemon of their own. Root's daemon has its files in fixed places, /run and /dev/shm, so that
//! root's one runs with others mounted there; anybody else's has them below LTTNG_HOME.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;
use tempfile::TempDir;

use super::{EventSession, EventTracer, Found, Peer, RING, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::pisted::events_in;
use crate::processes::{Daemon, Patience, bound, find, output_of};
use crate::report::Group;
use crate::workshop::{Sized, Workshop};

/// Channels, and the event that each records.
const CHANNELS: [(&str, &str); 5] = [
    ("plain", "bench:plain"),
    ("payload", "bench:payload"),
    ("contexts", "bench:contexts"),
    ("filtered", "bench:filtered"),
    ("formatted", "lttng_ust_tracef:event"),
];
/// One event of 100 passes.
const FILTER: &str = "v == 7";
/// Starts a program with folders of its own where root's session daemon has its files.
const APART: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs -o mode=755 tmpfs /run && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec \"$@\"",
];
const DAEMON: &str = "lttng-sessiond";

pub(super) const PEER: Peer = Peer {
    name: "lttng",
    about: "LTTng-UST's events",
    group: Group::Events,
    rows: &[
        RowKind::unrecorded("lttng-disabled", "LTTng-UST, event off", "disabled"),
        RowKind::recorded("lttng", "LTTng-UST, overwrite", "plain").with_payloads(),
        RowKind::recorded("lttng-contexts", "LTTng-UST, overwrite, vtid", "contexts"),
        RowKind::recorded("lttng-filtered", "LTTng-UST, filter rejects 99 %", "filtered"),
        RowKind::recorded("tracef", "LTTng-UST, tracef", "formatted"),
    ],
    find: |workshop| {
        for program in ["lttng", DAEMON] {
            if find(program).is_none() {
                return Err(Absence::of_program(program, "lttng-tools"));
            }
        }
        if !workshop.has_header("lttng/tracepoint.h", &[])? {
            return Err(Absence::new(
                "there is no header lttng/tracepoint.h",
                "install it (Debian: apt install liblttng-ust-dev)",
            ));
        }
        let mut apart = Command::new(APART[0]);
        apart.args(&APART[1..]).args(["sh", "true"]);
        if geteuid().is_root() && output_of(&mut apart, &workshop.patience).is_err() {
            return Err(Absence::for_good(
                "its session daemon would interfere with the one of the system, because root may not mount folders of its own here (unshare --mount)",
            ));
        }
        let flags = ["-llttng-ust", "-llttng-ust-common", "-ldl"].map(str::to_owned);
        Ok(Found::Events(Box::new(Lttng {
            programs: workshop.compile_sized(
                "lttng",
                &["lttng.c", "lttng-formatted.c"],
                &flags,
                "liblttng-ust-dev",
                &workshop.payloads,
            )?,
        })))
    },
};

struct Lttng {
    programs: Sized,
}

impl EventTracer for Lttng {
    fn start<'w>(&self, workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let home = workshop.folder("lttng")?;
        let mut session = Session {
            programs: self.programs.clone(),
            daemon: start_daemon(home.path())?,
            workshop,
            home,
            found: None,
        };
        session.wait_for_daemon()?;
        session.record()?;
        Ok(Box::new(session))
    }
}

fn start_daemon(home: &Path) -> Result<Daemon, Error> {
    let arguments = [DAEMON, "--no-kernel", "--quiet"];
    let mut command = match geteuid().is_root() {
        true => {
            let mut command = bound(APART[0]);
            command.args(&APART[1..]).arg("sh").args(arguments);
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

struct Session<'w> {
    programs: Sized,
    daemon: Daemon,
    workshop: &'w Workshop,
    /// Removed after the daemon has ended.
    home: TempDir,
    /// By the names of the events, once somebody asked.
    found: Option<BTreeMap<String, u64>>,
}

impl Session<'_> {
    fn wait_for_daemon(&mut self) -> Result<(), Error> {
        let (pid, home) = (self.daemon.pid(), self.home.path());
        let name = format!("/proc/{pid}/comm");
        let patience = &self.workshop.patience;
        // Before that, the folders are not mounted, and lttng would ask the daemon of the machine.
        let has_started = || fs::read_to_string(&name).is_ok_and(|name| name.trim() == DAEMON);
        let answers = || {
            let mut command = beside(pid, "lttng");
            output_of(at_home(command.args(["--no-sessiond", "list"]), home), patience).is_ok()
        };
        self.daemon
            .wait_for(patience, "lttng-sessiond to answer", || has_started() && answers())
    }

    fn lttng(&self, arguments: &[&str], patience: &Patience) -> Result<(), Error> {
        let mut command = beside(self.daemon.pid(), "lttng");
        command.arg("--no-sessiond").args(arguments);
        output_of(at_home(&mut command, self.home.path()), patience).map(drop)
    }

    fn record(&self) -> Result<(), Error> {
        let patience = &self.workshop.patience;
        let output = format!("--output={}", self.trace().display());
        self.lttng(&["create", "bench", "--snapshot", &output], patience)?;
        for (channel, event) in CHANNELS {
            self.lttng(
                &[&["enable-channel", "-u", "--overwrite", channel], &RING[..]].concat(),
                patience,
            )?;
            if channel == "contexts" {
                self.lttng(&["add-context", "-u", "-c", channel, "-t", "vtid"], patience)?;
            }
            let filter: &[&str] = if channel == "filtered" {
                &["--filter", FILTER]
            } else {
                &[]
            };
            self.lttng(
                &[&["enable-event", "-u", "-c", channel, event], filter].concat(),
                patience,
            )?;
        }
        self.lttng(&["start"], patience)
    }

    fn trace(&self) -> PathBuf {
        self.home.path().join("trace")
    }
}

/// A program beside the daemon: with the same folders.
fn beside(pid: u32, program: impl AsRef<Path>) -> Command {
    if !geteuid().is_root() {
        return Command::new(program.as_ref());
    }
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--mount=/proc/{pid}/ns/mnt"))
        .arg("--")
        .arg(program.as_ref());
    command
}

impl EventSession for Session<'_> {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        let mut command = beside(self.daemon.pid(), self.programs.get(&payload_bytes)?);
        at_home(&mut command, self.home.path());
        Some(command)
    }

    fn recorded(&mut self, variant: &str) -> Result<Recorded, Error> {
        if self.found.is_none() {
            self.lttng(&["snapshot", "record"], &self.workshop.patience)?;
            self.found = Some(events_in(self.workshop, &self.trace())?);
        }
        let event = CHANNELS
            .iter()
            .find(|(channel, _)| *channel == variant)
            .map_or("", |(_, event)| *event);
        let found = self.found.as_ref().and_then(|found| found.get(event));
        Ok(Recorded::events(found.copied().unwrap_or(0)))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Its consumer would outlive it otherwise, as long as there is a session.
        let _ = self.lttng(&["destroy", "--all"], &Patience::for_removal());
    }
}
