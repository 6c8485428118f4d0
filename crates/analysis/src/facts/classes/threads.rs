// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads: who has a CPU, who wakes whom, who begins and ends.

use super::{Class, class};
use crate::facts::fact::{Fact, Fork, Left, Switch, Woken};
use crate::facts::values::Values;
use crate::names::{Name, Names};

/// Of clone(2): the new thread belongs to the process of the one that makes it.
const CLONE_THREAD: i64 = 0x1_0000;

pub(super) const SWITCH: &str = "sched_switch";

pub(super) static CLASSES: [Class; 11] = [
    class!(
        "sched_switch",
        [
            previous_tid: "prev_tid|prev_pid",
            state: "prev_state",
            raw_state: "prev_state_raw",
            previous_name: "prev_comm",
            next_tid: "next_tid|next_pid",
            next_name: "next_comm",
            next_priority: "next_prio",
            previous_priority: "prev_prio",
        ],
        |values| Fact::Switch(Switch {
            previous_tid: values.id(previous_tid)?,
            previous: left(values.number(state), values.number(raw_state)),
            previous_name: values.text(previous_name),
            next_tid: values.id(next_tid)?,
            next_name: values.text(next_name),
            next_priority: values.id(next_priority).unwrap_or(0),
            previous_priority: values.id(previous_priority),
        })
    ),
    class!("sched_waking", [tid: "tid|pid", cpu: "target_cpu"], |values| Fact::Waking(Woken {
        tid: values.id(tid)?,
        cpu: values.number(cpu).map(|cpu| cpu as u32),
    })),
    class!(
        "sched_wakeup|sched_wakeup_new",
        [tid: "tid|pid", cpu: "target_cpu"],
        |values| Fact::Wakeup(Woken {
            tid: values.id(tid)?,
            cpu: values.number(cpu).map(|cpu| cpu as u32),
        })
    ),
    class!("sched_migrate_task", [tid: "tid|pid", cpu: "dest_cpu"], |values| Fact::Migrate {
        tid: values.id(tid)?,
        cpu: values.number(cpu)? as u32,
    }),
    class!("task_newtask", [tid: "tid|pid", flags: "clone_flags"], |values| Fact::NewTask {
        tid: values.id(tid)?,
        is_thread: values.number(flags)? & CLONE_THREAD != 0,
    }),
    class!(
        "sched_process_fork",
        [
            parent_tid: "parent_tid|parent_pid",
            child_tid: "child_tid",
            child_pid: "child_pid",
            name: "child_comm",
            parent_pid: "parent_pid",
        ],
        |values| Fact::Fork(Fork {
            parent_tid: values.id(parent_tid)?,
            parent_pid: process(values.id(parent_pid)),
            // The kernel's own name of the thread's id is `child_pid`, which then is no process's.
            tid: values.id(child_tid).or(values.id(child_pid))?,
            pid: process(values.id(child_tid).and(values.id(child_pid))),
            name: values.text(name),
        })
    ),
    class!(
        "sched_process_exec",
        [tid: "tid|pid", old_tid: "old_tid|old_pid", file: "filename"],
        |values| {
            let tid = values.id(tid)?;
            Fact::Exec {
                tid,
                old_tid: values.id(old_tid).unwrap_or(tid),
                file: values.text(file),
            }
        }
    ),
    class!("sched_process_exit", [tid: "tid|pid", is_last: "group_dead"], |values| Fact::Exit {
        tid: values.id(tid)?,
        has_others: values.number(is_last) == Some(0),
    }),
    class!("sched_process_free", [tid: "tid|pid"], |values| Fact::Free { tid: values.id(tid)? }),
    class!("sched_pi_setprio", [tid: "tid|pid", priority: "newprio"], |values| Fact::Priority {
        tid: values.id(tid)?,
        priority: values.id(priority)?,
    }),
    class!("task_rename", [tid: "tid|pid", name: "newcomm"], |values| Fact::Rename {
        tid: values.id(tid)?,
        name: values.text(name),
    }),
];

/// Piste says -1 where the process cannot be known any more.
fn process(pid: Option<i32>) -> Option<i32> {
    pid.filter(|pid| *pid >= 0)
}

/// From `prev_state`, and from the kernel's own number where the tracer gives it beside.
fn left(state: Option<i64>, raw: Option<i64>) -> Left {
    match raw.or(state) {
        None | Some(0) => Left::Runnable,
        Some(state) if state & 1 != 0 => Left::Waiting,
        Some(state) if state & 2 != 0 => Left::WaitingForSure,
        Some(state) if state & (4 | 8) != 0 => Left::Stopped,
        Some(state) if state & (0x10 | 0x20) != 0 => Left::Dead,
        Some(0x40) => Left::DeadOrParked,
        // Idle, or parked as it was before.
        Some(state) if state & (0x40 | 0x80 | 0x200) != 0 => Left::Waiting,
        // 0x100 from Linux 4.14 on; before, one of the bits above it.
        Some(_) => Left::Preempted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_every_kernel_are_understood() {
        for (state, raw, expected) in [
            (Some(0), Some(0), Left::Runnable),
            (Some(0), Some(0x100), Left::Preempted),
            (Some(0x100), None, Left::Preempted),
            (Some(1), Some(1), Left::Waiting),
            (Some(2), Some(2), Left::WaitingForSure),
            (Some(2), Some(0x80), Left::Waiting),
            (Some(64), Some(0x10), Left::Dead),
            (Some(0x20), None, Left::Dead),
            (Some(4), Some(4), Left::Stopped),
            (Some(8), None, Left::Stopped),
            (Some(64), None, Left::DeadOrParked),
            (Some(512), Some(0x40), Left::DeadOrParked),
            (Some(1024), None, Left::Preempted),
            (None, None, Left::Runnable),
        ] {
            assert_eq!(left(state, raw), expected, "{state:?} {raw:?}");
        }
    }
}
