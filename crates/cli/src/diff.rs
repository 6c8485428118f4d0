// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste diff`: what is different between two traces, for one analysis or for all.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use piste_analysis::analyses::ALL;
use piste_analysis::analysis::{Description, Need, Options};
use piste_analysis::diff::{Change, Side, changes, is_comparable};
use piste_analysis::pass::Listeners;
use piste_analysis::report::{Column, Report, Table, Unit, Value, column};
use piste_modelling::{Ground, is_of_kernel, missing};
use piste_terminal::progress::Progress;
use piste_trace::{Findings, Span};
use serde::Serialize;
use serde_json::json;

use crate::analyze::{Question, Subject};
use crate::arguments::Diff;
use crate::columns::{Align, Cell, Columns};
use crate::failure::{Failure, USAGE};
use crate::page::{Page, Width};
use crate::quantity::{count, duration, size};
use crate::screen::{printable, tell_sentence};
use crate::traces::{kernel_part, open, tell_findings};

/// Changes of times, and as many of counts, unless another number is asked for.
const LIMIT: usize = 20;

/// Of an analysis that lists periods as well, which are not compared.
const ROWS_MAX: usize = 1 << 20;

/// What analyses have found out about one trace.
struct Answered {
    names: Vec<&'static str>,
    reports: Vec<Report>,
    duration_ns: i64,
    /// It has events of some threads only: it is of a piece of work, not of a time.
    is_partial: bool,
    notes: Vec<String>,
    findings: Findings,
}

/// A change, and which analysis has it.
#[derive(Serialize)]
struct Row {
    analysis: &'static str,
    table: &'static str,
    about: String,
    /// The same by the columns that have it.
    of: BTreeMap<&'static str, String>,
    measure: &'static str,
    before: Option<f64>,
    after: Option<f64>,
    change: Option<f64>,
    change_percent: Option<f64>,
    #[serde(skip)]
    unit: Unit,
    #[serde(skip)]
    heading: String,
    /// Per second of its trace.
    is_rate: bool,
}

/// `piste diff`
pub(crate) fn diff(arguments: &Diff, json: bool) -> Result<(), Failure> {
    let subject = arguments.name.as_deref().map(Subject::find).transpose()?;
    let both = [
        (&arguments.before, "analyzing the first trace"),
        (&arguments.after, "analyzing the second trace"),
    ];
    let [before, after] = match subject {
        None => {
            let is_of_system = |analysis: &&Description| is_comparable(analysis) && analysis.name != "health";
            let chosen: Vec<_> = ALL.into_iter().filter(is_of_system).collect();
            both.map(|(path, what)| answers(path, what, &chosen, arguments))
        }
        Some(Subject::Kernel(analysis)) if !is_comparable(analysis) => {
            let name = analysis.name;
            let sentence =
                format!("{name} lists single occurrences, which cannot be compared; choose another analysis");
            return Err(Failure::with_status(sentence, USAGE));
        }
        Some(Subject::Kernel(analysis)) => both.map(|(path, what)| answers(path, what, &[analysis], arguments)),
        Some(subject) => both.map(|(path, _)| answer_of_any(path, subject, arguments)),
    };
    let (before, after) = (before?, after?);
    let are_of_commands = before.is_partial && after.is_partial;
    let is_per_second = arguments.per_second || !(arguments.as_is || are_of_commands);
    let rows = rows(&before, &after, is_per_second, arguments);
    let page = Page::new(&arguments.page);
    if json {
        return page.show_json(&json!({
            "before_duration_ns": before.duration_ns,
            "after_duration_ns": after.duration_ns,
            "is_per_second": is_per_second,
            "changes": rows,
            "notes": before.notes.iter().chain(&after.notes).collect::<Vec<_>>(),
            "findings": before.findings.iter().chain(after.findings.iter()).collect::<Vec<_>>(),
        }));
    }
    match arguments.csv {
        true => page.show(&table(&rows).csv())?,
        false => {
            let (first, second) = (duration(before.duration_ns), duration(after.duration_ns));
            let what = if is_per_second {
                "sums are per second of trace"
            } else {
                "sums are of whole traces"
            };
            let lines = lines(&rows, page.width());
            page.show(&format!("{first} before, {second} after; {what}\n\n{lines}"))?;
        }
    }
    let mut told = HashSet::new();
    for note in before.notes.iter().chain(&after.notes) {
        if told.insert(note) {
            tell_sentence(&printable(note));
        }
    }
    tell_findings(&before.findings);
    tell_findings(&after.findings);
    Ok(())
}

