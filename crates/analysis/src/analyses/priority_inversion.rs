// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority inversions: an urgent thread waits for a less urgent one, which does not get a CPU as a third one in between has it.
//!
//! Who holds a lock is known in the end, from who wakes the one that waited. Until then it is kept who had a CPU while which thread was
//! runnable there, as far as it could matter: only while a more urgent thread waits for a futex.
//!
//! Semaphores, condition variables and whatever else a thread waits at for its next work are futexes, too, and nobody holds them. A futex is a
//! lock if the kernel knows it as one, or if the thread that waited for it gives it back later: it wakes others that wait for the same futex, as
//! whoever got a lock that others waited for does.

use std::collections::{BTreeMap, VecDeque};

use super::totals::PerThread;
use super::{LIMIT, SWITCHES, WAKEUPS, comm, tid};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::facts::{Fact, Futex, FutexOperation, Left};
use crate::model::{Call, Listen, Slice, State, System, ThreadId, Wait, Why};
use crate::report::{Report, Table, Unit, Value, column, counted};

pub(super) static PRIORITY_INVERSION: Description = Description {
    name: "priority-inversion",
    about: "urgent threads that waited for a lock whose less urgent holder could not run because of other threads",
    tables: &["inversions"],
    needs: &[
        super::futex::FUTEXES,
        Need {
            option: "--preset sched,syscalls",
            ..SWITCHES
        },
        Need {
            option: "--preset sched,syscalls",
            is_essential: true,
            ..WAKEUPS
        },
    ],
    begin: |options| {
        Box::new(Inversions {
            options: options.clone(),
            ..Inversions::default()
        })
    },
};

/// So much is kept for each CPU and each thread; the oldest goes first.
const KEPT_MAX: usize = 4096;

/// Looks for them.
#[derive(Default)]
pub(crate) struct Inversions {
    options: Options,
    /// Threads that wait for a futex, and how urgent they are.
    waiting: BTreeMap<ThreadId, i32>,
    /// How many of them are how urgent.
    urgencies: BTreeMap<i32, usize>,
    /// By CPU: who had it while a more urgent thread waited.
    had: BTreeMap<u32, VecDeque<Stay>>,
    /// When a thread was kept from running by more urgent ones.
    kept: PerThread<VecDeque<Stay>>,
    last_cpu: PerThread<Option<u32>>,
    /// When its priority was last changed by inheritance.
    changed_ns: PerThread<Option<i64>>,
    /// The CPU of the latest switch.
    switch_cpu: Option<u32>,
    /// Those that are over.
    pub(crate) found: Vec<Inversion>,
    /// By victim: those that are over, at futexes that it has not given back yet.
    undecided: BTreeMap<ThreadId, Vec<Inversion>>,
}

/// A thread has a CPU for a time.
#[derive(Clone, Copy)]
struct Stay {
    thread: ThreadId,
    priority: i32,
    begin_ns: i64,
    end_ns: i64,
}

/// Three threads and how urgent they are.
pub(crate) struct Inversion {
    pub(crate) victim: (ThreadId, i32),
    pub(crate) holder: (ThreadId, i32),
    pub(crate) culprit: (ThreadId, i32),
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    /// How long the culprit had the holder's CPU.
    pub(crate) ns: i64,
    wait_ns: i64,
    futex: u64,
}

impl Listen for Inversions {
    fn fact(&mut self, system: &System, fact: &Fact<'_>, cpu: Option<u32>, ns: i64) {
        match fact {
            Fact::Switch(switch) => {
                self.switch_cpu = cpu;
                if let Left::Waiting | Left::WaitingForSure = switch.previous
                    && let Some(id) = system.find(switch.previous_tid)
                    && system.thread(id).system_call().is_some()
                    && futex_in(system, id, FutexOperation::Wait).is_some_and(|futex| futex.is_lock != Some(false))
                    && let Some(priority) = switch.previous_priority.or(system.thread(id).priority())
                {
                    self.wait(id, priority);
                }
            }
            Fact::Priority { tid, .. } => {
                if let Some(id) = system.find(*tid) {
                    *self.changed_ns.of(id) = Some(ns);
                }
            }
            _ => {}
        }
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        match slice.state {
            State::Running { cpu, .. } => self.ran(system, slice, cpu),
            State::Runnable(why) => self.was_runnable(system, slice, why),
            State::Blocked(wait) => {
                self.waited(system, slice, wait);
                self.forget(slice.thread);
            }
            _ => self.forget(slice.thread),
        }
    }

