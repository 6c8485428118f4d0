// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as text: what was measured and how, tables of events, of their steps and of system calls, what the processor counted, how the machine was, and what is
//! not here.

use std::collections::BTreeSet;

use anstyle::Style;
use piste_bench::Report;
use piste_bench::peers::{PAYLOAD_BYTES, PEERS};
use piste_bench::report::{Absent, Estimate, EventStep, Group, Row, Samples};

use crate::columns::{Align, Cell, Columns, escaped};
use crate::page::Width;
use crate::quantity::{counted, duration};
use crate::screen::{BAD, FAINT, STRONG, printable, styled};

/// Beside the CPU time, the wall time is worth a column only if it is so much longer.
const WALL_DIFFERS: f64 = 1.02;
/// On a terminal that is not wider, rows have their short names instead of their titles.
const TITLES_FIT: usize = 100;
/// Counters of the processor, and their headings.
const COUNTERS: [(&str, &str); 9] = [
    ("cycles", "CYCLES"),
    ("instructions", "INSTR"),
    ("branches", "BRANCHES"),
    ("branch_misses", "BR MISS"),
    ("l1d_misses", "L1D MISS"),
    ("llc_misses", "LLC MISS"),
    ("dtlb_misses", "DTLB MISS"),
    ("bus_cycles", "BUS"),
    ("page_faults", "FAULTS"),
];
/// Without this one, there is no table of counters.
const FIRST_COUNTER: &str = "cycles";

/// Nanoseconds, with three digits or more.
pub(crate) fn ns(value: f64) -> String {
    match value {
        // Without the sign of a negative zero.
        value if value.abs() < 0.005 => "0.00".into(),
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 999.5 => format!("{value:.1}"),
        value => crate::quantity::count(value.round() as i64),
    }
}

/// How many times as much.
pub(super) fn factor(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// How a report is written.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// For a terminal of this width.
    Terminal(Width),
    /// A page in Markdown.
    Markdown,
}

impl Form {
    fn title(self, style: Style, title: &str) -> String {
        match self {
            Form::Terminal(_) => format!("\n{}\n", styled(style, title)),
            Form::Markdown => format!("\n## {}\n\n", escaped(title)),
        }
    }

    fn table(self, columns: &Columns) -> String {
        match self {
            Form::Terminal(width) => columns.lines(0, width),
            Form::Markdown => columns.markdown(),
        }
    }

    fn item(self, text: &str) -> String {
        match self {
            Form::Terminal(_) => format!("  {}\n", printable(text)),
            Form::Markdown => format!("- {}\n", escaped(&printable(text))),
        }
    }

    /// Names of rows are shorter than their titles.
    fn is_narrow(self) -> bool {
        matches!(self, Form::Terminal(width) if width.beside(TITLES_FIT).is_some_and(|rest| rest == 0))
    }
}

/// The whole report.
pub(super) fn text(report: &Report, form: Form) -> String {
    let mut text = heading(report, form);
    for part in parts(report) {
        let title = format!("{}: nanoseconds for each {}", part.title, part.what());
        text += &form.title(STRONG, &title);
        text += &form.table(&match part.group {
            Group::Steps => steps_table(&part),
            Group::Events | Group::Calls => table(&part, form),
        });
    }
    if let Some(counted) = counters(report) {
        text += &form.title(STRONG, "Counted for each event");
        text += &form.table(&counted);
    }
    if !report.rows.is_empty() {
        text.push('\n');
        for note in notes(report) {
            text += &match form {
                Form::Terminal(_) => format!("{note}\n"),
                Form::Markdown => form.item(&note),
            };
        }
    }
    if !report.absent.is_empty() {
        text += &form.title(STRONG, "Not here");
        for absent in &report.absent {
            text += &form.item(&format!("{}: {}", absent.peer, absence(absent)));
        }
    }
    if !report.failed.is_empty() {
        text += &form.title(BAD, "Failed");
        for failed in &report.failed {
            text += &form.item(&format!("{}: {}", failed.peer, failed.reason));
        }
    }
    text
}

