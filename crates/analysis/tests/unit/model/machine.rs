// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests: a machine that does at random what a kernel can do, with all events of it, and with what every thread really did. What a model
//! makes of a part of the events can be held against that.

use std::collections::BTreeMap;

use fastrand::Rng;
use rustc_hash::FxHashSet;

use super::{At, System};
use crate::facts::{Arguments, Fact, Fork, Interrupt, Left, Switch, Woken};
use crate::names::Name;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Absent,
    Running {
        cpu: u32,
        call: Option<Name>,
        interrupt: Option<Interrupt>,
    },
    Runnable,
    Blocked {
        call: Option<Name>,
    },
}

/// A system call, an interrupt, or a wait for a CPU: of whom or where, which, from when to when.
pub(super) type Lasted<T> = (T, i64, i64);

/// What there was.
#[derive(Default)]
pub(super) struct Truth {
    /// By thread, from when on it did what. CPUs that have nothing to do are the negative numbers from -1 on.
    pub(super) did: BTreeMap<i32, Vec<(i64, Doing)>>,
    pub(super) calls: FxHashSet<Lasted<(i32, Name)>>,
    pub(super) interrupts: FxHashSet<Lasted<(u32, Interrupt)>>,
    pub(super) delays: FxHashSet<Lasted<i32>>,
    /// By the thread that was woken and when: by whom.
    pub(super) wakes: BTreeMap<(i32, i64), Result<i32, Interrupt>>,
    pub(super) end_ns: i64,
}

#[derive(Default)]
struct OfCpu {
    current: i32,
    /// With when each began, if that was after the begin.
    interrupts: Vec<(Interrupt, Option<i64>)>,
}

struct OfThread {
    call: Option<(Name, Option<i64>)>,
    state: OfScheduler,
    /// It was woken while it had a CPU, and is about to give it away.
    is_woken_early: bool,
    is_exiting: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum OfScheduler {
    On(u32),
    /// Since when, if it waits for a CPU since it was woken.
    Ready(Option<i64>),
    /// Waking has begun.
    Waking(i64),
    Blocked,
}

pub(super) struct Machine {
    dice: Rng,
    ns: i64,
    cpus: Vec<OfCpu>,
    threads: BTreeMap<i32, OfThread>,
    calls: [Name; 3],
    clone: Name,
    /// With the thread that is on the CPU.
    pub(super) events: Vec<(At, Fact<'static>)>,
    pub(super) truth: Truth,
}

const CPUS: u64 = 3;
/// Ids are used again.
const TIDS: u64 = 12;

/// The names of calls that a system has to know before it is given these events.
pub(super) fn keep_names(system: &mut System) -> ([Name; 3], Name) {
    (
        [b"read", b"poll", b"open"].map(|name| system.names.keep(name)),
        system.names.keep(b"clone"),
    )
}

impl Machine {
    /// It has run already when its events begin.
    pub(super) fn run(seed: u64, (calls, clone): ([Name; 3], Name), events: usize) -> Machine {
        let mut machine = Machine {
            dice: Rng::with_seed(seed),
            ns: 0,
            cpus: (0..CPUS).map(|_| OfCpu::default()).collect(),
            threads: BTreeMap::new(),
            calls,
            clone,
            events: Vec::new(),
            truth: Truth::default(),
        };
        for cpu in 0..CPUS as u32 {
            machine.begin(cpu);
        }
        while machine.events.len() < events {
            machine.step();
        }
        machine.truth.end_ns = machine.ns + 5;
        machine
    }

    fn begin(&mut self, cpu: u32) {
        let tids = 1 + self.dice.u64(..3) as i32;
        for tid in (0..tids).map(|number| 1 + cpu as i32 * 3 + number) {
            let state = [OfScheduler::On(cpu), OfScheduler::Ready(None), OfScheduler::Blocked];
            let state = match self.dice.u64(..3) as usize {
                0 if self.cpus[cpu as usize].current != 0 => OfScheduler::Blocked,
                place => state[place],
            };
            if state == OfScheduler::On(cpu) {
                self.cpus[cpu as usize].current = tid;
            }
            let call = match self.dice.u64(..2) {
                0 => self.dice.choice(&self.calls).copied().map(|call| (call, None)),
                _ => None,
            };
            let thread = OfThread {
                call,
                state,
                is_woken_early: false,
                is_exiting: false,
            };
            self.threads.insert(tid, thread);
        }
        if self.dice.u64(..3) == 0 {
            self.cpus[cpu as usize].interrupts.push((Interrupt::Soft(1), None));
        }
        self.note_all();
    }

    fn event(&mut self, cpu: u32, fact: Fact<'static>) {
        let at = At {
            ns: self.ns,
            cpu: Some(cpu),
            tid: Some(self.cpus[cpu as usize].current),
        };
        self.events.push((at, fact));
    }

