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
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::cpus;
use crate::event::LoadedEvent;
use crate::policy::Policy;
use crate::run::{Loop, Plan, Running};
use crate::spin::{Cause, Gaps};
use crate::tally::Snapshot;

/// Between two looks whether it is to end early.
const LOOK: Duration = Duration::from_millis(50);

/// What is to be measured.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
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

/// What a process answered.
///
/// # Errors
/// Why it did not measure, as a sentence without its end.
pub(super) fn parse_answer(line: &str) -> Result<Turns, String> {
    let answer: Result<Result<Turns, String>, _> = serde_json::from_str(line);
    answer.unwrap_or_else(|_| Err("the process of the loop answered what is not understood".into()))
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
        Some(request) => measure(request, &has_ended),
        None => Err("the process of the loop was asked what it does not understand".to_owned()),
    };
    let answer = serde_json::to_string(&answer).expect("it has only names as keys");
    // Whoever asked may be gone.
    let _ = writeln!(io::stdout(), "{answer}").and_then(|()| io::stdout().flush());
    // The tracer is asked first what it has of this process.
    let _ = rest.join();
}

fn measure(request: Request, has_ended: &AtomicBool) -> Result<Turns, String> {
    // The threads of the tracer's library, which it starts when it is loaded, inherit this.
    if !request.others.is_empty() {
        cpus::pin(&request.others)
            .map_err(|error| format!("cannot keep other threads away from the loop: {}", reason(&error)))?;
    }
    let event = request.library.as_deref().map(LoadedEvent::load).transpose()?;
    let plan = Plan {
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
    };
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