    fn call(&mut self, system: &System, call: &Call) {
        let Some(undecided) = self.undecided.get_mut(&call.thread) else {
            return;
        };
        if let Some(futex) = futex_in(system, call.thread, FutexOperation::Wake) {
            let given_back = undecided.extract_if(.., |found| found.futex == futex.address);
            self.found.extend(given_back);
            keep_longest(&mut self.found, &self.options);
        }
    }

    fn died(&mut self, _: &System, thread: ThreadId, _: i64) {
        self.forget(thread);
    }
}

/// The futex that the latest system call of a thread is about, if it is for that.
fn futex_in(system: &System, id: ThreadId, wanted: FutexOperation) -> Option<Futex> {
    let futex = system.thread(id).futex();
    futex.filter(|futex| futex.operation == wanted)
}

/// The longest are shown.
fn keep_longest(found: &mut Vec<Inversion>, options: &Options) {
    let limit = options.limit.unwrap_or(LIMIT);
    if found.len() > 2 * limit + 100 {
        found.sort_by_key(|found| -found.ns);
        found.truncate(limit);
    }
}

fn push(to: &mut VecDeque<Stay>, stay: Stay) {
    match to.back_mut() {
        Some(last) if last.thread == stay.thread && last.priority == stay.priority && last.end_ns == stay.begin_ns => {
            last.end_ns = stay.end_ns;
        }
        _ => to.push_back(stay),
    }
    if to.len() > KEPT_MAX {
        to.pop_front();
    }
}

impl Inversions {
    fn ran(&mut self, system: &System, slice: &Slice, cpu: u32) {
        *self.last_cpu.of(slice.thread) = Some(cpu);
        let Some(priority) = system.thread(slice.thread).priority() else {
            return;
        };
        if self
            .urgencies
            .first_key_value()
            .is_some_and(|(urgent, _)| *urgent < priority)
        {
            let stay = Stay {
                thread: slice.thread,
                priority,
                begin_ns: slice.begin_ns,
                end_ns: slice.end_ns,
            };
            push(self.had.entry(cpu).or_default(), stay);
        }
    }

    /// It was in the queue of the CPU that it had, or was woken to have.
    fn was_runnable(&mut self, system: &System, slice: &Slice, why: Why) {
        let cpu = match why {
            Why::Preempted => self.last_cpu.get(slice.thread).copied().flatten(),
            Why::Woken | Why::New => self.switch_cpu,
            Why::Yielded | Why::Unknown => None,
        };
        let Some(had) = cpu.and_then(|cpu| self.had.get(&cpu)) else {
            return;
        };
        let Some(priority) = system.thread(slice.thread).priority() else {
            return;
        };
        // What its priority was before it inherited one does not matter any more.
        let changed_ns = self.changed_ns.get(slice.thread).copied().flatten();
        let begin_ns = changed_ns.map_or(slice.begin_ns, |changed_ns| changed_ns.max(slice.begin_ns));
        let kept = self.kept.of(slice.thread);
        let later = had.iter().rev().take_while(|stay| stay.end_ns > begin_ns);
        let overlapping: Vec<&Stay> = later
            .filter(|stay| stay.begin_ns < slice.end_ns && stay.thread != slice.thread && stay.priority < priority)
            .collect();
        for stay in overlapping.into_iter().rev() {
            let cut = Stay {
                begin_ns: stay.begin_ns.max(begin_ns),
                end_ns: stay.end_ns.min(slice.end_ns),
                ..*stay
            };
            push(kept, cut);
        }
    }

