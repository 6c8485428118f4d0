// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which classes of events say what, and in which fields: the names of Linux kernel traces, with the spellings that tracers and their
//! versions have given them.

use crate::names::{Name, Names};

/// What events of a class say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing that is looked at here.
    Other,
    Switch,
    Waking,
    Wakeup,
    Fork,
    Exec,
    Exit,
    Free,
    Rename,
    CallEntry(Name),
    /// The name is absent in traces that do not say it.
    CallExit(Option<Name>),
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    SoftirqRaise,
    /// What the CPU calls its own, by name.
    VectorEntry(Name),
    VectorExit(Name),
    TimerEntry,
    TimerExit,
    DumpedThread,
    DumpedProcess,
}

/// Names of classes, what they say, and the fields that are asked for, in the order in which facts.rs takes them.
const CLASSES: [(&str, Kind, &[&str]); 18] = [
    (
        "sched_switch",
        Kind::Switch,
        &[
            "prev_tid|prev_pid",
            "prev_state",
            "prev_state_raw",
            "prev_comm",
            "next_tid|next_pid",
            "next_comm",
            "next_prio",
        ],
    ),
    ("sched_waking", Kind::Waking, &["tid|pid", "target_cpu"]),
    (
        "sched_wakeup|sched_wakeup_new",
        Kind::Wakeup,
        &["tid|pid", "target_cpu"],
    ),
    (
        "sched_process_fork",
        Kind::Fork,
        &[
            "parent_tid|parent_pid",
            "child_tid",
            "child_pid",
            "child_comm",
            "parent_pid",
        ],
    ),
    (
        "sched_process_exec",
        Kind::Exec,
        &["tid|pid", "old_tid|old_pid", "filename"],
    ),
    ("sched_process_exit", Kind::Exit, &["tid|pid", "group_dead"]),
    ("sched_process_free", Kind::Free, &["tid|pid"]),
    ("task_rename", Kind::Rename, &["tid|pid", "newcomm"]),
    ("exit_syscall", Kind::CallExit(None), &["ret"]),
    ("irq_handler_entry", Kind::IrqEntry, &["irq", "name"]),
    ("irq_handler_exit", Kind::IrqExit, &["irq"]),
    ("irq_softirq_entry|softirq_entry", Kind::SoftirqEntry, &["vec"]),
    ("irq_softirq_exit|softirq_exit", Kind::SoftirqExit, &["vec"]),
    ("irq_softirq_raise|softirq_raise", Kind::SoftirqRaise, &["vec"]),
    ("timer_hrtimer_expire_entry|hrtimer_expire_entry", Kind::TimerEntry, &[]),
    ("timer_hrtimer_expire_exit|hrtimer_expire_exit", Kind::TimerExit, &[]),
    (
        "lttng_statedump_process_state",
        Kind::DumpedThread,
        &["tid", "pid", "ppid", "name", "type", "status", "uid", "cpu", "ns_inum"],
    ),
    (
        "lttng_statedump_process",
        Kind::DumpedProcess,
        &["pid", "cmdline", "cgroup"],
    ),
];

/// What events of a class say, and in which fields.
pub(super) fn of(class: &str, names: &mut Names) -> (Kind, &'static [&'static str]) {
    if let Some((_, kind, fields)) = CLASSES
        .iter()
        .find(|(spellings, ..)| spellings.split('|').any(|spelling| spelling == class))
    {
        return (*kind, fields);
    }
    let mut name = |name: &str| names.keep(name.as_bytes());
    if let Some(call) = class.strip_prefix("syscall_entry_") {
        return (Kind::CallEntry(name(call)), &["fd|fildes", "count|len|vlen"]);
    }
    if let Some(call) = class.strip_prefix("syscall_exit_") {
        return (Kind::CallExit(Some(name(call))), &["ret"]);
    }
    if let Some(call) = class.strip_prefix("compat_syscall_entry_") {
        return (
            Kind::CallEntry(name(&format!("compat_{call}"))),
            &["fd|fildes", "count|len|vlen"],
        );
    }
    if let Some(call) = class.strip_prefix("compat_syscall_exit_") {
        return (Kind::CallExit(Some(name(&format!("compat_{call}")))), &["ret"]);
    }
    let vector = class.strip_prefix("x86_").unwrap_or(class).strip_prefix("irq_vectors_");
    if let Some(vector) = vector.and_then(|vector| vector.strip_suffix("_entry")) {
        return (Kind::VectorEntry(name(vector)), &["vector"]);
    }
    if let Some(vector) = vector.and_then(|vector| vector.strip_suffix("_exit")) {
        return (Kind::VectorExit(name(vector)), &["vector"]);
    }
    // Tracers of old, whose entries had the names of the kernel's functions.
    if let Some(call) = class.strip_prefix("sys_") {
        return (Kind::CallEntry(name(call)), &["fd", "count"]);
    }
    (Kind::Other, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_known_by_every_spelling() {
        let mut names = Names::default();
        let (read, local_timer) = (names.keep(b"read"), names.keep(b"local_timer"));
        for (class, kind) in [
            ("sched_switch", Kind::Switch),
            ("softirq_entry", Kind::SoftirqEntry),
            ("irq_softirq_entry", Kind::SoftirqEntry),
            ("syscall_entry_read", Kind::CallEntry(read)),
            ("syscall_exit_read", Kind::CallExit(Some(read))),
            ("sys_read", Kind::CallEntry(read)),
            ("exit_syscall", Kind::CallExit(None)),
            ("x86_irq_vectors_local_timer_entry", Kind::VectorEntry(local_timer)),
            ("irq_vectors_local_timer_exit", Kind::VectorExit(local_timer)),
            ("sched:sched_switch", Kind::Other),
            ("block_rq_issue", Kind::Other),
        ] {
            assert_eq!(of(class, &mut names).0, kind, "{class}");
        }
    }
}
