// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste bench`: measures tracers with `piste_bench`, and shows what they cost.
//!
//! - here: from arguments to a plan, progress, Ctrl-C, exit status
//! - [`report`]: results as text, for a terminal and in Markdown; [`csv`]: as CSV; [`page`]: as HTML, with what [`picture`] draws; JSON is what `piste_bench` keeps
//! - [`compared`]: two results
//! - [`overhead`]: what recording adds to a command

mod compared;
mod csv;
mod overhead;
mod page;
mod picture;
mod report;

use std::env;
use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use piste_bench::peers::{PAYLOAD_BYTES, PEERS};
use piste_bench::report::{FORMAT, Group};
use piste_bench::{Error, Plan, Report, Scale, Step, is_known, run};
use piste_reason::reason;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::arguments::{Bench, BenchAction};
use crate::child::not_ignored;
use crate::failure::{Failure, INTERRUPTED, USAGE};
use crate::page::Page;
use crate::screen::{json_text, printable};
use crate::unfinished::ResultFile;

use self::report::Form;

pub(crate) use self::overhead::time_command;
pub(crate) use self::report::ns;

/// `piste bench`
pub(crate) fn bench(arguments: &Bench, json: bool) -> Result<(), Failure> {
    match &arguments.action {
        Some(BenchAction::Compare { before, after, page }) => {
            let comparison = piste_bench::compare::compare(&read(before)?, &read(after)?);
            let page = Page::new(page);
            return match json {
                true => page.show_json(&compared::answer(&comparison)),
                false => page.show_sentences(&compared::text(&comparison, page.width())),
            };
        }
        Some(BenchAction::Overhead {
            ways,
            rounds,
            job,
            page,
        }) => return overhead::overhead(ways, *rounds, job, &Page::new(page), json),
        None => {}
    }
    let page = Page::new(&arguments.page);
    if arguments.list {
        return match json {
            true => page.show_json(&list()),
            false => page.show(&report::list(page.width())),
        };
    }
    if let Some(unknown) = arguments.peers.iter().find(|name| !is_known(name)) {
        let sentence = format!("there is no peer {:?} (see piste bench --list)", printable(unknown));
        return Err(Failure::with_status(sentence, USAGE));
    }
    // So that nothing is measured in vain.
    let file = arguments.output.as_deref().map(ResultFile::new).transpose()?;
    let measured = measured(
        &Wanted {
            chosen: arguments.peers.clone(),
            threads: arguments.threads.clone(),
            processes: arguments.processes.clone(),
            payloads: arguments.payload.clone(),
            names: arguments.names.clone(),
            scale: if arguments.quick { Scale::QUICK } else { Scale::FULL },
        },
        json,
    )?;
    if let Some((file, path)) = file.zip(arguments.output.as_deref()) {
        file.write(&match ending(path).as_deref() {
            Some("csv") => csv::text(&measured)?,
            Some("html" | "htm") => page::page(&measured),
            Some("md") => report::text(&measured, Form::Markdown),
            _ => json_text(&measured)?,
        })?;
    }
    match (json, arguments.csv) {
        (true, _) => page.show_json(&measured)?,
        (_, true) => page.show(&csv::text(&measured)?)?,
        _ => page.show_sentences(&report::text(&measured, Form::Terminal(page.width())))?,
    }
    verdict(&measured)
}

/// What is to be measured, as people ask for it.
pub(crate) struct Wanted {
    /// Names of peers and rows; all if there is none.
    pub(crate) chosen: Vec<String>,
    pub(crate) threads: Vec<u32>,
    pub(crate) processes: Vec<u32>,
    pub(crate) payloads: Vec<u32>,
    pub(crate) names: Vec<u32>,
    pub(crate) scale: Scale,
}

/// Measures, with progress on a terminal.
pub(crate) fn measured(wanted: &Wanted, json: bool) -> Result<Report, Failure> {
    let piste = env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find the program piste: {}", reason(&error))))?;
    let mut payloads = wanted.payloads.clone();
    payloads.retain(|payload| *payload != PAYLOAD_BYTES);
    let plan = Plan {
        payloads: ascending(payloads),
        names: ascending(wanted.names.clone()),
        piste,
        chosen: wanted.chosen.clone(),
        threads: ascending(wanted.threads.clone()),
        processes: ascending(wanted.processes.clone()),
        scale: wanted.scale,
        command: env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        begin_ns: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos(),
        interrupted: interruption()?,
    };
    let mut progress = Progress::new(json);
    let measured = run(&plan, &mut |step| progress.show(step));
    progress.clear();
    measured.map_err(|error| match error {
        Error::Interrupted => Failure::with_status("it was interrupted before there was a result", INTERRUPTED),
        Error::Failed(sentence) => Failure::new(sentence),
    })
}

