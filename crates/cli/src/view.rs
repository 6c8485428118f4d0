// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste view`: events as lines of text, the same as babeltrace2's, or as JSON or CSV.
//!
//! - here: what is shown, and what is said at the end;
//! - [`shower`]: one event after the other, in the wanted form;
//! - [`output`]: where it goes: stdout, or a pager; [`paint`]: in colours;
//! - [`follow`]: traces that still grow.

mod calls;
mod follow;
mod output;
mod paint;
mod shower;

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use piste_ctf::read::text::{TimeFormat, Times, WallTime};
use piste_reason::reason;
use piste_strace::Printer;
use piste_terminal::progress::Progress;
use piste_trace::Findings;
use piste_trace::loss;
use piste_trace::rows::Column;

pub(crate) use self::calls::Calls;
pub(crate) use self::follow::{Disorder, find as find_followed};
use self::output::Output;
use self::shower::{Going, Shower};
use crate::arguments::{Clock, View, ViewFormat, tell_absent};
use crate::failure::{Failure, USAGE};
use crate::imported;
use crate::screen::{printable, speaks_json, tell, tell_sentence};
use crate::traces::{open, tell_findings, tell_symbols};

/// So much is written at once.
const OUT_BYTES: usize = 256 << 10;

/// `piste view`
pub(crate) fn view(arguments: &View, json: bool) -> Result<(), Failure> {
    let format = if json { ViewFormat::Ndjson } else { arguments.format };
    if arguments.follow {
        refuse_files(&arguments.paths)?;
        return follow::follow(arguments, format);
    }
    if arguments.symbols.symbols && format == ViewFormat::Strace {
        let sentence = "--format strace cannot show the names of addresses; use another format, or leave out --symbols";
        return Err(Failure::with_status(sentence, USAGE));
    }
    let mut findings = Findings::default();
    let traces = open(&arguments.paths, arguments.progress.wanted, &mut findings)?;
    let selection = arguments.selection.selection(&traces, || zone(&arguments.clock))?;
    tell_absent(&traces, &selection, &arguments.fields);
    let columns = match (arguments.fields.is_empty(), format) {
        (true, ViewFormat::Csv) => Column::all(&traces, &selection),
        _ => arguments.fields.clone(),
    };
    let mut shower = Shower::new(&traces, &selection, &columns, format, going(&arguments.clock)).map_err(unreadable)?;
    let symbols = arguments.symbols.of(&traces);
    if let Some(symbols) = &symbols {
        shower.set_symbols(symbols.of_events());
    }
    let progress = Progress::beside_stdout("writing", &traces, selection.span, arguments.progress.wanted);
    let mut output = Output::open(arguments, format);
    let mut out = Vec::with_capacity(OUT_BYTES + (4 << 10));
    shower.heading(&mut out);
    let mut left = arguments.count.unwrap_or(u64::MAX);
    let shown = show(&mut shower, &mut output, &mut out, &mut left);
    shower.finish(&mut out);
    let shown = shown.and_then(|()| output.write(&out));
    drop(progress);
    output.close(shown)?;
    findings.extend(std::mem::take(&mut shower.merge().findings));
    let losses = loss::sentences(&traces, &mut shower.into_going(|| going(&arguments.clock)).times);
    tell_losses(&losses);
    tell_symbols(symbols.as_ref());
    tell_findings(&findings);
    Ok(())
}

/// A file of another tracer is read once.
fn refuse_files(paths: &[PathBuf]) -> Result<(), Failure> {
    let is_foreign = |path: &&PathBuf| matches!(imported::tracer(path), Ok(Some(_)));
    paths.iter().find(is_foreign).map_or(Ok(()), |path| {
        let file = path.to_string_lossy();
        let sentence = format!(
            "cannot follow {}: only traces of Piste and LTTng grow; leave out --follow",
            printable(&file)
        );
        Err(Failure::with_status(sentence, USAGE))
    })
}

/// Writes all events that there are, behind what `out` has; at most as many as are left.
fn show(shower: &mut Shower<'_>, output: &mut Output, out: &mut Vec<u8>, left: &mut u64) -> Result<(), Failure> {
    while *left > 0 && !output.is_interrupted() && shower.next(out) {
        *left -= 1;
        if out.len() >= OUT_BYTES {
            output.write(out)?;
            out.clear();
        }
    }
    output.write(out)?;
    out.clear();
    output.flush()
}

fn unreadable(error: io::Error) -> Failure {
    Failure::new(format!("cannot read the trace: {}", reason(&error)))
}

fn zone(clock: &[Clock]) -> TimeZone {
    match clock.contains(&Clock::Utc) {
        true => TimeZone::UTC,
        false => TimeZone::system(),
    }
}

fn going(clock: &[Clock]) -> Going {
    Going {
        times: times(clock),
        printer: Printer::new(calls::options(clock)),
    }
}

fn times(clock: &[Clock]) -> Times {
    // The last that says it.
    let format = clock.iter().rev().find_map(|clock| match clock {
        Clock::Time => Some(TimeFormat::TimeOfDay),
        Clock::Date => Some(TimeFormat::DateAndTime),
        Clock::Seconds => Some(TimeFormat::Seconds),
        Clock::Cycles => Some(TimeFormat::Cycles),
        Clock::Utc | Clock::NoDelta => None,
    });
    let zone = zone(clock);
    let times = Times::new(format.unwrap_or_default(), move |seconds| wall(&zone, seconds));
    match clock.contains(&Clock::NoDelta) {
        true => times.without_delta(),
        false => times,
    }
}

fn wall(zone: &TimeZone, seconds: i64) -> Option<WallTime> {
    let local = zone.to_datetime(Timestamp::from_second(seconds).ok()?);
    Some(WallTime {
        year: local.year().into(),
        month: local.month().cast_unsigned(),
        day: local.day().cast_unsigned(),
        hour: local.hour().cast_unsigned(),
        minute: local.minute().cast_unsigned(),
        second: local.second().cast_unsigned(),
    })
}

/// Sentences about losses, one a line.
fn tell_losses(sentences: &[u8]) {
    for line in imported::shown_in(&String::from_utf8_lossy(sentences)).lines() {
        match speaks_json() {
            true => tell_sentence(line),
            false => tell(&format!("{}\n", printable(line))),
        }
    }
}
