// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread waited for: told by the system call that waited, by who ended the wait, and by the requests that devices had completed by then.

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
    /// By name, and whether signals end the wait.
    of_calls: FxHashMap<(Name, bool), Option<Cause>>,
}

impl Causes {
    /// What a wait was for.
    pub fn of(&mut self, system: &System, wait: Wait, wake: Option<Wake>) -> Cause {
        let of_call = wait.call.and_then(|call| {
            let known = self.of_calls.entry((call, wait.is_sure));
            *known.or_insert_with(|| of_call(system.names.text(call), wait.is_sure))
        });
        match of_call {
            Some(Cause::Thread) => return Cause::Thread,
            // Signals end waits for these: one that no signal ends is for something else that the kernel needs on the way.
            Some(cause @ (Cause::Lock | Cause::Timer)) if !wait.is_sure => return cause,
            _ => {}
        }
        let of_call = of_call.filter(|cause| !matches!(cause, Cause::Lock | Cause::Timer));
        let Some(wake) = wake else {
            return of_call.unwrap_or(Cause::Unknown);
        };
        if wake.completed.is_some() {
            return Cause::Io;
        }
        if let Some(interrupt) = wake.interrupt {
            return of_interrupt(system, interrupt).or(of_call).unwrap_or(Cause::Unknown);
        }
        // An idle CPU wakes nobody: an interrupt did that is not in the trace.
        let waker = wake.thread.map(|id| system.thread(id).nature);
        match waker.filter(|nature| *nature != Nature::Idle) {
            // It may have been interrupted by what ended the wait.
            Some(_) if wait.is_sure && !system.circumstances().has_interrupts => of_call.unwrap_or(Cause::Unknown),
            // The kernel's threads do the work that the call waits for.
            Some(Nature::Kernel) if of_call == Some(Cause::Io) => Cause::Io,
            Some(_) => Cause::Thread,
            None => of_call.unwrap_or(Cause::Unknown),
        }
    }
}

fn of_call(call: &str, is_sure: bool) -> Option<Cause> {
    let call = call.strip_prefix("compat_").unwrap_or(call);
    Some(match call {
        // Of what `fcntl` does, only taking a lock waits.
        "futex" | "futex_time32" | "futex_waitv" | "futex_wait" | "flock" | "fcntl" | "fcntl64" => Cause::Lock,
        "nanosleep" | "clock_nanosleep" | "nanosleep_time32" => Cause::Timer,
        // A call that clones waits until the child of a vfork has become another program.
        "wait4" | "waitid" | "waitpid" | "vfork" | "clone" | "clone3" | "pause" | "rt_sigtimedwait"
        | "rt_sigsuspend" => Cause::Thread,
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" | "pread64" | "pwrite64" | "preadv"
        | "preadv2" | "pwritev" | "pwritev2" | "io_getevents" | "open" | "openat" | "unlink" | "unlinkat"
        | "rename" | "renameat2" => Cause::Io,
        // Signals end their waits for pipes and sockets, and none for files.
        "read" | "readv" | "write" | "writev" | "sendfile" | "sendfile64" | "splice" | "copy_file_range" if is_sure => {
            Cause::Io
        }
        "accept" | "accept4" | "connect" | "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "sendmmsg" => {
            Cause::Network
        }
        _ => return None,
    })
}

