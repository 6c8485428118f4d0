// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured, as text: a line about how, a table with a row for each CPU, what explains the long gaps, and the longest gaps themselves.

use std::time::Duration;

use piste_latency::{Cause, Clock, ClockKind, FrequencySource, Gap, Gaps, Loop, Measured, Seen, Summary, cpus};

use super::load::Busy;
use super::{Results, settings};
use crate::columns::{Align, Cell, Columns};
use crate::page::Width;
use crate::quantity::{count, counted, duration, size};
use crate::screen::{FAINT, STRONG, printable, styled};

/// How many of the longest gaps are shown; JSON has all that were kept.
pub(super) const GAPS_SHOWN: usize = 10;

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
    match results.plan.kind {
        Loop::Timer { .. } | Loop::Wakeup { .. } => {
            for sentence in wake_ups(results) {
                text += &format!("\n{sentence}\n");
            }
        }
        Loop::Npt | Loop::Gaps { .. } => {
            text.push('\n');
            text += &causes(results, width);
        }
        Loop::Timerlat { .. } | Loop::Osnoise => text += &of_kernel(results, width),
    }
    if let Loop::Gaps { threshold } = results.plan.kind {
        text.push('\n');
        text += &longest_gaps(results, threshold, width);
    }
    text += &crossings(results, width);
    if let Some(busy) = &results.load {
        text.push('\n');
        text += &load(busy, width);
    }
    if !results.prepared.is_empty() {
        text += "\nprepared for the measurement, and restored afterwards\n";
        for step in &results.prepared {
            text += &format!("  {}\n", printable(step));
        }
    }
    text.push('\n');
    text + &settings::line(&results.checks) + "\n"
}

/// What was measured, and how.
fn heading(results: &Results) -> String {
    let stopped = if results.was_interrupted || results.was_stopped() {
        ", stopped early"
    } else {
        ""
    };
    format!(
        "{} on {} for {}{stopped}; policy {}; clock {}",
        styled(STRONG, what(results)),
        cpus::named(&results.plan.cpus),
        length(results),
        results.plan.policy,
        clock(&results.plan.clock)
    )
}

/// `timer every 1.00 ms on CPUs 0-1`
pub(super) fn subject(results: &Results) -> String {
    format!("{} on {}", what(results), cpus::named(&results.plan.cpus))
}

fn what(results: &Results) -> String {
    match results.plan.kind {
        Loop::Npt => "npt".to_owned(),
        Loop::Gaps { threshold } => format!("gaps of {} or longer", short(threshold)),
        Loop::Timer { interval } => format!("timer every {}", short(interval)),
        Loop::Wakeup { interval, from: None } => format!("wake-up every {}", short(interval)),
        Loop::Wakeup {
            interval,
            from: Some(cpu),
        } => format!("wake-up every {} from CPU {cpu}", short(interval)),
        Loop::Timerlat { interval } => format!("timerlat every {}: threads of the kernel", short(interval)),
        Loop::Osnoise => "osnoise: the longest noise of each period".to_owned(),
    }
}

/// How long the longest loop took.
pub(super) fn length(results: &Results) -> String {
    let longest = results.measured.iter().map(|one| one.duration).max();
    short(longest.unwrap_or_default())
}

/// What the loops read.
pub(super) fn clock(clock: &Clock) -> String {
    match (clock.kind, clock.frequency_source) {
        (ClockKind::Monotonic, _) => "CLOCK_MONOTONIC".to_owned(),
        (ClockKind::Tsc, source) => {
            let who = match source {
                FrequencySource::Kernel => "from the kernel",
                _ => "evaluated",
            };
            format!("TSC at {:.3} MHz ({who})", clock.frequency_hz as f64 / 1e6)
        }
    }
}