/// The peer that a row is part of.
pub(crate) fn peer_of(row: &str) -> &'static str {
    let mut peers = PEERS.iter();
    let peer = peers.find(|peer| peer.rows.iter().any(|other| other.name == row));
    peer.map_or("", |peer| peer.name)
}

/// Each once.
fn ascending(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The status.
fn verdict(measured: &Report) -> Result<(), Failure> {
    if measured.rows.is_empty() {
        let absent = measured.absent.first();
        let why = absent.map(report::absence).unwrap_or_default();
        return Err(Failure::new(format!("nothing was measured: {}", printable(&why))));
    }
    match &measured.failed[..] {
        [] => Ok(()),
        failed => {
            let names: Vec<&str> = failed.iter().map(|failed| failed.peer.as_str()).collect();
            Err(Failure::new(format!(
                "not measured: {}; the report has the reasons",
                names.join(", ")
            )))
        }
    }
}

/// From now on, the first signal ends the run in order. It removes what it set up, so that the next ones must not end it at once.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let register = || {
        for signal in not_ignored([SIGINT, SIGTERM, SIGHUP])? {
            flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(())
    };
    register().map_err(|error: std::io::Error| Failure::new(format!("cannot handle signals: {}", reason(&error))))?;
    Ok(interrupted)
}

/// Where a run is: on a terminal one line that is written over and over, otherwise nothing.
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn new(json: bool) -> Progress {
        Progress {
            is_shown: !json && stderr().is_terminal(),
        }
    }

    fn show(&mut self, step: Step) {
        self.say(&match step {
            Step::Finding { peer } => format!("preparing {peer}"),
            Step::Starting { repetition, of } => format!("{repetition} of {of}: starting the tracers"),
            Step::Measuring {
                repetition,
                of,
                group,
                percent,
            } => {
                let what = match group {
                    Group::Events | Group::Steps => "events of programs",
                    Group::Calls => "system calls",
                };
                format!("{repetition} of {of}: {what}, {percent} %")
            }
        });
    }

    fn say(&mut self, what: &str) {
        self.write(&format!("{what}; Ctrl-C ends it with the results of what is complete"));
    }

    fn clear(&mut self) {
        self.write("");
    }

    fn write(&mut self, text: &str) {
        if self.is_shown {
            // A terminal that is gone ends nothing.
            let _ = write!(stderr(), "\r\x1b[K{text}");
        }
    }
}

/// What can be measured.
fn list() -> serde_json::Value {
    let peers = PEERS.iter().map(|peer| {
        let rows = peer
            .rows
            .iter()
            .map(|row| json!({ "name": row.name, "title": row.title }));
        json!({ "peer": peer.name, "about": peer.about, "group": peer.group, "rows": rows.collect::<Vec<_>>() })
    });
    json!({ "peers": peers.collect::<Vec<_>>() })
}

fn read(path: &Path) -> Result<Report, Failure> {
    let text = fs::read_to_string(path).map_err(|error| cannot_read(path, &reason(&error)))?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|_| cannot_read(path, "it is not JSON; write it with piste bench -o FILE.json"))?;
    match value["format"].as_u64() {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => {
            return Err(cannot_read(
                path,
                &format!("it has format {format}, and this piste reads {FORMAT}"),
            ));
        }
        None => return Err(cannot_read(path, "it is not a result of piste bench")),
    }
    serde_json::from_value(value).map_err(|error| cannot_read(path, &format!("it is damaged: {error}")))
}

/// The ending of a file's name, which says what is written to it.
fn ending(path: &Path) -> Option<String> {
    Some(path.extension()?.to_string_lossy().to_lowercase())
}

fn cannot_read(path: &Path, why: &str) -> Failure {
    let path = path.to_string_lossy();
    Failure::new(format!("cannot read {}: {why}", printable(&path)))
}