/// Numbers of soft interrupts: 1 and 8 are timers, 2 and 3 the network.
fn of_interrupt(system: &System, interrupt: Interrupt) -> Option<Cause> {
    match interrupt {
        Interrupt::Timer | Interrupt::Soft(1 | 8) => Some(Cause::Timer),
        Interrupt::Soft(2 | 3) => Some(Cause::Network),
        of_device if of_device.is_of_device() => Some(Cause::Io),
        Interrupt::Vector(name) if system.names.text(name) == "local_timer" => Some(Cause::Timer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Circumstances, Listen, Slice, State, script};

    /// What the waits of a thread were for.
    struct Told {
        tid: i32,
        causes: Causes,
        told: Vec<&'static str>,
    }

    impl Listen for Told {
        fn slice(&mut self, system: &System, slice: &Slice) {
            if let State::Blocked(wait) = slice.state
                && system.thread(slice.thread).tid == self.tid
            {
                self.told.push(self.causes.of(system, wait, slice.wake).text());
            }
        }
    }

    fn causes_in(circumstances: Circumstances, tid: i32, lines: &str) -> Vec<&'static str> {
        let mut told = Told {
            tid,
            causes: Causes::default(),
            told: Vec::new(),
        };
        let mut system = System::new(circumstances);
        script::apply(&mut system, lines, &mut told);
        system.finish(200, &mut told);
        told.told
    }

    fn causes(tid: i32, lines: &str) -> Vec<&'static str> {
        causes_in(Circumstances::whole(0), tid, lines)
    }

    /// 1 waits without signals from 20 on, in a page fault; the lines say who ends that.
    fn sure_wait(call: &str, lines: &str) -> Vec<&'static str> {
        causes(
            1,
            &format!(
                "1 cpu1 switch 8 waits 2
                 5 cpu0 switch 9 waits 1
                 {call}
                 20 cpu0 switch 1 waits! 0
                 {lines}
                 60 cpu0 switch 0 runs 1
                 190 cpu0 switch 1 runs 2"
            ),
        )
    }

    #[test]
    fn a_wait_that_no_signal_ends_is_for_who_ended_it() {
        // A thread that held a lock of the kernel; also on the way to a futex, and in a call that mostly waits for a disk.
        for call in ["", "10 cpu0 futex wait 64", "10 cpu0 call fsync"] {
            assert_eq!(sure_wait(call, "40 cpu1 waking 1"), ["thread"], "{call}");
        }
        let disk = "40 cpu1 device 36
                    41 cpu1 waking 1
                    42 cpu1 deviceend 36";
        assert_eq!(sure_wait("", disk), ["io"]);
        let timer = "40 cpu1 timer\n41 cpu1 waking 1\n42 cpu1 timerend";
        assert_eq!(sure_wait("", timer), ["timer"]);
        // Nobody knows who.
        assert_eq!(sure_wait("", "40 cpu1 wakeup 1"), ["unknown"]);
        assert_eq!(sure_wait("10 cpu0 call fsync", "40 cpu1 wakeup 1"), ["io"]);
        // It reads a file: signals end a wait for a socket.
        assert_eq!(sure_wait("10 cpu0 call sendfile64", "40 cpu1 wakeup 1"), ["io"]);
        let of_a_socket = "5 cpu0 switch 9 waits 1
                           10 cpu0 call sendfile64
                           20 cpu0 switch 1 waits 0
                           40 cpu1 wakeup 1
                           60 cpu0 switch 0 runs 1";
        assert_eq!(causes(1, of_a_socket), ["unknown"]);
    }

    #[test]
    fn a_thread_that_ends_a_wait_for_a_request_ends_one_for_a_disk() {
        let completed = "30 cpu1 device 36
                         31 cpu1 complete 64
                         32 cpu1 deviceend 36
                         40 cpu1 waking 1";
        // Of who waits,
        assert_eq!(sure_wait("10 cpu0 issue 64", completed), ["io"]);
        // of a thread of the kernel that works for it,
        let of_waker = format!("21 cpu1 issue 64\n{completed}");
        assert_eq!(sure_wait("2 cpu1 kernel 2", &of_waker), ["io"]);
        // or what such a thread was woken for;
        let of_other = "21 cpu1 switch 2 waits 0
                        30 cpu1 device 36
                        31 cpu1 waking 2
                        32 cpu1 deviceend 36
                        33 cpu1 switch 0 runs 2
                        40 cpu1 waking 1";
        assert_eq!(sure_wait("2 cpu1 kernel 2", of_other), ["io"]);
        // not of another one, which merely held the lock meanwhile.
        assert_eq!(sure_wait("", &of_waker), ["thread"]);
        assert_eq!(sure_wait("", of_other), ["thread"]);
        // One that was complete before it began to wait is not what it waited for.
        let before = "10 cpu0 issue 64
                      12 cpu1 device 36
                      13 cpu1 complete 64
                      14 cpu1 deviceend 36";
        assert_eq!(sure_wait(before, "40 cpu1 waking 1"), ["thread"]);
    }

    #[test]
    fn without_interrupts_nobody_knows_who_ended_a_wait_that_no_signal_ends() {
        let circumstances = Circumstances {
            has_interrupts: false,
            ..Circumstances::whole(0)
        };
        let lines = "1 cpu1 switch 8 waits 2
                     5 cpu0 switch 9 waits 1
                     20 cpu0 switch 1 waits! 0
                     40 cpu1 waking 1";
        assert_eq!(causes_in(circumstances, 1, lines), ["unknown"]);
    }

    #[test]
    fn fcntl_waits_for_locks_of_files() {
        let lines = "1 cpu1 switch 8 waits 2
                     5 cpu0 switch 9 waits 1
                     10 cpu0 call fcntl
                     20 cpu0 switch 1 waits 0
                     40 cpu1 waking 1";
        assert_eq!(causes(1, lines), ["lock"]);
    }
}
