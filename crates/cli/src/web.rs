// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste web`: the viewer, served on this machine.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::{env, fs};

use piste_control::interface::SessionState;
use piste_reason::reason;
use piste_web::{Options, Server, Stop, has_viewer};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::{Builder, NamedTempFile};

use crate::arguments::Web;
use crate::failure::Failure;
use crate::screen::{printable, show_json, tell_sentence};
use crate::view::find_followed;

/// Of the newest recordings, so many are listed.
const LISTED_MAX: usize = 100;

/// `piste web`
pub(crate) fn web(arguments: &Web, json: bool) -> Result<(), Failure> {
    expect_viewer()?;
    let paths = match arguments.paths.is_empty() {
        true => recordings()?,
        false => arguments
            .paths
            .iter()
            .map(|path| meant(path))
            .collect::<Result<_, _>>()?,
    };
    let piste = env::current_exe();
    let piste = piste.map_err(|error| Failure::new(format!("cannot find the piste command: {}", reason(&error))))?;
    let options = Options {
        paths,
        piste,
        address: arguments.listen,
        port: arguments.port,
    };
    let server = Server::bind(options).map_err(|error| {
        let place = format!("{}, port {}", arguments.listen, arguments.port);
        Failure::new(format!("cannot listen on {place}: {}", reason(&error)))
    })?;
    let stop = Stop::default();
    stop_on_signal(&stop)?;
    let url = server.url();
    match json {
        true => show_json(&json!({ "url": url }))?,
        false => tell_sentence(&format!("the viewer is running at {url}; press Ctrl-C to stop it")),
    }
    // It is there as long as the server.
    let _page = arguments.open.then(|| open_browser(&url));
    let served = server.run(&stop);
    served.map_err(|error| Failure::new(format!("the viewer stopped: {}", reason(&error))))
}

/// The folder of a trace, which may be that of a session.
fn meant(path: &Path) -> Result<PathBuf, Failure> {
    let followed = find_followed(path)?;
    match followed.session() {
        Some(session) if session.state == SessionState::inactive => {
            let name = printable(&session.name);
            Err(Failure::new(format!(
                "session {name} has recorded nothing yet; `piste start {name}` starts it"
            )))
        }
        _ => Ok(followed.folder().to_owned()),
    }
}

/// Fails if there is nothing to show a trace with.
pub(crate) fn expect_viewer() -> Result<(), Failure> {
    if has_viewer() {
        return Ok(());
    }
    Err(Failure::new(
        "this piste was built without the viewer; install Node.js 20 or newer with npm, and build again with `make build`",
    ))
}

fn stop_on_signal(stop: &Stop) -> Result<(), Failure> {
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
    let mut signals = signals.map_err(|error| Failure::new(format!("cannot wait for signals: {}", reason(&error))))?;
    let stop = stop.clone();
    thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            stop.stop();
        }
        // Somebody is impatient.
        if let Some(signal) = signals.next() {
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// The recordings in the folder to which `piste` records by default, the newest first.
fn recordings() -> Result<Vec<PathBuf>, Failure> {
    let home = env::home_dir().unwrap_or_default();
    let folder = home.join("piste-traces");
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let about = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
            // Opening one in the viewer writes to its folder, and makes it no newer.
            let begun = about.created().or_else(|_| about.modified());
            Some((begun.ok()?, entry.path()))
        })
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    if found.is_empty() {
        let folder = folder.to_string_lossy();
        return Err(Failure::new(format!(
            "there are no recordings in {}; name a trace: `piste web TRACE`",
            printable(&folder)
        )));
    }
    Ok(found.into_iter().map(|(_, path)| path).take(LISTED_MAX).collect())
}

/// Opens a page that leads to the viewer: the address would be seen by every user of the machine if it was an argument of a command. Returns the
/// page, which is removed when it is dropped.
fn open_browser(url: &str) -> Option<NamedTempFile> {
    let failed = |error: io::Error| tell_sentence(&format!("cannot open a browser with xdg-open: {}", reason(&error)));
    let page = Builder::new().prefix("piste-web-").suffix(".html").tempfile();
    let written = page.and_then(|mut page| {
        writeln!(
            page,
            "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={url}\">"
        )?;
        page.flush()?;
        Ok(page)
    });
    let page = written.map_err(failed).ok()?;
    let mut command = Command::new("xdg-open");
    command.arg(page.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed).ok()?;
    thread::spawn(move || child.wait());
    Some(page)
}
