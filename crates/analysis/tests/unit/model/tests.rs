// SPDX-License-Identifier: MIT OR Apache-2.0

use std::collections::BTreeMap;

use fastrand::Rng;

use super::script::{self, fork, switch};
use super::*;
use crate::facts::{Arguments, Interrupt, Left, Woken};

/// Keeps everything.
#[derive(Default)]
struct Kept {
    slices: Vec<Slice>,
    calls: Vec<Call>,
    interruptions: Vec<Interruption>,
    delays: Vec<Delay>,
}

impl Listen for Kept {
    fn slice(&mut self, _: &System, slice: &Slice) {
        self.slices.push(*slice);
    }

    fn call(&mut self, _: &System, call: &Call) {
        self.calls.push(*call);
    }

    fn interruption(&mut self, _: &System, interruption: &Interruption) {
        self.interruptions.push(*interruption);
    }

    fn delay(&mut self, _: &System, delay: &Delay) {
        self.delays.push(*delay);
    }
}

/// A run of a model over a script.
struct Run {
    system: System,
    kept: Kept,
}

impl Run {
    fn new(circumstances: Circumstances) -> Run {
        Run {
            system: System::new(circumstances),
            kept: Kept::default(),
        }
    }

    fn lines(mut self, lines: &str, end_ns: i64) -> Run {
        script::apply(&mut self.system, lines, &mut self.kept);
        self.system.finish(end_ns, &mut self.kept);
        self
    }

    /// What a thread did, as text: `0-10 blocked, 10-20 user`.
    fn did(&self, tid: i32) -> String {
        let of_thread = |slice: &&Slice| self.system.thread(slice.thread).tid == tid;
        let slices: Vec<String> = self
            .kept
            .slices
            .iter()
            .filter(of_thread)
            .map(|slice| {
                let state = match slice.state {
                    State::Unknown => "?".to_owned(),
                    State::Unborn => "unborn".into(),
                    State::Running { mode, .. } => match mode {
                        Mode::Unknown => "runs".into(),
                        Mode::User => "user".into(),
                        Mode::Call(call) => self.system.names.text(call).to_owned(),
                        Mode::Kernel => "kernel".into(),
                        Mode::Idle => "idle".into(),
                        Mode::Interrupt(_) => "irq".into(),
                    },
                    State::Runnable(_) => "runnable".into(),
                    State::Blocked(_) => "blocked".into(),
                    State::Stopped => "stopped".into(),
                    State::Dead => "dead".into(),
                };
                format!("{}-{} {state}", slice.begin_ns, slice.end_ns)
            })
            .collect();
        slices.join(", ")
    }
}

fn whole() -> Run {
    Run::new(Circumstances::whole(0))
}

#[test]
fn a_thread_is_followed_from_the_first_event_to_the_last() {
    let run = whole().lines(
        "10 cpu0 read
         20 cpu0 switch 1 waits 0
         30 cpu0 irq 3
         32 cpu0 waking 1
         33 cpu0 wakeup 1
         35 cpu0 irqend 3
         40 cpu0 switch 0 runs 1
         45 cpu0 answer
         50 cpu0 switch 1 runs 2
         60 cpu0 switch 2 waits 1",
        70,
    );
    // The read on a CPU of which nothing is known yet is nobody's.
    assert_eq!(
        run.did(1),
        "0-20 runs, 20-32 blocked, 32-40 runnable, 40-45 read, 45-50 user, 50-60 runnable, 60-70 user"
    );
    assert_eq!(
        run.did(0),
        "0-20 runnable, 20-30 idle, 30-35 irq, 35-40 idle, 40-70 runnable"
    );
    assert_eq!(run.did(2), "0-50 runnable, 50-60 runs, 60-70 blocked");
    let delay = run.kept.delays[0];
    assert_eq!((delay.begin_ns, delay.end_ns), (32, 40));
    let wake = delay.wake.expect("it is known");
    assert_eq!(wake.interrupt, Some(Interrupt::Soft(3)));
    // Its entry was nobody's.
    assert_eq!(run.kept.calls, []);
}

#[test]
fn calls_are_told_with_their_times() {
    let run = whole().lines(
        "5 cpu0 switch 9 waits 1
         10 cpu0 read
         20 cpu0 switch 1 waits 0
         25 cpu1 waking 1
         30 cpu1 switch 0 runs 1
         35 cpu1 answer
         40 cpu1 read",
        50,
    );
    assert_eq!(run.kept.calls.len(), 1);
    let call = run.kept.calls[0];
    assert_eq!((call.begin_ns, call.end_ns, call.result), (10, 35, 1));
    assert_eq!(
        run.did(1),
        "0-5 runnable, 5-10 user, 10-20 read, 20-25 blocked, 25-30 runnable, 30-35 read, 35-40 user, 40-50 read"
    );
}

