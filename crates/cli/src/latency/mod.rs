// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency`: measures on this machine with the loops of `piste_latency`, and shows what they found.
//!
//! - here: from arguments to a plan, waiting for the loops, Ctrl-C, exit status
//! - [`report`]: results as text; [`answer`]: as JSON; [`settings`]: the preflight as text
//! - [`live`]: the figures on a terminal while they are measured

mod answer;
mod live;
mod report;
mod settings;

use std::fs::File;
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use piste_latency::layout::{cyclictest, hgrm};
use piste_latency::preflight::{Check, check};
use piste_latency::tally::Snapshot;
use piste_latency::{Clock, ClockChoice, Loop, Measured, Plan, Policy, Running, Summary, cpus};
use piste_reason::reason;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use self::live::Live;
use crate::arguments::{ClockOption, Latency, LoopKind, PolicyChoice};
use crate::child::not_ignored;
use crate::failure::{Failure, INTERRUPTED, LATE, USAGE};
use crate::page::Page;
use crate::screen::{printable, show, tell_sentence};

/// Where /proc and /sys are.
const ROOT: &str = "/";
/// How long it measures unless something else is asked for.
const DURATION: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(1);
const THRESHOLD: Duration = Duration::from_micros(10);
/// The budget of a loop that never sleeps.
const ALWAYS: Duration = Duration::from_millis(10);
/// Between two looks for Ctrl-C, and two pictures on a terminal: seldom, because each look may disturb a loop.
const LOOK: Duration = Duration::from_millis(250);

/// What was measured, with all that a report says about it.
struct Results {
    plan: Plan,
    measured: Vec<Measured>,
    /// The values of all CPUs.
    all: Snapshot,
    checks: Vec<Check>,
    notes: Vec<String>,
    /// Ctrl-C came before the end.
    was_interrupted: bool,
    fail_above: Option<Duration>,
}

impl Results {
    fn summary(&self, values: &Snapshot) -> Summary {
        Summary::of(values, &self.plan.clock)
    }

    /// A CPU whose loop counted nothing: no limit is kept there.
    fn unmeasured(&self) -> Option<u32> {
        let has_none = |measured: &&Measured| self.summary(&measured.values).count == 0;
        self.measured.iter().find(has_none).map(|measured| measured.cpu)
    }

    /// A value above the limit, and the CPU where it was measured.
    fn above_limit(&self) -> Option<(f64, u32)> {
        let limit_ns = self.fail_above?.as_nanos() as f64;
        let worst = |measured: &Measured| (self.summary(&measured.values).max_ns, measured.cpu);
        let worst = self.measured.iter().map(worst);
        worst
            .filter(|(max_ns, _)| *max_ns > limit_ns)
            .max_by(|one, other| one.0.total_cmp(&other.0))
    }
}

/// `piste latency`; the status says whether something was above the limit.
pub(crate) fn latency(arguments: &Latency, json: bool) -> Result<(), Failure> {
    check_options(arguments, json)?;
    let cpus = match &arguments.cpus {
        Some(list) => list.0.clone(),
        None => cpus::allowed()
            .map_err(|error| Failure::new(format!("cannot find out which CPUs piste may use: {}", reason(&error))))?,
    };
    let checks = check(Path::new(ROOT), &cpus);
    if arguments.preflight {
        let page = Page::new(&arguments.page);
        return match json {
            true => page.show_json(&answer::preflight(&checks)),
            false => page.show_sentences(&settings::text(&checks)),
        };
    }
    // So that nothing is measured in vain.
    let hdr = arguments
        .hdr
        .as_deref()
        .map(|path| create(path).map(|file| (path, file)))
        .transpose()?;
    let plan = plan(arguments, cpus)?;
    let mut notes: Vec<String> = plan
        .clock
        .why_not_tsc
        .iter()
        .map(|why| format!("{why}; the loop reads CLOCK_MONOTONIC"))
        .collect();
    let interrupted = interruption()?;
    let mut running = Running::start(plan).map_err(Failure::new)?;
    notes.extend_from_slice(running.notes());
    if !json {
        notes.iter().for_each(|note| tell_sentence(note));
    }
    let is_live = !json && arguments.histogram.is_none() && stdout().is_terminal();
    let mut live = is_live.then(Live::new);
    while !running.wait(LOOK) {
        // Relaxed: nothing else is said by it.
        if interrupted.load(Ordering::Relaxed) {
            running.stop();
        }
        if let Some(live) = &mut live {
            live.show(&running)?;
        }
    }
    if let Some(live) = live {
        live.clear()?;
    }
    let plan = running.plan().clone();
    let measured = running.finish().map_err(Failure::new)?;
    let mut all = Snapshot::default();
    measured.iter().for_each(|one| all.merge(&one.values));
    let results = Results {
        plan,
        measured,
        all,
        checks,
        notes,
        was_interrupted: interrupted.load(Ordering::Relaxed),
        fail_above: arguments.fail_above,
    };
    show_results(&results, arguments, json)?;
    if let Some((path, mut file)) = hdr {
        let text = hgrm::text(&results.all, &results.plan.clock);
        file.write_all(text.as_bytes())
            .map_err(|error| cannot_write(path, &error))?;
    }
    if let Some(cpu) = results.unmeasured() {
        return Err(Failure::new(format!(
            "nothing was measured on CPU {cpu}: the loop did not complete a turn; choose a longer --duration, or a real-time --policy if other threads keep the CPU"
        )));
    }
    match results.above_limit() {
        None => Ok(()),
        Some((max_ns, cpu)) => Err(Failure::with_status(
            format!(
                "{} on CPU {cpu} is above the limit of {}",
                report::time(max_ns),
                report::time(arguments.fail_above.unwrap_or_default().as_nanos() as f64)
            ),
            LATE,
        )),
    }
}

