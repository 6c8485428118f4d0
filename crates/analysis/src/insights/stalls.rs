// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event loops that computed for a long time before they waited for events again: such a thread serves many, and all of them wait meanwhile.
//! Threads that were blocked in between, by a disk or a lock, are not reported here.

use rustc_hash::FxHashMap;

use super::occurrences::{LONGEST, Occurrences};
use super::{Closer, Detector, Insight, Level};
use crate::analyses::named;
use crate::analyses::totals::PerThread;
use crate::measure::Distribution;
use crate::model::{Call, Listen, Mode, Slice, State, System, ThreadId};
use crate::names::Name;
use crate::report::{Unit, Value, column};

/// People notice a tenth of a second, and the loop is only one of the things that they wait for.
const LONG_NS: i64 = 50_000_000;
/// A stall takes so many times as long as the median turn.
const TIMES: i64 = 10;
/// With fewer turns, nobody knows what is usual.
const ENOUGH: u64 = 50;
/// In a stall, the thread has a CPU for at least this share of the turn.
const SHARE_PERCENT: i64 = 50;
/// System calls that wait for any of several events.
const WAIT_FOR_MANY: [&str; 11] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait_old",
    "poll",
    "ppoll",
    "ppoll_time32",
    "select",
    "pselect6",
    "pselect6_time32",
    "_newselect",
];

#[derive(Default)]
pub(super) struct Stalls {
    /// Whether a system call is one of [`WAIT_FOR_MANY`].
    calls: FxHashMap<Name, bool>,
    /// How long each thread has had a CPU so far.
    ran_ns: PerThread<i64>,
    /// Of threads that make such calls.
    loops: FxHashMap<ThreadId, Loop>,
}

/// What is known of a thread that may be an event loop.
#[derive(Default)]
struct Loop {
    /// When the current turn began, with the return of a call that reported events.
    since_ns: Option<i64>,
    /// How long it had had a CPU by then.
    ran_before_ns: i64,
    turns: Distribution,
    stalls: Occurrences,
}

impl Listen for Stalls {
    #[inline]
    fn slice(&mut self, _: &System, slice: &Slice) {
        if let State::Running { mode, .. } = slice.state
            && !matches!(mode, Mode::Idle | Mode::Interrupt(_))
        {
            *self.ran_ns.of(slice.thread) += slice.duration_ns();
        }
    }

    #[inline]
    fn call(&mut self, system: &System, call: &Call) {
        let is_meant = self.calls.entry(call.name).or_insert_with(|| {
            let name = system.names.text(call.name);
            WAIT_FOR_MANY.contains(&name.strip_prefix("compat_").unwrap_or(name))
        });
        if !*is_meant {
            return;
        }
        let ran_ns = *self.ran_ns.of(call.thread);
        let own = self.loops.entry(call.thread).or_default();
        if let Some(since_ns) = own.since_ns {
            let turn_ns = call.begin_ns - since_ns;
            own.turns.add(turn_ns);
            if turn_ns >= LONG_NS && ran_ns - own.ran_before_ns >= turn_ns / 100 * SHARE_PERCENT {
                own.stalls.add((since_ns, call.begin_ns), turn_ns);
            }
        }
        own.since_ns = (call.result > 0).then_some(call.end_ns);
        own.ran_before_ns = ran_ns;
    }
}

impl Detector for Stalls {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let mut found = Vec::new();
        for (id, own) in &self.loops {
            let usual = own.turns.percentile(50.0);
            let is_unusual = matches!(usual, Value::Number(ns) if own.stalls.times.max_ns >= TIMES * ns);
            if own.turns.times.count >= ENOUGH && own.stalls.times.count > 0 && is_unusual {
                found.push(insight(system, *id, own, usual));
            }
        }
        found
    }
}

fn insight(system: &System, id: ThreadId, own: &Loop, usual: Value) -> Insight {
    let mut evidence = own.stalls.evidence();
    evidence.truncate(2);
    evidence.extend([
        (LONGEST, Value::Number(own.stalls.times.max_ns)),
        (column("p50_ns", "usually", Unit::Nanoseconds), usual),
        (column("turns", "turn", Unit::Count), own.turns.times.count.into()),
    ]);
    Insight {
        kind: "event loop stall",
        level: Level::Notable,
        what: format!(
            "{} ran for a long time before it waited for events again, and everything that it serves had to wait",
            named(system, id)
        ),
        span_ns: own.stalls.span_ns,
        longest_ns: Some(own.stalls.longest_ns),
        cost_ns: own.stalls.times.total_ns,
        evidence,
        closer: Closer::new("ltt")
            .with("--tid", system.thread(id).tid)
            .during(own.stalls.longest_ns),
    }
}
