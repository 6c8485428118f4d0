// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever is missing of a trace, what the model says is true: at random, events are taken from what a machine did, and what the model
//! makes of the rest is held against what there was.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::machine::{Doing, Machine, Truth, keep_names};
use super::*;
use crate::facts::Interrupt;
use crate::survey::Survey;

/// Keeps what is told, with the thread's id in the kernel.
#[derive(Default)]
struct Told {
    slices: Vec<(i32, Slice)>,
    calls: Vec<((i32, Name), i64, i64)>,
    interrupts: Vec<((u32, Interrupt), i64, i64)>,
    delays: Vec<(i32, i64, i64)>,
}

/// CPUs that have nothing to do as [`Truth`] has them.
fn id(system: &System, thread: ThreadId) -> i32 {
    match system.name_of(thread).strip_prefix("swapper/") {
        Some(cpu) => -1 - cpu.parse::<i32>().expect("a CPU"),
        None => system.thread(thread).tid,
    }
}

impl Listen for Told {
    fn slice(&mut self, system: &System, slice: &Slice) {
        self.slices.push((id(system, slice.thread), *slice));
    }

    fn call(&mut self, system: &System, call: &Call) {
        let own = (id(system, call.thread), call.name);
        self.calls.push((own, call.begin_ns, call.end_ns));
    }

    fn interruption(&mut self, _: &System, interruption: &Interruption) {
        let own = (interruption.cpu, interruption.interrupt);
        self.interrupts.push((own, interruption.begin_ns, interruption.end_ns));
    }

    fn delay(&mut self, system: &System, delay: &Delay) {
        let own = (id(system, delay.thread), delay.begin_ns, delay.end_ns);
        self.delays.push(own);
    }
}

/// What is done to a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Nothing,
    /// Events of CPUs, or of nobody knows which, are missing for a time.
    Gaps,
    /// A CPU has no stream.
    NoCpu(u32),
    /// The stream of a CPU ends before the others.
    EarlyEnd(u32),
    /// The stream of a CPU begins after the others.
    LateStart(u32),
    /// It begins later.
    LateBegin,
    /// Nothing of some threads was recorded.
    Partial,
    /// Only what happened on some threads is left, not who turned to them and woke them.
    OwnEvents,
    /// Of these some are missing, as with [`Damage::Gaps`].
    OwnEventsWithGaps,
    /// Events are left out that nobody knows of.
    SomeEvents,
    NoWaking,
    NoWakeups,
    NoInterrupts,
    /// Switches of a CPU away from its idle thread are not reported: Linux 6.18 no longer reports them on a CPU that was offline once.
    NoIdleEnds(u32, Besides),
}

/// What is done besides.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Besides {
    Nothing,
    Partial,
    NoWakeups,
}

impl Damage {
    fn lacks_waking(self) -> bool {
        matches!(
            self,
            Damage::NoWaking | Damage::NoWakeups | Damage::NoIdleEnds(_, Besides::NoWakeups)
        )
    }
}

struct Case {
    seed: u64,
    damage: Damage,
    /// Events say on which thread they happened.
    has_tids: bool,
}

const EVENTS: usize = 700;
/// Of machines that each damage is done to.
const SEEDS: u64 = 30;