    /// Writes down who does something else than before.
    fn note_all(&mut self) {
        for (cpu, of_cpu) in (0..).zip(&self.cpus) {
            let doing = match of_cpu.current {
                0 => Doing::Running {
                    cpu,
                    call: None,
                    interrupt: of_cpu.interrupts.last().map(|(interrupt, _)| *interrupt),
                },
                _ => Doing::Runnable,
            };
            note(&mut self.truth.did, -1 - cpu as i32, doing, self.ns);
        }
        for tid in 1..=TIDS as i32 {
            let doing = match self.threads.get(&tid) {
                None => Doing::Absent,
                Some(thread) => {
                    let call = thread.call.map(|(call, _)| call);
                    match thread.state {
                        OfScheduler::On(cpu) => Doing::Running {
                            cpu,
                            call,
                            interrupt: self.cpus[cpu as usize]
                                .interrupts
                                .last()
                                .map(|(interrupt, _)| *interrupt),
                        },
                        OfScheduler::Ready(_) | OfScheduler::Waking(_) => Doing::Runnable,
                        OfScheduler::Blocked => Doing::Blocked { call },
                    }
                }
            };
            note(&mut self.truth.did, tid, doing, self.ns);
        }
    }

    fn tids(&self, is_meant: impl Fn(&OfThread) -> bool) -> Vec<i32> {
        let meant = self.threads.iter().filter(|(_, thread)| is_meant(thread));
        meant.map(|(tid, _)| *tid).collect()
    }

    fn step(&mut self) {
        self.ns += 1 + self.dice.u64(..9) as i64;
        let cpu = self.dice.u64(..CPUS) as u32;
        let current = self.cpus[cpu as usize].current;
        let is_interrupted = !self.cpus[cpu as usize].interrupts.is_empty();
        match self.dice.u64(..13) {
            12 => self.event(cpu, Fact::Other),
            0 | 1 => self.interrupt(cpu),
            2 | 3 if is_interrupted => self.end_interrupt(cpu),
            4 => self.wake(cpu),
            5 => self.wakeup(cpu),
            _ if is_interrupted => self.end_interrupt(cpu),
            6..=8 => self.switch(cpu),
            9 if self.threads.get(&current).is_some_and(|thread| thread.is_exiting) => self.switch(cpu),
            9 | 10 if current != 0 => self.call(cpu, current),
            11 if current != 0 && self.dice.u64(..4) == 0 => self.exit(cpu, current),
            _ => self.wake(cpu),
        }
        self.note_all();
    }

    fn interrupt(&mut self, cpu: u32) {
        let depth = self.cpus[cpu as usize].interrupts.len();
        let interrupt = [Interrupt::Soft(1), Interrupt::Soft(3), Interrupt::Timer][self.dice.u64(..3) as usize];
        let runs = &self.cpus[cpu as usize].interrupts;
        if depth < 2 && runs.iter().all(|(runs, _)| *runs != interrupt) {
            self.cpus[cpu as usize].interrupts.push((interrupt, Some(self.ns)));
            self.event(cpu, Fact::Begin(interrupt));
        }
    }

    fn end_interrupt(&mut self, cpu: u32) {
        let (interrupt, begin_ns) = self.cpus[cpu as usize].interrupts.pop().expect("there is one");
        self.event(cpu, Fact::End(interrupt));
        if let Some(begin_ns) = begin_ns {
            self.truth.interrupts.insert(((cpu, interrupt), begin_ns, self.ns));
        }
    }

    fn switch(&mut self, cpu: u32) {
        let previous_tid = self.cpus[cpu as usize].current;
        let ready = self.tids(|thread| matches!(thread.state, OfScheduler::Ready(_)));
        let next_tid = match self.dice.u64(..4) {
            0 => 0,
            _ => self.dice.choice(&ready).copied().unwrap_or(0),
        };
        if next_tid == previous_tid {
            return;
        }
        let mut previous = Left::Runnable;
        if let Some(thread) = self.threads.get_mut(&previous_tid) {
            let leaves = self.dice.u64(..4);
            if thread.is_exiting && leaves > 1 {
                previous = Left::Dead;
                self.threads.remove(&previous_tid);
            } else if leaves == 0 && !thread.is_woken_early {
                previous = Left::Preempted;
                thread.state = OfScheduler::Ready(None);
            } else {
                previous = Left::Waiting;
                thread.state = OfScheduler::Blocked;
            }
        }
        if let Some(thread) = self.threads.get_mut(&next_tid) {
            if let OfScheduler::Ready(Some(since_ns)) = thread.state {
                self.truth.delays.insert((next_tid, since_ns, self.ns));
            }
            thread.state = OfScheduler::On(cpu);
        }
        // The event comes while the previous one still has the CPU.
        self.event(
            cpu,
            Fact::Switch(Switch {
                previous_tid,
                previous_name: b"",
                previous,
                previous_priority: None,
                next_tid,
                next_name: b"",
                next_priority: 20,
            }),
        );
        if self.dice.u64(..4) == 0 {
            self.event(cpu, Fact::Other);
        }
        self.cpus[cpu as usize].current = next_tid;
    }

