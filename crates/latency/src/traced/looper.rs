// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process in which the loop runs while a tracer records its events. It has the environment of that tracer, so it is a process of its own, of the
//! same program. It is asked with a line of JSON on its standard input, and answers with one on its standard output.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use piste_reason::reason;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, ClockKind, Counter, Monotonic};
use crate::cpus;
use crate::event::{Event, LoadedEvent, NoEvent};
use crate::pace::Paced;
use crate::policy::Policy;
use crate::preflight::is_virtual;
use crate::run::{Loop, Plan, Running, lock_memory, place};
use crate::single::{Limits, MeasuredCpu, Samples, Single};
use crate::spin::{Cause, Gaps, look_above};
use crate::system::thread_counters;
use crate::tally::Snapshot;
use crate::witness::Witness;

/// Between two looks whether it is to end early.
const LOOK: Duration = Duration::from_millis(50);

/// Which loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Measure {
    /// The tight loop with an event in each turn.
    Turns,
    /// Events one at a time.
    Singles(Asked),
}

/// Which single events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// How many.
    pub(super) events: usize,
    /// How many start a second, at most.
    pub(super) rate_hz: u64,
    /// After so many, the thread moves to another CPU for one event.
    pub(super) move_every: usize,
    /// Whether all memory is locked before the event is loaded.
    pub(super) locks_memory: bool,
}

/// What is to be measured.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) measure: Measure,
    /// What has the event; none is recorded without.
    pub(super) library: Option<PathBuf>,
    pub(super) cpu: u32,
    /// The CPUs for all threads but the loop's.
    pub(super) others: Vec<u32>,
    pub(super) policy: Policy,
    pub(super) clock: Clock,
    pub(super) loops: Option<u64>,
    pub(super) duration: Option<Duration>,
    pub(super) warm_up: u32,
    pub(super) max_rate_hz: Option<u64>,
    /// Whether long gaps are explained, which takes time in which no event is recorded.
    pub(super) explains: bool,
    pub(super) join: Vec<PathBuf>,
    pub(super) root: PathBuf,
}

impl Request {
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).expect("it has only names as keys")
    }
}

/// What was measured.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Turns {
    pub(super) values: Snapshot,
    pub(super) duration: Duration,
    pub(super) blind: Duration,
    pub(super) by_cause: [Gaps; Cause::ALL.len()],
    pub(super) looked_from: u64,
    pub(super) interrupts_counted: bool,
    /// Events of all turns, also of those that are not counted.
    pub(super) events: u64,
    pub(super) notes: Vec<String>,
}

/// What was measured of single events.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Singles {
    pub(super) samples: Samples,
    pub(super) interrupts_counted: bool,
    /// Why memory is not locked although it was to be.
    pub(super) why_not_locked: Option<String>,
}

/// What a process can answer.
pub(super) trait Answer: DeserializeOwned {
    /// How many events it recorded.
    fn events(&self) -> u64;
}

impl Answer for Turns {
    fn events(&self) -> u64 {
        self.events
    }
}

impl Answer for Singles {
    fn events(&self) -> u64 {
        self.samples.ticks.len() as u64
    }
}

/// What a process answered.
///
/// # Errors
/// Why it did not measure, as a sentence without its end.
pub(super) fn parse_answer<A: Answer>(line: &str) -> Result<A, String> {
    let answer: Result<Result<A, String>, _> = serde_json::from_str(line);
    answer.unwrap_or_else(|_| Err("cannot parse the answer of the loop's process".into()))
}

/// Answers a request, and returns when standard input has ended. If that is before the loop has, the answer is what it has measured by then.
pub fn serve() {
    let mut line = String::new();
    let request = io::stdin().read_line(&mut line).ok();
    let request = request.and_then(|_| serde_json::from_str::<Request>(&line).ok());
    let has_ended = Arc::new(AtomicBool::new(false));
    let of_thread = Arc::clone(&has_ended);
    let rest = thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        // Relaxed: nothing else is said by it.
        of_thread.store(true, Relaxed);
    });
    let answer = match request {
        Some(request) => match request.measure {
            Measure::Turns => line_of(&turns(request, &has_ended)),
            Measure::Singles(asked) => line_of(&singles(request, asked, &has_ended)),
        },
        None => line_of(&Err::<(), _>("the loop's process cannot parse the request")),
    };
    // Whoever asked may be gone.
    let _ = writeln!(io::stdout(), "{answer}").and_then(|()| io::stdout().flush());
    // The tracer is asked first what it has of this process.
    let _ = rest.join();
}

fn line_of<A: Serialize, E: Serialize>(answer: &Result<A, E>) -> String {
    serde_json::to_string(answer).expect("it has only names as keys")
}

/// Keeps all threads but the loop's away from it, also those of the tracer's library, which it starts when it is loaded, and loads that.
fn prepare(request: &Request) -> Result<Option<LoadedEvent>, String> {
    if !request.others.is_empty() {
        cpus::pin(&request.others)
            .map_err(|error| format!("cannot keep other threads away from the loop: {}", reason(&error)))?;
    }
    request.library.as_deref().map(LoadedEvent::load).transpose()
}