/// Rows that are shown in one table.
pub(super) struct Part<'r> {
    pub(super) title: &'static str,
    pub(super) group: Group,
    /// The system call takes a file name, whose length the rows have as the size of their payload.
    pub(super) has_names: bool,
    pub(super) rows: Vec<&'r Row>,
}

impl Part<'_> {
    /// What takes time.
    pub(super) fn what(&self) -> &'static str {
        match self.group {
            Group::Events => "event",
            Group::Calls => "call",
            Group::Steps => "step",
        }
    }
}

/// Those that have rows.
pub(super) fn parts(report: &Report) -> Vec<Part<'_>> {
    let part = |title, group, has_names| {
        let is_in = |row: &&Row| row.group == group && (group != Group::Calls || has_names == is_with_name(row));
        Part {
            title,
            group,
            has_names,
            rows: report.rows.iter().filter(is_in).collect(),
        }
    };
    let parts = [
        part("Events of programs", Group::Events, false),
        part("Steps of an event of Piste", Group::Steps, false),
        part(
            "System call getppid, its entry and return recorded",
            Group::Calls,
            false,
        ),
        part(
            "System call openat by the length of the file name, its entry and return recorded",
            Group::Calls,
            true,
        ),
    ];
    parts.into_iter().filter(|part| !part.rows.is_empty()).collect()
}

fn is_with_name(row: &Row) -> bool {
    row.payload_bytes != PAYLOAD_BYTES
}

/// Why a peer is not here, and how to get it.
pub(super) fn absence(absent: &Absent) -> String {
    match &absent.remedy {
        Some(remedy) => format!("{}; {remedy}", absent.reason),
        None => absent.reason.clone(),
    }
}

fn heading(report: &Report, form: Form) -> String {
    let quick = if report.method.is_quick {
        "; --quick: too short for usable figures"
    } else {
        ""
    };
    let (machine, method) = (machine(report), method(report));
    if let Form::Terminal(_) = form {
        return format!("{}\n{method}{quick}\n", styled(STRONG, machine));
    }
    let mut text = "# What an event costs\n\n".to_owned();
    let command = report.command.iter().skip(1).map(|word| word.as_str());
    let command: Vec<&str> = ["piste"].into_iter().chain(command).collect();
    for line in [machine, format!("{method}{quick}"), command.join(" ")] {
        text += &form.item(&line);
    }
    for version in report.machine.versions.values() {
        text += &form.item(version);
    }
    text
}

/// What it was measured on.
pub(super) fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let kind = if machine.is_virtual { ", a virtual machine" } else { "" };
    let cpus = counted(machine.cpus.into(), "CPU");
    format!(
        "{}, {cpus}{kind}, Linux {}",
        printable(&machine.processor),
        printable(&machine.kernel)
    )
}

/// How much was measured.
pub(super) fn method(report: &Report) -> String {
    let method = &report.method;
    let stopped = if report.was_interrupted { "; stopped early" } else { "" };
    format!(
        "{} with {} of {} each; flight recorders, pinned threads{stopped}",
        counted(method.repetitions.into(), "repetition"),
        counted(method.rounds.into(), "round"),
        duration(method.round_ns.cast_signed()),
    )
}

/// A row's title with what tells it from others of that title.
pub(super) fn wide_title(row: &Row) -> String {
    row.title.clone() + &load(row.payload_bytes, row.threads, row.processes)
}

