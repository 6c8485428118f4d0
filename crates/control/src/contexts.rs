// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts: what channels can record with each event, beside its fields.

/// A context that channels can have.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// As `--context` has it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
}

const fn context(name: &'static str, what: &'static str) -> Context {
    Context { name, what }
}

/// Those of channels of programs, except those that programs define.
pub const OF_PROGRAMS: [Context; 40] = [
    context("vtid", "thread ID in the program's PID namespace"),
    context("cpu_id", "CPU that recorded the event"),
    context("vpid", "process ID in the program's PID namespace"),
    context("procname", "name of the thread"),
    context("pthread_id", "what pthread_self() returns"),
    context("ip", "address of the code that recorded the event"),
    context("nice", "nice value of the thread"),
    context("prio", "priority, as in the kernel's sched_switch"),
    context("vuid", "real user ID in the thread's user namespace"),
    context("veuid", "effective user ID"),
    context("vsuid", "saved user ID"),
    context("vgid", "real group ID"),
    context("vegid", "effective group ID"),
    context("vsgid", "saved group ID"),
    context("cgroup_ns", "control group namespace (inode number)"),
    context("ipc_ns", "IPC namespace"),
    context("mnt_ns", "mount namespace"),
    context("net_ns", "network namespace"),
    context("pid_ns", "PID namespace"),
    context("time_ns", "time namespace"),
    context("user_ns", "user namespace"),
    context("uts_ns", "host name (UTS) namespace"),
    context("cgroup_path", "control group of the thread (version 2)"),
    context("perf:thread:task-clock", "CPU time of the thread, in ns"),
    context("perf:thread:page-faults", "page faults of the thread"),
    context("perf:thread:minor-faults", "those without I/O"),
    context("perf:thread:major-faults", "those with I/O"),
    context("perf:thread:context-switches", "context switches of the thread"),
    context("perf:thread:cycles", "CPU cycles of the thread in user space"),
    context("perf:thread:instructions", "instructions"),
    context("perf:thread:cache-references", "last-level cache accesses"),
    context("perf:thread:cache-misses", "last-level cache misses"),
    context("perf:thread:branches", "branch instructions"),
    context("perf:thread:branch-misses", "mispredicted branches"),
    context("perf:thread:bus-cycles", "bus cycles"),
    context("perf:thread:ref-cycles", "cycles at a constant frequency"),
    context(
        "perf:thread:L1-dcache-load-misses",
        "loads that missed the first-level cache",
    ),
    context("perf:thread:LLC-load-misses", "loads that missed the last-level cache"),
    context("perf:thread:dTLB-load-misses", "loads that missed the data TLB"),
    context(
        "perf:thread:iTLB-load-misses",
        "fetches that missed the instruction TLB",
    ),
];

/// Those of channels of the kernel.
pub const OF_KERNEL: [Context; 22] = [
    context("tid", "thread ID"),
    context("cpu_id", "CPU that recorded the event"),
    context(
        "interrupt_state",
        "whether in an interrupt, and whether interrupts or preemption were disabled",
    ),
    context("pid", "process ID (from here on: out of /proc)"),
    context("ppid", "process ID of the parent"),
    context("procname", "name of the thread"),
    context("prio", "priority, as in sched_switch"),
    context("nice", "nice value of the thread"),
    context("uid", "real user ID"),
    context("euid", "effective user ID"),
    context("suid", "saved user ID"),
    context("gid", "real group ID"),
    context("egid", "effective group ID"),
    context("sgid", "saved group ID"),
    context("cgroup_ns", "control group namespace (inode number)"),
    context("ipc_ns", "IPC namespace"),
    context("mnt_ns", "mount namespace"),
    context("net_ns", "network namespace"),
    context("pid_ns", "PID namespace"),
    context("time_ns", "time namespace"),
    context("user_ns", "user namespace"),
    context("uts_ns", "host name (UTS) namespace"),
];
