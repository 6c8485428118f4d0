// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests: traces as text, a line for each event: `10 cpu0 switch 1 waits 2` is at 10 ns on CPU 0; `10 cpu0:1 read`, where the event's
//! context says that it happened on thread 1. `@64,32` behind a switch or a system call is the program's stack there.
//!
//! | | |
//! |---|---|
//! | `switch 1 waits 2` | `runs`, `waits`, `waits!` (for sure), `stops`, `dies`; with priorities: `switch 1/20 waits 2/-50` |
//! | `waking 1`, `wakeup 1` | or `waking 1 0`, to run on CPU 0 |
//! | `migrate 1 0` | to the queue of CPU 0 |
//! | `fork 1 2`, `exit 2` | 2 is a process |
//! | `thread 1 2` | 2 is a thread of process 1 |
//! | `newtask 2 thread` | 2 is being made, a thread or a `process` |
//! | `other` | an event that says nothing but who has the CPU |
//! | `read`, `answer` | a system call, its result |
//! | `call NAME`, `return RESULT` | any system call |
//! | `futex wait 64`, `futex wake 64` | a system call about the futex at that address; `lock`: a wait for what is a lock for sure; `post`: for what is none |
//! | `rename 1 NAME` | |
//! | `exec 2 1` | thread 2 becomes another program, and then has the id of its process's first thread, 1 |
//! | `named 1 NAME` | a name that the trace tells, whether the thread is in it or not |
//! | `setprio 1 -50` | it gets that priority by inheritance |
//! | `irq 3`, `irqend 3` | a soft interrupt |
//! | `device 36`, `deviceend 36` | an interrupt of `disk` |
//! | `timer`, `timerend` | a timer's function |
//! | `dumped 7` | it waits when the state dump is made |
//! | `kernel 7` | it is a thread of the kernel, says the state dump |
//! | `issue 64`, `complete 64` | a request to a device, for 8 sectors from that one on |

use super::{At, Listen, System, WaitBegin};
use crate::facts::{
    Arguments, DeviceOperation, DumpedThread, Fact, Fork, Futex, FutexOperation, Interrupt, Left, RequestFact,
    RequestStep, Switch, Woken,
};

/// Applies all lines.
pub(crate) fn apply(system: &mut System, lines: &str, to: &mut dyn Listen) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (line, stack) = line.split_once(" @").unwrap_or((line, ""));
        let words: Vec<&str> = line.split_whitespace().collect();
        let ns = number(words[0]).into();
        let (cpu, tid) = match words[1][3..].split_once(':') {
            Some((cpu, tid)) => (cpu, Some(number(tid))),
            None => (&words[1][3..], None),
        };
        let cpu = Some(number(cpu) as u32);
        let fact = fact(system, &words[2..]);
        let at = At { ns, cpu, tid };
        let begin = WaitBegin::of(&fact, cpu);
        system.apply(&fact, at, to);
        if let Some(begin) = begin {
            let frames = stack.split(',').filter(|frame| !frame.is_empty());
            let frames: Vec<u64> = frames.map(|frame| number(frame) as u64).collect();
            system.may_wait(begin, &frames);
        }
    }
}

