// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency npt --tracer`: what recording an event in each turn does to the loop, with each tracer; `--find-rate`: the highest rate at
//! which no event is lost; and `piste latency event`: how long single events take.
//!
//! - here: from arguments to a plan, progress, exit status
//! - [`report`]: results as text; [`answer`]: as JSON

mod answer;
mod report;

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use piste_latency::load::is_in_memory;
use piste_latency::preflight::{Check, check};
use piste_latency::traced::events::EVENTS_MAX;
use piste_latency::traced::{
    self, Error, KernelEvents, Plan, ROUNDS, Reader, Rings, Step, Traced, Tracer, events, rates, serve,
};
use piste_latency::{Plan as LoopPlan, cpus};
use piste_reason::reason;
use serde_json::Value;

use super::guardian::Prepared;
use super::load::{Busy, Loads};
use super::{ROOT, guardian, load_cpus, loads_of, plan, policy, prepare};
use crate::arguments::{KernelOption, Latency, LoopKind, ReaderOption, TracerOption};
use crate::failure::{Failure, USAGE};
use crate::measuring::{Progress, interruption, own_program, without_result};
use crate::page::{Page, Width};
use crate::screen::tell_sentence;

/// The hidden command of the process in which the loop runs.
const ARGUMENTS: &[&str] = &["latency-loop"];
/// Of an event, unless another size is asked for: a number.
const PAYLOAD_BYTES: u32 = 4;
/// With the count, room for some hundred milliseconds at ten million events a second.
const SUBBUF_BYTES: u64 = 1 << 20;
const SUBBUF_COUNT: u32 = 8;
/// The same for single events, so that many of them begin one.
const SUBBUF_BYTES_OF_EVENTS: u64 = 64 << 10;
const SUBBUF_COUNT_OF_EVENTS: u32 = 16;
/// The tracers of single events, unless others are asked for.
const TRACERS_OF_EVENTS: &[TracerOption] = &[TracerOption::None, TracerOption::Piste];
/// Of a trial of `--find-rate`: some times as long as the rings have room for.
const TRIAL_DURATION: Duration = Duration::from_secs(2);

/// What was measured, and how.
struct Measured<T> {
    plan: Plan,
    found: T,
    notes: Vec<String>,
    checks: Vec<Check>,
    load: Option<Busy>,
    /// How the machine was prepared; absent if it was not to be.
    prepared: Option<Vec<String>>,
}

/// Measures what a plan says, and calls a function before each step.
type Measure<T> = fn(&Plan, &mut dyn FnMut(Step)) -> Result<T, Error>;

/// `piste latency-loop`: the process in which the loop runs.
pub(crate) fn run_loop() {
    serve();
}

/// Whether a loop is asked for whose events a tracer records.
pub(super) fn is_wanted(arguments: &Latency) -> bool {
    let is_of_events = arguments.kind == LoopKind::Event;
    is_of_events || arguments.find_rate || arguments.tracer.iter().any(|tracer| *tracer != TracerOption::None)
}

/// `piste latency npt --tracer`
pub(super) fn measure(arguments: &Latency, json: bool) -> Result<(), Failure> {
    check_options(arguments)?;
    if arguments.kind == LoopKind::Event {
        return show(
            arguments,
            json,
            events::measure,
            answer::events,
            report::events,
            |found| &found.notes,
        );
    }
    match arguments.find_rate {
        false => show(
            arguments,
            json,
            traced::measure,
            answer::table,
            report::table,
            |found| &found.notes,
        ),
        true => show(arguments, json, rates::find, answer::rates, report::rates, |found| {
            &found.notes
        }),
    }
}

/// Measures and shows the result.
fn show<T>(
    arguments: &Latency,
    json: bool,
    measure: Measure<T>,
    answer: fn(&Measured<T>) -> Value,
    report: fn(&Measured<T>, Width) -> String,
    notes: fn(&T) -> &[String],
) -> Result<(), Failure> {
    let page = Page::new(&arguments.page);
    let measured = with_machine(arguments, json, measure)?;
    match json {
        true => page.show_json(&answer(&measured)),
        false => {
            notes(&measured.found).iter().for_each(|note| tell_sentence(note));
            page.show_sentences(&report(&measured, page.width()))
        }
    }
}