    /// A wait is over: what kept the thread that ended it from doing so earlier?
    fn waited(&mut self, system: &System, slice: &Slice, wait: Wait) {
        let victim = slice.thread;
        let holder = slice.wake.filter(|wake| wake.interrupt.is_none());
        let Some(holder) = holder.and_then(|wake| wake.thread) else {
            return;
        };
        let priorities = (system.thread(victim).priority(), system.thread(holder).priority());
        let (Some(urgent), Some(of_holder)) = priorities else {
            return;
        };
        let is_in_calls = wait.call.is_some() && system.thread(holder).system_call().is_some();
        let waited_for = futex_in(system, victim, FutexOperation::Wait).filter(|_| is_in_calls);
        let woken_at = futex_in(system, holder, FutexOperation::Wake);
        let (Some(futex), Some(woken_at)) = (waited_for, woken_at) else {
            return;
        };
        // Who wakes at another one has moved the waiting threads there, as condition variables do.
        let is_none = futex.is_lock == Some(false) || futex.address != woken_at.address;
        if is_none || !self.options.who.wants(system, victim) {
            return;
        }
        let mut culprits: BTreeMap<ThreadId, Inversion> = BTreeMap::new();
        for stay in self.kept.of(holder).iter() {
            let (begin_ns, end_ns) = (stay.begin_ns.max(slice.begin_ns), stay.end_ns.min(slice.end_ns));
            if begin_ns >= end_ns || stay.thread == victim || stay.priority <= urgent {
                continue;
            }
            let found = culprits.entry(stay.thread).or_insert_with(|| Inversion {
                victim: (victim, urgent),
                holder: (holder, of_holder),
                culprit: (stay.thread, stay.priority),
                begin_ns,
                end_ns,
                ns: 0,
                wait_ns: slice.duration_ns(),
                futex: futex.address,
            });
            found.end_ns = end_ns;
            found.ns += end_ns - begin_ns;
        }
        let wanted = culprits.into_values().filter(|found| self.options.wants_ns(found.ns));
        let found = match futex.is_lock {
            Some(_) => &mut self.found,
            None => self.undecided.entry(victim).or_default(),
        };
        found.extend(wanted);
        keep_longest(found, &self.options);
    }

    fn wait(&mut self, thread: ThreadId, priority: i32) {
        self.forget(thread);
        self.waiting.insert(thread, priority);
        *self.urgencies.entry(priority).or_default() += 1;
    }

    /// It does not wait for a futex any more. What nobody waits for need not be known.
    fn forget(&mut self, thread: ThreadId) {
        let Some(priority) = self.waiting.remove(&thread) else {
            return;
        };
        if let Some(count) = self.urgencies.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                self.urgencies.remove(&priority);
            }
        }
        if self.waiting.is_empty() {
            self.had.clear();
            self.kept = PerThread::default();
        }
    }
}