impl Case {
    /// The damaged trace as the model has it, with what there was; `None` when nobody could know of the damage.
    fn run(&self) -> Option<(System, Told, Truth)> {
        let mut system = System::new(Circumstances::whole(0));
        let mut machine = Machine::run(self.seed, keep_names(&mut system), EVENTS);
        let mut circumstances = Circumstances::whole(0);
        let mut dice = Rng::with_seed(!self.seed);
        let end_ns = machine.truth.end_ns;
        let mut some = |sides: i64| dice.i64(0..sides);
        let events = &mut machine.events;
        match self.damage {
            Damage::Nothing => {}
            Damage::Gaps => circumstances.gaps = lose_parts(events, end_ns, &mut some),
            Damage::NoCpu(cpu) => {
                events.retain(|(at, _)| at.cpu != Some(cpu));
                let gap = |cpu| Gap {
                    cpu: Some(cpu),
                    begin_ns: 0,
                    end_ns: i64::MAX,
                };
                let gaps: Vec<Gap> = survey(events).unseen_cpus(false).map(gap).collect();
                if gaps.is_empty() {
                    return None;
                }
                circumstances.gaps = Gaps::new(&gaps);
            }
            Damage::EarlyEnd(cpu) | Damage::LateStart(cpu) => {
                let at_ns = some(end_ns);
                let (begin_ns, end_ns) = match self.damage {
                    Damage::EarlyEnd(_) => (at_ns, end_ns),
                    _ => (0, at_ns),
                };
                let cpu = Some(cpu);
                events.retain(|(at, _)| at.cpu != cpu || at.ns <= begin_ns || at.ns >= end_ns);
                circumstances.gaps = Gaps::new(&[Gap { cpu, begin_ns, end_ns }]);
            }
            Damage::LateBegin => {
                circumstances.begin_ns = some(end_ns / 2);
                events.retain(|(at, _)| at.ns >= circumstances.begin_ns);
            }
            Damage::Partial => {
                keep_some_threads(events, &mut some);
                circumstances.is_partial = true;
            }
            Damage::OwnEvents | Damage::OwnEventsWithGaps => {
                let chosen: BTreeSet<i32> = (1..=20).filter(|_| some(2) == 0).collect();
                events.retain(|(at, _)| at.tid.is_some_and(|tid| chosen.contains(&tid)));
                circumstances.is_partial = true;
                circumstances.has_switches = false;
                if self.damage == Damage::OwnEventsWithGaps {
                    circumstances.gaps = lose_parts(events, end_ns, &mut some);
                }
            }
            Damage::SomeEvents => {
                events.retain(|_| some(3) > 0);
                circumstances.gaps = Gaps::new(&[Gap::EVERYWHERE]);
            }
            Damage::NoWaking => {
                circumstances.has_waking = false;
                events.retain(|(_, fact)| !matches!(fact, Fact::Waking(_)));
            }
            Damage::NoWakeups => drop_wakeups(events, &mut circumstances),
            Damage::NoInterrupts => events.retain(|(_, fact)| !matches!(fact, Fact::Begin(_) | Fact::End(_))),
            Damage::NoIdleEnds(cpu, besides) => {
                match besides {
                    Besides::Nothing => {}
                    Besides::Partial => {
                        keep_some_threads(events, &mut some);
                        circumstances.is_partial = true;
                    }
                    Besides::NoWakeups => drop_wakeups(events, &mut circumstances),
                }
                events.retain(|(at, fact)| match fact {
                    Fact::Switch(switch) => switch.previous_tid != 0 || at.cpu != Some(cpu),
                    _ => true,
                });
                let untold = survey(events);
                let untold = untold.idle_ends_untold(circumstances.is_partial);
                circumstances.idle_ends_untold.extend(untold);
                if circumstances.idle_ends_untold.is_empty() {
                    return None;
                }
            }
        }
        system = System::new(circumstances);
        keep_names(&mut system);
        let mut told = Told::default();
        for (at, fact) in &machine.events {
            let has_tids = self.has_tids
                || matches!(
                    self.damage,
                    Damage::Partial | Damage::OwnEvents | Damage::OwnEventsWithGaps | Damage::NoIdleEnds(..)
                );
            let tid = at.tid.filter(|_| has_tids);
            system.apply(fact, At { tid, ..*at }, &mut told);
        }
        system.finish(end_ns, &mut told);
        Some((system, told, machine.truth))
    }
}

