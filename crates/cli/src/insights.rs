// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste insights`: what stands out in a trace, ranked; and the first lines of it at the end of `piste record`.

use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use piste_analysis::analyses::RECORDED_FOR_INSIGHTS;
use piste_analysis::insights::{Closer, Insight, Level, detectors};
use piste_analysis::report::{Column, Unit, Value};
use piste_modelling::{Ground, kernel_traces, missing, span_read};
use piste_terminal::progress::Progress;
use piste_trace::progress::bytes_of;
use piste_trace::{Finding, Findings, Span};
use serde::Serialize;

use crate::analyze::tables::{moment, value};
use crate::arguments::{Insights, Tell};
use crate::failure::Failure;
use crate::json::time;
use crate::moment::around;
use crate::page::Page;
use crate::quantity::{counted, duration};
use crate::screen::{BAD, STRONG, printable, styled, tell, tell_sentence};
use crate::summary::{labelled, quoted};
use crate::traces::{kernel_part, open, tell_findings};
use crate::unwritten::unwritten;

/// At the end of a recording, no more are told,
const TOLD_MAX: usize = 3;
/// only of traces that are read in a second or so (about three million events of the kernel),
const TOLD_BYTES_MAX: u64 = 64 << 20;
/// and not at all when that takes longer, on a slow disk or a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// As `--json` prints it.
#[derive(Serialize)]
struct Answer {
    #[serde(serialize_with = "time")]
    begin_ns: i64,
    #[serde(serialize_with = "time")]
    end_ns: i64,
    insights: Vec<Told>,
    notes: Vec<String>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    insight: Insight,
    /// What was measured.
    how: String,
    /// The command that looks closer.
    command: String,
}

/// `piste insights`
pub(crate) fn insights(arguments: &Insights, json: bool) -> Result<(), Failure> {
    let zone = TimeZone::system();
    let mut findings = Findings::default();
    let traces = open(&arguments.paths, arguments.progress.wanted, &mut findings)?;
    let unwritten = unwritten(&traces);
    let traces = kernel_part(traces, &findings)?;
    let span = arguments.range.span(&traces, || zone.clone())?;
    let mut notes = missing("insights", RECORDED_FOR_INSIGHTS, &traces)?;
    let detectors = detectors();
    let progress = Progress::of(
        "looking",
        &traces,
        span_read(span, &detectors),
        arguments.progress.wanted,
    );
    let ground = Ground::new(&traces, span)?;
    let (system, mut detectors) = ground.run(detectors, &mut findings)?;
    drop(progress);
    let (begin_ns, end_ns) = system.told();
    let tell = |insight: Insight| Told {
        how: evidence(&insight),
        command: command(&insight.closer, &arguments.paths, Span::of(&traces)),
        insight,
    };
    let mut insights = detectors.insights(&system);
    notes.extend(ground.notes(Some(&system), RECORDED_FOR_INSIGHTS));
    if let Some(unwritten) = unwritten {
        unwritten.explain(&mut insights, &system);
    }
    let answer = Answer {
        begin_ns,
        end_ns,
        insights: insights.into_iter().map(tell).collect(),
        notes,
        findings: findings.iter().cloned().collect(),
    };
    let page = Page::new(&arguments.page);
    if json {
        return page.show_json(&answer);
    }
    page.show_sentences(&answer.text(&zone))?;
    for note in &answer.notes {
        tell_sentence(&printable(note));
    }
    tell_findings(&findings);
    Ok(())
}

impl Answer {
    fn text(&self, zone: &TimeZone) -> String {
        let time = duration(self.end_ns - self.begin_ns);
        let mut text = match self.insights.len() as i64 {
            0 => format!("nothing stands out in {time}\n"),
            1 => format!("1 thing stands out in {time}\n"),
            many => format!("{} stand out in {time}\n", counted(many, "thing")),
        };
        for Told { insight, how, command } in &self.insights {
            let style = if insight.level == Level::Serious { BAD } else { STRONG };
            let span = format!(
                "{} to {}",
                moment(insight.span_ns.0, zone),
                moment(insight.span_ns.1, zone)
            );
            let _ = writeln!(text, "\n{}: {}", styled(style, insight.kind), printable(&insight.what));
            text += &labelled("how", &printable(how));
            text += &labelled("when", &span);
            text += &labelled("closer", &printable(command));
        }
        text
    }
}

/// `3 times, in total 120 ms, longest 80.0 ms`
pub(crate) fn evidence(insight: &Insight) -> String {
    let zone = TimeZone::UTC;
    let part = |(column, measured): &(Column, Value)| {
        let text = value(column, measured, &zone);
        match (column.unit, measured) {
            (Unit::Count, Value::Number(number)) => counted(*number, column.heading),
            (Unit::Percent, _) => format!("{text} {}", column.heading),
            _ => format!("{} {text}", column.heading),
        }
    };
    let mut text = String::new();
    let mut is_after_list = false;
    for measured in &insight.evidence {
        let is_list = measured.0.unit == Unit::Durations;
        let between = match measured.0.heading {
            _ if text.is_empty() => "",
            // `in total 120 ms of 2.00 s`
            "of" => " ",
            // `longest 80.0 ms; in read 70.0 ms, write 50.0 ms; on log 120 ms`
            _ if is_list || is_after_list => "; ",
            _ => ", ",
        };
        text = text + between + &part(measured);
        is_after_list = is_list;
    }
    text
}

