// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads and devices a thread's time depends on: its critical path. graph.rs keeps what threads did, walk.rs finds the way through
//! it.

pub mod delay;
mod graph;
#[cfg(test)]
#[path = "../../../tests/unit/analyses/critical_path/tests.rs"]
mod tests;
mod walk;

use std::collections::BTreeMap;

use self::graph::{Deed, Graph, Waiting};
use self::walk::{Segment, walk};
use super::{COMM, COUNT, LIMIT, LOG_LIMIT, PID, SWITCHES, TID, TOTAL, WAKEUPS, comm, named, pid, tid};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::cause::Cause;
use crate::model::{Listen, Nature, Slice, System, ThreadId};
use crate::report::{Report, Table, Unit, Value, column, counted};

pub(super) static CRITICAL_PATH: Description = Description {
    name: "critical-path",
    about: "which threads and devices a thread's time depends on, across all waits",
    tables: &["causes", "threads", "behind", "path"],
    needs: &[
        SWITCHES,
        Need {
            is_essential: true,
            ..WAKEUPS
        },
        super::CALLS,
        super::INTERRUPTS,
    ],
    begin: |options| Box::new(CriticalPath::new(options)),
};

struct CriticalPath {
    options: Options,
    graph: Graph,
}

impl CriticalPath {
    fn new(options: &Options) -> CriticalPath {
        CriticalPath {
            options: options.clone(),
            graph: Graph::default(),
        }
    }

    /// The thread that is meant. Where several could be: the first one of a process that was named; of a trace of some threads, the one that
    /// was there longest, which began the others; else the one that had a CPU longest.
    fn choose(&self, system: &System) -> Option<ThreadId> {
        let is_meant = |id: &ThreadId| {
            let nature = system.thread(*id).nature;
            let is_named = !self.options.who.tids.is_empty();
            nature != Nature::Idle && (nature != Nature::Kernel || is_named) && self.options.who.wants(system, *id)
        };
        let candidates = system.threads().map(|(id, _)| id).filter(is_meant);
        candidates
            .map(|id| (self.weight(system, id), id))
            .filter(|((_, known_ns, _), _)| *known_ns > 0)
            .max_by_key(|(weight, id)| (*weight, std::cmp::Reverse(*id)))
            .map(|(_, id)| id)
    }

    fn weight(&self, system: &System, id: ThreadId) -> (bool, i64, i64) {
        let thread = system.thread(id);
        let is_first = !self.options.who.pids.is_empty() && thread.leads();
        let (mut known_ns, mut on_cpu_ns) = (0, 0);
        for step in self.graph.steps(id) {
            let ns = step.end_ns - step.begin_ns;
            match step.deed {
                Deed::Unknown | Deed::Absent => {}
                Deed::Running | Deed::Interrupted(_) => {
                    known_ns += ns;
                    on_cpu_ns += ns;
                }
                _ => known_ns += ns,
            }
        }
        match system.circumstances().is_partial {
            true => (is_first, known_ns, on_cpu_ns),
            false => (is_first, on_cpu_ns.max(known_ns.min(1)), known_ns),
        }
    }

    /// From a thread's begin to its end, as far as they are told.
    fn life(&self, thread: ThreadId) -> (i64, i64) {
        let mut there = self.graph.steps(thread).filter(|step| step.deed != Deed::Absent);
        let first = there.next();
        let last = there.last().or(first);
        first
            .zip(last)
            .map_or((0, 0), |(first, last)| (first.begin_ns, last.end_ns))
    }
}

impl Listen for CriticalPath {
    fn looks_ahead(&self) -> bool {
        true
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        self.graph.add(system, slice);
    }

    fn born(&mut self, _: &System, thread: ThreadId, parent: Option<ThreadId>, _: i64) {
        self.graph.add_birth(thread, parent);
    }
}

impl Analysis for CriticalPath {
    fn report(&mut self, system: &System) -> Report {
        let mut notes = Vec::new();
        let chosen = self.choose(system);
        let path = chosen.map_or(Vec::new(), |thread| walk(&self.graph, thread, self.life(thread)));
        match chosen {
            None => notes.push("the trace has no such thread".to_owned()),
            Some(thread) if self.options.who.tids.is_empty() => notes.push(format!(
                "this is the path of {}; choose another thread with --tid",
                named(system, thread)
            )),
            Some(_) => {}
        }
        let whose = chosen.map_or(String::new(), |thread| format!(" of {}", named(system, thread)));
        let limit = self.options.limit;
        let causes = causes(system, &path, &whose);
        let threads = threads(system, &path, limit.unwrap_or(LIMIT));
        let occupants = occupants(system, &path, limit.unwrap_or(LIMIT));
        let segments = self.segments(system, &path);
        Report {
            tables: vec![causes, threads, occupants, segments],
            notes,
        }
    }
}