#[test]
fn a_wait_that_is_ended_before_it_is_seen_to_begin_ends_with_the_wake_up() {
    let run = whole().lines(
        "5 cpu0 switch 9 waits 1
         19 cpu1 waking 1
         20 cpu0 switch 1 waits 0
         22 cpu0 wakeup 1
         25 cpu0 switch 0 runs 1",
        30,
    );
    assert_eq!(
        run.did(1),
        "0-5 runnable, 5-20 runs, 20-22 blocked, 22-25 runnable, 25-30 runs"
    );
}

#[test]
fn threads_begin_and_end() {
    let run = whole().lines(
        "5 cpu0 switch 9 waits 1
         10 cpu0 fork 1 2
         12 cpu0 wakeup 2
         20 cpu0 switch 1 waits 2
         30 cpu0 exit 2
         35 cpu0 switch 2 dies 0",
        50,
    );
    // Between its fork and its first wake-up nobody could run it: its parent still makes it.
    assert_eq!(
        run.did(2),
        "0-10 unborn, 10-12 unborn, 12-20 runnable, 20-35 runs, 35-50 dead"
    );
    let delays = run.kept.delays.iter();
    let delays = delays.map(|delay| {
        let waker = delay.wake.and_then(|wake| wake.thread);
        let tid = |id| run.system.thread(id).tid;
        (tid(delay.thread), waker.map(tid), delay.begin_ns, delay.end_ns)
    });
    assert_eq!(Vec::from_iter(delays), [(2, Some(1), 12, 20)]);
}

#[test]
fn a_thread_that_leaves_its_cpu_while_it_ends_is_the_same_afterwards() {
    let run = whole().lines(
        "5 cpu0 switch 9 waits 1
         10 cpu0 fork 1 2
         20 cpu0 switch 1 waits 2
         30 cpu0 exit 2
         31 cpu0 switch 2 runs 3
         32 cpu0 switch 3 waits 2
         33 cpu0 switch 2 waits! 3
         34 cpu0 waking 2
         35 cpu0 switch 3 waits 2
         40 cpu0 switch 2 dies 0",
        50,
    );
    assert_eq!(
        run.did(2),
        "0-10 unborn, 10-20 runnable, 20-31 runs, 31-32 runnable, 32-33 runs, 33-34 blocked, 34-35 runnable, 35-40 runs, 40-50 dead"
    );
    assert_eq!(run.system.threads().filter(|(_, thread)| thread.tid == 2).count(), 1);
}

#[test]
fn who_sleeps_all_the_time_is_known_from_the_state_dump() {
    let run = whole().lines("5 cpu0 dumped 7\n10 cpu0 switch 9 waits 1", 50);
    assert_eq!(run.did(7), "0-50 blocked");
}

/// A trace that lacks some time of CPU 0.
fn with_a_gap(begin_ns: i64, end_ns: i64) -> Run {
    let gap = Gap {
        cpu: Some(0),
        begin_ns,
        end_ns,
    };
    Run::new(Circumstances {
        gaps: Gaps::new(&[gap]),
        ..Circumstances::whole(0)
    })
}

#[test]
fn a_gap_is_unknown_and_what_follows_it_is_told_from_its_end() {
    let run = with_a_gap(20, 40).lines(
        "5 cpu0 switch 9 waits 1
         5 cpu1 switch 8 waits 3
         50 cpu0 switch 2 waits 0
         60 cpu1 waking 9
         70 cpu1 switch 3 waits 9",
        80,
    );
    assert_eq!(run.did(1), "0-5 runnable, 5-20 runs, 20-40 ?, 40-80 ?");
    assert_eq!(run.did(2), "0-40 ?, 40-50 runs, 50-80 blocked");
    assert_eq!(run.did(3), "0-5 runnable, 5-70 runs, 70-80 blocked");
    assert_eq!(
        run.did(9),
        "0-5 runs, 5-20 blocked, 20-40 ?, 40-60 blocked, 60-70 runnable, 70-80 runs"
    );
}

#[test]
fn the_last_event_before_a_gap_says_who_had_the_cpu() {
    // The switch at 30 contradicts what the event at 20 says.
    let run = with_a_gap(30, 40).lines(
        "5 cpu0 switch 9 waits 1
         20 cpu0:2 other
         30 cpu0:1 switch 1 waits 0",
        50,
    );
    assert_eq!(run.did(1), "0-5 runnable, 5-30 ?, 30-40 ?, 40-50 ?");
    assert_eq!(run.did(2), "0-20 ?, 20-40 ?, 40-50 ?");
}

#[test]
fn what_interrupts_the_tracers_own_threads_is_not_told() {
    let waker = |hidden| {
        let circumstances = Circumstances {
            hidden,
            ..Circumstances::whole(0)
        };
        let run = Run::new(circumstances).lines(
            "1 cpu0 rename 2 tracer-kernel
             5 cpu0 switch 1 waits 2
             10 cpu0 waking 1
             20 cpu0 switch 2 runs 1",
            30,
        );
        let woken = run.kept.delays.first().expect("it was woken");
        let wake = woken.wake.expect("it is known when");
        (wake.ns, wake.thread.map(|id| run.system.thread(id).tid))
    };
    assert_eq!(waker(None), (10, Some(2)));
    assert_eq!(waker(Some("other")), (10, Some(2)));
    assert_eq!(waker(Some("tracer")), (10, None));
}