/// What an analysis that does without the model finds out about a trace.
fn answer_of_any(path: &Path, subject: Subject, arguments: &Diff) -> Result<Answered, Failure> {
    let mut findings = Findings::default();
    let traces = open(&[path.to_owned()], arguments.progress.wanted, &mut findings)?;
    let traces = subject.choose(traces, &findings)?;
    let question = Question {
        traces: &traces,
        span: Span::ALL,
        options: Options {
            limit: Some(ROWS_MAX),
            ..options(arguments)
        },
        periods: &arguments.periods,
        shows_progress: arguments.progress.wanted,
    };
    let (name, report, (begin_ns, end_ns)) = subject.compare(&question, &mut findings)?;
    let kernel = &traces[..traces.partition_point(is_of_kernel)];
    Ok(Answered {
        names: vec![name],
        duration_ns: end_ns - begin_ns,
        is_partial: kernel.is_empty() || Ground::new(kernel, Span::ALL)?.is_partial(),
        notes: report.all_notes().cloned().collect(),
        reports: vec![report],
        findings,
    })
}

fn options(arguments: &Diff) -> Options {
    Options {
        // What is few in one trace may be much in the other.
        limit: Some(usize::MAX),
        who: arguments.cgroups.who(&arguments.whose),
        ..Options::default()
    }
}

