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
    Migrate,
    NewTask,
    Fork,
    Exec,
    Exit,
    Free,
    Priority,
    Rename,
    CallEntry(Name),
    FutexEntry(Name),
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
    DumpBegin,
    DumpEnd,
    DumpedThread,
    DumpedProcess,
    DumpedFile,
    DumpedDevice,
    RequestInsert,
    RequestIssue,
    RequestRequeue,
    RequestMerge,
    RequestComplete,
    PagesAllocated,
    PagesFreed,
    PageFault,
    KernelPageFault,
    PacketQueued,
    PacketSent,
    PacketReceived,
    Allocated,
    Reallocated,
    Freed,
    Entered,
    Left,
    ProgramDumpBegin,
    ProgramDumpEnd,
    Named,
    Loaded,
    BuildId,
    Unloaded,
}

/// Names of classes, what they say, and the fields that are asked for, in the order in which `translate.rs` takes them.
const CLASSES: [(&str, Kind, &[&str]); 37] = [
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
            "prev_prio",
        ],
    ),
    ("sched_waking", Kind::Waking, &["tid|pid", "target_cpu"]),
    (
        "sched_wakeup|sched_wakeup_new",
        Kind::Wakeup,
        &["tid|pid", "target_cpu"],
    ),
    ("sched_migrate_task", Kind::Migrate, &["tid|pid", "dest_cpu"]),
    ("task_newtask", Kind::NewTask, &["tid|pid", "clone_flags"]),
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
    ("sched_pi_setprio", Kind::Priority, &["tid|pid", "newprio"]),
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
        &[
            "tid",
            "pid",
            "ppid",
            "name",
            "type",
            "status",
            "uid",
            "ns_inum",
            "file_table_address",
        ],
    ),
    (
        "lttng_statedump_process",
        Kind::DumpedProcess,
        &["pid", "cmdline", "cgroup"],
    ),
    ("lttng_statedump_start", Kind::DumpBegin, &[]),
    ("lttng_statedump_end", Kind::DumpEnd, &[]),
    (
        "lttng_statedump_file_descriptor",
        Kind::DumpedFile,
        &["pid", "fd", "flags", "filename", "file_table_address"],
    ),
    ("lttng_statedump_block_device", Kind::DumpedDevice, &["dev", "diskname"]),
    ("block_rq_insert", Kind::RequestInsert, REQUEST),
    ("block_rq_issue", Kind::RequestIssue, REQUEST),
    ("block_rq_requeue", Kind::RequestRequeue, REQUEST),
    ("block_rq_merge", Kind::RequestMerge, REQUEST),
    ("block_rq_complete", Kind::RequestComplete, REQUEST),
    ("kmem_mm_page_alloc|mm_page_alloc", Kind::PagesAllocated, &["order"]),
    ("kmem_mm_page_free|mm_page_free", Kind::PagesFreed, &["order"]),
    (
        "x86_exceptions_page_fault_user|exceptions_page_fault_user|page_fault_user",
        Kind::PageFault,
        &[],
    ),
    (
        "x86_exceptions_page_fault_kernel|exceptions_page_fault_kernel|page_fault_kernel",
        Kind::KernelPageFault,
        &[],
    ),
    ("net_dev_queue", Kind::PacketQueued, &["name", "len"]),
    ("net_dev_xmit", Kind::PacketSent, &["name", "len", "rc"]),
    (
        "net_if_receive_skb|netif_receive_skb",
        Kind::PacketReceived,
        &["name", "len"],
    ),
];

/// Of a request to a device. Those that complete have an error, and bytes only as sectors.
const REQUEST: &[&str] = &["dev", "sector", "nr_sector", "bytes", "rwbs", "tid|pid", "error|errors"];

/// Of a system call that has to do with files: what [`super::Arguments`] is made of.
const ARGUMENTS: &[&str] = &[
    "fd|fildes|oldfd|in_fd|fd_in|fdin|ufd",
    "newfd|out_fd|fd_out|fdout|max_fd",
    "flags|type|cmd|unshare_flags",
    "family|arg",
    "filename|pathname",
];

/// System calls of which the arguments matter. Of the others nothing is decoded.
const WITH_ARGUMENTS: [&str; 63] = [
    "accept",
    "accept4",
    "bind",
    "close",
    "close_range",
    "connect",
    "copy_file_range",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "eventfd",
    "eventfd2",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "fsync",
    "getpeername",
    "getsockname",
    "getsockopt",
    "inotify_init1",
    "listen",
    "memfd_create",
    "open",
    "openat",
    "openat2",
    "pread",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "send",
    "sendfile",
    "sendfile64",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "signalfd",
    "signalfd4",
    "socket",
    "splice",
    "sync_file_range",
    "syncfs",
    "tee",
    "timerfd_create",
    "timerfd_settime",
    "unshare",
    "vmsplice",
    "write",
    "writev",
];