#[test]
fn of_the_tracers_own_threads_only_when_they_have_a_cpu_is_known() {
    let circumstances = Circumstances {
        hidden: Some("tracer"),
        ..Circumstances::whole(0)
    };
    // It may have run before, next to another one of the tracer, and been woken since.
    let run = Run::new(circumstances).lines(
        "1 cpu0 rename 2 tracer-kernel
         1 cpu0 rename 3 tracer
         2 cpu1 dumped 3
         5 cpu0 switch 1 waits 2
         10 cpu0 switch 2 runs 1
         15 cpu0 waking 3",
        30,
    );
    assert_eq!(run.did(2), "0-5 ?, 5-10 runs, 10-30 ?");
    assert_eq!(run.did(3), "0-30 ?");
}

#[test]
fn a_thread_of_the_tracer_that_was_woken_before_it_left_its_cpu_does_one_thing_at_a_time() {
    let circumstances = Circumstances {
        hidden: Some("tracer"),
        ..Circumstances::whole(0)
    };
    let run = Run::new(circumstances).lines(
        "1 cpu0 rename 2 tracer
         5 cpu0 switch 1 waits 2
         10 cpu1 waking 2
         12 cpu0 switch 2 waits 1
         14 cpu1 wakeup 2
         20 cpu0 switch 1 waits 2",
        30,
    );
    assert_eq!(run.did(2), "0-5 ?, 5-12 runs, 12-20 ?, 20-30 runs");
}

#[test]
fn a_name_that_was_told_is_that_of_a_thread_once_it_does_something() {
    let run = whole().lines(
        "0 cpu0 named 1 shell
         0 cpu0 named 2 dd
         0 cpu0 named 3 gone
         5 cpu0 switch 1 waits 2
         6 cpu0 named 1 late
         7 cpu0 named 2 late",
        10,
    );
    let names: Vec<_> = run
        .system
        .threads()
        .map(|(_, thread)| (thread.tid, run.system.names.text(thread.name)))
        .collect();
    assert!(names.contains(&(1, "shell")) && names.contains(&(2, "dd")), "{names:?}");
    assert!(names.iter().all(|(tid, _)| *tid != 3), "{names:?}");
}

#[test]
fn who_becomes_another_program_has_the_cpu() {
    for (begun, tid) in [(2, 2), (2, 1)] {
        let run = whole().lines(
            &format!(
                "5 cpu0 switch 9 waits 0
                 20 cpu0:{tid} exec {begun} {tid}
                 30 cpu0:{tid} other"
            ),
            40,
        );
        assert_eq!(run.did(tid), "0-20 ?, 20-40 runs", "{begun} {tid}");
    }
}

#[test]
fn who_does_something_has_the_cpu_even_if_it_was_just_switched_away_from() {
    // The first event may come from the middle of the switch, the second may not: the thread has the CPU again.
    for (event, expected) in [
        ("other", "0-5 runs, 5-40 blocked"),
        ("exit 9", "0-5 runs, 5-20 ?, 20-40 runs"),
    ] {
        let run = whole().lines(
            &format!(
                "5 cpu0 switch 9 waits 0
                 20 cpu0:9 {event}"
            ),
            40,
        );
        assert_eq!(run.did(9), expected, "{event}");
    }
}

#[test]
fn what_contradicts_itself_is_unknown() {
    let run = whole().lines(
        "5 cpu0 switch 9 waits 1
         10 cpu0 irq 1
         11 cpu0 irqend 1
         30 cpu0 switch 2 waits 3",
        40,
    );
    assert_eq!(run.did(1), "0-5 runnable, 5-10 runs, 10-11 irq, 11-40 ?");
    assert_eq!(run.did(2), "0-30 ?, 30-40 blocked");
}

#[test]
fn a_thread_that_forks_has_its_cpu() {
    let run = whole().lines(
        "5 cpu0 switch 9 waits 1
         20 cpu0:1 fork 1 3
         30 cpu0:2 read",
        40,
    );
    assert_eq!(run.did(1), "0-5 runnable, 5-20 runs, 20-40 ?");
}

