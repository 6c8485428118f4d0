// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which thread has each CPU. Switches say it; but not all are there: Linux 6.18 tells none away from the idle thread of a CPU that was offline
//! once, some are lost, and some are not wanted. A thread that no switch brought has its CPU from its first event there on.

use std::collections::HashMap;

use piste_trace::select::Comm;

use crate::reader::Seen;

/// Events that only happen to whoever has the CPU. Others may still be of the thread that a switch has just taken away.
const OF_THE_THREAD: [&str; 3] = ["irq_", "sched_", "syscall_"];

/// The threads that have the CPUs, as far as they are known.
#[derive(Default)]
pub(crate) struct Cpus {
    current: HashMap<u64, Current>,
    priorities: HashMap<i64, i64>,
}

/// A thread that has a CPU; 0 is the CPU's idle thread.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) tid: i64,
    pub(crate) comm: Option<Comm>,
}

/// A CPU has another thread than was told, nobody says since when.
pub(crate) struct Arrival {
    /// Whom the last switch or arrival brought.
    pub(crate) before: Option<Current>,
    pub(crate) now: Current,
    /// As traces have it, if some event said it.
    pub(crate) priority: Option<i64>,
}

impl Cpus {
    /// Takes notice of an event of the kernel on a CPU, before it is shown.
    pub(crate) fn see(&mut self, event: &Seen<'_>, cpu: u64) -> Option<Arrival> {
        let name = &*event.class.name;
        if !OF_THE_THREAD.iter().any(|begin| name.starts_with(begin)) {
            return None;
        }
        let number = |names: [&str; 2]| names.into_iter().find_map(|name| event.number(name));
        let is_switch = name == "sched_switch";
        let (mut previous, mut next) = (None, None);
        if is_switch {
            (previous, next) = (number(["prev_tid", "prev_pid"]), number(["next_tid", "next_pid"]));
            self.learn_priority(previous, event.number("prev_prio"));
            self.learn_priority(next, event.number("next_prio"));
        } else if name.starts_with("sched_") {
            self.learn_priority(number(["tid", "pid"]), event.number("prio"));
        }
        // Not the number of a container, which is another one for the same thread.
        let own_tid = event.contexts.number(event.names, "tid");
        let now = own_tid.or(previous).map(|tid| Current {
            tid,
            comm: event.who.comm,
        });
        let after = match is_switch {
            true => next.map(|tid| Current {
                tid,
                comm: event.text("next_comm").map(Comm::new),
            }),
            false => now,
        };
        let before = match after {
            Some(after) => self.current.insert(cpu, after),
            None => self.current.get(&cpu).copied(),
        };
        let now = now?;
        // At a CPU's first switch, the thread that leaves has only been there before.
        let is_news = before.map_or(!is_switch, |before| before.tid != now.tid);
        is_news.then(|| Arrival {
            before,
            now,
            priority: self.priorities.get(&now.tid).copied(),
        })
    }

    fn learn_priority(&mut self, tid: Option<i64>, priority: Option<i64>) {
        self.priorities.extend(tid.zip(priority));
    }
}