fn fact<'w>(system: &mut System, words: &[&'w str]) -> Fact<'w> {
    let tid = || number(words[1]);
    let mut name = |text: &str| system.names.keep(text.as_bytes());
    match words[0] {
        "switch" => {
            let left = match words[2] {
                "runs" => Left::Preempted,
                "waits" => Left::Waiting,
                "waits!" => Left::WaitingForSure,
                "stops" => Left::Stopped,
                "dies" => Left::Dead,
                other => panic!("{other}"),
            };
            switch(words[1], left, words[3])
        }
        "waking" => Fact::Waking(woken(words)),
        "wakeup" => Fact::Wakeup(woken(words)),
        "migrate" => Fact::Migrate {
            tid: tid(),
            cpu: number(words[2]) as u32,
        },
        "fork" => fork(tid(), number(words[2]), number(words[2])),
        "thread" => fork(tid(), number(words[2]), tid()),
        "newtask" => Fact::NewTask {
            tid: tid(),
            is_thread: words[2] == "thread",
        },
        "other" => Fact::Other,
        "exit" => Fact::Exit {
            tid: tid(),
            has_others: false,
        },
        "read" => Fact::CallEntry {
            call: name("read"),
            arguments: Arguments::default(),
        },
        "answer" => Fact::CallExit {
            call: Some(name("read")),
            result: 1,
            found: Default::default(),
        },
        "call" => Fact::CallEntry {
            call: name(words[1]),
            arguments: Arguments::default(),
        },
        "futex" => Fact::CallEntry {
            call: name("futex"),
            arguments: Arguments {
                futex: Some(Futex {
                    address: number(words[2]) as u64,
                    operation: match words[1] {
                        "wait" | "lock" | "post" => FutexOperation::Wait,
                        "wake" => FutexOperation::Wake,
                        other => panic!("{other}"),
                    },
                    is_lock: match words[1] {
                        "lock" => Some(true),
                        "post" => Some(false),
                        _ => None,
                    },
                }),
                ..Arguments::default()
            },
        },
        "named" => Fact::DumpedName {
            tid: tid(),
            name: words[2].as_bytes(),
        },
        "rename" => Fact::Rename {
            tid: tid(),
            name: words[2].as_bytes(),
        },
        "exec" => Fact::Exec {
            tid: number(words[2]),
            old_tid: tid(),
            file: b"/bin/program",
        },
        "setprio" => Fact::Priority {
            tid: tid(),
            priority: number(words[2]),
        },
        "return" => Fact::CallExit {
            call: None,
            result: tid().into(),
            found: Default::default(),
        },
        "irq" => Fact::Begin(Interrupt::Soft(tid() as u32)),
        "irqend" => Fact::End(Interrupt::Soft(tid() as u32)),
        "device" => Fact::Begin(Interrupt::Device(tid() as u32, name("disk"))),
        "deviceend" => Fact::End(Interrupt::Device(tid() as u32, name("disk"))),
        "issue" | "complete" => {
            let step = if words[0] == "issue" {
                RequestStep::Issue
            } else {
                RequestStep::Complete
            };
            Fact::Request(
                step,
                RequestFact {
                    device: 8 << 20,
                    sector: number(words[1]).unsigned_abs().into(),
                    sectors: 8,
                    bytes: 4096,
                    operation: DeviceOperation::Write,
                    tid: None,
                    error: 0,
                },
            )
        }
        "raise" => Fact::SoftirqRaise { vector: tid() as u32 },
        "timer" => Fact::Begin(Interrupt::Timer),
        "timerend" => Fact::End(Interrupt::Timer),
        "dumped" | "kernel" => Fact::DumpedThread(DumpedThread {
            tid: tid(),
            pid: tid(),
            parent_pid: None,
            name: b"",
            is_kernel: Some(words[0] == "kernel"),
            is_waiting: words[0] == "dumped",
            uid: None,
            namespace: None,
            file_table: None,
        }),
        other => panic!("{other}"),
    }
}

fn woken(words: &[&str]) -> Woken {
    Woken {
        tid: number(words[1]),
        cpu: words.get(2).map(|cpu| number(cpu) as u32),
    }
}

fn number(text: &str) -> i32 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// From one thread to the other; each may have its priority behind it.
pub(super) fn switch(previous: &str, left: Left, next: &str) -> Fact<'static> {
    let parts = |text: &str| match text.split_once('/') {
        Some((tid, priority)) => (number(tid), Some(number(priority))),
        None => (number(text), None),
    };
    let ((previous_tid, previous_priority), (next_tid, next_priority)) = (parts(previous), parts(next));
    Fact::Switch(Switch {
        previous_tid,
        previous_name: b"",
        previous: left,
        next_tid,
        next_name: b"",
        next_priority: next_priority.unwrap_or(20),
        previous_priority,
    })
}

/// A thread begins.
pub(super) fn fork(parent_tid: i32, tid: i32, pid: i32) -> Fact<'static> {
    Fact::Fork(Fork {
        parent_tid,
        parent_pid: None,
        tid,
        pid: Some(pid),
        name: b"child",
    })
}
