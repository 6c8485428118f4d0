// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured, as text: a line about how, a table with a row for each CPU, what explains the long gaps, and the longest gaps themselves.

use std::time::Duration;

use piste_latency::{Cause, ClockKind, FrequencySource, Gap, Loop, Measured, Summary, cpus};

use super::{Results, settings};
use crate::columns::{Align, Cell, Columns};
use crate::page::Width;
use crate::quantity::{count, counted, duration};
use crate::screen::{FAINT, STRONG, styled};

/// How many of the longest gaps are shown; JSON has all that were kept.
const GAPS_SHOWN: usize = 10;

/// A time as people read it; below a microsecond, tenths of nanoseconds matter.
pub(super) fn time(ns: f64) -> String {
    match ns {
        ns if ns > 0.0 && ns < 999.95 => format!("{ns:.1} ns"),
        ns => duration(ns.round() as i64),
    }
}

/// A figure of a summary; there is none of nothing.
pub(super) fn figure(summary: &Summary, ns: f64) -> String {
    match summary.count {
        0 => "-".into(),
        _ => time(ns),
    }
}

/// The whole report.
pub(super) fn text(results: &Results, width: Width) -> String {
    let mut text = heading(results) + "\n\n" + &table(results, width);
    let is_timer = matches!(results.plan.kind, Loop::Timer { .. });
    if is_timer {
        text += &overruns(results);
    } else {
        text.push('\n');
        text += &causes(results, width);
    }
    if let Loop::Gaps { threshold } = results.plan.kind {
        text.push('\n');
        text += &longest_gaps(results, threshold, width);
    }
    text.push('\n');
    text + &settings::line(&results.checks) + "\n"
}

/// What was measured, and how.
fn heading(results: &Results) -> String {
    let plan = &results.plan;
    let longest = results
        .measured
        .iter()
        .map(|one| one.duration)
        .max()
        .unwrap_or_default();
    let what = match plan.kind {
        Loop::Npt => "npt".to_owned(),
        Loop::Gaps { threshold } => format!("gaps of {} or longer", short(threshold)),
        Loop::Timer { interval } => format!("timer every {}", short(interval)),
    };
    let clock = match (plan.clock.kind, plan.clock.frequency_source) {
        (ClockKind::Monotonic, _) => "CLOCK_MONOTONIC".to_owned(),
        (ClockKind::Tsc, source) => {
            let who = match source {
                FrequencySource::Kernel => "from the kernel",
                _ => "evaluated",
            };
            format!("TSC at {:.3} MHz ({who})", plan.clock.frequency_hz as f64 / 1e6)
        }
    };
    let stopped = if results.was_interrupted { ", stopped early" } else { "" };
    format!(
        "{} on {} for {}{stopped}; policy {}; clock {clock}",
        styled(STRONG, what),
        cpus::named(&plan.cpus),
        short(longest),
        plan.policy
    )
}

fn short(time: Duration) -> String {
    duration(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

fn table(results: &Results, width: Width) -> String {
    let mut columns = Columns::new(&[
        ("CPU", Align::Right),
        ("LOOPS", Align::Right),
        ("MIN", Align::Right),
        ("MEAN", Align::Right),
        ("50 %", Align::Right),
        ("99 %", Align::Right),
        ("99.9 %", Align::Right),
        ("99.99 %", Align::Right),
        ("MAX", Align::Right),
        ("DEVIATION", Align::Right),
    ])
    .with_minor(&["99 %", "99.99 %", "DEVIATION"]);
    let mut row = |name: Cell, summary: &Summary| {
        let figure = |ns| figure(summary, ns);
        let percentile = |percentile| Cell::from(figure(summary.percentile_ns(percentile)));
        columns.row([
            name,
            Cell::from(count(summary.count as i64)),
            figure(summary.min_ns).into(),
            figure(summary.mean_ns).into(),
            percentile(50.0),
            percentile(99.0),
            percentile(99.9),
            percentile(99.99),
            Cell::styled(STRONG, figure(summary.max_ns)),
            figure(summary.standard_deviation_ns).into(),
        ]);
    };
    for one in &results.measured {
        row(one.cpu.to_string().into(), &results.summary(&one.values));
    }
    if results.measured.len() > 1 {
        row("all".into(), &results.summary(&results.all));
    }
    columns.lines(0, width)
}

fn overruns(results: &Results) -> String {
    let overruns: u64 = results.measured.iter().map(|one| one.overruns).sum();
    match overruns {
        0 => String::new(),
        1 => "\n1 wake-up was skipped because a thread woke up later than a whole interval\n".into(),
        _ => format!(
            "\n{} were skipped because a thread woke up later than a whole interval\n",
            counted(overruns as i64, "wake-up")
        ),
    }
}

/// Long gaps by what happened meanwhile, and what is left without those that something explains.
fn causes(results: &Results, width: Width) -> String {
    let clock = &results.plan.clock;
    let looked_from = results
        .measured
        .iter()
        .map(|one| one.looked_from)
        .min()
        .unwrap_or_default();
    let mut columns = Columns::new(&[
        ("MEANWHILE", Align::Left),
        ("GAPS", Align::Right),
        ("TOTAL", Align::Right),
        ("LONGEST", Align::Right),
    ]);
    for cause in Cause::ALL {
        let same = results.measured.iter().map(|one| one.by_cause[cause as usize]);
        let (mut gaps, mut ticks, mut longest) = (0, 0, 0);
        for one in same {
            gaps += one.count;
            ticks += one.ticks;
            longest = longest.max(one.max);
        }
        if gaps > 0 {
            columns.row([
                name(cause).into(),
                Cell::from(count(gaps as i64)),
                time(clock.ns(ticks as f64)).into(),
                time(clock.ns(longest as f64)).into(),
            ]);
        }
    }
    let undisturbed = results.summary(&results.all.undisturbed());
    let blind: Duration = results.measured.iter().map(|one| one.blind).sum();
    let limit = time(clock.ns(looked_from as f64));
    let is_none = results
        .measured
        .iter()
        .all(|one| one.by_cause.iter().all(|gaps| gaps.count == 0));
    let mut text = match is_none {
        true => format!("no gap was {limit} or longer\n"),
        false => format!("gaps of {limit} or longer\n{}", columns.lines(0, width)),
    };
    text += &format!(
        "{}: 99.9999 % took at most {}, the longest {}, deviation {}\n",
        counted(undisturbed.count as i64, "undisturbed loop"),
        time(undisturbed.percentile_ns(99.9999)),
        time(undisturbed.max_ns),
        time(undisturbed.standard_deviation_ns)
    );
    text += &styled(
        FAINT,
        format!("{} spent reading the kernel's counters are not included", short(blind)),
    );
    text.push('\n');
    if results.measured.iter().any(|one| one.interrupt_names.is_empty()) {
        text += "interrupts were not counted: /proc/interrupts cannot be read, or takes too long to read\n";
    }
    text
}

/// What happened in a gap, for people.
pub(super) fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::Switch => "another thread ran, or the loop was stopped",
        Cause::Steal => "steal",
        Cause::Interrupt => "interrupt",
        Cause::PageFault => "page fault",
        Cause::Nothing => "nothing visible",
    }
}

