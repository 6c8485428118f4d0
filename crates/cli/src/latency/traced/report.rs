// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tracers do to the loop, and the rates at which they lose nothing, as text.

use piste_latency::Summary;
use piste_latency::tally::Snapshot;
use piste_latency::traced::events::{self, Kind};
use piste_latency::traced::rates::{Found, RESOLUTION, Rates};
use piste_latency::traced::{KernelEvents, ROUNDS, Row, Table, Traced, Tracer};

use super::Measured;
use crate::columns::{Align, Cell, Columns};
use crate::latency::report::{clock, figure, load, time};
use crate::latency::settings;
use crate::page::Width;
use crate::quantity::{count, counted, duration, size};
use crate::screen::{FAINT, STRONG, printable, styled};

/// `lttng, wake`
pub(super) fn name(traced: Traced) -> String {
    match traced.tracer {
        Tracer::None => traced.tracer.name().to_owned(),
        _ => format!("{}, {}", traced.tracer.name(), traced.reader.name()),
    }
}

/// `12.3 M/s`
pub(super) fn rate(rate_hz: f64) -> String {
    match rate_hz {
        1e6.. => format!("{:.2} M/s", rate_hz / 1e6),
        1e3.. => format!("{:.2} k/s", rate_hz / 1e3),
        _ => format!("{rate_hz:.0} /s"),
    }
}

/// `12.3 ns²`
fn variance(ns2: f64) -> String {
    match ns2 {
        ns2 if ns2 < 999.95 => format!("{ns2:.1} ns²"),
        ns2 => format!("{} ns²", count(ns2.round() as i64)),
    }
}

/// What tracers do to the loop.
pub(super) fn table(measured: &Measured<Table>, width: Width) -> String {
    let rows = measured.found.rows.iter();
    let mut text = heading(
        "npt with tracers",
        measured,
        measured.plan.max_rate_hz,
        &of_rounds(rows.map(|row| row.rounds)),
    );
    let of_all = |row: &Row| row.values.clone();
    let undisturbed = |row: &Row| row.values.undisturbed();
    text += &format!("\n{}\n", styled(STRONG, "all turns"));
    text += &summaries(measured, of_all, width);
    text += &format!("\n{}\n", styled(STRONG, "undisturbed turns"));
    text += &summaries(measured, undisturbed, width);
    text += &format!("\n{}\n", styled(STRONG, "events"));
    text += &recorded_events(measured, width);
    text + &ending(measured, width)
}

/// How many rounds of each row there were.
fn of_rounds(rounds: impl Iterator<Item = u32>) -> String {
    match rounds.max().unwrap_or(0) {
        ROUNDS => format!("{ROUNDS} rounds of each tracer"),
        rounds => format!("stopped early, in round {rounds} of {ROUNDS}"),
    }
}

fn heading<T>(what: &str, measured: &Measured<T>, rate_hz: Option<u64>, how: &str) -> String {
    let plan = &measured.plan;
    let pace = rate_hz.map(|hz| format!(", at most {}", rate(hz as f64)));
    format!(
        "{} on CPU {}{}; {how}; policy {}; clock {}\nevents of {} bytes, rings of {} × {}\n",
        styled(STRONG, what),
        plan.cpu,
        pace.unwrap_or_default(),
        plan.policy,
        clock(&plan.clock),
        plan.payload_bytes,
        plan.rings.subbuf_count,
        size(plan.rings.subbuf_bytes.cast_signed()),
    )
}

fn summaries(measured: &Measured<Table>, values: fn(&Row) -> Snapshot, width: Width) -> String {
    let mut columns = Columns::new(&[
        ("TRACER", Align::Left),
        ("MIN", Align::Right),
        ("MEAN", Align::Right),
        ("99.9999 %", Align::Right),
        ("MAX", Align::Right),
        ("VARIANCE", Align::Right),
        ("DEVIATION", Align::Right),
    ])
    .with_minor(&["DEVIATION"]);
    for row in &measured.found.rows {
        let summary = Summary::of(&values(row), &measured.plan.clock);
        let figure = |ns| Cell::from(figure(&summary, ns));
        columns.row([
            name(row.traced).into(),
            figure(summary.min_ns),
            figure(summary.mean_ns),
            figure(summary.percentile_ns(99.9999)),
            figure(summary.max_ns),
            variance(summary.variance_ns2).into(),
            figure(summary.standard_deviation_ns),
        ]);
    }
    columns.lines(0, width)
}