/// Measures, with the machine as busy and as prepared as it is to be.
fn with_machine<T>(arguments: &Latency, json: bool, measure: Measure<T>) -> Result<Measured<T>, Failure> {
    let allowed = cpus::allowed()
        .map_err(|error| Failure::new(format!("cannot find out which CPUs piste may use: {}", reason(&error))))?;
    // The last one: interrupts and other programs are often on the first.
    let cpu = match &arguments.cpus {
        Some(list) => list.0[0],
        None => allowed.last().copied().unwrap_or(0),
    };
    let interrupted = interruption()?;
    let mut notes = Vec::new();
    let mut of_loop = plan(arguments, vec![cpu], &mut notes)?;
    let loads = Loads::start(&loads_of(arguments), &load_cpus(arguments, &of_loop, allowed))?;
    notes.extend(loads.iter().flat_map(Loads::notes).cloned());
    let prepared = match arguments.prepare {
        true => Some(prepare(&mut of_loop, &mut notes)?),
        false => {
            notes.extend(guardian::restore_before());
            None
        }
    };
    if let Some(choice) = arguments.policy {
        of_loop.policy = policy(choice, of_loop.kind);
    }
    let checks = check(Path::new(ROOT), &[cpu]);
    let plan = traced_plan(arguments, of_loop, interrupted, &mut notes)?;
    if !json {
        notes.iter().for_each(|note| tell_sentence(note));
    }
    let progress = Progress::new(json);
    let found = measure(&plan, &mut |step| progress.say(&told(step)));
    progress.clear();
    let mut problems = Vec::new();
    let load = loads.map(|loads| {
        let (busy, failed) = loads.finish();
        problems.extend(failed);
        busy
    });
    let prepared = prepared.map(|prepared| restore(prepared, &mut problems));
    if !json {
        problems.iter().for_each(|problem| tell_sentence(problem));
    }
    notes.extend(problems);
    let found = found.map_err(|error| match error.is_interruption() {
        true => without_result(),
        false => Failure::new(error),
    })?;
    Ok(Measured {
        plan,
        found,
        notes,
        checks,
        load,
        prepared,
    })
}

/// Restores the machine; how it was prepared.
fn restore(prepared: Prepared, problems: &mut Vec<String>) -> Vec<String> {
    let steps = prepared
        .preparation()
        .map(|preparation| preparation.taken().to_vec())
        .unwrap_or_default();
    problems.extend(prepared.restore());
    steps
}

fn traced_plan(
    arguments: &Latency,
    of_loop: LoopPlan,
    interrupted: Arc<AtomicBool>,
    notes: &mut Vec<String>,
) -> Result<Plan, Failure> {
    if is_in_memory(&env::temp_dir()) {
        notes.push(format!(
            "traces are written to {}, which is in memory and not on a disk; set TMPDIR to another folder",
            env::temp_dir().display()
        ));
    }
    let is_of_events = arguments.kind == LoopKind::Event;
    let (subbuf_bytes, subbuf_count) = match is_of_events {
        true => (SUBBUF_BYTES_OF_EVENTS, SUBBUF_COUNT_OF_EVENTS),
        false => (SUBBUF_BYTES, SUBBUF_COUNT),
    };
    Ok(Plan {
        piste: own_program()?,
        arguments: ARGUMENTS,
        traced: traced(arguments, notes)?,
        rings: Rings {
            subbuf_bytes: arguments.subbuf_size.unwrap_or(subbuf_bytes),
            subbuf_count: arguments.num_subbuf.unwrap_or(subbuf_count),
        },
        kernel: match arguments.with_kernel {
            None | Some(KernelOption::None) => KernelEvents::None,
            Some(KernelOption::Syscalls) => KernelEvents::Syscalls,
            Some(KernelOption::All) => KernelEvents::All,
        },
        payload_bytes: arguments.payload.unwrap_or(PAYLOAD_BYTES),
        cpu: of_loop.cpus[0],
        policy: of_loop.policy,
        clock: of_loop.clock,
        duration: match arguments.find_rate {
            true => Some(arguments.duration.unwrap_or(TRIAL_DURATION)),
            // So many events take as long as they take.
            false if is_of_events => None,
            false => of_loop.duration,
        },
        loops: of_loop.loops,
        warm_up: of_loop.warm_up,
        max_rate_hz: arguments.max_rate,
        join: of_loop.join,
        root: of_loop.root,
        interrupted,
    })
}