#[test]
fn who_an_event_happened_to_is_what_the_event_says() {
    // Switches from 1 to 2 and back are missing.
    let run = whole().lines(
        "5 cpu0 switch 9 waits 1
         10 cpu0:1 read
         20 cpu0:2 call write
         30 cpu0:2 return 5
         35 cpu0:2 irq 3
         36 cpu0:2 irqend 3
         40 cpu0:1 answer
         45 cpu0:1 call write
         50 cpu0 switch 1 waits 9",
        60,
    );
    let calls = run.kept.calls.iter();
    let calls = calls.map(|call| (run.system.thread(call.thread).tid, call.begin_ns, call.end_ns));
    assert_eq!(Vec::from_iter(calls), [(2, 20, 30), (1, 10, 40)]);
    assert_eq!(
        run.did(1),
        "0-5 runnable, 5-10 user, 10-40 ?, 40-45 user, 45-50 write, 50-60 blocked"
    );
    assert_eq!(run.did(2), "0-20 ?, 20-30 write, 30-35 user, 35-36 irq, 36-60 ?");
}

#[test]
fn a_cpu_that_does_not_tell_the_end_of_idling_is_found_out() {
    // Of CPU 1, so many of two turns from idling are missing.
    let run = |missing: usize| {
        let turns = [
            "5 cpu1 switch 8 waits 0",
            "6 cpu1:0 switch 0 waits 7",
            "7 cpu1:7 switch 7 waits 0",
            "8 cpu1:0 switch 0 waits 7",
            "9 cpu1:7 switch 7 waits 0",
        ];
        let is_there = |(place, _): &(usize, &&str)| place % 2 == 0 || *place > 2 * missing;
        let turns = turns.iter().enumerate().filter(is_there).map(|(_, turn)| *turn);
        let begin = ["3 cpu0 switch 1 waits 9", "4 cpu0 switch 9 waits 0"];
        let lines: Vec<&str> = begin.into_iter().chain(turns).chain(["10 cpu0 waking 1"]).collect();
        whole().lines(&lines.join("\n"), 40)
    };
    for known in 0..2 {
        let run = run(known);
        assert_eq!(run.did(1), "0-3 runs, 3-10 blocked, 10-40 runnable", "{known}");
        assert!(run.system.circumstances().idle_ends_untold.is_empty());
    }
    // It may have that CPU since.
    let found = run(2);
    assert_eq!(found.did(1), "0-3 runs, 3-10 blocked, 10-40 ?");
    assert_eq!(Vec::from_iter(&found.system.circumstances().idle_ends_untold), [&1]);
    assert_eq!(Vec::from_iter(found.system.idle_ends_missed()), [&1]);
    // Before it was woken, nothing is unknown for this reason.
    let early = Circumstances {
        tell_until_ns: 4,
        idle_ends_untold: [1].into(),
        ..Circumstances::whole(0)
    };
    let early = Run::new(early).lines("3 cpu0 switch 1 waits 9\n4 cpu0 switch 9 waits 0", 4);
    assert!(early.system.idle_ends_missed().is_empty());
}

#[test]
fn a_thread_that_comes_after_untold_idling_is_no_interrupt() {
    // Of CPU 1, the switch from idling to 7, which wakes 1, is missing.
    let waker = |before: &str| {
        let circumstances = Circumstances {
            idle_ends_untold: [1].into(),
            ..Circumstances::whole(0)
        };
        let lines = [
            "2 cpu1 switch 8 waits 0",
            "3 cpu0 switch 1 waits 9",
            before,
            "20 cpu1:7 waking 1",
            "30 cpu0 switch 9 waits 1",
        ];
        let run = Run::new(circumstances).lines(&lines.join("\n"), 40);
        let of_wait = |slice: &&Slice| matches!(slice.state, State::Blocked(_)) && slice.wake.is_some();
        let wait = run.kept.slices.iter().find(of_wait).expect("1 has waited");
        let wake = wait.wake.expect("it was woken");
        wake.thread.map(|id| run.system.thread(id).tid)
    };
    assert_eq!(waker("10 cpu1:0 irq 3\n11 cpu1:0 irqend 3"), Some(7));
    assert_eq!(waker("10 cpu1:0 irq 3"), None, "an exit is missing");
}

#[test]
fn of_some_threads_those_are_followed_that_do_something() {
    let partial = || {
        Run::new(Circumstances {
            is_partial: true,
            ..Circumstances::whole(0)
        })
    };
    let run = partial().lines(
        "10 cpu0:1 fork 1 2
         20 cpu0:1 switch 1 waits 2
         30 cpu0:2 switch 2 waits 9
         40 cpu0:9 fork 8 3",
        50,
    );
    assert_eq!(run.did(1), "0-10 ?, 10-20 runs, 20-50 blocked");
    assert_eq!(run.did(2), "0-10 unborn, 10-20 runnable, 20-30 runs, 30-50 blocked");
    assert_eq!(run.did(3), "0-40 unborn, 40-50 ?", "who made it is not followed");
    // The kernel tells the switches to and from the threads that it records; the idle thread is none of them.
    let switches = "10 cpu0:0 switch 0 waits 1
         20 cpu0:1 switch 1 waits 5
         30 cpu0:5 switch 5 waits 0";
    let run = partial().lines(switches, 50);
    assert_eq!(run.did(1), "0-10 ?, 10-20 runs, 20-50 blocked");
    let others = Run::new(Circumstances {
        is_partial: true,
        has_arrivals: false,
        ..Circumstances::whole(0)
    });
    assert_eq!(others.lines(switches, 50).did(1), "0-50 ?");
}

