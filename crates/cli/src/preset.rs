// SPDX-License-Identifier: MIT OR Apache-2.0
//! The presets of `record`: names for sets of kernel events that answer one kind of question. docs/guide/7-kernel.md has a
//! table of them.
//!
//! A kernel may lack some of a preset's events (older, or built without them): the others are recorded.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A set of kernel events.
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    /// What it answers, and with what.
    pub(crate) about: &'static str,
    /// Patterns of tracepoints.
    pub(crate) tracepoints: &'static [&'static str],
    /// Tracepoints that the patterns match and the preset leaves out.
    pub(crate) excluded: &'static [&'static str],
    /// Patterns of system calls.
    pub(crate) syscalls: &'static [&'static str],
}

/// What `record` records of the kernel when nothing else is said: what viewers make their control flow of.
pub(crate) const DEFAULT: [&str; 3] = ["sched", "syscalls", "irq"];

pub(crate) const PRESETS: [Preset; 8] = [
    Preset {
        name: "sched",
        about: "which threads ran and what they waited for: switches, wake-ups, processes, signals",
        tracepoints: &[
            "sched:sched_switch",
            "sched:sched_waking",
            "sched:sched_wakeup",
            "sched:sched_wakeup_new",
            "sched:sched_migrate_task",
            "sched:sched_process_*",
            "sched:sched_pi_setprio",
            "task:task_newtask",
            "task:task_rename",
            "signal:*",
        ],
        excluded: &[],
        syscalls: &[],
    },
    Preset {
        name: "io",
        about: "disk I/O: block requests, page cache, system calls that read and write",
        tracepoints: &[
            "block:*",
            "filemap:mm_filemap_add_to_page_cache",
            "filemap:mm_filemap_delete_from_page_cache",
            "writeback:folio_wait_writeback",
            "writeback:wait_on_page_writeback", // Its name before Linux 5.16.
            "writeback:writeback_start",
            "writeback:writeback_written",
            // Whose descriptors: a child's are its parent's, a program's those that are not closed for it.
            "sched:sched_process_fork",
            "sched:sched_process_exec",
            "sched:sched_process_exit",
        ],
        // For each block that a file system looks at in memory.
        excluded: &["block:block_touch_buffer", "block:block_dirty_buffer"],
        syscalls: IO_CALLS,
    },
    Preset {
        name: "net",
        about: "network traffic: packets, sockets, system calls on sockets",
        tracepoints: &["net:*", "napi:*", "skb:*", "sock:*", "tcp:*", "udp:*", "icmp:*"],
        excluded: &[],
        syscalls: SOCKET_CALLS,
    },
    Preset {
        name: "syscalls",
        about: "every system call",
        tracepoints: &[],
        excluded: &[],
        syscalls: &["*"],
    },
    Preset {
        name: "mem",
        about: "memory use: page faults, pages, reclaim, system calls that map memory",
        tracepoints: &[
            "exceptions:*",
            "kmem:mm_page_*",
            "kmem:rss_stat",
            "vmscan:*",
            "compaction:*",
            "oom:*",
        ],
        excluded: &[],
        syscalls: &["brk", "mmap", "munmap", "mremap", "mprotect", "madvise"],
    },
    Preset {
        name: "irq",
        about: "what interrupted threads: interrupts, soft interrupts, timers",
        tracepoints: &[
            "irq:irq_handler_*",
            "irq:softirq_*",
            "irq:tasklet_*",
            "irq_vectors:*_entry",
            "irq_vectors:*_exit",
            "timer:hrtimer_*",
        ],
        excluded: &[],
        syscalls: &[],
    },
    Preset {
        name: "full",
        about: "every event of the kernel: slow, and a lot of data",
        tracepoints: &["*"],
        // Once more each system call, which is recorded by name.
        excluded: &["syscalls:*", "raw_syscalls:*"],
        syscalls: &["*"],
    },
    Preset {
        name: "ltt",
        about: "the core events of the Linux Trace Toolkit of 2000",
        tracepoints: &[
            // Trap entry, trap exit.
            "exceptions:*",
            // IRQ entry, IRQ exit.
            "irq:irq_handler_entry",
            "irq:irq_handler_exit",
            "irq_vectors:*_entry",
            "irq_vectors:*_exit",
            // Scheduling change.
            "sched:sched_switch",
            // Kernel timer.
            "timer:timer_expire_entry",
            "timer:timer_expire_exit",
            // Soft IRQ.
            "irq:softirq_entry",
            "irq:softirq_exit",
            // Process: create, exec, exit, wait, wakeup, signal.
            "sched:sched_process_fork",
            "task:task_newtask",
            "sched:sched_process_exec",
            "sched:sched_process_exit",
            "sched:sched_process_free",
            "sched:sched_process_wait",
            "sched:sched_wakeup",
            "sched:sched_wakeup_new",
            "signal:*",
            // File system: waiting for a buffer. The rest are system calls.
            "block:block_rq_issue",
            "block:block_rq_complete",
            "writeback:folio_wait_writeback",
            "writeback:wait_on_page_writeback", // Its name before Linux 5.16.
            // Timer: expired, set.
            "timer:itimer_*",
            "timer:timer_start",
            "timer:hrtimer_expire_entry",
            // Memory: page allocated, page freed, page written to swap. Pages read from swap are block requests.
            "kmem:mm_page_alloc",
            "kmem:mm_page_free",
            "vmscan:mm_vmscan_write*",
            // Socket: send, receive.
            "sock:sock_send_length",
            "sock:sock_recv_length",
            // Network: packet in, packet out.
            "net:netif_receive_skb",
            "net:net_dev_queue",
        ],
        excluded: &[],
        // System call entry and exit; file system, timer, socket and IPC among them.
        syscalls: &["*"],
    },
];

const IO_CALLS: &[&str] = &[
    "open",
    "openat",
    "openat2",
    "creat",
    "close",
    "close_range",
    "dup*",
    "fcntl",
    "pipe*",
    "socket*",
    "accept*",
    "read",
    "pread64",
    "readv",
    "preadv*",
    "write",
    "pwrite64",
    "writev",
    "pwritev*",
    "lseek",
    "sendfile64",
    "splice",
    "copy_file_range",
    "fsync",
    "fdatasync",
    "sync*",
    "io_*",
];

const SOCKET_CALLS: &[&str] = &[
    "socket*",
    "bind",
    "listen",
    "accept*",
    "connect",
    "shutdown",
    "send*",
    "recv*",
    "setsockopt",
    "getsockopt",
];

/// The preset of that name.
pub(crate) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// Presets as values of an option.
pub(crate) fn parser() -> impl TypedValueParser<Value = &'static Preset> {
    let values = PRESETS
        .iter()
        .map(|preset| PossibleValue::new(preset.name).help(preset.about));
    PossibleValuesParser::new(values).map(|name| find(&name).expect("the parser takes only names of presets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_exist() {
        for name in DEFAULT {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn tracepoints_name_their_group() {
        for preset in &PRESETS {
            let mut patterns = preset.tracepoints.iter().chain(preset.excluded);
            assert!(
                patterns.all(|pattern| *pattern == "*" || pattern.contains(':')),
                "{}",
                preset.name
            );
        }
    }
}
