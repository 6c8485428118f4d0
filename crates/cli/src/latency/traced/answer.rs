// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tracers do to the loop, the rates at which they lose nothing, and their single events, as JSON: docs/reference/latency.md, and
//! `latency_tracers`, `latency_rates` and `latency_events` in docs/reference/schemas.json.

use piste_latency::Summary;
use piste_latency::traced::events::{self, Kind};
use piste_latency::traced::rates::{Found, RESOLUTION, Rates, Trial};
use piste_latency::traced::{Row, Table, Traced, Tracer};
use serde_json::{Map, Value, json};

use super::Measured;
use crate::latency::answer::{self, causes, summary};
use crate::latency::load;

/// What tracers do to the loop.
pub(super) fn table(measured: &Measured<Table>) -> Value {
    let mut answer = common("npt", measured, measured.found.was_interrupted, &measured.found.notes);
    answer.insert("max_rate_hz".into(), json!(measured.plan.max_rate_hz));
    answer.insert("warm_up_loops".into(), json!(measured.plan.warm_up));
    let rows = measured.found.rows.iter();
    answer.insert("tracers".into(), rows.map(|one| row(measured, one)).collect());
    answer.into()
}

fn common<T>(kind: &str, measured: &Measured<T>, was_interrupted: bool, notes: &[String]) -> Map<String, Value> {
    let plan = &measured.plan;
    let answer = json!({
        "loop": kind,
        "cpu": plan.cpu,
        "policy": plan.policy.to_string(),
        "clock": answer::clock(&plan.clock),
        "payload_bytes": plan.payload_bytes,
        "subbuf_bytes": plan.rings.subbuf_bytes,
        "subbuf_count": plan.rings.subbuf_count,
        "was_interrupted": was_interrupted,
        "preflight": measured.checks.iter().map(answer::check).collect::<Vec<_>>(),
        "notes": measured.notes.iter().chain(notes).collect::<Vec<_>>(),
    });
    let Value::Object(mut answer) = answer else {
        unreachable!("it is an object")
    };
    if let Some(busy) = &measured.load {
        answer.insert("load".into(), load::answer(busy));
    }
    if let Some(steps) = &measured.prepared {
        answer.insert("prepared".into(), json!(steps));
    }
    answer
}

fn of_traced(traced: Traced) -> Map<String, Value> {
    let reader = (traced.tracer != Tracer::None).then(|| traced.reader.name());
    let named = [("tracer", json!(traced.tracer.name())), ("reader", json!(reader))];
    named.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

fn row(measured: &Measured<Table>, row: &Row) -> Value {
    let clock = &measured.plan.clock;
    let mut answer = of_traced(row.traced);
    answer.insert("rounds".into(), json!(row.rounds));
    answer.insert("duration_ns".into(), json!(row.duration.as_nanos() as u64));
    if let Value::Object(all) = summary(&Summary::of(&row.values, clock)) {
        answer.extend(all);
    }
    let undisturbed = Summary::of(&row.values.undisturbed(), clock);
    answer.insert("undisturbed".into(), summary(&undisturbed));
    answer.insert("causes".into(), causes(&row.by_cause, clock));
    answer.insert("looked_from_ns".into(), json!(clock.whole_ns(row.looked_from)));
    answer.insert("looking_ns".into(), json!(row.blind.as_nanos() as u64));
    answer.insert("interrupts_counted".into(), json!(row.interrupts_counted));
    answer.insert("events".into(), json!(row.events));
    answer.insert("recorded_events".into(), json!(row.recorded));
    answer.insert("lost_events".into(), json!(row.lost));
    answer.into()
}

/// How long single events take.
pub(super) fn events(measured: &Measured<events::Table>) -> Value {
    let found = &measured.found;
    let mut answer = common("event", measured, found.was_interrupted, &found.notes);
    answer.insert("max_rate_hz".into(), json!(found.rate_hz));
    let rows = found.rows.iter();
    answer.insert("tracers".into(), rows.map(|row| event_row(measured, row)).collect());
    answer.into()
}

fn event_row(measured: &Measured<events::Table>, row: &events::Row) -> Value {
    let clock = &measured.plan.clock;
    let mut answer = of_traced(row.traced);
    answer.insert("memory_locked".into(), json!(row.is_locked));
    answer.insert("rounds".into(), json!(row.rounds));
    let worst = row.worst();
    answer.insert("worst_ns".into(), json!(worst.map(|(_, ticks)| clock.whole_ns(ticks))));
    answer.insert("worst_kind".into(), json!(worst.map(|(kind, _)| kind_name(kind))));
    let by_kind = Kind::ALL.iter().zip(&row.by_kind);
    let by_kind = by_kind.map(|(kind, values)| (kind_name(*kind).to_owned(), summary(&Summary::of(values, clock))));
    answer.insert("by_kind".into(), Value::Object(by_kind.collect()));
    answer.insert("interrupts_counted".into(), json!(row.interrupts_counted));
    answer.insert("events".into(), json!(row.events));
    answer.insert("recorded_events".into(), json!(row.recorded));
    answer.insert("lost_events".into(), json!(row.lost));
    answer.into()
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Disturbed => "disturbed",
        Kind::NewThread => "new_thread",
        Kind::PageFault => "page_fault",
        Kind::NewSubBuffer => "new_subbuf",
        Kind::NewCpu => "new_cpu",
        Kind::Ordinary => "ordinary",
    }
}

/// The rates at which tracers lose nothing.
pub(super) fn rates(measured: &Measured<Rates>) -> Value {
    let found = &measured.found;
    let mut answer = common("npt", measured, found.was_interrupted, &found.notes);
    let trial = measured.plan.duration.unwrap_or_default();
    answer.insert("with_kernel".into(), json!(measured.plan.kernel.name()));
    answer.insert("trial_ns".into(), json!(trial.as_nanos() as u64));
    answer.insert("resolution_percent".into(), json!(100.0 * RESOLUTION));
    answer.insert("tracers".into(), found.found.iter().map(one_rate).collect());
    answer.into()
}

fn one_rate(found: &Found) -> Value {
    let mut answer = of_traced(found.traced);
    let rate = |trial: &Trial| trial.rate_hz;
    answer.insert("is_complete".into(), json!(found.is_complete));
    answer.insert("reachable_hz".into(), json!(found.reachable_hz));
    answer.insert("loss_free_hz".into(), json!(found.loss_free.as_ref().map(rate)));
    answer.insert("lossy_hz".into(), json!(found.lossy.as_ref().map(rate)));
    answer.insert("trials".into(), found.trials.iter().map(trial).collect());
    answer.into()
}

fn trial(trial: &Trial) -> Value {
    json!({
        "asked_hz": trial.asked_hz,
        "rate_hz": trial.rate_hz,
        "events": trial.events,
        "lost_events": trial.lost,
        "kernel_lost_events": trial.kernel_lost,
    })
}