fn show_results(results: &Results, arguments: &Latency, json: bool) -> Result<(), Failure> {
    let page = Page::new(&arguments.page);
    if json {
        return page.show_json(&answer::results(results));
    }
    if arguments.histogram.is_some() {
        let columns: Vec<cyclictest::Column> = results.measured.iter().map(|one| column(results, one)).collect();
        return show(&cyclictest::text(&columns));
    }
    page.show_sentences(&report::text(results, page.width()))
}

fn column(results: &Results, measured: &Measured) -> cyclictest::Column {
    let summary = results.summary(&measured.values);
    let us = |ns: f64| (ns / 1000.0) as u64;
    cyclictest::Column {
        histogram: measured.histogram.clone(),
        min_us: us(summary.min_ns),
        mean_us: us(summary.mean_ns),
        max_us: us(summary.max_ns),
    }
}

/// Options that do not go together.
fn check_options(arguments: &Latency, json: bool) -> Result<(), Failure> {
    let only = |option: &str, kind: &str| {
        Err(Failure::with_status(
            format!("{option} works only with the loop {kind}"),
            USAGE,
        ))
    };
    if arguments.interval.is_some() && arguments.kind != LoopKind::Timer {
        return only("--interval", "timer");
    }
    if arguments.threshold.is_some() && arguments.kind != LoopKind::Gaps {
        return only("--threshold", "gaps");
    }
    if arguments.clock != ClockOption::Auto && arguments.kind == LoopKind::Timer {
        return only("--clock", "npt or gaps; the loop timer reads CLOCK_MONOTONIC");
    }
    if json && arguments.histogram.is_some() {
        let sentence =
            "--histogram is text, and the JSON has a histogram anyway; leave one of --json and --histogram out";
        return Err(Failure::with_status(sentence, USAGE));
    }
    Ok(())
}

fn plan(arguments: &Latency, cpus: Vec<u32>) -> Result<Plan, Failure> {
    let root = Path::new(ROOT);
    let choice = match arguments.clock {
        ClockOption::Auto => ClockChoice::Auto,
        ClockOption::Tsc => ClockChoice::Tsc,
        ClockOption::Monotonic => ClockChoice::Monotonic,
    };
    let (kind, clock) = match arguments.kind {
        LoopKind::Timer => {
            let interval = arguments.interval.unwrap_or(INTERVAL);
            (Loop::Timer { interval }, Clock::MONOTONIC)
        }
        LoopKind::Npt => (Loop::Npt, Clock::choose(choice, root).map_err(Failure::new)?),
        LoopKind::Gaps => {
            let threshold = arguments.threshold.unwrap_or(THRESHOLD);
            (
                Loop::Gaps { threshold },
                Clock::choose(choice, root).map_err(Failure::new)?,
            )
        }
    };
    Ok(Plan {
        policy: policy(arguments.policy, kind),
        kind,
        cpus,
        clock,
        duration: arguments.duration.or(arguments.loops.is_none().then_some(DURATION)),
        loops: arguments.loops,
        warm_up: arguments.warm_up,
        histogram_us: arguments.histogram.unwrap_or(0) as usize,
        root: root.to_owned(),
    })
}

fn policy(choice: PolicyChoice, kind: Loop) -> Policy {
    match (choice, kind) {
        (PolicyChoice::Other, _) => Policy::Other,
        (PolicyChoice::Fifo(priority), _) => Policy::Fifo(priority),
        (PolicyChoice::RoundRobin(priority), _) => Policy::RoundRobin(priority),
        (PolicyChoice::Deadline(Some((runtime, period))), _) => Policy::Deadline { runtime, period },
        // Half of the time is more than the loop needs, and leaves the rest to other threads.
        (PolicyChoice::Deadline(None), Loop::Timer { interval }) => Policy::Deadline {
            runtime: interval / 2,
            period: interval,
        },
        (PolicyChoice::Deadline(None), _) => Policy::Deadline {
            runtime: ALWAYS,
            period: ALWAYS,
        },
    }
}

/// From now on, the first Ctrl-C or SIGTERM only sets what is returned; the second one ends piste.
fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let register = || {
        for signal in not_ignored([SIGINT, SIGTERM])? {
            flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&interrupted))?;
            flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(())
    };
    register().map_err(|error| Failure::new(format!("cannot handle signals: {}", reason(&error))))?;
    Ok(interrupted)
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.to_string_lossy();
    Failure::new(format!("cannot write {}: {}", printable(&path), reason(error)))
}