/// What tells a row from others of its name.
pub(super) fn load(payload_bytes: u32, threads: u32, processes: u32) -> String {
    let mut text = String::new();
    if payload_bytes != PAYLOAD_BYTES {
        text += &format!(", {payload_bytes} bytes");
    }
    for (count, what) in [(threads, "threads"), (processes, "processes")] {
        if count > 1 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

fn table(part: &Part, form: Form) -> Columns {
    let rows = &part.rows;
    let is_calls = part.group == Group::Calls;
    let is_narrow = form.is_narrow();
    let mut headings = vec![(if is_calls { "TRACER" } else { "EVENT" }, Align::Left)];
    let has_threads = rows.iter().any(|row| row.threads > 1);
    if has_threads {
        headings.push(("THREADS", Align::Right));
    }
    let has_processes = rows.iter().any(|row| row.processes > 1);
    if has_processes {
        headings.push(("PROCESSES", Align::Right));
    }
    let has_payloads = rows.iter().any(|row| row.payload_bytes != PAYLOAD_BYTES);
    if has_payloads {
        headings.push(("BYTES", Align::Right));
    }
    headings.push(("TIME", Align::Right));
    headings.push(("± %", Align::Right));
    if is_calls {
        headings.push(("ADDED", Align::Right));
    }
    let has_wall = rows.iter().any(|row| row.wall_ns > row.cpu_ns * WALL_DIFFERS);
    if has_wall {
        headings.push(("WALL", Align::Right));
    }
    headings.extend([
        (if is_calls { "x CALL" } else { "x FLOOR" }, Align::Right),
        ("x PISTE", Align::Right),
    ]);
    headings.extend(["ONE, 50 %", "99 %", "MAX"].map(|heading| (heading, Align::Right)));
    let mut columns = Columns::new(&headings).with_minor(&["± %", "99 %", "MAX", "WALL"]);
    for row in rows {
        let mut cells: Vec<Cell> = vec![if is_narrow { &row.name } else { &row.title }.into()];
        if has_threads {
            cells.push(row.threads.to_string().into());
        }
        if has_processes {
            cells.push(row.processes.to_string().into());
        }
        if has_payloads {
            cells.push(row.payload_bytes.to_string().into());
        }
        cells.push(Cell::styled(STRONG, ns(row.time_ns.value)));
        cells.push(spread(&row.time_ns).into());
        if is_calls {
            cells.push(row.added_ns.map(ns).unwrap_or_default().into());
        }
        if has_wall {
            cells.push(ns(row.wall_ns).into());
        }
        cells.push(ratio(row.to_floor).into());
        cells.push(ratio(row.to_piste).into());
        cells.push(sample(row, |samples| percentile(samples, 50.0)).into());
        cells.push(sample(row, |samples| percentile(samples, 99.0)).into());
        cells.push(sample(row, |samples| samples.max_ns).into());
        columns.row_of(cells);
    }
    columns
}

fn steps_table(part: &Part) -> Columns {
    let mut columns = Columns::new(&[
        ("STEP", Align::Left),
        ("ADDED", Align::Right),
        ("±", Align::Right),
        ("SHARE", Align::Right),
        ("SO FAR", Align::Right),
        ("± %", Align::Right),
    ]);
    for part in events_of_steps(&part.rows).into_iter().flatten() {
        columns.row([
            Cell::from(part.step.name.clone() + &part.load()),
            Cell::styled(STRONG, ns(part.step.added_ns.value)),
            half_ns(&part.step.added_ns).into(),
            percentage(part.share).into(),
            ns(part.row.time_ns.value).into(),
            spread(&part.row.time_ns).into(),
        ]);
    }
    columns
}

/// A part of an event.
pub(super) struct StepOf<'r> {
    pub(super) row: &'r Row,
    pub(super) step: &'r EventStep,
    /// Of the time of the whole event.
    pub(super) share: f64,
}

impl StepOf<'_> {
    /// What tells it from the same step of other events.
    pub(super) fn load(&self) -> String {
        load(self.row.payload_bytes, self.row.threads, self.row.processes)
    }
}

/// The steps of each event that was measured: with one thread, with several.
pub(super) fn events_of_steps<'r>(rows: &[&'r Row]) -> Vec<Vec<StepOf<'r>>> {
    let steps = || rows.iter().filter_map(|row| Some((*row, row.step.as_ref()?)));
    let loads: BTreeSet<(u32, u32)> = steps().map(|(row, _)| (row.threads, row.processes)).collect();
    let event = |load: (u32, u32)| {
        let own = || steps().filter(move |(row, _)| (row.threads, row.processes) == load);
        let whole: f64 = own().map(|(_, step)| step.added_ns.value).sum();
        let part = |(row, step): (&'r Row, &'r EventStep)| StepOf {
            row,
            step,
            share: step.added_ns.value / whole.max(f64::MIN_POSITIVE),
        };
        own().map(part).collect()
    };
    loads.into_iter().map(event).collect()
}

