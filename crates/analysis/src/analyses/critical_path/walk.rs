// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way back from the end of a thread: through what it did itself, and through every wait over to who ended it, for as long as the wait
//! lasted. What that thread waited for in the meantime is treated likewise.
//!
//! The segments fill the thread's time without a hole. The idea is that of F. Giraldeau and M. Dagenais, "Wait Analysis of Distributed
//! Systems Using Kernel Tracing" (IEEE TPDS, 2016).

use super::graph::{Deed, Graph, Step, Waiting};
use crate::model::ThreadId;

/// A part of a critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Who was the one that mattered.
    pub(super) thread: ThreadId,
    /// What it did. A wait is here only if nobody knows the thread that ended it.
    pub(super) deed: Deed,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    /// Of a wait: the thread that ended it, which could not be followed; of one for a CPU: the thread that had the CPU longest meanwhile.
    pub(super) by: Option<ThreadId>,
    /// So many waits lie between this thread and the one whose path it is.
    pub(super) depth: u32,
    /// What the one whose path it is waited for meanwhile.
    pub(super) wait: Option<Waiting>,
}

/// A thread on the way, below those that wait for it.
struct Level {
    thread: ThreadId,
    /// The wait above it began here.
    since_ns: i64,
    /// Where the way came to it.
    entered_ns: i64,
}

/// The path of a thread through a part of time in which it is there, in the order of time.
pub(super) fn walk(graph: &Graph, thread: ThreadId, (begin_ns, end_ns): (i64, i64)) -> Vec<Segment> {
    let mut levels = vec![Level {
        thread,
        since_ns: begin_ns,
        entered_ns: end_ns,
    }];
    let mut path = Vec::new();
    let mut wait = None;
    let mut now_ns = end_ns;
    while now_ns > begin_ns {
        // Before a wait, the one who waited is the one that matters. Waits lie in each other.
        levels.truncate(levels.partition_point(|level| level.since_ns < now_ns));
        let depth = levels.len() as u32 - 1;
        let level = levels.last_mut().expect("the first began before");
        let step = graph.before(level.thread, now_ns).unwrap_or(Step {
            deed: Deed::Unknown,
            begin_ns: level.since_ns,
            end_ns: now_ns,
            by: None,
        });
        let since_ns = step.begin_ns.max(level.since_ns);
        if step.deed == Deed::Absent
            && let Some(parent) = graph.parent(level.thread)
            && is_there(graph, parent, now_ns)
        {
            level.thread = parent;
            continue;
        }
        let waiting = match step.deed {
            Deed::Blocked(waiting) | Deed::Stopped(waiting) => Some(waiting),
            _ => None,
        };
        if depth == 0 {
            wait = waiting;
        }
        if waiting.is_some()
            && let Some(waker) = step.by
            && can_follow(graph, &levels, waker, now_ns)
        {
            levels.push(Level {
                thread: waker,
                since_ns,
                entered_ns: now_ns,
            });
            continue;
        }
        path.push(Segment {
            thread: levels.last().expect("there is one").thread,
            deed: match step.deed {
                // Nobody says who did its work before it began.
                Deed::Absent => Deed::Unknown,
                deed => deed,
            },
            begin_ns: since_ns,
            end_ns: now_ns,
            by: step.by,
            depth,
            wait,
        });
        now_ns = since_ns;
    }
    path.reverse();
    path
}

fn is_there(graph: &Graph, thread: ThreadId, ns: i64) -> bool {
    graph.before(thread, ns).is_some_and(|step| step.deed != Deed::Absent)
}

/// Who waited itself at that time cannot have ended a wait: the trace contradicts itself. Where times are coarse, it may just have begun to run.
fn can_follow(graph: &Graph, levels: &[Level], waker: ThreadId, ns: i64) -> bool {
    let is_free = graph.before(waker, ns).is_some_and(|step| match step.deed {
        Deed::Blocked(_) | Deed::Stopped(_) => step.end_ns == ns,
        Deed::Absent => false,
        _ => true,
    });
    let is_circle = levels
        .iter()
        .any(|level| level.thread == waker && level.entered_ns == ns);
    is_free && !is_circle
}
