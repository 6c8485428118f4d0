// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured, as JSON: docs/reference/latency.md, and `latency` in docs/reference/schemas.json.

use std::time::UNIX_EPOCH;

use piste_latency::preflight::{Check, Level};
use piste_latency::{Cause, Clock, ClockKind, FrequencySource, Gap, Gaps, Loop, Measured, PERCENTILES, Summary};
use serde_json::{Map, Value, json};

use super::cause::Explained;
use super::report::interrupt_name;
use super::{Results, load};

/// The settings.
pub(super) fn preflight(checks: &[Check]) -> Value {
    json!({ "preflight": checks.iter().map(check).collect::<Vec<_>>() })
}

pub(super) fn check(check: &Check) -> Value {
    let level = match check.level {
        Level::Ok => "ok",
        Level::Wrong => "wrong",
        Level::Unknown => "unknown",
    };
    json!({ "name": check.name, "level": level, "value": check.value, "cost": check.cost, "fix": check.fix })
}

/// What a loop reads.
pub(super) fn clock(clock: &Clock) -> Value {
    let name = match clock.kind {
        ClockKind::Tsc => "tsc",
        ClockKind::Monotonic => "monotonic",
    };
    let frequency_source = match clock.frequency_source {
        FrequencySource::Definition => "definition",
        FrequencySource::Kernel => "kernel",
        FrequencySource::Evaluated => "evaluated",
    };
    json!({ "name": name, "frequency_hz": clock.frequency_hz, "frequency_source": frequency_source })
}

/// Gaps by what explains them.
pub(super) fn causes(by_cause: &[Gaps; Cause::ALL.len()], clock: &Clock) -> Value {
    let causes = Cause::ALL.into_iter().zip(by_cause);
    let causes = causes.map(|(cause, gaps)| {
        json!({
            "cause": name(cause),
            "gaps": gaps.count,
            "total_ns": clock.whole_ns(gaps.ticks),
            "longest_ns": clock.whole_ns(gaps.max),
        })
    });
    causes.collect()
}

/// Everything that was measured.
pub(super) fn results(results: &Results) -> Value {
    let plan = &results.plan;
    let kind = match plan.kind {
        Loop::Npt => "npt",
        Loop::Gaps { .. } => "gaps",
        Loop::Timer { .. } => "timer",
        Loop::Wakeup { .. } => "wakeup",
        Loop::Timerlat { .. } => "timerlat",
        Loop::Osnoise => "osnoise",
    };
    let mut answer = json!({
        "loop": kind,
        "policy": plan.policy.to_string(),
        "clock": clock(&plan.clock),
        "warm_up_loops": plan.warm_up,
        "was_interrupted": results.was_interrupted,
        "cpus": results.measured.iter().map(|one| cpu(results, one)).collect::<Vec<_>>(),
        "all": summary(&results.summary(&results.all)),
        "preflight": results.checks.iter().map(check).collect::<Vec<_>>(),
        "notes": results.notes,
    });
    match plan.kind {
        Loop::Npt | Loop::Osnoise => {}
        Loop::Gaps { threshold } => answer["threshold_ns"] = json!(threshold.as_nanos() as u64),
        Loop::Timer { interval } | Loop::Timerlat { interval } => {
            answer["interval_ns"] = json!(interval.as_nanos() as u64)
        }
        Loop::Wakeup { interval, from } => {
            answer["interval_ns"] = json!(interval.as_nanos() as u64);
            answer["from_cpu"] = json!(from);
        }
    }
    if let Some(busy) = &results.load {
        answer["load"] = load::answer(busy);
    }
    if results.is_prepared {
        answer["prepared"] = json!(results.prepared);
    }
    if let Some(limit) = plan.limit {
        answer["threshold_ns"] = json!(limit.from.as_nanos() as u64);
        answer["crossing_count"] = json!(results.crossing_count);
        answer["crossings"] = results.explained.iter().map(Explained::json).collect();
    }
    if let Some(limit) = results.fail_above {
        answer["fail_above_ns"] = json!(limit.as_nanos() as u64);
        answer["is_above"] = json!(results.above_limit().is_some());
    }
    answer
}