/// The fields of a system call's entry that are asked for.
fn arguments(call: &str) -> &'static [&'static str] {
    match WITH_ARGUMENTS.binary_search(&call) {
        Ok(_) => ARGUMENTS,
        Err(_) => &[],
    }
}

/// What events of a class say, and in which fields.
pub(super) fn of(class: &str, names: &mut Names) -> (Kind, &'static [&'static str]) {
    let mut classes = CLASSES.iter().chain(&super::programs::CLASSES);
    if let Some((_, kind, fields)) =
        classes.find(|(spellings, ..)| spellings.split('|').any(|spelling| spelling == class))
    {
        return (*kind, fields);
    }
    let mut name = |name: &str| names.keep(name.as_bytes());
    let vector = class.strip_prefix("x86_").unwrap_or(class).strip_prefix("irq_vectors_");
    if let Some(vector) = vector.and_then(|vector| vector.strip_suffix("_entry")) {
        return (Kind::VectorEntry(name(vector)), &["vector"]);
    }
    if let Some(vector) = vector.and_then(|vector| vector.strip_suffix("_exit")) {
        return (Kind::VectorExit(name(vector)), &["vector"]);
    }
    let (compat, native) = match class.strip_prefix("compat_") {
        Some(native) => ("compat_", native),
        None => ("", class),
    };
    let mut call_name = |call: &str| name(&format!("{compat}{call}"));
    // Entries have the names of the kernel's functions in traces of old.
    let entry = ["syscall_entry_", "sys_"];
    if let Some(call) = entry.iter().find_map(|prefix| native.strip_prefix(prefix)) {
        return match is_futex(call) {
            true => (Kind::FutexEntry(call_name(call)), &["uaddr", "op", "val"]),
            false => (Kind::CallEntry(call_name(call)), arguments(call)),
        };
    }
    if let Some(call) = native.strip_prefix("syscall_exit_") {
        return (Kind::CallExit(Some(call_name(call))), &["ret"]);
    }
    (Kind::Other, &[])
}

/// System calls that are about one futex.
fn is_futex(call: &str) -> bool {
    matches!(call, "futex" | "futex_time64" | "futex_wait" | "futex_wake")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_arguments_can_be_searched() {
        assert!(WITH_ARGUMENTS.is_sorted());
        assert_eq!(arguments("openat").len(), ARGUMENTS.len());
        assert!(arguments("getpid").is_empty());
    }

    #[test]
    fn classes_are_known_by_every_spelling() {
        let mut names = Names::default();
        let mut name = |name: &str| names.keep(name.as_bytes());
        let (read, futex, local_timer) = (name("read"), name("futex"), name("local_timer"));
        let (compat_read, compat_futex) = (name("compat_read"), name("compat_futex"));
        for (class, kind) in [
            ("sched_switch", Kind::Switch),
            ("softirq_entry", Kind::SoftirqEntry),
            ("irq_softirq_entry", Kind::SoftirqEntry),
            ("syscall_entry_read", Kind::CallEntry(read)),
            ("syscall_exit_read", Kind::CallExit(Some(read))),
            ("sys_read", Kind::CallEntry(read)),
            ("syscall_entry_futex", Kind::FutexEntry(futex)),
            ("sys_futex", Kind::FutexEntry(futex)),
            ("compat_syscall_entry_read", Kind::CallEntry(compat_read)),
            ("compat_syscall_exit_read", Kind::CallExit(Some(compat_read))),
            ("compat_sys_read", Kind::CallEntry(compat_read)),
            ("compat_sys_futex", Kind::FutexEntry(compat_futex)),
            ("exit_syscall", Kind::CallExit(None)),
            ("x86_irq_vectors_local_timer_entry", Kind::VectorEntry(local_timer)),
            ("irq_vectors_local_timer_exit", Kind::VectorExit(local_timer)),
            ("sched:sched_switch", Kind::Other),
            ("block_rq_issue", Kind::RequestIssue),
            ("mm_page_free", Kind::PagesFreed),
            ("block_plug", Kind::Other),
        ] {
            assert_eq!(of(class, &mut names).0, kind, "{class}");
        }
    }
}
