// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be recorded, said in values: channels with their rules, and the threads that a session is about.
//!
//! Sessions keep these values in their journal and hand them to the kernel consumer, which makes the kernel do it.

use serde::{Deserialize, Serialize};

use crate::pattern::matches_event;

/// A channel of the kernel domain: a tracefs instance with a ring for each CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSpec {
    /// Identifies the channel in its session; the CTF stream class.
    pub stream_id: u32,
    /// Unique in the session's kernel domain.
    pub name: String,
    /// What happens when a ring is full.
    pub loss: Loss,
    /// Bytes of a sub-buffer; a power of two from 4096 to 524,288. Kernels before 6.8 have 4096 and nothing else.
    pub subbuf_bytes: u32,
    /// Sub-buffers of each CPU's ring.
    pub subbuf_count: u32,
    /// What each event carries beside its fields, in this order.
    pub contexts: Vec<Context>,
    /// What was added since the channel was made. The classes of its events have it, so that its stream stays as it is.
    #[serde(default)]
    pub added_contexts: Vec<Context>,
    /// Which events it records.
    pub rules: Vec<Rule>,
    /// What it records of the memory that arguments of system calls point to; absent: their addresses only.
    #[serde(default)]
    pub memory: Option<Memory>,
}

/// What is recorded of the memory that arguments of system calls point to, beside texts, addresses and small structures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The environment of programs that are executed.
    pub environment: bool,
    /// The first bytes of what is read and written.
    pub buffer_bytes: u16,
}

impl ChannelSpec {
    /// All that each event carries beside its fields, in the order of its bytes.
    pub fn all_contexts(&self) -> impl Iterator<Item = Context> {
        self.contexts.iter().chain(&self.added_contexts).copied()
    }

    /// Events of it have the kernel's stack.
    pub fn has_kernel_stacks(&self) -> bool {
        let mut stacks = self
            .rules
            .iter()
            .filter(|rule| rule.enabled)
            .filter_map(|rule| rule.stack.as_ref());
        stacks.any(|stack| stack.kernel)
    }

    /// It records only some of the events that tell which threads have the CPUs, chosen by what is in them.
    pub fn filters_switches(&self) -> bool {
        let filtered = self.rules.iter().filter(|rule| rule.enabled && rule.filter.is_some());
        let mut patterns = filtered.filter_map(|rule| match &rule.source {
            EventSource::Tracepoint { pattern } => Some(pattern),
            _ => None,
        });
        let means_some = |pattern: &String| {
            let mut names = ["sched_switch", "sched_waking", "sched_wakeup"].into_iter();
            names.any(|name| matches_event(pattern, "sched", name, name))
        };
        patterns.any(means_some)
    }
}

/// What happens to an event when its ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// The newest event is discarded.
    Discard,
    /// The oldest sub-buffer is overwritten.
    Overwrite,
}

/// Something that each event of a channel carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Context {
    /// The thread it happened on.
    Tid,
    /// The CPU, in each event and not in its packet only.
    CpuId,
    /// Depth of preemption and migration locks, interrupt state: what tracefs calls flags.
    InterruptState,
    /// The process of the thread. This and the following ones are not in the kernel's records, but derived from `/proc`: what the thread is when its
    /// events are read.
    Pid,
    /// The parent of the process.
    Ppid,
    /// The name of the thread.
    Procname,
    /// Its priority, as sched_switch has it in traces.
    Prio,
    /// Its nice value.
    Nice,
    /// Its real user ID, in pisted's user namespace.
    Uid,
    /// The effective one.
    Euid,
    /// The saved one.
    Suid,
    /// Its real group ID.
    Gid,
    /// The effective one.
    Egid,
    /// The saved one.
    Sgid,
    /// The inode number of its namespace of control groups.
    CgroupNs,
    /// Of IPC.
    IpcNs,
    /// Of mounts.
    MntNs,
    /// Of networks.
    NetNs,
    /// Of process IDs.
    PidNs,
    /// Of clocks.
    TimeNs,
    /// Of users.
    UserNs,
    /// Of host names.
    UtsNs,
}

impl Context {
    /// Every context there is.
    pub const ALL: [Context; 22] = [
        Context::Tid,
        Context::CpuId,
        Context::InterruptState,
        Context::Pid,
        Context::Ppid,
        Context::Procname,
        Context::Prio,
        Context::Nice,
        Context::Uid,
        Context::Euid,
        Context::Suid,
        Context::Gid,
        Context::Egid,
        Context::Sgid,
        Context::CgroupNs,
        Context::IpcNs,
        Context::MntNs,
        Context::NetNs,
        Context::PidNs,
        Context::TimeNs,
        Context::UserNs,
        Context::UtsNs,
    ];

    /// Whether it is a namespace.
    pub fn is_namespace(self) -> bool {
        use Context::{CgroupNs, IpcNs, MntNs, NetNs, PidNs, TimeNs, UserNs, UtsNs};
        matches!(self, CgroupNs | IpcNs | MntNs | NetNs | PidNs | TimeNs | UserNs | UtsNs)
    }