/// Any events in any order, also with gaps and of a partial trace: every thread's slices fill the time exactly, in their order, and a CPU has
/// one thread at a time.
#[test]
fn slices_fill_the_time_whatever_the_events_say() {
    for seed in 1..400 {
        let mut dice = Rng::with_seed(seed);
        let mut gaps = Vec::new();
        if seed % 3 == 0 {
            for _ in 0..dice.u64(..6) {
                let begin_ns = dice.u64(..4000) as i64;
                let cpu = [None, Some(0), Some(1), Some(2)][dice.u64(..4) as usize];
                let end_ns = begin_ns + dice.u64(..300) as i64;
                gaps.push(Gap { cpu, begin_ns, end_ns });
            }
        }
        let circumstances = Circumstances {
            gaps: Gaps::new(&gaps),
            is_partial: seed % 5 == 0,
            has_wakeups: seed % 7 != 0,
            ..Circumstances::whole(0)
        };
        let mut run = Run::new(circumstances);
        let read = run.system.names.keep(b"read");
        let mut ns = 0;
        for _ in 0..600 {
            // Now and then time goes back.
            ns += dice.u64(..12) as i64 - 1;
            let (tid, other) = (dice.u64(..8) as i32, dice.u64(..8) as i32);
            let left = [
                Left::Runnable,
                Left::Preempted,
                Left::Waiting,
                Left::WaitingForSure,
                Left::Stopped,
                Left::Dead,
            ];
            let left = left[dice.u64(..6) as usize];
            let interrupt = [Interrupt::Soft(tid as u32), Interrupt::Timer][dice.u64(..2) as usize];
            let fact = match dice.u64(..14) {
                0..=3 => switch(&tid.to_string(), left, &other.to_string()),
                4 => Fact::Waking(Woken { tid, cpu: None }),
                5 => Fact::Wakeup(Woken { tid, cpu: None }),
                6 => fork(tid, other, other),
                7 => Fact::Exit {
                    tid,
                    has_others: other == 1,
                },
                8 => Fact::Free { tid },
                9 => Fact::CallEntry {
                    call: read,
                    arguments: Arguments::default(),
                },
                10 => Fact::CallExit {
                    call: Some(read),
                    result: 0,
                    found: Default::default(),
                },
                11 => Fact::Begin(interrupt),
                12 => Fact::End(interrupt),
                _ => Fact::Exec {
                    tid,
                    old_tid: other,
                    file: b"/bin/x",
                },
            };
            let at = At {
                ns,
                cpu: Some(dice.u64(..3) as u32),
                tid: (dice.u64(..3) == 0).then_some(tid),
            };
            run.system.apply(&fact, at, &mut run.kept);
        }
        let end_ns = run.system.now_ns() + 10;
        run.system.finish(end_ns, &mut run.kept);
        check_exactness(&run, end_ns, seed);
        check_no_two_on_a_cpu(&run, seed);
    }
}

fn check_exactness(run: &Run, end_ns: i64, seed: u64) {
    let mut until: BTreeMap<ThreadId, i64> = BTreeMap::new();
    for slice in &run.kept.slices {
        let until = until.entry(slice.thread).or_insert(0);
        assert_eq!(slice.begin_ns, *until, "seed {seed}: {slice:?}");
        assert!(slice.end_ns > slice.begin_ns, "seed {seed}: {slice:?}");
        *until = slice.end_ns;
    }
    for (id, thread) in run.system.threads() {
        assert_eq!(until.get(&id), Some(&end_ns), "seed {seed}: {thread:?}");
    }
}

fn check_no_two_on_a_cpu(run: &Run, seed: u64) {
    let mut by_cpu: BTreeMap<u32, Vec<&Slice>> = BTreeMap::new();
    for slice in &run.kept.slices {
        if let State::Running { cpu, .. } = slice.state {
            by_cpu.entry(cpu).or_default().push(slice);
        }
    }
    for slices in by_cpu.values_mut() {
        slices.sort_by_key(|slice| slice.begin_ns);
        for pair in slices.windows(2) {
            assert!(
                pair[0].end_ns <= pair[1].begin_ns,
                "seed {seed}: {:?} and {:?}",
                pair[0],
                pair[1]
            );
        }
    }
}

/// What is known without switches: calls as `(TID, begin, end)`, of entries and exits on CPU 0.
fn calls_without_switches(gaps: &[Gap], events: &[(i64, i32, bool)]) -> Vec<(i32, i64, i64)> {
    let mut run = Run::new(Circumstances {
        is_partial: true,
        has_switches: false,
        gaps: Gaps::new(gaps),
        ..Circumstances::whole(0)
    });
    let call = run.system.names.keep(b"nanosleep");
    for &(ns, tid, is_entry) in events {
        let fact = match is_entry {
            true => Fact::CallEntry {
                call,
                arguments: Arguments::default(),
            },
            false => Fact::CallExit {
                call: Some(call),
                result: 0,
                found: Default::default(),
            },
        };
        let at = At {
            ns,
            cpu: Some(0),
            tid: Some(tid),
        };
        run.system.apply(&fact, at, &mut run.kept);
    }
    let calls = run.kept.calls.iter();
    calls
        .map(|call| (run.system.thread(call.thread).tid, call.begin_ns, call.end_ns))
        .collect()
}

