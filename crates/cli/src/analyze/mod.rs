// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze`: answers from traces. What it reads is prepared in ground.rs, what it has found out is shown by tables.rs.

pub(crate) mod ground;
mod periods;
pub(crate) mod tables;

use jiff::tz::TimeZone;
use piste_analysis::analyses::ALL;
use piste_analysis::analysis::{Description, Need, Options};
use piste_analysis::pass::Listeners;
use piste_analysis::report::Report;
use piste_names::nearest;
use piste_progress::Progress;
use piste_trace::{Findings, Span, Trace};
use serde::Serialize;
use serde_json::json;

use self::ground::{Ground, span_read};
use crate::arguments::Analyze;
use crate::columns::{Align, Columns};
use crate::failure::{Failure, USAGE};
use crate::screen::{printable, show, show_json, tell_sentence};
use crate::traces::{open, tell_findings};

/// As `--json` prints it.
#[derive(Serialize)]
struct Answer<'a> {
    analysis: &'a str,
    /// The part of time that was looked at, in nanoseconds from the clock's origin.
    begin_ns: i64,
    end_ns: i64,
    #[serde(flatten)]
    report: &'a Report,
}

/// `piste analyze`
pub(crate) fn analyze(arguments: &Analyze, json: bool) -> Result<(), Failure> {
    let Some(name) = &arguments.name else {
        return list(json);
    };
    let description = (name != periods::NAME).then(|| find(name)).transpose()?;
    if arguments.paths.is_empty() {
        return Err(Failure::with_status(
            format!("which trace? write: piste analyze {name} TRACE"),
            USAGE,
        ));
    }
    let zone = TimeZone::system();
    let mut findings = Findings::default();
    let mut traces = open(&arguments.paths, arguments.progress.wanted, &mut findings)?;
    if description.is_some() {
        traces = kernel_traces(traces)?;
    }
    let span = arguments.range.span(&traces, || zone.clone())?;
    let (mut report, (begin_ns, end_ns)) = match description {
        Some(description) => of_kernel(description, arguments, &traces, span, &mut findings)?,
        None => periods::report(arguments, options(arguments), &traces, span, &mut findings)?,
    };
    if let Some(wanted) = &arguments.table {
        choose(&mut report, wanted)?;
    }
    if json {
        return show_json(&Answer {
            analysis: name,
            begin_ns,
            end_ns,
            report: &report,
        });
    }
    if arguments.csv {
        let tables: Vec<String> = report.tables.iter().map(piste_analysis::report::Table::csv).collect();
        show(&tables.join("\n"))?;
    } else {
        show(&tables::text(&report, &zone))?;
    }
    for note in &report.notes {
        tell_sentence(&printable(note));
    }
    tell_findings(&findings);
    Ok(())
}

/// What an analysis of the kernel's traces says, and of which part of time.
fn of_kernel(
    description: &Description,
    arguments: &Analyze,
    traces: &[Trace],
    span: Span,
    findings: &mut Findings,
) -> Result<(Report, (i64, i64)), Failure> {
    let notes = missing(description.name, description.needs, traces)?;
    let analyses = Listeners(vec![(description.begin)(&options(arguments))]);
    let progress = Progress::of(
        "analyzing",
        traces,
        span_read(span, &analyses),
        arguments.progress.wanted,
    );
    let ground = Ground::new(traces, span, findings)?;
    let (system, mut analyses) = ground.run(analyses, findings)?;
    drop(progress);
    let mut report = analyses.reports(&system).pop().unwrap_or_default();
    report.notes.splice(0..0, notes.into_iter().chain(ground.notes));
    Ok((report, system.told()))
}

fn list(json: bool) -> Result<(), Failure> {
    let all = || {
        ALL.iter()
            .map(|one| (one.name, one.about))
            .chain([(periods::NAME, periods::ABOUT)])
    };
    if json {
        let entry = |(name, about)| json!({ "name": name, "about": about });
        return show_json(&all().map(entry).collect::<Vec<_>>());
    }
    let mut columns = Columns::new(&[("ANALYSIS", Align::Left), ("ANSWERS", Align::Left)]);
    for (name, about) in all() {
        columns.row([name.into(), about.into()]);
    }
    show(&columns.lines(0))
}

pub(crate) fn find(name: &str) -> Result<&'static Description, Failure> {
    let known = ALL.iter().find(|known| known.name == name).copied();
    known.ok_or_else(|| {
        let near = nearest(name, ALL.iter().map(|known| known.name), 3);
        let hint = match near.is_empty() {
            true => "see `piste analyze`".to_owned(),
            false => format!("did you mean {}?", near.join(", ")),
        };
        Failure::with_status(format!("there is no analysis {name:?}; {hint}"), USAGE)
    })
}

fn options(arguments: &Analyze) -> Options {
    Options {
        who: arguments.cgroups.who(&arguments.whose),
        limit: arguments.limit,
        min_ns: arguments.min_ns,
        max_ns: arguments.max_ns,
    }
}

/// Those of a kernel, which must be of one machine: a thread's number means another thread on another machine.
pub(crate) fn kernel_traces(traces: Vec<Trace>) -> Result<Vec<Trace>, Failure> {
    let is_of_kernel = |trace: &Trace| match trace.environment("domain") {
        Some(domain) => domain == "kernel",
        None => classes(std::slice::from_ref(trace)).any(|class| class == "sched_switch"),
    };
    let kernel: Vec<Trace> = traces.into_iter().filter(is_of_kernel).collect();
    let mut hosts: Vec<&str> = kernel
        .iter()
        .filter_map(|trace| trace.environment("hostname"))
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    if hosts.len() > 1 {
        let hosts = printable(&hosts.join(", ")).into_owned();
        return Err(Failure::new(format!(
            "these are traces of several machines ({hosts}); name those of one"
        )));
    }
    match kernel.is_empty() {
        true => Err(Failure::new(
            "there is nothing of the kernel in this trace; `piste record -o DIR -- CMD` records what it does for a command",
        )),
        false => Ok(kernel),
    }
}

fn classes(traces: &[Trace]) -> impl Iterator<Item = &str> {
    let streams = traces.iter().flat_map(|trace| trace.schema().streams.values());
    streams.flat_map(|stream| stream.events.values().map(|class| class.name.as_str()))
}

/// Sentences about what an analysis misses, or a failure when it can say nothing without.
pub(crate) fn missing(name: &str, needs: &[Need], traces: &[Trace]) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    let unmet = needs.iter().filter(|need| !need.is_met(classes(traces)));
    for need in unmet {
        let record = format!("`piste record {} -o DIR -- CMD`", need.option);
        if need.is_essential {
            return Err(Failure::new(format!(
                "{name} needs {}, which are not in this trace ({}); {record} gets them",
                need.what,
                need.any_of.join(", "),
            )));
        }
        notes.push(format!(
            "without {}, which {record} gets: {}",
            need.any_of.join(", "),
            need.what
        ));
    }
    Ok(notes)
}

fn choose(report: &mut Report, wanted: &str) -> Result<(), Failure> {
    let names: Vec<&str> = report.tables.iter().map(|table| table.name).collect();
    if !names.contains(&wanted) {
        let names = names.join(", ");
        return Err(Failure::with_status(
            format!("there is no table {wanted:?}; there are {names}"),
            USAGE,
        ));
    }
    report.tables.retain(|table| table.name == wanted);
    Ok(())
}