/// Half of an interval, in nanoseconds.
pub(super) fn half_ns(estimate: &Estimate) -> String {
    let interval = estimate.low.zip(estimate.high);
    interval.map(|(low, high)| ns((high - low) / 2.0)).unwrap_or_default()
}

pub(super) fn percentage(share: f64) -> String {
    // Without the sign of a negative zero.
    format!("{:.0} %", (100.0 * share).round() + 0.0)
}

pub(super) fn ratio(estimate: Option<Estimate>) -> String {
    estimate.map(|estimate| factor(estimate.value)).unwrap_or_default()
}

/// Half of the interval, in percent of the value.
pub(super) fn spread(estimate: &Estimate) -> String {
    let (Some(low), Some(high)) = (estimate.low, estimate.high) else {
        return String::new();
    };
    format!("{:.1}", 50.0 * (high - low) / estimate.value.max(f64::MIN_POSITIVE))
}

fn sample(row: &Row, value: impl Fn(&Samples) -> f64) -> String {
    row.samples
        .as_ref()
        .map(|samples| ns(value(samples)))
        .unwrap_or_default()
}

pub(super) fn percentile(samples: &Samples, percent: f64) -> f64 {
    let all = samples.percentiles.iter();
    all.filter(|one| one.percent == percent)
        .map(|one| one.ns)
        .next()
        .unwrap_or(0.0)
}

/// The counters of a table, with their headings; none if the processor counts nothing.
pub(super) fn shown_counters(report: &Report) -> Vec<(&'static str, &'static str)> {
    let has = |name: &str| report.counters.names.iter().any(|known| known == name);
    let shown = COUNTERS.into_iter().filter(|(name, _)| has(name));
    shown.filter(|_| has(FIRST_COUNTER)).collect()
}

/// What the processor counted for each event, where it counts.
fn counters(report: &Report) -> Option<Columns> {
    let shown = shown_counters(report);
    if shown.is_empty() {
        return None;
    }
    let mut headings = vec![("", Align::Left)];
    headings.extend(shown.iter().map(|(_, heading)| (*heading, Align::Right)));
    let mut columns = Columns::new(&headings).with_minor(&["BUS", "BRANCHES", "FAULTS", "LLC MISS"]);
    for row in &report.rows {
        let counted = shown
            .iter()
            .map(|(name, _)| Cell::from(row.counters.get(*name).copied().map(factor).unwrap_or_default()));
        columns.row_of([Cell::from(wide_title(row))].into_iter().chain(counted).collect());
    }
    Some(columns)
}

/// Sentences about how sure the figures are.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = vec![
        "TIME is the geometric mean of the repetitions' medians, CPU time of the thread unless it waits for its tracer (strace: wall time). ± is half of its 95 % interval.".into(),
    ];
    if report.rows.iter().any(|row| row.samples.is_some()) {
        notes.push(format!(
            "ONE is the time of a single event, including {} for reading the clock; 90 % of such readings are within {} of each other. {}",
            time(report.clock.cost_ns),
            time(report.clock.resolution_ns),
            interrupted(report)
        ));
    }
    if report.rows.iter().any(|row| row.step.is_some()) {
        notes.push("ADDED is the difference between two builds of Piste's event, one of which ends a step later; SO FAR is the TIME of an event that ends with the step. The processor overlaps steps, so a step can add less than it takes alone.".into());
    }
    notes.push(state(report));
    let preempted: u32 = report.rows.iter().map(|row| row.preempted_rounds).sum();
    if preempted > 0 {
        let rounds: u32 = report.rows.iter().map(|row| row.rounds).sum();
        notes.push(format!(
            "Another thread took the CPU in {preempted} of {}; this is part of the wall time of these rounds.",
            counted(rounds.into(), "round")
        ));
    }
    if let Some(lack) = &report.counters.lack {
        notes.push(format!("Counters of the processor: {}.", printable(lack)));
    }
    for row in report.rows.iter().filter(|row| row.discarded_events > 0) {
        notes.push(format!(
            "{}: {} found no space in the ring, which is faster than being recorded.",
            row.title,
            counted(row.discarded_events.cast_signed(), "event")
        ));
    }
    notes
}