impl CriticalPath {
    fn segments(&self, system: &System, path: &[Segment]) -> Table {
        let columns = [
            column("begin_ns", "BEGIN", Unit::Moment),
            column("duration_ns", "DURATION", Unit::Nanoseconds).major(),
            column("share_percent", "SHARE %", Unit::Percent).minor().with_bar(),
            column("depth", "DEPTH", Unit::Count).minor(),
            TID.minor(),
            PID.minor(),
            COMM,
            column("state", "STATE", Unit::Text).major(),
            column("cause", "FOR", Unit::Text),
            column("syscall", "SYSCALL", Unit::Text),
            column("by", "BY", Unit::Text),
            column("wait", "DURING WAIT FOR", Unit::Text).minor(),
            column("wait_syscall", "IN", Unit::Text).minor(),
        ];
        let mut table = Table::new("path", "Segments of the path", &columns);
        table.excerpt_by = Some("duration_ns");
        let all_ns = duration(path);
        let limit = self.options.limit.unwrap_or(LOG_LIMIT);
        let mut left = 0_u64;
        let is_wanted = |segment: &&Segment| self.options.wants_ns(segment.end_ns - segment.begin_ns);
        for segment in path.iter().filter(is_wanted) {
            if table.rows.len() >= limit {
                left += 1;
                continue;
            }
            let ns = segment.end_ns - segment.begin_ns;
            let call = |waiting: Option<Waiting>| -> Value {
                let call = waiting.and_then(|waiting| waiting.call);
                call.map_or(Value::None, |call| system.names.text(call).into())
            };
            let outer = segment.wait.filter(|_| segment.depth > 0);
            table.row([
                Value::Number(segment.begin_ns),
                Value::Number(ns),
                Value::share(ns, all_ns),
                Value::Number(segment.depth.into()),
                tid(system, segment.thread),
                pid(system, segment.thread),
                comm(system, segment.thread),
                state(segment.deed).into(),
                cause(segment.deed).map_or(Value::None, |cause| cause.text().into()),
                call(waiting(segment.deed)),
                by(system, segment),
                outer.map_or(Value::None, |outer| outer.cause.text().into()),
                call(outer),
            ]);
        }
        table.notes.extend(counted(
            left,
            "more segment is not shown; choose others with --limit, --min and --begin",
            "more segments are not shown; choose others with --limit, --min and --begin",
        ));
        table
    }
}

/// What segments have in common that are summed up.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'s> {
    state: &'static str,
    cause: Option<Cause>,
    call: Option<&'s str>,
    by: Option<String>,
}

/// What the path consists of.
fn causes(system: &System, path: &[Segment], whose: &str) -> Table {
    let columns = [
        column("state", "STATE", Unit::Text).major(),
        column("cause", "FOR", Unit::Text).major(),
        column("syscall", "IN", Unit::Text),
        column("by", "BY", Unit::Text),
        COUNT.minor(),
        TOTAL.major(),
        column("share_percent", "SHARE %", Unit::Percent).with_bar(),
    ];
    let mut sums: BTreeMap<Kind<'_>, (u64, i64)> = BTreeMap::new();
    for segment in path {
        let call = waiting(segment.deed).and_then(|waiting| waiting.call);
        let kind = Kind {
            state: state(segment.deed),
            cause: cause(segment.deed),
            call: call.map(|call| system.names.text(call)),
            by: match by(system, segment) {
                Value::Text(text) if !is_for_cpu(segment) => Some(text),
                _ => None,
            },
        };
        let (count, ns) = sums.entry(kind).or_default();
        *count += 1;
        *ns += segment.end_ns - segment.begin_ns;
    }
    let mut table = Table::new("causes", format!("The critical path{whose}, by cause"), &columns);
    let all_ns = duration(path);
    for (kind, (count, ns)) in sums {
        table.row([
            kind.state.into(),
            kind.cause.map_or(Value::None, |cause| cause.text().into()),
            kind.call.map_or(Value::None, Value::from),
            kind.by.map_or(Value::None, Value::from),
            count.into(),
            Value::Number(ns),
            Value::share(ns, all_ns),
        ]);
    }
    table.sort_by("total_ns");
    table
}