/// Reads a trace once, for all analyses that it has the events for.
fn answers(
    path: &Path,
    what: &'static str,
    chosen: &[&'static Description],
    arguments: &Diff,
) -> Result<Answered, Failure> {
    let mut findings = Findings::default();
    let traces = kernel_part(
        open(&[path.to_owned()], arguments.progress.wanted, &mut findings)?,
        &findings,
    )?;
    let mut notes = Vec::new();
    let mut possible = Vec::new();
    for analysis in chosen {
        match missing(analysis.name, analysis.needs, &traces) {
            Ok(lacking) => {
                possible.push(*analysis);
                if chosen.len() == 1 {
                    notes.extend(lacking);
                }
            }
            // Of many, the others still say something.
            Err(_) if chosen.len() > 1 => {}
            Err(error) => return Err(error.into()),
        }
    }
    let options = options(arguments);
    let progress = Progress::of(what, &traces, Span::ALL, arguments.progress.wanted);
    let ground = Ground::new(&traces, Span::ALL)?;
    let begun = possible.iter().map(|analysis| (analysis.begin)(&options)).collect();
    let (system, mut analyses) = ground.run(Listeners(begun), &mut findings)?;
    drop(progress);
    let (begin_ns, end_ns) = system.told();
    let needs: Vec<Need> = possible.iter().flat_map(|analysis| analysis.needs).copied().collect();
    let reports = analyses.reports(&system);
    notes.extend(ground.notes(Some(&system), &needs));
    Ok(Answered {
        names: possible.iter().map(|analysis| analysis.name).collect(),
        reports,
        duration_ns: end_ns - begin_ns,
        is_partial: system.circumstances().is_partial,
        notes,
        findings,
    })
}

/// The largest changes first. What several analyses tell alike is there once.
fn rows(before: &Answered, after: &Answered, is_per_second: bool, arguments: &Diff) -> Vec<Row> {
    let mut all: Vec<(&'static str, Change)> = Vec::new();
    for (name, report) in after.names.iter().zip(&after.reports) {
        let Some(place) = before.names.iter().position(|known| known == name) else {
            continue;
        };
        let side = |report, duration_ns| Side { report, duration_ns };
        let own = changes(
            side(&before.reports[place], before.duration_ns),
            side(report, after.duration_ns),
            is_per_second,
        );
        all.extend(own.into_iter().map(|change| (*name, change)));
    }
    let mut known = HashSet::new();
    let mut left = [arguments.limit.unwrap_or(LIMIT); 2];
    let mut rows = Vec::new();
    // Of all analyses only what adds up: extremes and percentiles of few say little.
    all.retain(|(_, change)| change.is_sum && change.table != "frequencies" || arguments.name.is_some());
    all.sort_by(|one, other| one.1.order(&other.1));
    for (analysis, change) in all {
        let text = |value: Option<f64>| value.map(f64::to_bits);
        let is_first = known.insert((change.about.clone(), text(change.before), text(change.after)));
        // Sums of one analysis are of different things, also when they are the same.
        let is_new = is_first || arguments.name.is_some() && change.is_sum;
        let is_wanted = arguments.table.as_deref().is_none_or(|wanted| wanted == change.table);
        let left = &mut left[usize::from(change.measure.unit != Unit::Nanoseconds)];
        if is_new && is_wanted && *left > 0 {
            *left -= 1;
            rows.push(Row {
                analysis,
                table: change.table,
                about: change.about.join(" "),
                of: change
                    .about_keys
                    .iter()
                    .copied()
                    .zip(change.about.iter().cloned())
                    .collect(),
                measure: change.measure.key,
                before: change.before,
                after: change.after,
                change: change.difference(),
                change_percent: change.percent(),
                unit: change.measure.unit,
                heading: change.measure.heading.to_lowercase(),
                is_rate: is_per_second && change.is_sum,
            });
        }
    }
    rows
}

fn lines(rows: &[Row], width: Width) -> String {
    if rows.is_empty() {
        return "no differences\n".to_owned();
    }
    let mut columns = Columns::new(&[
        ("CHANGE", Align::Right),
        ("%", Align::Right),
        ("BEFORE", Align::Right),
        ("AFTER", Align::Right),
        ("WHAT", Align::Left),
        ("OF", Align::Left),
        ("IN", Align::Left),
    ])
    .with_minor(&["IN", "%"]);
    for row in rows {
        let amount = |value: f64| {
            let text = match row.unit {
                Unit::Nanoseconds => duration(value.round() as i64),
                Unit::Bytes => size(value.round() as i64),
                _ => count(value.round() as i64),
            };
            if row.is_rate { format!("{text}/s") } else { text }
        };
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), amount);
        let change = row.change.map_or("-".to_owned(), |change| {
            let sign = if change < 0.0 { '-' } else { '+' };
            format!("{sign}{}", amount(change.abs()))
        });
        let percent = row
            .change_percent
            .map_or(String::new(), |percent| format!("{percent:+.0} %"));
        columns.row_of(vec![
            Cell::from(change),
            Cell::from(percent),
            Cell::from(shown(row.before)),
            Cell::from(shown(row.after)),
            Cell::from(&row.heading),
            Cell::from(&row.about),
            Cell::from(format!("{} {}", row.analysis, row.table)),
        ]);
    }
    columns.lines(0, width)
}

/// As CSV has it.
fn table(rows: &[Row]) -> Table {
    let columns: [Column; 8] = [
        column("analysis", "", Unit::Text),
        column("table", "", Unit::Text),
        column("about", "", Unit::Text),
        column("measure", "", Unit::Text),
        column("before", "", Unit::Percent),
        column("after", "", Unit::Percent),
        column("change", "", Unit::Percent),
        column("change_percent", "", Unit::Percent),
    ];
    let mut table = Table::new("changes", "", &columns);
    for row in rows {
        let number = |value: Option<f64>| value.map_or(Value::None, Value::Percent);
        table.row([
            row.analysis.into(),
            row.table.into(),
            row.about.as_str().into(),
            row.measure.into(),
            number(row.before),
            number(row.after),
            number(row.change),
            number(row.change_percent),
        ]);
    }
    table
}