impl Analysis for Inversions {
    fn report(&mut self, system: &System) -> Report {
        let columns = [
            column("begin_ns", "BEGIN", Unit::Moment),
            column("end_ns", "END", Unit::Moment).minor(),
            column("duration_ns", "DURATION", Unit::Nanoseconds).with_bar(),
            column("wait_ns", "WHOLE WAIT", Unit::Nanoseconds).minor(),
            column("victim_tid", "VICTIM", Unit::Id),
            column("victim_comm", "NAME", Unit::Text).major(),
            column("victim_priority", "PRIO", Unit::Id).minor(),
            column("holder_tid", "HOLDER", Unit::Id),
            column("holder_comm", "NAME", Unit::Text).major(),
            column("holder_priority", "PRIO", Unit::Id).minor(),
            column("culprit_tid", "CULPRIT", Unit::Id),
            column("culprit_comm", "NAME", Unit::Text).major(),
            column("culprit_priority", "PRIO", Unit::Id).minor(),
            column("futex", "FUTEX", Unit::Text).minor(),
        ];
        let mut table = Table::new("inversions", "Priority inversions", &columns);
        self.found.sort_by_key(|found| (-found.ns, found.begin_ns));
        self.found.truncate(self.options.limit.unwrap_or(LIMIT));
        for found in &self.found {
            let mut row = vec![
                Value::Number(found.begin_ns),
                Value::Number(found.end_ns),
                Value::Number(found.ns),
                Value::Number(found.wait_ns),
            ];
            for (thread, priority) in [found.victim, found.holder, found.culprit] {
                row.extend([
                    tid(system, thread),
                    comm(system, thread),
                    Value::Number(priority.into()),
                ]);
            }
            row.push(super::futex::address(found.futex));
            table.row(row);
        }
        let note = counted(
            self.undecided.values().map(Vec::len).sum::<usize>() as u64,
            "more wait is not shown, because it is unknown whether it was for a lock: the waiting thread later woke no other thread at the same futex",
            "more waits are not shown, because it is unknown whether they were for locks: the waiting threads later woke no other thread at the same futex",
        );
        Report {
            tables: vec![table],
            notes: Vec::from_iter(note),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Circumstances, script};

    fn run(lines: &str) -> Report {
        let mut inversions = (PRIORITY_INVERSION.begin)(&Options::default());
        let mut system = System::new(Circumstances::whole(0));
        script::apply(&mut system, lines, inversions.as_mut());
        system.finish(200, inversions.as_mut());
        inversions.report(&system)
    }

    /// From `duration_ns` on, without names: `40 of 57: 2 (-91) for 1 (-11) because of 3 (-51)`.
    fn found(lines: &str) -> Vec<String> {
        let csv = run(lines).tables[0].csv();
        let sentence = |row: &str| {
            let cells: Vec<&str> = row.split(',').collect();
            format!(
                "{}-{} {} of {}: {} ({}) for {} ({}) because of {} ({})",
                cells[0], cells[1], cells[2], cells[3], cells[4], cells[6], cells[7], cells[9], cells[10], cells[12]
            )
        };
        csv.lines().skip(1).map(sentence).collect()
    }

    /// 1 holds the lock, 2 waits for it, 3 comes in between, and is interrupted once.
    const PLAIN: &str = "
        5 cpu0 switch 9/20 waits 1/-11
        10 cpu0 waking 2
        11 cpu0 switch 1/-11 runs 2/-91
        12 cpu0 futex wait 64
        15 cpu0 switch 2/-91 waits 1/-11
        20 cpu0 waking 3
        21 cpu0 switch 1/-11 runs 3/-51
        30 cpu0 irq 1
        32 cpu0 irqend 1
        61 cpu0 switch 3/-51 waits 1/-11
        70 cpu0 futex wake 64
        72 cpu0 waking 2
        73 cpu0 switch 1/-11 runs 2/-91
        74 cpu0 return 0
        75 cpu0 futex wake 64
        76 cpu0 return 0";

    #[test]
    fn a_third_one_in_between_is_found() {
        assert_eq!(found(PLAIN), ["21-61 40 of 57: 2 (-91) for 1 (-11) because of 3 (-51)"]);
    }

    #[test]
    fn only_locks_have_holders() {
        let of_lock = found(PLAIN);
        let never_given_back = PLAIN.replace("75 cpu0 futex wake 64", "75 cpu0 futex wake 65");
        // The kernel knows it; nobody gives it back; it is no lock; the thread was moved to another futex.
        assert_eq!(found(&never_given_back.replace("futex wait", "futex lock")), of_lock);
        assert_eq!(found(&never_given_back), Vec::<String>::new());
        assert_eq!(found(&PLAIN.replace("futex wait", "futex post")), Vec::<String>::new());
        let moved = PLAIN.replace("70 cpu0 futex wake 64", "70 cpu0 futex wake 65");
        assert_eq!(found(&moved), Vec::<String>::new());
        let notes = |lines: &str| run(lines).notes.len();
        assert_eq!([PLAIN, &never_given_back, &moved].map(notes), [0, 1, 0]);
    }

    #[test]
    fn time_before_the_wait_does_not_count() {
        // 3 has the CPU from before 2, on another one, begins to wait.
        let lines = "
            5 cpu0 switch 9/20 waits 1/-11
            6 cpu1 switch 8/20 waits 2/-91
            20 cpu0 switch 1/-11 runs 3/-51
            30 cpu1 futex wait 64
            31 cpu1 switch 2/-91 waits 0
            61 cpu0 switch 3/-51 waits 1/-11
            70 cpu0 futex wake 64
            72 cpu0 waking 2
            73 cpu1 switch 0 runs 2/-91
            74 cpu1 return 0
            75 cpu1 futex wake 64
            76 cpu1 return 0";
        assert_eq!(found(lines), ["31-61 30 of 41: 2 (-91) for 1 (-11) because of 3 (-51)"]);
    }

    #[test]
    fn inherited_priority_is_no_inversion() {
        let lines = "
            5 cpu0 switch 9/20 waits 1/-11
            6 cpu1 switch 8/20 waits 2/-91
            20 cpu0 switch 1/-11 runs 3/-51
            30 cpu1 futex wait 64
            31 cpu1 setprio 1 -91
            32 cpu1 switch 2/-91 waits 0
            35 cpu0 switch 3/-51 runs 1/-91
            60 cpu0 futex wake 64
            62 cpu0 setprio 1 -11
            64 cpu0 waking 2
            73 cpu1 switch 0 runs 2/-91";
        assert_eq!(found(lines), Vec::<String>::new());
    }

    #[test]
    fn others_than_those_in_between_are_no_culprits() {
        // Less urgent than the holder; as urgent as the one that waits; more urgent.
        for priority in ["-11", "0", "-91", "-95"] {
            let lines = PLAIN.replace("3/-51", &format!("3/{priority}"));
            assert_eq!(found(&lines), Vec::<String>::new(), "{priority}");
        }
        // A wait for something else than a futex; a wait that an interrupt ends.
        let lines = PLAIN.replace("futex wait 64", "read");
        assert_eq!(found(&lines), Vec::<String>::new());
        let lines = PLAIN.replace("70 cpu0 futex wake 64", "70 cpu0 timer");
        assert_eq!(found(&lines), Vec::<String>::new());
    }
}