/// Who is on the path.
fn threads(system: &System, path: &[Segment], limit: usize) -> Table {
    let columns = [
        TID,
        PID.minor(),
        COMM,
        TOTAL.major(),
        column("share_percent", "SHARE %", Unit::Percent).with_bar(),
        column("running_ns", "RUNNING", Unit::Nanoseconds),
        column("interrupted_ns", "INTERRUPTED", Unit::Nanoseconds).minor(),
        column("runnable_ns", "RUNNABLE", Unit::Nanoseconds),
        column("preempted_ns", "PREEMPTED", Unit::Nanoseconds),
        column("blocked_ns", "BLOCKED", Unit::Nanoseconds),
        column("unknown_ns", "UNKNOWN", Unit::Nanoseconds),
    ];
    let mut sums: BTreeMap<ThreadId, [i64; 6]> = BTreeMap::new();
    for segment in path {
        let place = match segment.deed {
            Deed::Running => 0,
            Deed::Interrupted(_) => 1,
            Deed::Runnable => 2,
            Deed::Preempted => 3,
            Deed::Blocked(_) | Deed::Stopped(_) => 4,
            Deed::Unknown | Deed::Absent => 5,
        };
        sums.entry(segment.thread).or_default()[place] += segment.end_ns - segment.begin_ns;
    }
    let mut table = Table::new("threads", "By thread", &columns);
    for (thread, parts) in sums {
        let ns = parts.iter().sum();
        let mut row = vec![
            tid(system, thread),
            pid(system, thread),
            comm(system, thread),
            Value::Number(ns),
            Value::share(ns, duration(path)),
        ];
        row.extend(parts.map(Value::Number));
        table.row(row);
    }
    table.sort_by("total_ns");
    table.rows.truncate(limit);
    table
}

/// Waits for a CPU, which another thread had.
fn is_for_cpu(segment: &Segment) -> bool {
    matches!(segment.deed, Deed::Runnable | Deed::Preempted)
}

/// Who had the CPUs that the path waited for.
fn occupants(system: &System, path: &[Segment], limit: usize) -> Table {
    let columns = [
        TID,
        PID.minor(),
        COMM,
        COUNT,
        TOTAL.major(),
        column("share_percent", "SHARE %", Unit::Percent).with_bar(),
    ];
    let mut sums: BTreeMap<ThreadId, (u64, i64)> = BTreeMap::new();
    for segment in path.iter().filter(|segment| is_for_cpu(segment)) {
        if let Some(occupant) = segment.by {
            let (count, ns) = sums.entry(occupant).or_default();
            *count += 1;
            *ns += segment.end_ns - segment.begin_ns;
        }
    }
    let mut table = Table::new("behind", "Who had the CPU while the path waited for one", &columns);
    for (occupant, (count, ns)) in sums {
        table.row([
            tid(system, occupant),
            pid(system, occupant),
            comm(system, occupant),
            count.into(),
            Value::Number(ns),
            Value::share(ns, duration(path)),
        ]);
    }
    table.sort_by("total_ns");
    table.rows.truncate(limit);
    table
}

fn duration(path: &[Segment]) -> i64 {
    path.first()
        .zip(path.last())
        .map_or(0, |(first, last)| last.end_ns - first.begin_ns)
}

fn state(deed: Deed) -> &'static str {
    match deed {
        Deed::Unknown | Deed::Absent => "unknown",
        Deed::Running => "running",
        Deed::Interrupted(_) => "interrupted",
        Deed::Runnable => "runnable",
        Deed::Preempted => "preempted",
        Deed::Blocked(_) => "blocked",
        Deed::Stopped(_) => "stopped",
    }
}

fn waiting(deed: Deed) -> Option<Waiting> {
    match deed {
        Deed::Blocked(waiting) | Deed::Stopped(waiting) => Some(waiting),
        _ => None,
    }
}

fn cause(deed: Deed) -> Option<Cause> {
    waiting(deed).map(|waiting| waiting.cause)
}

/// The interrupt or the thread that had the CPU, or what ended the wait.
fn by(system: &System, segment: &Segment) -> Value {
    let interrupt = match segment.deed {
        Deed::Interrupted(interrupt) => Some(interrupt),
        deed => waiting(deed).and_then(|waiting| waiting.interrupt),
    };
    let completed = waiting(segment.deed).and_then(|waiting| waiting.completed);
    match (interrupt, segment.by) {
        (Some(interrupt), _) => {
            let mut text = super::irq::interrupt_name(system, interrupt);
            if let Some(device) = completed.and_then(|completed| completed.device) {
                text += &format!(": {}", system.device_name(device));
            }
            // What a program wrote long ago, a thread of the kernel asks for.
            if let Some(asked_by) = completed.and_then(|completed| completed.asked_by)
                && asked_by != segment.thread
            {
                text += &format!(" for {}", named(system, asked_by));
            }
            text.into()
        }
        (None, Some(thread)) => named(system, thread).into(),
        (None, None) => Value::None,
    }
}