#[test]
fn calls_that_a_gap_has_torn_are_counted() {
    let gap = Gap {
        cpu: Some(0),
        begin_ns: 22,
        end_ns: 28,
    };
    // The first answer is of a call from before the trace.
    let lines = "
        5 cpu0:1 answer
        10 cpu0:1 read
        12 cpu0:1 answer
        20 cpu0:1 read
        30 cpu0:1 answer
        35 cpu0:1 read
        38 cpu0:1 answer";
    let torn = |gaps: &[Gap]| {
        let circumstances = Circumstances {
            gaps: Gaps::new(gaps),
            ..Circumstances::whole(0)
        };
        let run = Run::new(circumstances).lines(lines, 50);
        let thread = run.system.find(1).expect("it is there");
        (run.kept.calls.len(), run.system.thread(thread).torn_calls())
    };
    assert_eq!(torn(&[]), (3, 0));
    assert_eq!(torn(&[gap]), (2, 1));
}

/// How many interrupts of a CPU are told and how many are torn, where events are missing from 22 to 28 ns.
fn interrupts_with_a_gap(lines: &str) -> (usize, u64) {
    let run = with_a_gap(22, 28).lines(lines, 50);
    (run.kept.interruptions.len(), run.system.torn_interrupts_on(0))
}

#[test]
fn interrupts_that_a_gap_has_torn_are_counted() {
    // The first exit is of an interrupt from before the trace; what is under way at its end is not torn.
    let around = |inside: &str| format!("5 cpu0 irqend 3\n10 cpu0 irq 3\n12 cpu0 irqend 3\n{inside}\n45 cpu0 irq 3");
    let torn = |inside| interrupts_with_a_gap(&around(inside));
    assert_eq!(torn(""), (1, 0));
    // The entry before the gap and the exit behind it may be of two interrupts, and are of one as far as is known.
    assert_eq!(torn("20 cpu0 irq 3\n30 cpu0 irqend 3"), (1, 1));
    assert_eq!(torn("30 cpu0 irqend 3"), (1, 1));
    assert_eq!(torn("20 cpu0 irq 3\n30 cpu0 irq 1\n31 cpu0 irqend 1"), (2, 1));
    assert_eq!(torn("20 cpu0 irq 3\n30 cpu0 irqend 1"), (1, 2));
    assert_eq!(torn("20 cpu0 irq 3\n30 cpu0:1 read\n31 cpu0:1 answer"), (1, 1));
    // Of two that are nested, the inner one's exit is missing.
    assert_eq!(torn("30 cpu0 irq 3\n31 cpu0 irq 1\n33 cpu0 irqend 3"), (2, 1));
    // In the gap there are some events nevertheless.
    assert_eq!(
        torn("20 cpu0 irq 3\n23 cpu0 irq 1\n24 cpu0 irqend 1\n30 cpu0 irqend 3"),
        (1, 2)
    );
}

#[test]
fn a_soft_interrupt_goes_on_when_its_thread_has_the_cpu_again() {
    let run = whole().lines(
        "5 cpu0 switch 0 runs 1
         10 cpu0:1 irq 3
         12 cpu0:1 waking 2 0
         14 cpu0:1 switch 1 runs 2
         16 cpu0:2 irq 1
         18 cpu0:2 irqend 1
         20 cpu0:2 switch 2 waits 1
         25 cpu0:1 irqend 3
         30 cpu0:1 read",
        40,
    );
    let spans = run
        .kept
        .interruptions
        .iter()
        .map(|one| (one.interrupt, one.begin_ns, one.end_ns, one.own_ns()));
    assert_eq!(
        spans.collect::<Vec<_>>(),
        [(Interrupt::Soft(1), 16, 18, 2), (Interrupt::Soft(3), 10, 25, 9)]
    );
    assert_eq!(
        run.did(1),
        "0-5 runnable, 5-10 runs, 10-14 irq, 14-20 runnable, 20-25 irq, 25-30 user, 30-40 read"
    );
    assert_eq!(
        run.did(2),
        "0-12 blocked, 12-14 runnable, 14-16 runs, 16-18 irq, 18-20 runs, 20-40 blocked"
    );
}