fn turns(request: Request, has_ended: &AtomicBool) -> Result<Turns, String> {
    let event = prepare(&request)?;
    let plan = plan(request, event);
    let mut running = Running::start(plan).map_err(|error| error.to_string())?;
    let notes = running.notes().to_vec();
    while !running.wait(LOOK) {
        // Relaxed: nothing else is said by it.
        if has_ended.load(Relaxed) {
            running.stop();
        }
    }
    let measured = running.finish().map_err(|error| error.to_string())?;
    let one = measured.into_iter().next().ok_or("there was no loop")?;
    Ok(Turns {
        values: one.values,
        duration: one.duration,
        blind: one.blind,
        by_cause: one.by_cause,
        looked_from: one.looked_from,
        interrupts_counted: !one.interrupt_names.is_empty(),
        events: one.events,
        notes,
    })
}

fn plan(request: Request, event: Option<LoadedEvent>) -> Plan {
    Plan {
        kind: Loop::Npt,
        cpus: vec![request.cpu],
        policy: request.policy,
        clock: request.clock,
        duration: request.duration,
        loops: request.loops,
        warm_up: request.warm_up,
        event,
        max_rate_hz: request.max_rate_hz,
        explains: request.explains,
        limit: None,
        histogram_us: 0,
        join: request.join,
        root: request.root,
    }
}

fn singles(request: Request, asked: Asked, has_ended: &AtomicBool) -> Result<Singles, String> {
    // Before the tracer maps its rings, which are then in memory from the beginning.
    let why_not_locked = match asked.locks_memory {
        true => lock_memory().err(),
        false => None,
    };
    let event = prepare(&request)?;
    // Nothing leaves an isolated CPU, and the kernel moves no thread with deadlines.
    let stays = !request.join.is_empty() || matches!(request.policy, Policy::Deadline { .. });
    let away = request.others.first().copied().filter(|_| !stays);
    let plan = plan(request, event);
    let samples = thread::scope(|scope| {
        let measure = || {
            place(&plan, plan.cpus[0], plan.policy).map_err(|error| error.to_string())?;
            let one_after_another = OneAfterAnother {
                plan: &plan,
                away,
                asked,
                stop: has_ended,
            };
            match plan.clock.kind {
                #[cfg(target_arch = "x86_64")]
                ClockKind::Tsc => one_after_another.run(&mut crate::tsc::Tsc),
                _ => one_after_another.run(&mut Monotonic),
            }
        };
        let thread = thread::Builder::new().name(format!("latency/{}", plan.cpus[0]));
        let thread = thread
            .spawn_scoped(scope, measure)
            .map_err(|error| format!("cannot start the loop: {}", reason(&error)))?;
        thread.join().expect("the loop does not panic")
    });
    samples.map(|(samples, interrupts_counted)| Singles {
        samples,
        interrupts_counted,
        why_not_locked,
    })
}

/// Single events of a plan.
struct OneAfterAnother<'p> {
    plan: &'p Plan,
    /// Where the thread moves to.
    away: Option<u32>,
    asked: Asked,
    stop: &'p AtomicBool,
}

impl OneAfterAnother<'_> {
    fn run(&self, counter: &mut impl Counter) -> Result<(Samples, bool), String> {
        match self.plan.event {
            None => self.run_with(counter, &mut NoEvent),
            Some(event) => self.run_with(counter, &mut event.recorded()),
        }
    }

    fn run_with(&self, counter: &mut impl Counter, event: &mut impl Event) -> Result<(Samples, bool), String> {
        let plan = self.plan;
        let is_virtual = is_virtual(&plan.root);
        let measured_cpu = |cpu| MeasuredCpu {
            cpu,
            watch: Witness::new(cpu, &plan.root, is_virtual),
        };
        let cpus = plan.cpus.iter().copied().chain(self.away);
        let mut cpus: Vec<MeasuredCpu<Witness>> = cpus.map(measured_cpu).collect();
        let look_above = look_above(counter, &plan.clock);
        let limits = Limits {
            events: self.asked.events,
            look_above,
            move_every: self.asked.move_every,
        };
        let mut single = Single {
            clock: &plan.clock,
            counter,
            event,
            pace: &mut Paced::new(self.asked.rate_hz, &plan.clock, look_above),
            cpus: &mut cpus,
            faults: || thread_counters().page_faults,
            go: |cpu| cpus::pin(&[cpu]),
            stop: self.stop,
        };
        let samples = single.run(&limits, Samples::with_room(self.asked.events));
        let samples = samples.map_err(|error| format!("cannot move the loop to another CPU: {}", reason(&error)))?;
        let interrupts_counted = cpus.iter().all(|one| !one.watch.interrupt_names().is_empty());
        Ok((samples, interrupts_counted))
    }
}
