// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread waited for: told by the system call that waited, by the kind of the wait, and by who ended it.

use rustc_hash::FxHashMap;

use crate::facts::Interrupt;
use crate::model::{Nature, System, Wait, Wake};
use crate::names::Name;

/// What a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A disk or another device.
    Io,
    /// The network.
    Network,
    /// Time.
    Timer,
    /// A lock, or what is made of futexes.
    Lock,
    /// Another thread.
    Thread,
    /// The trace does not tell.
    Unknown,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 6] = [
        Cause::Io,
        Cause::Network,
        Cause::Timer,
        Cause::Lock,
        Cause::Thread,
        Cause::Unknown,
    ];

    /// For people and programs.
    pub fn text(self) -> &'static str {
        match self {
            Cause::Io => "io",
            Cause::Network => "network",
            Cause::Timer => "timer",
            Cause::Lock => "lock",
            Cause::Thread => "thread",
            Cause::Unknown => "unknown",
        }
    }
}

/// Tells causes; remembers what system calls are.
#[derive(Debug, Default)]
pub struct Causes {
    of_calls: FxHashMap<Name, Option<Cause>>,
}

impl Causes {
    /// What a wait was for.
    pub fn of(&mut self, system: &System, wait: Wait, wake: Option<Wake>) -> Cause {
        let of_call = wait.call.and_then(|call| {
            let known = self.of_calls.entry(call);
            *known.or_insert_with(|| of_call(system.names.text(call)))
        });
        // These wait for one thing only.
        if let Some(cause @ (Cause::Lock | Cause::Timer | Cause::Thread)) = of_call {
            return cause;
        }
        let Some(wake) = wake else {
            return match (of_call, wait.is_sure) {
                (Some(cause), _) => cause,
                (None, true) => Cause::Io,
                (None, false) => Cause::Unknown,
            };
        };
        match wake.interrupt {
            Some(interrupt) => of_interrupt(system, interrupt).or(of_call).unwrap_or(Cause::Unknown),
            // A thread of the kernel does the work that the disk's interrupt left.
            None if wait.is_sure => Cause::Io,
            // A CPU that has nothing to do wakes nobody: an interrupt did that is not in the trace.
            None if wake.thread.is_some_and(|id| system.thread(id).nature != Nature::Idle) => Cause::Thread,
            None => of_call.unwrap_or(Cause::Unknown),
        }
    }
}

fn of_call(call: &str) -> Option<Cause> {
    let call = call.strip_prefix("compat_").unwrap_or(call);
    Some(match call {
        "futex" | "futex_time32" | "futex_waitv" | "futex_wait" | "flock" => Cause::Lock,
        "nanosleep" | "clock_nanosleep" | "nanosleep_time32" => Cause::Timer,
        // A call that clones waits until the child of a vfork has become another program.
        "wait4" | "waitid" | "waitpid" | "vfork" | "clone" | "clone3" | "pause" | "rt_sigtimedwait"
        | "rt_sigsuspend" => Cause::Thread,
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" | "pread64" | "pwrite64"
        | "io_getevents" | "open" | "openat" | "unlink" | "unlinkat" | "rename" | "renameat2" => Cause::Io,
        "accept" | "accept4" | "connect" | "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "sendmmsg" => {
            Cause::Network
        }
        _ => return None,
    })
}

/// Numbers of soft interrupts: 1 and 8 are timers, 2 and 3 the network, 4 and 5 disks.
fn of_interrupt(system: &System, interrupt: Interrupt) -> Option<Cause> {
    match interrupt {
        Interrupt::Timer | Interrupt::Soft(1 | 8) => Some(Cause::Timer),
        Interrupt::Soft(2 | 3) => Some(Cause::Network),
        Interrupt::Soft(4 | 5) | Interrupt::Device(..) => Some(Cause::Io),
        Interrupt::Vector(name) if system.names.text(name) == "local_timer" => Some(Cause::Timer),
        _ => None,
    }
}