fn drop_wakeups(events: &mut Vec<(At, Fact<'_>)>, circumstances: &mut Circumstances) {
    (circumstances.has_waking, circumstances.has_wakeups) = (false, false);
    events.retain(|(_, fact)| !matches!(fact, Fact::Waking(_) | Fact::Wakeup(_)));
}

/// What a kernel records when it is to record some threads and what they begin.
fn keep_some_threads(events: &mut Vec<(At, Fact<'_>)>, some: &mut impl FnMut(i64) -> i64) {
    let mut recorded: BTreeSet<i32> = (1..=20).filter(|_| some(2) == 0).collect();
    events.retain(|(at, fact)| {
        let is_meant = |tid: i32| recorded.contains(&tid);
        let is_kept = at.tid.is_some_and(is_meant)
            || match fact {
                Fact::Switch(switch) => is_meant(switch.previous_tid) || is_meant(switch.next_tid),
                Fact::Waking(woken) | Fact::Wakeup(woken) => is_meant(woken.tid),
                _ => false,
            };
        if let Fact::Fork(fork) = fact {
            match is_meant(fork.parent_tid) {
                true => recorded.insert(fork.tid),
                false => recorded.remove(&fork.tid),
            };
        }
        is_kept
    });
}

/// Takes the events of CPUs away for some times, and tells when; not always of which CPU.
fn lose_parts(events: &mut Vec<(At, Fact<'_>)>, end_ns: i64, some: &mut impl FnMut(i64) -> i64) -> Gaps {
    let count = 1 + some(5);
    let gaps: Vec<Gap> = (0..count)
        .map(|_| {
            let begin_ns = some(end_ns);
            let cpu = [None, Some(0), Some(1), Some(2)][some(4) as usize];
            let end_ns = begin_ns + 1 + some(300);
            Gap { cpu, begin_ns, end_ns }
        })
        .collect();
    for gap in &gaps {
        let cpu = gap.cpu.unwrap_or(some(3) as u32);
        events.retain(|(at, _)| at.cpu != Some(cpu) || at.ns <= gap.begin_ns || at.ns >= gap.end_ns);
    }
    Gaps::new(&gaps)
}

fn survey(events: &[(At, Fact<'_>)]) -> Survey {
    let mut survey = Survey::default();
    for (at, fact) in events {
        survey.look(fact, at, &Gaps::default());
    }
    survey
}

impl Truth {
    /// All that a thread did in a part of time.
    fn within(&self, thread: i32, begin_ns: i64, end_ns: i64) -> impl Iterator<Item = Doing> {
        let did = &self.did[&thread];
        let first = did.partition_point(|(since_ns, _)| *since_ns <= begin_ns) - 1;
        let until = did.partition_point(|(since_ns, _)| *since_ns < end_ns);
        did[first..until].iter().map(|(_, doing)| *doing)
    }
}

/// A thread may have done this when the model says that it was in that state.
fn agrees(state: State, doing: Doing, damage: Damage) -> bool {
    match (state, doing) {
        (State::Unknown, _) | (State::Unborn | State::Dead, Doing::Absent) | (State::Runnable(_), Doing::Runnable) => {
            true
        }
        (
            State::Running { cpu, mode },
            Doing::Running {
                cpu: other,
                call,
                interrupt,
            },
        ) if cpu == other => match mode {
            Mode::Unknown => true,
            // What is not recorded counts as what was interrupted.
            _ if damage == Damage::NoInterrupts => match mode {
                Mode::User | Mode::Idle => call.is_none(),
                Mode::Call(name) => call == Some(name),
                _ => false,
            },
            Mode::User | Mode::Idle => call.is_none() && interrupt.is_none(),
            Mode::Call(name) => call == Some(name) && interrupt.is_none(),
            Mode::Interrupt(known) => interrupt == Some(known),
            Mode::Kernel => false,
        },
        (State::Blocked(wait), Doing::Blocked { call }) => wait.call.is_none() || wait.call == call,
        // Nobody is told when a wait ends and that for a CPU begins.
        (State::Blocked(_), Doing::Runnable) => damage.lacks_waking(),
        _ => false,
    }
}

fn check(case: &Case) -> Option<(i64, i64)> {
    let Case { seed, damage, has_tids } = *case;
    let (system, told, truth) = case.run()?;
    let context = format!("seed {seed}, {damage:?}, tids {has_tids}");
    let (mut known_ns, mut all_ns) = (0, 0);
    for (thread, slice) in &told.slices {
        let ns = slice.duration_ns();
        all_ns += ns;
        if slice.state == State::Unknown {
            continue;
        }
        known_ns += ns;
        // Ids are used again: somebody else may have that of one who is not there.
        let is_absent = matches!(slice.state, State::Unborn | State::Dead);
        let doings = truth.within(*thread, slice.begin_ns, slice.end_ns);
        for doing in doings.filter(|_| !is_absent) {
            assert!(
                agrees(slice.state, doing, damage),
                "{context}: {thread} did {doing:?} in {slice:?}"
            );
        }
        let Some(wake) = slice.wake.filter(|_| !damage.lacks_waking()) else {
            continue;
        };
        let woken = truth.wakes.get(&(*thread, wake.ns));
        let waker = wake.thread.map(|waker| id(&system, waker)).filter(|waker| *waker > 0);
        match (wake.interrupt, waker) {
            (Some(interrupt), _) => assert_eq!(woken, Some(&Err(interrupt)), "{context}: {thread} {slice:?}"),
            (None, Some(waker)) if damage != Damage::NoInterrupts => {
                assert_eq!(woken, Some(&Ok(waker)), "{context}: {thread} {slice:?}");
            }
            _ => {}
        }
    }
    for call in &told.calls {
        assert!(truth.calls.contains(call), "{context}: {call:?}");
    }
    for interrupt in &told.interrupts {
        assert!(truth.interrupts.contains(interrupt), "{context}: {interrupt:?}");
    }
    for delay in told.delays.iter().filter(|_| !damage.lacks_waking()) {
        assert!(truth.delays.contains(delay), "{context}: {delay:?}");
    }
    if damage == Damage::Nothing {
        assert_eq!(told.interrupts.len(), truth.interrupts.len(), "{context}");
        let counts = [
            told.slices.len(),
            told.calls.len(),
            told.interrupts.len(),
            told.delays.len(),
        ];
        assert!(
            !counts.contains(&0),
            "{context}: {counts:?} slices, calls, interrupts, delays"
        );
    }
    Some((known_ns, all_ns))
}

#[test]
fn what_is_known_of_a_damaged_trace_is_true() {
    for (damage, percent) in [
        (Damage::Nothing, 99),
        (Damage::Gaps, 50),
        (Damage::NoCpu(0), 5),
        (Damage::NoCpu(2), 5),
        (Damage::EarlyEnd(0), 50),
        (Damage::EarlyEnd(2), 50),
        (Damage::LateStart(1), 50),
        (Damage::LateBegin, 95),
        (Damage::Partial, 10),
        (Damage::OwnEvents, 0),
        (Damage::OwnEventsWithGaps, 0),
        (Damage::SomeEvents, 0),
        (Damage::NoWaking, 90),
        (Damage::NoWakeups, 90),
        (Damage::NoInterrupts, 95),
        (Damage::NoIdleEnds(1, Besides::Nothing), 80),
        (Damage::NoIdleEnds(1, Besides::Partial), 10),
        (Damage::NoIdleEnds(1, Besides::NoWakeups), 50),
    ] {
        let (mut known_ns, mut all_ns) = (0, 0);
        for seed in 1..=SEEDS {
            let has_tids = seed % 2 == 0;
            if let Some((known, all)) = check(&Case { seed, damage, has_tids }) {
                known_ns += known;
                all_ns += all;
            }
        }
        assert!(all_ns > 0, "{damage:?}: it was tried on none of {SEEDS} machines");
        // Who says nothing is never wrong.
        assert!(
            known_ns * 100 >= all_ns * percent,
            "{damage:?}: {known_ns} of {all_ns} ns are known"
        );
    }
}