    fn waker(&self, cpu: u32) -> Option<Result<i32, Interrupt>> {
        let of_cpu = &self.cpus[cpu as usize];
        match (of_cpu.interrupts.last(), of_cpu.current) {
            (Some((interrupt, _)), _) => Some(Err(*interrupt)),
            // A CPU that has nothing to do wakes nobody.
            (None, 0) => None,
            (None, current) => Some(Ok(current)),
        }
    }

    fn wake(&mut self, cpu: u32) {
        let current = self.cpus[cpu as usize].current;
        let sleeping = self.tids(|thread| match thread.state {
            OfScheduler::Blocked => true,
            // It has decided to wait.
            OfScheduler::On(_) => !thread.is_woken_early && !thread.is_exiting,
            _ => false,
        });
        let (Some(tid), Some(waker)) = (self.dice.choice(&sleeping).copied(), self.waker(cpu)) else {
            return;
        };
        let thread = self.threads.get_mut(&tid).expect("it is there");
        match thread.state {
            OfScheduler::Blocked if !thread.is_woken_early => {
                thread.state = OfScheduler::Waking(self.ns);
                self.truth.wakes.insert((tid, self.ns), waker);
            }
            OfScheduler::On(_) if tid != current && self.dice.u64(..4) == 0 => {
                thread.is_woken_early = true;
                self.truth.wakes.insert((tid, self.ns), waker);
            }
            _ => return,
        }
        let target = Some(self.dice.u64(..CPUS) as u32);
        self.event(cpu, Fact::Waking(Woken { tid, cpu: target }));
    }

    fn wakeup(&mut self, cpu: u32) {
        let woken = self.tids(|thread| match thread.state {
            OfScheduler::Waking(_) => true,
            OfScheduler::Blocked => thread.is_woken_early,
            _ => false,
        });
        let Some(tid) = self.dice.choice(&woken).copied() else {
            return;
        };
        let thread = self.threads.get_mut(&tid).expect("it is there");
        let since_ns = match thread.state {
            OfScheduler::Waking(since_ns) => since_ns,
            _ => self.ns,
        };
        thread.is_woken_early = false;
        thread.state = OfScheduler::Ready(Some(since_ns));
        self.event(cpu, Fact::Wakeup(Woken { tid, cpu: Some(cpu) }));
    }

    fn call(&mut self, cpu: u32, tid: i32) {
        let thread = self.threads.get_mut(&tid).expect("it is there");
        if thread.is_exiting {
            return;
        }
        match thread.call {
            None => {
                let call = match self.dice.u64(..4) {
                    0 => self.clone,
                    number => self.calls[number as usize - 1],
                };
                thread.call = Some((call, Some(self.ns)));
                let arguments = Arguments::default();
                self.event(cpu, Fact::CallEntry { call, arguments });
            }
            Some((call, _)) if call == self.clone && self.dice.u64(..2) == 0 => self.fork(cpu, tid),
            Some((call, begin_ns)) => {
                thread.call = None;
                let is_said = Some(call);
                self.event(
                    cpu,
                    Fact::CallExit {
                        call: is_said,
                        result: 0,
                        found: Default::default(),
                    },
                );
                if let Some(begin_ns) = begin_ns {
                    self.truth.calls.insert(((tid, call), begin_ns, self.ns));
                }
            }
        }
    }

    fn fork(&mut self, cpu: u32, parent_tid: i32) {
        let free = (1..=TIDS as i32).find(|tid| !self.threads.contains_key(tid));
        let Some(tid) = free else { return };
        let child = OfThread {
            call: Some((self.clone, None)),
            state: OfScheduler::Ready(None),
            is_woken_early: false,
            is_exiting: false,
        };
        self.threads.insert(tid, child);
        let is_thread = false;
        self.event(cpu, Fact::NewTask { tid, is_thread });
        self.event(
            cpu,
            Fact::Fork(Fork {
                parent_tid,
                parent_pid: None,
                tid,
                pid: Some(tid),
                name: b"",
            }),
        );
    }

    fn exit(&mut self, cpu: u32, tid: i32) {
        let thread = self.threads.get_mut(&tid).expect("it is there");
        if !thread.is_exiting && !thread.is_woken_early {
            thread.is_exiting = true;
            self.event(cpu, Fact::Exit { tid, has_others: false });
        }
    }
}

fn note(did: &mut BTreeMap<i32, Vec<(i64, Doing)>>, tid: i32, doing: Doing, ns: i64) {
    let own = did.entry(tid).or_default();
    if own.last().map(|(_, last)| *last) != Some(doing) {
        own.push((ns, doing));
    }
}
