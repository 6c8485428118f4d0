// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pisted of its own, in a run folder of its own, from the installation that `piste` is of; and what a trace contains, which `piste` reads.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use piste_control::interface::VarlinkClientInterface;
use piste_control::{Client, Places, daemon_beside};
use piste_reason::reason;
use serde_json::Value;

use crate::error::{Absence, Error};
use crate::processes::{Daemon, Patience, output_of};
use crate::workshop::{READING_LIMIT, Workshop};

/// If this process is killed, the sessions end, and a pisted without sessions ends after so long.
const IDLE_S: &str = "10";

/// Ends with this value, and all its sessions too.
pub(crate) struct Pisted {
    piste: PathBuf,
    run_folder: PathBuf,
    patience: Patience,
    _daemon: Daemon,
}

impl Pisted {
    /// Starts one with its run folder in `folder`, which is made.
    pub(crate) fn start(workshop: &Workshop, folder: &Path) -> Result<Pisted, Error> {
        let run_folder = folder.join("run");
        let mut maker = DirBuilder::new();
        maker
            .recursive(true)
            .mode(0o700)
            .create(&run_folder)
            .map_err(|error| Error::new(format!("cannot create {}: {}", run_folder.display(), reason(&error))))?;
        let mut command = Command::new(daemon_beside(&workshop.piste));
        command
            .args(["--exit-when-idle", IDLE_S])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut daemon = Daemon::start(in_run_folder(&mut command, &run_folder))?;
        // There is a socket before pisted listens.
        let listens = || {
            let connected = Places::at(&run_folder).and_then(|places| Client::connect(&places));
            connected.is_ok()
        };
        daemon.wait_for(&workshop.patience, "pisted to listen", listens)?;
        Ok(Pisted {
            piste: workshop.piste.clone(),
            run_folder,
            patience: workshop.patience.clone(),
            _daemon: daemon,
        })
    }

    /// Creates a session that ends with this process, however that ends.
    pub(crate) fn create(&self, name: &str, output: &Path, snapshot: bool) -> Result<(), Error> {
        let output = Some(output.to_string_lossy().into_owned());
        let created = Places::at(&self.run_folder).and_then(|places| {
            let mut client = Client::connect(&places)?;
            let mut session =
                client
                    .calls()
                    .create_session(Some(name.into()), output, snapshot, None, None, Some(true));
            Ok(session.call().map(drop)?)
        });
        created.map_err(|error| Error::new(format!("cannot create a session: {error}")))
    }

    /// Runs `piste`, and returns what it prints.
    pub(crate) fn piste(&self, arguments: &[&str]) -> Result<String, Error> {
        self.piste_within(&self.patience, arguments)
    }

    fn piste_within(&self, patience: &Patience, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new(&self.piste);
        output_of(self.environment(command.args(arguments)), patience)
    }

    /// From now on, Ctrl-C ends no command: what is known by then shall be told.
    pub(crate) fn ignore_ctrl_c(&mut self) {
        self.patience = Patience::for_the_end();
    }

    /// The same with `--json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Result<Value, Error> {
        parse(&self.piste(&[&["--json"], arguments].concat())?)
    }

    /// Lets a command find this pisted.
    pub(crate) fn environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        in_run_folder(command, &self.run_folder)
    }
}

impl Drop for Pisted {
    fn drop(&mut self) {
        // A session would be continued by the next pisted in this folder, and the kernel's part of it would stay.
        let _ = self.piste_within(&Patience::for_the_end(), &["destroy", "--all"]);
    }
}

fn in_run_folder<'a>(command: &'a mut Command, run_folder: &Path) -> &'a mut Command {
    command
        .env("PISTE_RUNDIR", run_folder)
        .env_remove("PISTE_RECORD")
        .env_remove("PISTE_LIBDIR")
}

fn parse(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|error| Error::new(format!("piste did not print valid JSON: {error}")))
}

/// How programs with Piste's events are compiled.
pub(crate) fn library_flags(workshop: &Workshop) -> Result<Vec<String>, Absence> {
    let include = workshop
        .installed("include")
        .map(|path| format!("-I{}", path.display()));
    let mut flags = Vec::from_iter(include);
    if !workshop.has_header("piste/tracepoint.h", &flags)? {
        return Err(Absence::new(
            "there is no header piste/tracepoint.h",
            "install the headers of Piste (Debian: apt install libpiste-dev)",
        ));
    }
    if let Some(library) = workshop.installed("lib") {
        let library = library.display();
        flags.extend([format!("-L{library}"), format!("-Wl,-rpath,{library}")]);
    }
    flags.push("-lpiste".into());
    Ok(flags)
}

/// How many events a channel of a session discarded, as its status says.
pub(crate) fn discarded_by(status: &Value, channel: &str) -> u64 {
    let channels = status["channels"].as_array().into_iter().flatten();
    let mut channels = channels.filter(|each| each["settings"]["name"] == channel);
    channels
        .next()
        .and_then(|channel| channel["discarded_events"].as_u64())
        .unwrap_or(0)
}

/// How many events of each name a trace contains, Piste's or LTTng's.
pub(crate) fn events_in(
    workshop: &Workshop,
    patience: &Patience,
    trace: &Path,
) -> Result<BTreeMap<String, u64>, Error> {
    let mut command = Command::new(&workshop.piste);
    command.args(["--json", "stats"]).arg(trace);
    let stats = parse(&output_of(&mut command, &patience.of(READING_LIMIT))?)?;
    let events = stats["by_event"].as_array().into_iter().flatten();
    let event = |event: &Value| Some((event["name"].as_str()?.to_owned(), event["count"].as_u64()?));
    Ok(events.filter_map(event).collect())
}
