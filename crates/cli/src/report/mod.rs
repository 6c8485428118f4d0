// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste report`: what a trace tells, as one page of HTML to attach to a ticket.
//!
//! - account.rs: what is told, read from traces in one pass: insights, tables, a timeline
//! - page.rs: the page, in frame.rs; tables.rs: tables as HTML
//! - lanes.rs: which lanes a picture shows; picture.rs: them as SVG, in the colours of colours.rs
//!
//! Names in traces are hostile: everything goes through maud, which escapes it, and the page allows no scripts and no requests. Traces have
//! any size: the page has at most [`BYTES_MAX`].

mod account;
mod colours;
pub(crate) mod frame;
mod lanes;
mod page;
mod picture;
mod spans;
mod tables;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use jiff::tz::TimeZone;
use piste_modelling::is_of_kernel;
use piste_trace::{Finding, Findings, Trace};
use serde::Serialize;

use self::account::{Account, Subject, timed};
pub(crate) use self::page::{POLICY, STYLE};
use crate::arguments::Report;
use crate::failure::{Failure, USAGE};
use crate::quantity::{counted, size};
use crate::screen::{printable, show_json, tell_sentence};
use crate::traces::{open, tell_findings};
use crate::unfinished::{Unfinished, cannot_write};
use crate::unwritten::unwritten;

/// What fits into any ticket.
pub(crate) const BYTES_MAX: usize = 2 << 20;

/// As `--json` prints it.
#[derive(Serialize)]
struct Summary<'a> {
    output: &'a Path,
    bytes: u64,
    insights: usize,
    findings: Vec<&'a Finding>,
}

/// `piste report`
pub(crate) fn report(arguments: &Report, json: bool) -> Result<(), Failure> {
    let output = arguments.output.as_path();
    let is_stdout = output.as_os_str() == "-";
    if is_stdout && (json || io::stdout().is_terminal()) {
        let why = match json {
            true => {
                "cannot write the report to stdout together with --json, which prints a summary there; name a file with -o"
            }
            false => "refusing to write a report to a terminal; use -o FILE, or redirect stdout",
        };
        return Err(Failure::with_status(why, USAGE));
    }
    let zone = TimeZone::system();
    let mut findings = Findings::default();
    let traces = open(&arguments.paths, arguments.progress.wanted, &mut findings)?;
    let unwritten = unwritten(&traces);
    let (kernel, programs): (Vec<Trace>, Vec<Trace>) = traces.into_iter().partition(is_of_kernel);
    let part = arguments.range.span(timed(&kernel, &programs), || zone.clone())?;
    // Whoever cannot write it learns that before the trace is read.
    let unfinished = match is_stdout {
        true => None,
        false => Some(Unfinished::file(output)?),
    };
    let subject = Subject {
        kernel: &kernel,
        programs: &programs,
        part,
        unwritten,
    };
    let account = Account::read(arguments, &subject, &mut findings)?;
    let page = page::page(&account, arguments.title.as_deref(), &findings, &zone)?;
    let Some((unfinished, mut file)) = unfinished else {
        let mut stdout = io::stdout().lock();
        stdout.write_all(page.as_bytes())?;
        stdout.flush()?;
        tell_findings(&findings);
        return Ok(());
    };
    file.write_all(page.as_bytes())
        .map_err(|error| cannot_write(output, &error))?;
    drop(file);
    unfinished.finish()?;
    let insights = account.insights.len();
    if json {
        return show_json(&Summary {
            output,
            bytes: page.len() as u64,
            insights,
            findings: findings.iter().collect(),
        });
    }
    tell_findings(&findings);
    let (name, bytes) = (output.to_string_lossy(), size(page.len() as i64));
    let insights = counted(insights as i64, "insight");
    tell_sentence(&format!("{}: {insights}, {bytes}", printable(&name)));
    Ok(())
}