/// How many events were recorded in how many turns.
fn recorded_events(measured: &Measured<Table>, width: Width) -> String {
    let mut columns = Columns::new(&[
        ("TRACER", Align::Left),
        ("TURNS", Align::Right),
        ("UNDISTURBED", Align::Right),
        ("RATE", Align::Right),
        ("EVENTS", Align::Right),
        ("LOST", Align::Right),
    ]);
    for row in &measured.found.rows {
        let turns = |snapshot: &Snapshot| Summary::of(snapshot, &measured.plan.clock).count;
        let all = turns(&row.values);
        // The time in which the loop looked for causes is not that of turns.
        let seconds = row.duration.saturating_sub(row.blind).as_secs_f64();
        let of_tracer = |number: u64| match row.traced.tracer {
            Tracer::None => Cell::from("-"),
            _ => Cell::from(count(number.cast_signed())),
        };
        columns.row([
            name(row.traced).into(),
            count(all.cast_signed()).into(),
            count(turns(&row.values.undisturbed()).cast_signed()).into(),
            rate(all as f64 / seconds.max(f64::MIN_POSITIVE)).into(),
            of_tracer(row.events),
            of_tracer(row.lost),
        ]);
    }
    columns.lines(0, width)
}

/// How long single events take.
pub(super) fn events(measured: &Measured<events::Table>, width: Width) -> String {
    let table = &measured.found;
    let rounds = of_rounds(table.rows.iter().map(|row| row.rounds));
    let mut text = heading("single events", measured, Some(table.rate_hz), &rounds);
    text += &format!("\n{}\n", styled(STRONG, "worst cases"));
    text += &worst_events(measured, width);
    text += &format!("\n{}\n", styled(STRONG, "by kind"));
    text += &events_by_kind(measured, width);
    let reason = "each time includes reading the clock; with the tracer none, it includes nothing else";
    text += &format!("{}\n", styled(FAINT, reason));
    if table.rows.iter().any(|row| !row.interrupts_counted) {
        text += "interrupts are not counted on this machine, so some ordinary events may have been interrupted\n";
    }
    text + &ending(measured, width)
}

/// What most people want to know: the usual event, and the slowest one that nothing disturbed.
fn worst_events(measured: &Measured<events::Table>, width: Width) -> String {
    let mut columns = Columns::new(&[
        ("TRACER", Align::Left),
        ("MEMORY", Align::Left),
        ("EVENTS", Align::Right),
        ("LOST", Align::Right),
        ("USUAL", Align::Right),
        ("WORST", Align::Right),
        ("KIND OF WORST", Align::Left),
    ]);
    let clock = &measured.plan.clock;
    for row in &measured.found.rows {
        let ordinary = Summary::of(&row.by_kind[Kind::Ordinary as usize], clock);
        let worst = row.worst();
        columns.row([
            name(row.traced).into(),
            memory(row).into(),
            count(row.events.cast_signed()).into(),
            match row.traced.tracer {
                Tracer::None => "-".into(),
                _ => count(row.lost.cast_signed()).into(),
            },
            figure(&ordinary, ordinary.percentile_ns(50.0)).into(),
            Cell::styled(
                STRONG,
                worst.map_or("-".into(), |(_, ticks)| time(clock.ns(ticks as f64))),
            ),
            worst.map_or("-", |(kind, _)| kind_name(kind)).into(),
        ]);
    }
    columns.lines(0, width)
}

/// The kinds that there are events of; the disturbed ones at the end, because no tracer is to blame for them.
fn events_by_kind(measured: &Measured<events::Table>, width: Width) -> String {
    let mut columns = Columns::new(&[
        ("TRACER", Align::Left),
        ("MEMORY", Align::Left),
        ("KIND", Align::Left),
        ("EVENTS", Align::Right),
        ("MIN", Align::Right),
        ("MEDIAN", Align::Right),
        ("99 %", Align::Right),
        ("MAX", Align::Right),
    ])
    .with_minor(&["MIN"]);
    for row in &measured.found.rows {
        let mut has_name = false;
        for kind in Kind::ALL.into_iter().rev() {
            let summary = Summary::of(&row.by_kind[kind as usize], &measured.plan.clock);
            if summary.count == 0 {
                continue;
            }
            let figure = |ns| Cell::from(figure(&summary, ns));
            let once = |text: String| if has_name { String::new() } else { text };
            columns.row([
                once(name(row.traced)).into(),
                once(memory(row).into()).into(),
                kind_name(kind).into(),
                count(summary.count.cast_signed()).into(),
                figure(summary.min_ns),
                figure(summary.percentile_ns(50.0)),
                figure(summary.percentile_ns(99.0)),
                figure(summary.max_ns),
            ]);
            has_name = true;
        }
    }
    columns.lines(0, width)
}