#[test]
fn a_soft_interrupt_that_is_switched_out_when_events_go_missing_is_torn() {
    let torn = |lines: &str| {
        interrupts_with_a_gap(&format!(
            "5 cpu0 switch 0 runs 1\n10 cpu0 irq 3\n15 cpu0 switch 1 runs 2\n{lines}"
        ))
    };
    assert_eq!(torn(""), (0, 0));
    assert_eq!(torn("20 cpu0 switch 2 waits 1\n21 cpu0 irqend 3"), (1, 0));
    assert_eq!(torn("30 cpu0 switch 2 waits 1\n35 cpu0 irqend 3"), (0, 1));
}

#[test]
fn without_gaps_no_interrupt_is_torn() {
    let run = whole().lines("5 cpu0 irqend 3\n10 cpu0 irq 3\n12 cpu0 switch 0 runs 1", 50);
    assert_eq!(run.system.torn_interrupts_on(0), 0);
}

#[test]
fn the_exit_of_a_return_from_a_handler_has_another_number() {
    let run = whole().lines(
        "5 cpu0 switch 0 runs 1
         10 cpu0:1 call rt_sigreturn
         12 cpu0:1 answer
         20 cpu0:1 read
         22 cpu0:1 answer",
        30,
    );
    let name = |call: &Call| run.system.names.text(call.name).to_owned();
    let calls: Vec<_> = run.kept.calls.iter().map(|call| (name(call), call.end_ns)).collect();
    assert_eq!(calls, [("rt_sigreturn".to_owned(), 12), ("read".to_owned(), 22)]);
    assert_eq!(
        run.did(1),
        "0-5 runnable, 5-10 user, 10-12 rt_sigreturn, 12-20 user, 20-22 read, 22-30 user"
    );
}

#[test]
fn without_switches_a_call_lasts_while_others_have_its_cpu() {
    let events = [(10, 1, true), (20, 2, true), (30, 2, false), (50, 1, false)];
    assert_eq!(calls_without_switches(&[], &events), [(2, 20, 30), (1, 10, 50)]);
}

#[test]
fn without_switches_a_call_may_have_ended_on_a_cpu_whose_events_are_missing() {
    let gap = Gap {
        cpu: Some(1),
        begin_ns: 12,
        end_ns: 15,
    };
    let events = [(10, 1, true), (20, 1, false), (30, 1, true), (40, 1, false)];
    assert_eq!(calls_without_switches(&[gap], &events), [(1, 30, 40)]);
}

#[test]
fn every_event_says_who_has_the_cpu() {
    let run = whole().lines(
        "10 cpu0:1 read
         20 cpu0:1 switch 1 waits 2
         30 cpu0:2 other
         50 cpu0:3 other
         60 cpu0:3 switch 3 waits 0
         70 cpu0:4 other
         80 cpu0:0 other",
        90,
    );
    // Behind the last event of 2 nobody knows whether it had the CPU until the first one of 3.
    assert_eq!(run.did(2), "0-20 runnable, 20-30 runs, 30-90 ?");
    assert_eq!(run.did(3), "0-50 ?, 50-60 runs, 60-90 blocked");
    assert_eq!(run.did(4), "0-70 ?, 70-90 ?");
}

#[test]
fn what_happens_while_the_kernel_turns_to_another_thread_is_still_of_the_one_before() {
    let run = whole().lines(
        "10 cpu0:1 read
         20 cpu0:1 switch 1 waits 2
         21 cpu0:1 other
         30 cpu0:2 other
         40 cpu0:1 other
         50 cpu0:1 other",
        60,
    );
    assert_eq!(run.did(1), "0-10 runs, 10-20 read, 20-40 ?, 40-60 runs");
    assert_eq!(run.did(2), "0-20 runnable, 20-30 runs, 30-60 ?");
    // An interrupt of the idle thread: by then it was done.
    let run = whole().lines(
        "10 cpu0:1 read
         20 cpu0:1 switch 1 waits 0
         25 cpu0:0 irq 3
         26 cpu0:0 irqend 3
         30 cpu0:1 other
         50 cpu0:1 other",
        60,
    );
    assert_eq!(run.did(1), "0-10 runs, 10-20 read, 20-30 ?, 30-60 runs");
}

#[test]
fn whether_a_thread_is_a_process_says_who_makes_it() {
    // The tracer found nobody of that id any more, and somebody else of the other one.
    let run = whole().lines(
        "10 cpu0:5 newtask 6 thread
         11 cpu0:5 fork 5 6
         20 cpu0:6 newtask 7 thread
         21 cpu0:6 fork 6 7
         30 cpu0:7 newtask 8 process
         31 cpu0:7 thread 3 8",
        40,
    );
    let pid = |tid| run.system.thread(run.system.find(tid).expect("a thread")).process().pid;
    assert_eq!([6, 7, 8].map(pid), [5, 5, 8]);
}

/// Behind whom a thread waited for a CPU: `10-40: 2 for 30`, for each wait.
#[derive(Default)]
struct BehindWhom {
    tid: i32,
    waits: Vec<String>,
}