/// The longest ones, in order of time.
fn longest_gaps(results: &Results, threshold: Duration, width: Width) -> String {
    let mut gaps: Vec<(&Measured, &Gap)> = Vec::new();
    for measured in &results.measured {
        gaps.extend(measured.gaps.iter().map(|gap| (measured, gap)));
    }
    let left_out: u64 = results.measured.iter().map(|one| one.gaps_left_out).sum();
    let total = gaps.len() as u64 + left_out;
    if total == 0 {
        return format!("no gap was {} or longer\n", short(threshold));
    }
    gaps.sort_by_key(|(_, gap)| std::cmp::Reverse(gap.ticks));
    gaps.truncate(GAPS_SHOWN);
    gaps.sort_by_key(|(_, gap)| gap.begin);
    let mut columns = Columns::new(&[
        ("AFTER", Align::Right),
        ("CPU", Align::Right),
        ("GAP", Align::Right),
        ("MEANWHILE", Align::Left),
    ]);
    for (measured, gap) in &gaps {
        columns.row([
            format!("{:.6} s", results.plan.clock.ns(gap.begin as f64) / 1e9).into(),
            measured.cpu.to_string().into(),
            Cell::styled(STRONG, time(results.plan.clock.ns(gap.ticks as f64))),
            meanwhile(measured, gap).into(),
        ]);
    }
    let shown = match total as usize > gaps.len() {
        true => format!(", the longest {} of them", gaps.len()),
        false => String::new(),
    };
    let heading = format!(
        "{} of {} or longer{shown}\n",
        counted(total as i64, "gap"),
        short(threshold)
    );
    heading + &columns.lines(0, width)
}

/// All that was counted in a gap.
fn meanwhile(measured: &Measured, gap: &Gap) -> String {
    let seen = &gap.seen;
    let mut parts = Vec::new();
    let mut add = |number: u64, what: &str| {
        if number > 0 {
            parts.push(counted(number as i64, what));
        }
    };
    add(seen.switches, "switch");
    add(seen.interrupts.unwrap_or(0), "interrupt");
    add(seen.page_faults, "page fault");
    if let Some(part) = parts.iter_mut().find(|part| part.ends_with("switchs")) {
        *part = part.replace("switchs", "switches");
    }
    if let Some(name) = interrupt_name(measured, gap)
        && let Some(part) = parts.iter_mut().find(|part| part.contains("interrupt"))
    {
        *part += &format!(" ({name})");
    }
    if let Some(steal) = seen.steal.filter(|steal| !steal.is_zero()) {
        parts.push(format!("{} of steal", short(steal)));
    }
    match parts.is_empty() {
        true => name(Cause::Nothing).into(),
        false => parts.join(", "),
    }
}

/// The interrupt that came most often.
pub(super) fn interrupt_name<'m>(measured: &'m Measured, gap: &Gap) -> Option<&'m str> {
    let place = gap.seen.interrupt?;
    measured.interrupt_names.get(usize::from(place)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_below_a_microsecond_have_tenths() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (10.04, "10.0 ns"),
            (999.9, "999.9 ns"),
            (1500.0, "1.50 µs"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