    /// Whether it is not in the kernel's records.
    pub fn is_derived(self) -> bool {
        !matches!(self, Context::Tid | Context::CpuId | Context::InterruptState)
    }

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Context::Tid => "tid",
            Context::CpuId => "cpu_id",
            Context::InterruptState => "interrupt_state",
            Context::Pid => "pid",
            Context::Ppid => "ppid",
            Context::Procname => "procname",
            Context::Prio => "prio",
            Context::Nice => "nice",
            Context::Uid => "uid",
            Context::Euid => "euid",
            Context::Suid => "suid",
            Context::Gid => "gid",
            Context::Egid => "egid",
            Context::Sgid => "sgid",
            Context::CgroupNs => "cgroup_ns",
            Context::IpcNs => "ipc_ns",
            Context::MntNs => "mnt_ns",
            Context::NetNs => "net_ns",
            Context::PidNs => "pid_ns",
            Context::TimeNs => "time_ns",
            Context::UserNs => "user_ns",
            Context::UtsNs => "uts_ns",
        }
    }

    /// The context of a name.
    pub fn from_name(name: &str) -> Option<Context> {
        Context::ALL.into_iter().find(|context| context.name() == name)
    }
}

/// Which events a channel records, and what of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The events.
    pub source: EventSource,
    /// Events that `source` matches and are not recorded; patterns like those of the source.
    pub excluded: Vec<String>,
    /// Records only what fulfils it, in the language of filters: `prev_prio < 0 && next_comm =~ "ksoft*"`.
    pub filter: Option<String>,
    /// Records only these fields, by their names in the trace; empty records all.
    pub fields: Vec<String>,
    /// Who called: absent for no look at the stack.
    pub stack: Option<Stack>,
    /// A rule that was disabled stays listed.
    pub enabled: bool,
}

/// Where events come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventSource {
    /// Static tracepoints: `sched_*`, `sched:*`, `*`; `*` stands for any text. Without a colon it is the event's name alone, as the
    /// kernel calls it or as the trace does.
    Tracepoint {
        /// The pattern.
        pattern: String,
    },
    /// System calls by name: `open*`.
    Syscall {
        /// The pattern.
        pattern: String,
        /// Which of their two events.
        #[serde(default)]
        part: CallPart,
    },
    /// A place in a program or library, and each return from it with `is_return`.
    Uprobe {
        /// Name of the event in the trace.
        name: String,
        /// The file; absolute.
        binary: String,
        /// `SYMBOL`, `SYMBOL+OFFSET` or `0xOFFSET` of the file.
        place: String,
        /// What to record, in the words of tracefs: `path=+0(%di):string`, `%ax`.
        arguments: Vec<String>,
        /// At its returns.
        is_return: bool,
    },
    /// A static probe that the authors of a program left in it (SystemTap's `sys/sdt.h`), with all its arguments.
    Usdt {
        /// The file; absolute.
        binary: String,
        /// Its provider.
        provider: String,
        /// Its name.
        probe: String,
    },
    /// A place in the kernel.
    Kprobe {
        /// Name of the event in the trace.
        name: String,
        /// `SYMBOL`, `SYMBOL+OFFSET`, `0xADDRESS` or `0xADDRESS+OFFSET`. An address is valid until the kernel starts again.
        place: String,
        /// What to record, in the words of tracefs.
        arguments: Vec<String>,
        /// At its returns.
        is_return: bool,
    },
}

/// Which events of a system call are recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallPart {
    /// Its entry and its exit.
    #[default]
    Both,
    /// Its entry only.
    Entry,
    /// Its exit only.
    Exit,
}

impl CallPart {
    /// The entry is recorded.
    pub fn has_entry(self) -> bool {
        self != CallPart::Exit
    }

    /// The exit is recorded.
    pub fn has_exit(self) -> bool {
        self != CallPart::Entry
    }
}

/// Which part of the stack an event carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The kernel's stack: `callstack_kernel`.
    pub kernel: bool,
    /// The program's: `callstack_user`. Tracefs takes it for every event of the channel, the rest is dropped when it is read.
    pub user: bool,
    /// Frames at most, from the innermost; absent for all that the kernel gives.
    pub depth: Option<u32>,
    /// Only addresses from the first to before the second; the innermost of them is the event's `ip`.
    pub range: Option<(u64, u64)>,
}

/// The threads and CPUs that a session is about. Lists that are empty allow everything; a thread is recorded that every non-empty
/// list allows, unless nobody is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracked {
    /// Processes by id, with all their threads.
    pub pids: Vec<u32>,
    /// With what these processes start from now on, and their descendants.
    pub follow_children: bool,
    /// Process groups.
    pub process_groups: Vec<u32>,
    /// Sessions of processes (setsid).
    pub process_sessions: Vec<u32>,
    /// Users.
    pub uids: Vec<u32>,
    /// Groups.
    pub gids: Vec<u32>,
    /// CPUs.
    pub cpus: Vec<u32>,
    /// No thread at all; the lists are empty then.
    #[serde(default)]
    pub nobody: bool,
}

impl Tracked {
    /// Some threads are recorded and others are not.
    pub fn selects_threads(&self) -> bool {
        let whole = Tracked {
            cpus: self.cpus.clone(),
            ..Tracked::default()
        };
        *self != whole
    }
}