fn memory(row: &events::Row) -> &'static str {
    match row.is_locked {
        None => "-",
        Some(true) => "locked",
        Some(false) => "not locked",
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Disturbed => "disturbed",
        Kind::NewThread => "new thread",
        Kind::PageFault => "page fault",
        Kind::NewSubBuffer => "new sub-buffer",
        Kind::NewCpu => "new CPU",
        Kind::Ordinary => "ordinary",
    }
}

/// The rates at which tracers lose nothing.
pub(super) fn rates(measured: &Measured<Rates>, width: Width) -> String {
    let trial = measured.plan.duration.unwrap_or_default();
    let trial = duration(i64::try_from(trial.as_nanos()).unwrap_or(i64::MAX));
    let stopped = if measured.found.was_interrupted {
        "stopped early"
    } else {
        "the highest rate without losses"
    };
    let mut text = heading(
        "npt with tracers",
        measured,
        None,
        &format!("{stopped}; trials of {trial}"),
    );
    text += match measured.plan.kernel {
        KernelEvents::None => "",
        KernelEvents::Syscalls => "system calls of the machine are recorded, too\n",
        KernelEvents::All => "all events of the kernel are recorded, too\n",
    };
    let mut columns = Columns::new(&[
        ("TRACER", Align::Left),
        ("LOSES NOTHING", Align::Right),
        ("LOSES EVENTS", Align::Right),
        ("LOST THEN", Align::Right),
        ("LOOP REACHES", Align::Right),
        ("TRIALS", Align::Right),
    ]);
    for found in &measured.found.found {
        columns.row(cells(found));
    }
    text.push('\n');
    text += &columns.lines(0, width);
    let reason = format!(
        "the two rates differ by at most {} %, unless the loop cannot reach a higher rate",
        100.0 * RESOLUTION
    );
    text += &styled(FAINT, reason);
    text.push('\n');
    let open = measured.found.found.iter().filter(|found| !found.is_complete);
    for found in open {
        text += &format!("the search for {} did not finish\n", name(found.traced));
    }
    for found in &measured.found.found {
        let kernel_lost: u64 = found.trials.iter().map(|trial| trial.kernel_lost).sum();
        if kernel_lost > 0 {
            let lost = counted(kernel_lost.cast_signed(), "event");
            text += &format!(
                "{}: {lost} of the kernel were lost, which does not affect the result\n",
                name(found.traced)
            );
        }
    }
    text + &ending(measured, width)
}

fn cells(found: &Found) -> [Cell; 6] {
    let rate = |rate_hz: Option<f64>| rate_hz.map_or("-".into(), rate);
    let lost = found.lossy.map_or("-".into(), |trial| {
        let percent = 100.0 * trial.lost as f64 / trial.events.max(1) as f64;
        match percent {
            0.1.. => format!("{percent:.1} %"),
            _ => counted(trial.lost.cast_signed(), "event"),
        }
    });
    [
        name(found.traced).into(),
        Cell::styled(STRONG, rate(found.loss_free.map(|trial| trial.rate_hz))),
        rate(found.lossy.map(|trial| trial.rate_hz)).into(),
        lost.into(),
        rate(found.reachable_hz).into(),
        count(found.trials.len() as i64).into(),
    ]
}

/// The load, the preparation and the settings.
fn ending<T>(measured: &Measured<T>, width: Width) -> String {
    let mut text = String::new();
    if let Some(busy) = &measured.load {
        text += &format!("\n{}", load(busy, width));
    }
    if let Some(steps) = measured.prepared.as_ref().filter(|steps| !steps.is_empty()) {
        text += "\nprepared for the measurement, and restored afterwards\n";
        for step in steps {
            text += &format!("  {}\n", printable(step));
        }
    }
    text + "\n" + &settings::line(&measured.checks) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_units() {
        assert_eq!(
            [12.0, 1234.0, 12_345_678.0].map(rate),
            ["12 /s", "1.23 k/s", "12.35 M/s"]
        );
        assert_eq!(
            [0.04, 12.34, 1234.5].map(variance),
            ["0.0 ns²", "12.3 ns²", "1,235 ns²"]
        );
    }
}