/// The command that looks closer at a part of traces.
pub(crate) fn command(closer: &Closer, paths: &[PathBuf], traces: Option<Span>) -> String {
    let mut words = vec!["piste analyze".to_owned(), closer.analysis.to_owned()];
    words.extend(paths.iter().map(|path| quoted(&path.to_string_lossy()).into_owned()));
    words.extend(closer.options.iter().cloned());
    // All of the trace needs no times.
    let part = |span_ns: &(i64, i64)| traces.is_none_or(|traces| *span_ns != (traces.begin_ns, traces.end_ns));
    if let Some(span_ns) = closer.span_ns.filter(part) {
        let [begin, end] = around(span_ns, traces);
        words.extend(["--begin".into(), begin, "--end".into(), end]);
    }
    words.join(" ")
}

/// The lines at the end of a recording: nothing where nobody looks, or where it would take long. Whatever goes wrong, the recording is
/// whole, and what is wrong with the trace has been told.
pub(crate) fn tell_of_recording(folder: &Path, when: Tell) {
    let is_wanted = match when {
        Tell::Auto => stderr().is_terminal(),
        Tell::Always => true,
        Tell::Never => false,
    };
    if !is_wanted {
        return;
    }
    if let Ok(Some(insights)) = catch_unwind(AssertUnwindSafe(|| top(folder))) {
        let line = |insight: &Insight| {
            let text = format!("{}: {}", insight.what, evidence(insight));
            labelled("seen", &printable(&text))
        };
        let mut lines: String = insights.iter().take(TOLD_MAX).map(line).collect();
        match insights.len().saturating_sub(TOLD_MAX) as i64 {
            0 => {}
            more => lines += &labelled("seen", &counted(more, "more thing")),
        }
        if !lines.is_empty() {
            tell(&lines);
        }
    }
}

/// Those that are worth a line.
fn top(folder: &Path) -> Option<Vec<Insight>> {
    let begin = Instant::now();
    let mut findings = Findings::default();
    let traces = piste_trace::open(folder, &mut findings).ok()?;
    let unwritten = unwritten(&traces);
    let traces = kernel_traces(traces).ok()?;
    if bytes_of(&traces, Span::ALL) > TOLD_BYTES_MAX {
        return None;
    }
    let ground = Ground::new(&traces, Span::ALL).ok()?;
    let ran = ground.run_while(detectors(), &mut findings, || begin.elapsed() < PATIENCE);
    let (system, mut detectors) = ran.ok()??;
    let mut insights = detectors.insights(&system);
    if let Some(unwritten) = unwritten {
        unwritten.explain(&mut insights, &system);
    }
    insights.retain(|insight| insight.level != Level::Information);
    Some(insights)
}

#[cfg(test)]
mod tests {
    use piste_analysis::report::column;

    use super::*;

    fn of(evidence: Vec<(Column, Value)>) -> Insight {
        Insight {
            kind: "lock convoy",
            level: Level::Notable,
            what: String::new(),
            span_ns: (0, 1),
            longest_ns: None,
            cost_ns: 0,
            evidence,
            closer: Closer::new("futex"),
        }
    }

    #[test]
    fn lists_are_set_apart_from_what_is_around_them() {
        let ns = |heading, ns| (column("ns", heading, Unit::Nanoseconds), Value::Number(ns));
        let list = |heading, names: &[&str]| {
            let all = names.iter().map(|name| ((*name).to_owned(), 2_000_000)).collect();
            (column("list", heading, Unit::Durations), Value::Durations(all))
        };
        let insight = of(vec![
            ns("in total", 4_000_000),
            ns("of", 9_000_000),
            list("in", &["read", "write"]),
            list("on", &["log"]),
            ns("longest", 1_000_000),
        ]);
        assert_eq!(
            evidence(&insight),
            "in total 4.00 ms of 9.00 ms; in read 2.00 ms, write 2.00 ms; on log 2.00 ms; longest 1.00 ms"
        );
    }

    #[test]
    fn names_in_a_trace_do_not_write_to_the_terminal_as_they_like() {
        let name = Value::Durations(vec![("\u{1b}]0;owned\u{7}".to_owned(), 1)]);
        let insight = of(vec![(column("held_by", "held by", Unit::Durations), name)]);
        let answer = Answer {
            begin_ns: 0,
            end_ns: 1,
            insights: vec![Told {
                how: evidence(&insight),
                command: String::new(),
                insight,
            }],
            notes: vec![],
            findings: vec![],
        };
        let text = answer.text(&TimeZone::UTC);
        assert!(text.contains(r"\u{1b}]0;owned\u{7}"), "{text:?}");
        assert!(!text.contains('\u{7}'), "{text:?}");
    }
}