fn interrupted(report: &Report) -> String {
    let samples = || report.rows.iter().filter_map(|row| row.samples.as_ref());
    let (interrupted, all) = (
        samples().map(|samples| samples.interrupted).sum::<u64>(),
        samples().map(|samples| samples.count).sum::<u64>(),
    );
    format!(
        "{} of {} were long, and a context switch or an interrupt had happened since the previous long one; the figures include them.",
        interrupted,
        counted(all.cast_signed(), "single event")
    )
}

/// Whether the CPUs were as fast as they can be.
fn state(report: &Report) -> String {
    let state = &report.state;
    let steal = match state.steal_ns {
        0 => String::new(),
        ns => format!(" The hypervisor took {} from the CPUs.", duration(ns.cast_signed())),
    };
    let speed = format!(
        "a loop of known work took {:.2} to {:.2} times its quickest time",
        state.reference_median_ns / state.reference_min_ns,
        state.reference_max_ns / state.reference_min_ns
    );
    let of_slow_machine: Vec<String> = report
        .rows
        .iter()
        .filter(|row| row.uses_disturbed)
        .map(wide_title)
        .collect();
    let disturbed = format!(
        "The CPUs were slowed down or shared in {} of {} passes over the tracers: {speed}.",
        state.disturbed, state.passes
    );
    let verdict = match (state.disturbed, of_slow_machine.len()) {
        (0, _) => format!("The CPUs were equally fast throughout: {speed}."),
        (_, 0) => format!("{disturbed} The figures do not include the rounds of these passes."),
        (_, rows) if rows == report.rows.len() => {
            format!("{disturbed} That is most of them, so these figures are those of a slow machine.")
        }
        _ => format!(
            "{disturbed} The figures include the rounds of these passes only for rows most of whose rounds were slow: {}.",
            of_slow_machine.join("; ")
        ),
    };
    verdict + &steal
}

fn time(ns: f64) -> String {
    format!("{} ns", self::ns(ns))
}

/// What can be measured.
pub(super) fn list(width: Width) -> String {
    let mut columns = Columns::new(&[
        ("PEER", Align::Left),
        ("ROW", Align::Left),
        ("WHAT IS MEASURED", Align::Left),
    ]);
    for peer in &PEERS {
        for (index, row) in peer.rows.iter().enumerate() {
            let name = if index == 0 { peer.name } else { "" };
            columns.row([Cell::styled(STRONG, name), row.name.into(), row.title.into()]);
        }
    }
    let mut text = columns.lines(0, width);
    text += &styled(FAINT, "The name of a peer selects all its rows.");
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [9.9949, 9.996, 123.44, 1234.5].map(ns),
            ["9.99", "10.0", "123.4", "1,235"]
        );
        assert_eq!([-0.004, -0.123].map(ns), ["0.00", "-0.12"]);
        assert_eq!([0.991, 12.34, 1234.0].map(factor), ["0.99", "12.3", "1234"]);
    }

    #[test]
    fn a_share_that_rounds_to_nothing_has_no_sign() {
        assert_eq!([0.184, -0.002, -0.04].map(percentage), ["18 %", "0 %", "-4 %"]);
    }

    #[test]
    fn a_spread_is_half_of_the_interval() {
        let estimate = |low, high| Estimate { value: 10.0, low, high };
        assert_eq!(spread(&estimate(Some(9.0), Some(11.0))), "10.0");
        assert_eq!(spread(&estimate(None, None)), "");
    }
}