/// Each tracer with each reader that it has, once. What it does not have is a note, unless nothing is left.
fn traced(arguments: &Latency, notes: &mut Vec<String>) -> Result<Vec<Traced>, Failure> {
    let readers: &[ReaderOption] = match &arguments.reader[..] {
        [] => &[ReaderOption::Timer],
        readers => readers,
    };
    let mut all: Vec<Traced> = Vec::new();
    let mut lacking = Vec::new();
    let tracers = match &arguments.tracer[..] {
        [] => TRACERS_OF_EVENTS,
        tracers => tracers,
    };
    for tracer in tracers {
        let tracer = match tracer {
            TracerOption::None => Tracer::None,
            TracerOption::Piste => Tracer::Piste,
            TracerOption::Lttng => Tracer::Lttng,
            TracerOption::Uprobe => Tracer::Uprobe,
        };
        for reader in readers {
            let reader = match reader {
                // One row is enough of what nobody reads.
                _ if tracer == Tracer::None => Reader::Timer,
                ReaderOption::Timer => Reader::Timer,
                ReaderOption::Wake => Reader::Wake,
            };
            let traced = Traced { tracer, reader };
            match tracer.lacks(reader) {
                Some(why) => lacking.push(format!("{} has no reader {}: {why}", tracer.name(), reader.name())),
                None if all.contains(&traced) => {}
                None => all.push(traced),
            }
        }
    }
    match (all.iter().any(|traced| traced.tracer != Tracer::None), lacking.first()) {
        (false, Some(why)) => Err(Failure::new(format!("nothing is left to measure: {why}"))),
        _ => {
            notes.extend(lacking);
            Ok(all)
        }
    }
}

/// Options that do not go together.
fn check_options(arguments: &Latency) -> Result<(), Failure> {
    let usage = |sentence: String| Err(Failure::with_status(sentence, USAGE));
    let others = [
        ("--threshold", arguments.threshold.is_some()),
        ("--fail-above", arguments.fail_above.is_some()),
        ("--histogram", arguments.histogram.is_some()),
        ("--hdr", arguments.hdr.is_some()),
        ("--hdr-log", arguments.hdr_log.is_some()),
        ("--svg", arguments.svg.is_some()),
        ("--html", arguments.html.is_some()),
    ];
    if let Some((option, _)) = others.iter().find(|(_, is_given)| *is_given) {
        return usage(format!(
            "{option} does not work with loops whose events are recorded; tracers are compared in a table"
        ));
    }
    if arguments.cpus.as_ref().is_some_and(|list| list.0.len() > 1) {
        return usage("with tracers, only one loop runs; name one CPU with --cpus".into());
    }
    if arguments.kind == LoopKind::Event {
        let loops = arguments.loops.unwrap_or(0);
        let others = [
            (
                "--payload",
                arguments.payload.is_some(),
                "whose events have a number as their only field",
            ),
            (
                "--warm-up",
                arguments.warm_up.is_some(),
                "which also counts the first event",
            ),
            ("--find-rate", arguments.find_rate, "which has one rate"),
            (
                "--duration",
                arguments.duration.is_some(),
                "which records the number of events given by --loops",
            ),
        ];
        return match others.iter().find(|(_, is_given, _)| *is_given) {
            Some((option, _, why)) => usage(format!("{option} does not work with the loop event, {why}")),
            None if loops > EVENTS_MAX => usage(format!(
                "the loop event keeps the time of each event, so --loops can be at most {EVENTS_MAX}"
            )),
            None => Ok(()),
        };
    }
    if !arguments.find_rate {
        return Ok(());
    }
    if arguments.tracer.contains(&TracerOption::None) {
        return usage("--find-rate searches for the rate of a tracer; leave none out of --tracer".into());
    }
    let limits = [
        ("--loops", arguments.loops.is_some()),
        ("--max-rate", arguments.max_rate.is_some()),
    ];
    match limits.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => usage(format!(
            "{option} does not work with --find-rate, which chooses the rates; use --duration to set the length of each trial"
        )),
        None => Ok(()),
    }
}

/// Where it is.
fn told(step: Step) -> String {
    match step {
        Step::Finding(tracer) => format!("preparing {}", tracer.name()),
        Step::Round { round, traced } => format!("round {round} of {ROUNDS}: {}", report::name(traced)),
        Step::Trial {
            number,
            traced,
            rate_hz,
        } => {
            let rate = rate_hz.map_or("as fast as possible".into(), |rate_hz| report::rate(rate_hz as f64));
            format!("{}, trial {number}: {rate}", report::name(traced))
        }
    }
}