fn short(time: Duration) -> String {
    duration(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

fn table(results: &Results, width: Width) -> String {
    let rows = results.measured.iter();
    let rows = rows.map(|one| (one.cpu, results.summary(&one.values)));
    let mut rows: Vec<(Cell, Summary)> = rows.map(|(cpu, summary)| (cpu.to_string().into(), summary)).collect();
    if results.measured.len() > 1 {
        rows.push(("all".into(), results.summary(&results.all)));
    }
    rows_of(rows, width)
}

fn summaries(rows: impl Iterator<Item = (u32, Summary)>, width: Width) -> String {
    rows_of(
        rows.map(|(cpu, summary)| (cpu.to_string().into(), summary)).collect(),
        width,
    )
}

fn rows_of(rows: Vec<(Cell, Summary)>, width: Width) -> String {
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
    for (name, summary) in rows {
        let figure = |ns| figure(&summary, ns);
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
    }
    columns.lines(0, width)
}

/// How many values were as long as the limit, and how many of them are explained; absent if there is no limit.
pub(super) fn crossings_heading(results: &Results) -> Option<String> {
    let limit = results.plan.limit?;
    let from = short(limit.from);
    let of_length = || {
        format!(
            "{} of {from} or longer",
            counted(results.crossing_count as i64, "value")
        )
    };
    Some(match results.explained.len() as u64 {
        0 => format!("no value was {from} or longer"),
        _ if limit.stops => format!("stopped at the first value of {from} or longer"),
        shown if shown < results.crossing_count => format!("{}, the longest {shown} of them", of_length()),
        _ => of_length(),
    })
}

/// Values as long as the limit, and what they were due to.
fn crossings(results: &Results, width: Width) -> String {
    let Some(heading) = crossings_heading(results) else {
        return String::new();
    };
    let explained: Vec<String> = results.explained.iter().map(|one| one.text(width)).collect();
    format!("\n{heading}\n{}", explained.join("\n"))
}

/// What happened to wake-ups besides their latency, as sentences without their ends.
pub(super) fn wake_ups(results: &Results) -> Vec<String> {
    let sum = |number: fn(&Measured) -> u64| results.measured.iter().map(number).sum::<u64>();
    let mut sentences = Vec::new();
    if let Loop::Wakeup { from, .. } = results.plan.kind {
        let all = results.summary(&results.all).count;
        let went_on = sum(|one| one.woken.waker_went_on);
        let is_same = |one: &Measured| from.is_none_or(|cpu| cpu == one.cpu);
        let of_all = format!("{} of {}", count(went_on as i64), counted(all as i64, "wake-up"));
        sentences.push(match results.measured.iter().all(is_same) {
            true if went_on == 0 => {
                "in all wake-ups, the woken thread ran at once, before the waking thread continued".into()
            }
            true => format!("the waking thread continued before the woken thread ran in {of_all}"),
            false => format!("the wake-up call returned before the woken thread ran in {of_all}"),
        });
        match sum(|one| one.woken.not_asleep) {
            0 => {}
            1 => sentences.push("1 wake-up is not counted, because the thread was still awake".into()),
            number => sentences.push(format!(
                "{} are not counted, because the thread was still awake",
                counted(number as i64, "wake-up")
            )),
        }
    }
    match sum(|one| one.overruns) {
        0 => {}
        1 => sentences.push("1 wake-up was skipped because a thread woke up later than a whole interval".into()),
        number => sentences.push(format!(
            "{} were skipped because a thread woke up later than a whole interval",
            counted(number as i64, "wake-up")
        )),
    }
    sentences
}

/// What else the kernel's tracers measure.
fn of_kernel(results: &Results, width: Width) -> String {
    let mut text = String::new();
    if matches!(results.plan.kind, Loop::Timerlat { .. }) {
        let irqs = results.measured.iter();
        let irqs = irqs.filter_map(|one| Some((one.cpu, results.summary(one.irq.as_ref()?))));
        text += &format!(
            "\n{}\n{}",
            styled(STRONG, "interrupts of the timers"),
            summaries(irqs, width)
        );
    } else {
        let mut columns = Columns::new(&[
            ("CPU", Align::Right),
            ("NOISE", Align::Right),
            ("SHARE", Align::Right),
            ("HARDWARE", Align::Right),
            ("NMI", Align::Right),
            ("INTERRUPTS", Align::Right),
            ("SOFT", Align::Right),
            ("THREADS", Align::Right),
        ]);
        for (cpu, noise) in results.measured.iter().filter_map(|one| Some((one.cpu, one.noise?))) {
            let [hardware, nmi, irq, softirq, thread] = noise.reasons.map(|number| Cell::from(count(number as i64)));
            let share = 100.0 * noise.noise_us as f64 / noise.runtime_us.max(1) as f64;
            columns.row([
                cpu.to_string().into(),
                time(noise.noise_us as f64 * 1000.0).into(),
                format!("{share:.3} %").into(),
                hardware,
                nmi,
                irq,
                softirq,
                thread,
            ]);
        }
        text += &format!(
            "\n{}\n{}",
            styled(STRONG, "what took the time, and how often"),
            columns.lines(0, width)
        );
    }
    let lost = results.measured.iter().map(|one| one.lost).max().unwrap_or(0);
    if lost > 0 {
        text += &format!(
            "\n{} lost, because piste could not read in time\n",
            counted(lost as i64, "measurement")
        );
    }
    text
}

/// What kept the machine busy meanwhile.
pub(super) fn load(busy: &Busy, width: Width) -> String {
    let mut columns = Columns::new(&[
        ("LOAD", Align::Left),
        ("PROCESSES", Align::Right),
        ("LOOPS", Align::Right),
        ("DATA", Align::Right),
    ]);
    for done in &busy.done {
        let of = |number: u64, text: fn(i64) -> String| match number {
            0 => String::new(),
            number => text(number as i64),
        };
        columns.row([
            done.name.as_str().into(),
            Cell::from(of(done.processes, count)),
            count(done.work.loops as i64).into(),
            of(done.work.bytes, size).into(),
        ]);
    }
    format!("load on {}\n{}", cpus::named(&busy.cpus), columns.lines(0, width))
}

/// Long gaps by what happened meanwhile, and what is left without those that something explains.
fn causes(results: &Results, width: Width) -> String {
    let clock = &results.plan.clock;
    let mut columns = Columns::new(&[
        ("MEANWHILE", Align::Left),
        ("GAPS", Align::Right),
        ("TOTAL", Align::Right),
        ("LONGEST", Align::Right),
    ]);
    let sums = sums_of_causes(results);
    for (cause, gaps) in &sums {
        columns.row([
            name(*cause).into(),
            Cell::from(count(gaps.count as i64)),
            time(clock.ns(gaps.ticks as f64)).into(),
            time(clock.ns(gaps.max as f64)).into(),
        ]);
    }
    let undisturbed = results.summary(&results.all.undisturbed());
    let blind: Duration = results.measured.iter().map(|one| one.blind).sum();
    let limit = looked_from(results);
    let mut text = match sums.is_empty() {
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
    if interrupts_not_counted(results) {
        text += "interrupts were not counted: /proc/interrupts cannot be read, or takes too long to read\n";
    }
    text
}

/// The gaps of all CPUs by what happened meanwhile.
pub(super) fn sums_of_causes(results: &Results) -> Vec<(Cause, Gaps)> {
    let sum = |cause: Cause| {
        let of_cpus = results.measured.iter().map(|one| one.by_cause[cause as usize]);
        let mut sum = Gaps::default();
        of_cpus.for_each(|gaps| sum.merge(&gaps));
        (cause, sum)
    };
    let sums = Cause::ALL.into_iter().map(sum);
    sums.filter(|(_, gaps)| gaps.count > 0).collect()
}

/// From where on gaps are looked at.
pub(super) fn looked_from(results: &Results) -> String {
    let looked_from = results.measured.iter().map(|one| one.looked_from).min();
    time(results.plan.clock.ns(looked_from.unwrap_or_default() as f64))
}

/// Whether some loop could not count interrupts.
pub(super) fn interrupts_not_counted(results: &Results) -> bool {
    results.measured.iter().any(|one| one.interrupt_names.is_empty())
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

/// The longest gaps that were kept, in order of time.
pub(super) fn longest(results: &Results) -> Vec<(&Measured, &Gap)> {
    let mut gaps: Vec<(&Measured, &Gap)> = Vec::new();
    for measured in &results.measured {
        gaps.extend(measured.gaps.iter().map(|gap| (measured, gap)));
    }
    gaps.sort_by_key(|(_, gap)| std::cmp::Reverse(gap.ticks));
    gaps.truncate(GAPS_SHOWN);
    gaps.sort_by_key(|(_, gap)| gap.begin);
    gaps
}

/// The longest ones, in order of time.
fn longest_gaps(results: &Results, threshold: Duration, width: Width) -> String {
    let gaps = longest(results);
    let all = results.measured.iter();
    let total: u64 = all.map(|one| one.gaps.len() as u64 + one.gaps_left_out).sum();
    if total == 0 {
        return format!("no gap was {} or longer\n", short(threshold));
    }
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
            meanwhile(measured, &gap.seen).into(),
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
pub(super) fn meanwhile(measured: &Measured, seen: &Seen) -> String {
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
    if let Some(name) = interrupt_name(measured, seen)
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
pub(super) fn interrupt_name<'m>(measured: &'m Measured, seen: &Seen) -> Option<&'m str> {
    let place = seen.interrupt?;
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