impl Listen for BehindWhom {
    fn slice(&mut self, system: &System, slice: &Slice) {
        if system.thread(slice.thread).tid != self.tid || !matches!(slice.state, State::Runnable(_)) {
            return;
        }
        let mut behind = Vec::new();
        system.behind(slice.thread, (slice.begin_ns, slice.end_ns), |who, ns| {
            let who = who.map_or("?".to_owned(), |id| system.thread(id).tid.to_string());
            behind.push(format!("{who} for {ns}"));
        });
        self.waits
            .push(format!("{}-{}: {}", slice.begin_ns, slice.end_ns, behind.join(", ")));
    }
}

fn behind_whom(tid: i32, circumstances: Circumstances, lines: &str) -> Vec<String> {
    let mut to = BehindWhom {
        tid,
        ..Default::default()
    };
    let mut system = System::new(circumstances);
    script::apply(&mut system, lines, &mut to);
    system.finish(100, &mut to);
    to.waits
}

#[test]
fn who_had_the_cpu_that_a_thread_waited_for_is_known() {
    let lines = "
        1 cpu0 switch 9 waits 2
        1 cpu1 switch 8 waits 3
        10 cpu1 waking 1 0
        20 cpu0 switch 2 runs 4
        35 cpu0 switch 4 runs 2
        50 cpu0 switch 2 runs 1
        60 cpu0 switch 1 runs 0
        65 cpu0 switch 0 runs 1";
    // Not behind whom the other CPU had, but behind the idle one, which took its time.
    assert_eq!(
        behind_whom(1, Circumstances::whole(0), lines),
        ["10-50: 2 for 10, 4 for 15, 2 for 15", "60-65: 0 for 5"]
    );
}

#[test]
fn a_thread_that_waits_goes_to_the_queues_of_other_cpus() {
    let lines = "
        0 cpu1 switch 1 waits 8
        1 cpu0 switch 9 waits 2
        1 cpu1 switch 8 waits 3
        10 cpu1 waking 1 1
        11 cpu1 wakeup 1 0
        30 cpu1 migrate 1 1
        40 cpu0 switch 2 waits 5
        50 cpu1 switch 3 waits 1
        60 cpu1 switch 1 runs 3";
    // The second wait lasts beyond the trace; 3 has its CPU until then.
    assert_eq!(
        behind_whom(1, Circumstances::whole(0), lines),
        ["10-50: 3 for 1, 2 for 19, 3 for 20", "60-100: 3 for 40"]
    );
}

#[test]
fn where_events_are_missing_nobody_knows_behind_whom() {
    // Where no event names a queue, it is that of the CPU that the thread gets.
    let lines = "
        1 cpu0 switch 9 waits 2
        10 cpu1 waking 1
        30 cpu0:5 switch 5 waits 1";
    assert_eq!(behind_whom(1, Circumstances::whole(0), lines), ["10-30: ? for 20"]);
    let gap = Gap {
        begin_ns: 35,
        end_ns: 45,
        cpu: Some(0),
    };
    let lost = Circumstances {
        gaps: Gaps::new(&[gap]),
        ..Circumstances::whole(0)
    };
    let lines = "
        1 cpu0 switch 9 waits 2
        20 cpu1 waking 1 0
        30 cpu0 switch 2 waits 3
        50 cpu0 waking 7
        60 cpu0 switch 3 waits 4
        70 cpu0 switch 4 waits 1";
    assert_eq!(behind_whom(1, lost, lines), ["45-70: 3 for 15, 4 for 10"]);
}

#[test]
fn what_a_thread_does_after_half_a_call_is_unknown() {
    let half = || {
        Run::new(Circumstances {
            half_calls: ["read".to_owned()].into(),
            ..Circumstances::whole(0)
        })
    };
    let entries = "
        5 cpu0 switch 2 waits 1
        10 cpu0:1 call write
        12 cpu0:1 return 1
        15 cpu0:1 read
        20 cpu0 switch 1 waits 0
        25 cpu0 waking 1
        30 cpu0 switch 0 runs 1
        40 cpu0:1 read
        50 cpu0:1 call write
        55 cpu0:1 return 1";
    let run = half().lines(entries, 60);
    assert_eq!(
        run.did(1),
        "0-5 runnable, 5-10 user, 10-12 write, 12-15 user, 15-20 runs, 20-25 blocked, 25-30 runnable, 30-40 runs, \
         40-50 runs, 50-55 write, 55-60 user"
    );
    let calls = |run: &Run| run.kept.calls.iter().map(|call| call.begin_ns).collect::<Vec<_>>();
    assert_eq!(calls(&run), [10, 50]);

    let exits = "
        5 cpu0 switch 2 waits 1
        20 cpu0:1 answer
        30 cpu0:1 answer
        40 cpu0:1 call write
        45 cpu0:1 return 1";
    let run = half().lines(exits, 60);
    assert_eq!(
        run.did(1),
        "0-5 runnable, 5-20 runs, 20-30 runs, 30-40 runs, 40-45 write, 45-60 user"
    );
    assert_eq!(calls(&run), [40]);
}
