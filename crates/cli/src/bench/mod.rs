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

use std::fs;
use std::path::{Path, PathBuf};

use piste_bench::peers::{PAYLOAD_BYTES, PEERS};
use piste_bench::report::{FORMAT, Group};
use piste_bench::{Error, Plan, Report, Scale, Step, is_known, run};
use piste_reason::reason;
use serde_json::json;

use crate::arguments::{Bench, BenchAction};
use crate::failure::{Failure, USAGE};
use crate::measuring::{Progress, interruption, now_ns, own_command, own_program, without_result};
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
    let outputs = arguments.output.iter();
    let outputs = outputs.map(|path| ResultFile::new(path).map(|file| (path, file)));
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
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
    let write = |(path, file): (&PathBuf, ResultFile)| {
        file.write(&match ending(path).as_deref() {
            Some("csv") => csv::text(&measured)?,
            Some("html" | "htm") => page::page(&measured),
            Some("md") => report::text(&measured, Form::Markdown),
            _ => json_text(&measured)?,
        })
    };
    // A disk that is full keeps no other file from being written.
    let written: Vec<Result<(), Failure>> = outputs.into_iter().map(write).collect();
    match (json, arguments.csv) {
        (true, _) => page.show_json(&measured)?,
        (_, true) => page.show(&csv::text(&measured)?)?,
        _ => page.show_sentences(&report::text(&measured, Form::Terminal(page.width())))?,
    }
    written.into_iter().collect::<Result<(), Failure>>()?;
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
    let mut payloads = wanted.payloads.clone();
    payloads.retain(|payload| *payload != PAYLOAD_BYTES);
    let plan = Plan {
        payloads: ascending(payloads),
        names: ascending(wanted.names.clone()),
        piste: own_program()?,
        chosen: wanted.chosen.clone(),
        threads: ascending(wanted.threads.clone()),
        processes: ascending(wanted.processes.clone()),
        scale: wanted.scale,
        command: own_command(),
        begin_ns: now_ns(),
        interrupted: interruption()?,
    };
    let progress = Progress::new(json);
    let measured = run(&plan, &mut |step| {
        progress.say(&told(step));
    });
    progress.clear();
    measured.map_err(|error| match error {
        Error::Interrupted => without_result(),
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
                "not measured: {}; the report gives the reasons",
                names.join(", ")
            )))
        }
    }
}

/// Where a run is.
fn told(step: Step) -> String {
    match step {
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