fn cpu(results: &Results, measured: &Measured) -> Value {
    let clock = &results.plan.clock;
    let mut answer = Map::new();
    answer.insert("cpu".into(), json!(measured.cpu));
    answer.insert("duration_ns".into(), json!(measured.duration.as_nanos() as u64));
    if let Value::Object(summary) = summary(&results.summary(&measured.values)) {
        answer.extend(summary);
    }
    let buckets = measured.values.buckets().into_iter();
    let buckets = buckets.map(|bucket| {
        let (from, to) = (
            rounded(clock.ns(bucket.low as f64)),
            rounded(clock.ns(bucket.high as f64)),
        );
        json!({ "from_ns": from, "to_ns": to, "count": bucket.count })
    });
    answer.insert("histogram".into(), buckets.collect());
    let stretches = measured.stretches.iter().map(|stretch| {
        json!({
            "begin_ns": clock.whole_ns(stretch.begin),
            "end_ns": clock.whole_ns(stretch.end),
            "max_ns": rounded(clock.ns(stretch.largest as f64)),
        })
    });
    answer.insert("over_time".into(), stretches.collect());
    if results.plan.kind.tracer().is_some() {
        answer.insert("lost".into(), json!(measured.lost));
        if let Some(irq) = &measured.irq {
            answer.insert("irq".into(), summary(&results.summary(irq)));
        }
        if let Some(noise) = &measured.noise {
            let [hardware, nmi, irq, softirq, thread] = noise.reasons;
            let noise = json!({
                "runtime_us": noise.runtime_us,
                "noise_us": noise.noise_us,
                "hardware": hardware,
                "nmi": nmi,
                "irq": irq,
                "softirq": softirq,
                "thread": thread,
            });
            answer.insert("noise".into(), noise);
        }
        return answer.into();
    }
    if let Loop::Timer { .. } | Loop::Wakeup { .. } = results.plan.kind {
        answer.insert("overruns".into(), json!(measured.overruns));
        if let Loop::Wakeup { .. } = results.plan.kind {
            answer.insert("waker_went_on".into(), json!(measured.woken.waker_went_on));
            answer.insert("not_asleep".into(), json!(measured.woken.not_asleep));
        }
        return answer.into();
    }
    let undisturbed = results.summary(&measured.values.undisturbed());
    answer.insert("undisturbed".into(), summary(&undisturbed));
    answer.insert("causes".into(), causes(&measured.by_cause, clock));
    answer.insert("looked_from_ns".into(), json!(clock.whole_ns(measured.looked_from)));
    answer.insert("looking_ns".into(), json!(measured.blind.as_nanos() as u64));
    answer.insert("interrupts_counted".into(), json!(!measured.interrupt_names.is_empty()));
    if matches!(results.plan.kind, Loop::Gaps { .. }) {
        let gaps = measured.gaps.iter().map(|one| gap(clock, measured, one));
        answer.insert("gaps".into(), gaps.collect());
        answer.insert("gaps_left_out".into(), json!(measured.gaps_left_out));
    }
    answer.into()
}

fn gap(clock: &Clock, measured: &Measured, gap: &Gap) -> Value {
    let since_1970 = measured.begin.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let begin_ns = since_1970 + u128::from(clock.whole_ns(gap.begin));
    json!({
        "begin_ns": begin_ns.to_string(),
        "duration_ns": clock.whole_ns(gap.ticks),
        "cause": name(Cause::of(&gap.seen)),
        "switches": gap.seen.switches,
        "interrupts": gap.seen.interrupts,
        "interrupt": interrupt_name(measured, &gap.seen),
        "page_faults": gap.seen.page_faults,
        "steal_ns": gap.seen.steal.map(|steal| steal.as_nanos() as u64),
    })
}

pub(super) fn summary(summary: &Summary) -> Value {
    let percentiles = PERCENTILES.iter().zip(summary.percentiles_ns);
    let percentiles = percentiles.map(|(percent, ns)| json!({ "percent": percent, "ns": rounded(ns) }));
    json!({
        "loops": summary.count,
        "min_ns": rounded(summary.min_ns),
        "mean_ns": rounded(summary.mean_ns),
        "max_ns": rounded(summary.max_ns),
        "variance_ns2": rounded(summary.variance_ns2),
        "standard_deviation_ns": rounded(summary.standard_deviation_ns),
        "percentiles": percentiles.collect::<Vec<_>>(),
    })
}

/// Thousandths are more than any clock tells apart.
fn rounded(ns: f64) -> f64 {
    (ns * 1000.0).round() / 1000.0
}

fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::Switch => "switch",
        Cause::Steal => "steal",
        Cause::Interrupt => "interrupt",
        Cause::PageFault => "page_fault",
        Cause::Nothing => "nothing_visible",
    }
}
