// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructed traces in which one thing stands out, and the same with a little less of it.

use std::sync::Arc;

use super::made::{MS, Made, entry};
use crate::facts::{
    Arguments, DeviceOperation, Fact, Fork, Futex, FutexOperation, Interrupt, Left, RequestFact, RequestStep,
};
use crate::memory::TwoFunctions;
use crate::model::{Circumstances, Gap, Gaps, WaitBegin};
use crate::names::Name;

/// A thread that waits without a signal for so long, several times.
fn waits(call: &str, ns: i64, times: i64) -> Vec<String> {
    let mut made = Made::new();
    let name = made.system.names.keep(call.as_bytes());
    made.switch(0, 0, (0, Left::Runnable), 7);
    for turn in 0..times {
        let begin_ns = turn * 1000 * MS;
        made.event(begin_ns + MS, 0, &entry(name));
        made.switch(begin_ns + 2 * MS, 0, (7, Left::WaitingForSure), 0);
        made.wake(begin_ns + 2 * MS + ns, 0, 7);
        made.switch(begin_ns + 2 * MS + ns, 0, (0, Left::Runnable), 7);
        made.answer(begin_ns + 3 * MS + ns, 0, call);
        made.switch(begin_ns + 4 * MS + ns, 0, (7, Left::Waiting), 0);
        made.wake(begin_ns + 1000 * MS, 0, 7);
        made.switch(begin_ns + 1000 * MS, 0, (0, Left::Runnable), 7);
    }
    made.found(times * 1000 * MS)
}

#[test]
fn waits_that_no_signal_ends_stand_out_when_they_are_long() {
    assert_eq!(
        waits("fsync", 150 * MS, 2),
        ["uninterruptible wait 2 2 300000000 2000000000 150000000 fsync 300000000"]
    );
    assert_eq!(waits("fsync", 50 * MS, 2), [""; 0]);
    // A parent waits like that for what it cloned.
    assert_eq!(waits("clone3", 150 * MS, 2), [""; 0]);
    // For whatever it is.
    let renamed = |found: Vec<String>| found.join("").replace("madvise", "fsync");
    assert_eq!(
        renamed(waits("madvise", 150 * MS, 2)),
        waits("fsync", 150 * MS, 2).concat()
    );
}

#[test]
fn waits_for_a_disk_stand_out_although_others_have_the_cpus() {
    // Each second it waits 40 ms for the disk, and so long for a CPU.
    let made = |cpu_ns: i64| {
        let mut made = Made::new();
        let name = made.system.names.keep(b"fsync");
        made.switch(0, 0, (0, Left::Runnable), 7);
        for turn in 0..5 {
            let begin_ns = turn * 1000 * MS;
            made.event(begin_ns + MS, 0, &entry(name));
            made.switch(begin_ns + 2 * MS, 0, (7, Left::WaitingForSure), 8);
            made.wake(begin_ns + 42 * MS, 1, 7);
            made.switch(begin_ns + 42 * MS + cpu_ns, 0, (8, Left::Waiting), 7);
            made.answer(begin_ns + 43 * MS + cpu_ns, 0, "fsync");
            made.switch(begin_ns + 44 * MS + cpu_ns, 0, (7, Left::Waiting), 0);
            made.wake(begin_ns + 1000 * MS, 0, 7);
            made.switch(begin_ns + 1000 * MS, 0, (0, Left::Runnable), 7);
        }
        let found = made.found(5000 * MS).into_iter();
        found
            .filter(|line| line.starts_with("uninterruptible wait"))
            .collect::<Vec<_>>()
    };
    assert_eq!(made(MS), [""; 0]);
    assert_eq!(
        made(700 * MS),
        ["uninterruptible wait 5 5 200000000 5000000000 40000000 fsync 200000000"]
    );
}

#[test]
fn interrupts_stand_out_when_they_keep_a_cpu() {
    let made = |handler_ns: i64| {
        let mut made = Made::new();
        for turn in 0..10 {
            let disk = Interrupt::Device(36, Default::default());
            made.event(turn * 20 * MS, 1, &Fact::Begin(disk));
            made.event(turn * 20 * MS + handler_ns, 1, &Fact::End(disk));
        }
        made.found(200 * MS)
    };
    assert_eq!(made(100_000), [""; 0]);
    assert_eq!(made(600_000), ["long interrupt 10 6000000 600000"]);
    let load = made(3 * MS);
    assert_eq!(
        load,
        ["long interrupt 10 30000000 3000000", "interrupt load 30000000 15%"]
    );
}

#[test]
fn interrupts_stand_out_when_no_thread_gets_in_between() {
    // So many handlers, one after the other, each with a soft interrupt.
    let made = |count: i64, pause_ns: i64| {
        let mut made = Made::new();
        made.switch(0, 0, (0, Left::Runnable), 7);
        let mut ns = 10 * MS;
        for _ in 0..count {
            let disk = Interrupt::Device(36, Default::default());
            made.event(ns, 0, &Fact::Begin(disk));
            made.event(ns + 20_000, 0, &Fact::End(disk));
            made.event(ns + 21_000, 0, &Fact::Begin(Interrupt::Soft(3)));
            made.event(ns + 60_000, 0, &Fact::End(Interrupt::Soft(3)));
            ns += 60_000 + pause_ns;
        }
        made.switch(500 * MS, 0, (7, Left::Waiting), 0);
        let lines = made.found(500 * MS).into_iter();
        let own = lines.filter(|line| line.starts_with("interrupts in a row"));
        own.collect::<Vec<_>>()
    };
    assert_eq!(made(100, 1_000), ["interrupts in a row 1 6099000 6099000"]);
    assert_eq!(made(20, 1_000), [""; 0], "soon over");
    assert_eq!(made(100, 50_000), [""; 0], "a thread gets on in between");
}

/// A thread of this priority waits so long for a lock whose holder another one keeps from running.
fn inversion(priority: i32, kept_ns: i64) -> Vec<String> {
    let mut made = Made::new();
    let lock = |made: &mut Made, ns: i64, operation: FutexOperation| {
        let call = made.system.names.keep(b"futex");
        let arguments = Arguments {
            futex: Some(Futex {
                address: 64,
                operation,
                is_lock: None,
            }),
            ..Arguments::default()
        };
        made.event(ns, 0, &Fact::CallEntry { call, arguments });
    };
    let us = 1_000;
    made.switch_to(0, 0, (0, Left::Runnable), (1, 39));
    made.wake(10 * us, 0, 2);
    made.switch_to(11 * us, 0, (1, Left::Preempted), (2, priority));
    lock(&mut made, 12 * us, FutexOperation::Wait);
    made.switch_to(15 * us, 0, (2, Left::Waiting), (1, 39));
    made.wake(20 * us, 0, 3);
    made.switch_to(21 * us, 0, (1, Left::Preempted), (3, 20));
    made.switch_to(21 * us + kept_ns, 0, (3, Left::Waiting), (1, 39));
    lock(&mut made, 22 * us + kept_ns, FutexOperation::Wake);
    made.wake(23 * us + kept_ns, 0, 2);
    made.switch_to(24 * us + kept_ns, 0, (1, Left::Preempted), (2, priority));
    made.answer(25 * us + kept_ns, 0, "futex");
    lock(&mut made, 26 * us + kept_ns, FutexOperation::Wake);
    made.answer(27 * us + kept_ns, 0, "futex");
    made.found(30 * us + kept_ns)
}

#[test]
fn a_real_time_thread_that_waits_for_an_ordinary_one_stands_out() {
    assert_eq!(inversion(-50, 4 * MS), ["priority inversion 1 4000000 4000000"]);
    assert_eq!(inversion(-50, MS / 2), [""; 0]);
    assert_eq!(inversion(10, 4 * MS), [""; 0], "ordinary threads share");
}

#[test]
fn a_read_that_waits_for_its_disk_far_longer_than_others_stands_out() {
    let made = |count: i64, left: Left, ns: i64| {
        let mut made = Made::new();
        made.switch(0, 0, (0, Left::Runnable), 7);
        for turn in 1..=count {
            made.call((turn * MS, turn * MS + 2_000), 0, "read");
        }
        let begin_ns = (count + 1) * MS;
        let read = made.system.names.keep(b"read");
        made.event(begin_ns, 0, &entry(read));
        made.switch(begin_ns + 1_000, 0, (7, left), 0);
        made.wake(begin_ns + 1_000 + ns, 0, 7);
        made.switch(begin_ns + 2_000 + ns, 0, (0, Left::Runnable), 7);
        made.answer(begin_ns + 3_000 + ns, 0, "read");
        made.switch(begin_ns + MS + ns, 0, (7, Left::Waiting), 0);
        let found = made.found(10_000 * MS);
        let own = found.into_iter().filter(|line| line.starts_with("slow file"));
        own.collect::<Vec<_>>()
    };
    assert_eq!(
        made(60, Left::WaitingForSure, 60 * MS),
        ["slow file 1 60000000 60000000 2000 60"]
    );
    assert_eq!(
        made(60, Left::Waiting, 60 * MS),
        [""; 0],
        "as for what comes through a pipe"
    );
    assert_eq!(made(60, Left::WaitingForSure, 20 * MS), [""; 0]);
    assert_eq!(
        made(10, Left::WaitingForSure, 60 * MS),
        [""; 0],
        "nobody knows what is usual"
    );
}

/// A thread of this priority is woken, and gets its CPU so much later.
fn woken_late(priority: i32, late_ns: i64, times: i64) -> Vec<String> {
    let mut made = Made::new();
    for turn in 0..times {
        let begin_ns = turn * 100 * MS;
        made.switch_to(begin_ns, 0, (0, Left::Runnable), (8, 20));
        made.wake(begin_ns + MS, 0, 7);
        made.switch_to(begin_ns + MS + late_ns, 0, (8, Left::Waiting), (7, priority));
        made.switch_to(begin_ns + 2 * MS + late_ns, 0, (7, Left::Waiting), (0, 20));
        made.wake(begin_ns + 100 * MS, 1, 8);
    }
    made.found(times * 100 * MS)
}

#[test]
fn late_threads_stand_out_earlier_when_they_have_a_real_time_priority() {
    assert_eq!(woken_late(-50, 2 * MS, 3), ["late real-time thread 3 6000000 2000000"]);
    assert_eq!(woken_late(-50, MS / 2, 3), [""; 0]);
    assert_eq!(woken_late(20, 2 * MS, 300), [""; 0]);
    let late = woken_late(20, 15 * MS, 300);
    // The other thread is woken, too, and not late.
    let expected = format!("late wake-ups {} 15000000 300 15000000", 300 + 299);
    assert!(late.contains(&expected), "{late:?}");
}

/// Thread 7 computes for 30 ms and loses CPU 0 while it could run, five times; what happens in the 70 ms until it gets one again.
fn lost_its_cpu(meanwhile: impl Fn(&mut Made, i64)) -> Vec<String> {
    let mut made = Made::new();
    for turn in 0..6 {
        let begin_ns = turn * 100 * MS;
        made.switch(begin_ns, 0, (0, Left::Runnable), 7);
        if turn < 5 {
            made.switch(begin_ns + 30 * MS, 0, (7, Left::Runnable), 0);
            meanwhile(&mut made, begin_ns + 30 * MS);
        }
    }
    let found = made.found(550 * MS);
    found.into_iter().filter(|line| line.starts_with("throttled")).collect()
}

#[test]
fn who_could_run_on_an_idle_cpu_is_throttled() {
    assert_eq!(lost_its_cpu(|_, _| {}), ["throttled 5 350000000 70000000"]);
    // Others have the CPU now and then, each for a moment.
    let others = |made: &mut Made, from_ns| {
        for turn in 1..300 {
            let ns = from_ns + turn * MS / 5;
            made.switch(ns, 0, (0, Left::Runnable), 8);
            made.switch(ns + MS / 10, 0, (8, Left::Waiting), 0);
        }
    };
    assert_eq!(lost_its_cpu(others), ["throttled 5 350000000 70000000"]);
}

#[test]
fn who_waits_for_a_busy_cpu_is_not_throttled() {
    let busy = |made: &mut Made, from_ns| {
        made.switch(from_ns, 0, (0, Left::Runnable), 8);
        made.switch(from_ns + 55 * MS, 0, (8, Left::Waiting), 0);
    };
    assert_eq!(lost_its_cpu(busy), [""; 0]);
    // It goes to another CPU, which was busy.
    let elsewhere = |made: &mut Made, from_ns| {
        made.switch(from_ns, 1, (0, Left::Runnable), 8);
        made.switch(from_ns + 60 * MS, 1, (8, Left::Waiting), 7);
        made.switch(from_ns + 65 * MS, 1, (7, Left::Waiting), 0);
        made.wake(from_ns + 70 * MS, 1, 7);
    };
    assert_eq!(lost_its_cpu(elsewhere), [""; 0]);
    // Its CPU was idle before it was woken: the host of a virtual machine may have had it.
    let woken = |made: &mut Made, from_ns| {
        made.switch(from_ns, 0, (0, Left::Runnable), 7);
        made.switch(from_ns + 1, 0, (7, Left::Waiting), 0);
        made.wake(from_ns + 5 * MS, 1, 7);
    };
    assert_eq!(lost_its_cpu(woken), [""; 0]);
}

#[test]
fn who_waits_for_a_cpu_more_than_it_has_one_stands_out() {
    let mut made = Made::new();
    made.switch(0, 0, (0, Left::Runnable), 7);
    for turn in 0..10 {
        made.switch(turn * 100 * MS + 20 * MS, 0, (7, Left::Runnable), 8);
        made.switch(turn * 100 * MS + 99 * MS, 0, (8, Left::Runnable), 7);
    }
    made.switch(1000 * MS, 0, (7, Left::Runnable), 8);
    let found = made.found(1010 * MS);
    assert!(
        found.contains(&"no CPU 800000000 210000000 b (8) 800000000".to_owned()),
        "{found:?}"
    );
    let mut alone = Made::new();
    alone.switch(0, 0, (0, Left::Runnable), 7);
    alone.switch(990 * MS, 0, (7, Left::Waiting), 0);
    assert_eq!(alone.found(1000 * MS), ["busy thread 990000000 99%"]);
}

/// Threads 7 and 9 of one process hand over a lock, each waiting so long.
/// The threads compute that long before it and after it.
fn convoy(wait_ns: i64, is_of_one_process: bool, compute_ns: i64) -> Vec<String> {
    let mut made = Made::new();
    let futex = made.system.names.keep(b"futex");
    made.switch(0, 0, (0, Left::Runnable), 7);
    let fork = Fact::Fork(Fork {
        parent_tid: 7,
        parent_pid: Some(7),
        tid: 9,
        pid: Some(if is_of_one_process { 7 } else { 9 }),
        name: b"b",
    });
    made.event(1, 0, &fork);
    made.switch(2, 1, (0, Left::Runnable), 9);
    let mut ns = 1000 + compute_ns;
    for turn in 0..300 {
        let (waits, wakes) = if turn % 2 == 0 { (0, 1) } else { (1, 0) };
        let tid = |cpu| if cpu == 0 { 7 } else { 9 };
        made.event(ns, waits, &entry(futex));
        made.switch(ns + 100, waits, (tid(waits), Left::Waiting), 0);
        ns += 100 + wait_ns;
        made.wake(ns, wakes, tid(waits));
        made.switch(ns, waits, (0, Left::Runnable), tid(waits));
        made.answer(ns + 100, waits, "futex");
        ns += 20_000;
    }
    made.found(ns + compute_ns)
}

/// Two threads of a process, 7 and 9, each with a CPU; and the call that waits for a lock.
fn two_threads() -> (Made, Name) {
    let mut made = Made::new();
    let futex = made.system.names.keep(b"futex");
    made.switch(0, 0, (0, Left::Runnable), 7);
    let fork = Fact::Fork(Fork {
        parent_tid: 7,
        parent_pid: Some(7),
        tid: 9,
        pid: Some(7),
        name: b"b",
    });
    made.event(1, 0, &fork);
    made.switch(2, 1, (0, Left::Runnable), 9);
    (made, futex)
}

#[test]
fn a_convoy_says_in_which_functions_its_threads_waited() {
    let (mut made, futex) = two_threads();
    made.system.set_memory(Arc::new(TwoFunctions));
    let mut ns = 1000;
    for turn in 0..300 {
        let (waits, wakes, tid) = if turn % 2 == 0 { (0, 1, 7) } else { (1, 0, 9) };
        made.event(ns, waits, &entry(futex));
        made.switch(ns, waits, (tid, Left::Waiting), 0);
        let frame = if turn % 3 == 0 { 200 } else { 100 };
        made.system.may_wait(WaitBegin::Switch { tid }, &[7, frame, 9]);
        ns += 50_000;
        made.wake(ns, wakes, tid);
        made.switch(ns, waits, (0, Left::Runnable), tid);
        made.answer(ns + 100, waits, "futex");
        ns += 20_000;
    }
    let found = made.found(ns);
    let convoy = found.iter().find(|line| line.starts_with("lock convoy 300 "));
    let is_said = convoy.is_some_and(|line| line.ends_with(" \"take_order 10000000, flush 5000000\""));
    assert!(is_said, "{found:?}");
}

#[test]
fn threads_that_hand_over_a_lock_are_a_convoy() {
    let is_found = |found: Vec<String>| {
        found
            .iter()
            .any(|line| line.starts_with("lock convoy 300 15000000 50000 270"))
    };
    assert!(is_found(convoy(50_000, true, 0)));
    assert!(
        is_found(convoy(50_000, true, 1_000 * MS)),
        "what is computed before and after is not in its way"
    );
    assert!(!is_found(convoy(50_000, false, 0)), "processes have no locks in common");
    assert_eq!(convoy(1_000, true, 0), [""; 0], "they work more than they wait");
    assert!(!is_found(convoy(20 * MS, true, 0)), "whoever waits for work is idle");
}

/// Two threads take turns with a lock. Whoever waits looks every 5 ms whether it is free: `timeouts` times in vain.
fn polled_lock(timeouts: u64, takes_turns: bool) -> Vec<String> {
    let (mut made, futex) = two_threads();
    let mut ns = 1000;
    for turn in 0..20 {
        let (waits, wakes) = if turn % 2 == 0 || !takes_turns { (0, 1) } else { (1, 0) };
        let tid = if waits == 0 { 7 } else { 9 };
        for _ in 0..timeouts {
            made.event(ns, waits, &entry(futex));
            made.switch(ns + 100, waits, (tid, Left::Waiting), 0);
            ns += 5 * MS;
            made.event(ns, waits, &Fact::Begin(Interrupt::Timer));
            made.wake(ns, waits, tid);
            made.event(ns, waits, &Fact::End(Interrupt::Timer));
            made.switch(ns, waits, (0, Left::Runnable), tid);
            made.answer(ns + 100, waits, "futex");
            ns += 1000;
        }
        made.event(ns, waits, &entry(futex));
        made.switch(ns + 100, waits, (tid, Left::Waiting), 0);
        ns += MS;
        made.wake(ns, wakes, tid);
        made.switch(ns, waits, (0, Left::Runnable), tid);
        made.answer(ns + 100, waits, "futex");
        ns += 20_000;
    }
    let found = made.found(ns);
    found
        .into_iter()
        .filter(|line| line.starts_with("lock convoy"))
        .collect()
}

#[test]
fn waits_for_a_lock_that_time_ended_count_where_its_threads_take_turns() {
    let found = polled_lock(5, true);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("lock convoy 120 "), "{found:?}");
    assert_eq!(polled_lock(5, false), [""; 0], "one waits for what the other one does");
    assert_eq!(polled_lock(1, true), [""; 0], "they are few");
}

#[test]
fn a_call_that_is_mostly_quick_stands_out_when_it_is_not() {
    let made = |name: &str, count: i64| {
        let mut made = Made::new();
        made.switch(0, 0, (0, Left::Runnable), 7);
        for turn in 1..=count {
            made.call((turn * MS, turn * MS + 2_000), 0, name);
        }
        made.call(((count + 1) * MS, (count + 31) * MS), 0, name);
        made.switch((count + 32) * MS, 0, (7, Left::Waiting), 0);
        let found = made.found(10_000 * MS);
        let own = found.into_iter().filter(|line| line.starts_with("slow call"));
        own.collect::<Vec<_>>()
    };
    assert_eq!(made("openat", 60).len(), 1);
    assert!(made("openat", 60)[0].starts_with("slow call 1 30000000 30000000 "));
    assert_eq!(made("openat", 10), [""; 0], "nobody knows what is usual");
    assert_eq!(made("epoll_wait", 60), [""; 0], "that waits by its purpose");
}

#[test]
fn a_slow_call_says_of_which_file_it_was() {
    let mut made = Made::new();
    made.switch(0, 0, (0, Left::Runnable), 7);
    for turn in 1..=60 {
        let call = made.system.names.keep(b"openat");
        let arguments = Arguments {
            path: if turn == 60 { b"/srv/late" } else { b"/srv/early" },
            ..Arguments::default()
        };
        made.event(turn * MS, 0, &Fact::CallEntry { call, arguments });
        let took_ns = if turn == 60 { 30 * MS } else { 2_000 };
        made.answer(turn * MS + took_ns, 0, "openat");
    }
    made.switch(100 * MS, 0, (7, Left::Waiting), 0);
    let said = made.said(10_000 * MS);
    let expected = "slow call: openat took unusually long, longest in a (7), on /srv/late";
    assert!(said.contains(&expected.to_owned()), "{said:?}");
}

#[test]
fn a_call_is_not_slow_because_others_had_the_cpu() {
    let mut made = Made::new();
    made.switch(0, 0, (0, Left::Runnable), 7);
    for turn in 1..=60 {
        made.call((turn * MS, turn * MS + 2_000), 0, "openat");
    }
    let open = made.system.names.keep(b"openat");
    made.event(70 * MS, 0, &entry(open));
    made.switch(71 * MS, 0, (7, Left::Runnable), 8);
    made.switch(91 * MS, 0, (8, Left::Waiting), 7);
    made.answer(92 * MS, 0, "openat");
    assert!(!made.found(100 * MS).iter().any(|line| line.starts_with("slow call")));
}

#[test]
fn a_storm_is_many_faults_for_what_was_computed() {
    let made = |gap_ns: i64| {
        let mut made = Made::new();
        made.switch(0, 0, (0, Left::Runnable), 7);
        for turn in 1..=20_000 {
            made.event(turn * gap_ns, 0, &Fact::PageFault { is_kernel: false });
            // A slice ends now and then.
            if turn % 1000 == 0 {
                made.call((turn * gap_ns + 1, turn * gap_ns + 2), 0, "brk");
            }
        }
        made.switch(20_001 * gap_ns, 0, (7, Left::Waiting), 0);
        let found = made.found(21_000 * gap_ns);
        found.iter().any(|line| line.starts_with("fault storm 20000 "))
    };
    assert!(made(2_000));
    assert!(!made(50_000));
}

#[test]
fn what_is_missing_comes_first() {
    let mut circumstances = Circumstances::whole(0);
    let gap = |begin_ns, end_ns| Gap {
        cpu: Some(0),
        begin_ns,
        end_ns,
    };
    circumstances.gaps = Gaps::new(&[gap(5 * MS, 7 * MS), gap(900 * MS, i64::MAX)]);
    let mut made = Made::of(circumstances);
    made.switch(0, 1, (0, Left::Runnable), 7);
    made.switch(995 * MS, 1, (7, Left::Waiting), 0);
    let found = made.found(1000 * MS);
    assert_eq!(found, ["losses 2 102000000 100000000", "busy thread 995000000 100%"]);
}

#[test]
fn every_closer_is_an_analysis() {
    let source = [
        include_str!("../../../src/insights/losses.rs"),
        include_str!("../../../src/insights/deadlines.rs"),
        include_str!("../../../src/insights/inversions.rs"),
        include_str!("../../../src/insights/interrupts.rs"),
        include_str!("../../../src/insights/streaks.rs"),
        include_str!("../../../src/insights/uninterruptible.rs"),
        include_str!("../../../src/insights/throttled.rs"),
        include_str!("../../../src/insights/competition.rs"),
        include_str!("../../../src/insights/convoys.rs"),
        include_str!("../../../src/insights/slow_calls.rs"),
        include_str!("../../../src/insights/slow_files.rs"),
        include_str!("../../../src/insights/slow_requests.rs"),
        include_str!("../../../src/insights/faults.rs"),
    ]
    .concat();
    let named: Vec<&str> = source
        .split("Closer::new(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(named.len() >= 12);
    for name in named {
        assert!(crate::analyses::ALL.iter().any(|known| known.name == name), "{name}");
    }
}

#[test]
fn a_device_stands_out_when_it_is_slower_than_it_mostly_is() {
    let made = |count: i64, slow_ns: i64| {
        let mut made = Made::new();
        for turn in 0..=count {
            let took_ns = if turn == count { slow_ns } else { MS };
            let request = RequestFact {
                device: 8,
                sector: turn.cast_unsigned() * 8,
                sectors: 8,
                bytes: 4096,
                operation: DeviceOperation::Read,
                tid: None,
                error: 0,
            };
            made.event(turn * 10 * MS, 0, &Fact::Request(RequestStep::Issue, request));
            made.event(
                turn * 10 * MS + took_ns,
                0,
                &Fact::Request(RequestStep::Complete, request),
            );
        }
        let found = made.found((count + 100) * 10 * MS);
        found
            .into_iter()
            .filter(|line| line.starts_with("slow request"))
            .count()
    };
    assert_eq!(made(100, 60 * MS), 1);
    assert_eq!(made(100, 5 * MS), 0);
    assert_eq!(made(10, 60 * MS), 0, "nobody knows what is usual");
}

/// A thread that waits for events sixty times, and computes or waits in between, one time for longer.
fn event_loop(usual_ns: i64, long_ns: i64, computes: bool) -> Vec<String> {
    let mut made = Made::new();
    let name = made.system.names.keep(b"epoll_wait");
    made.switch(0, 0, (0, Left::Runnable), 7);
    let mut ns = 0;
    for turn in 0..60 {
        made.event(ns, 0, &entry(name));
        let told = Fact::CallExit {
            call: Some(name),
            result: 1,
            found: Default::default(),
        };
        made.event(ns + 1000, 0, &told);
        let turn_ns = if turn == 30 { long_ns } else { usual_ns };
        if turn == 30 && !computes {
            made.switch(ns + 2000, 0, (7, Left::Waiting), 0);
            made.wake(ns + turn_ns, 0, 7);
            made.switch(ns + turn_ns, 0, (0, Left::Runnable), 7);
        }
        ns += 1000 + turn_ns;
    }
    made.event(ns, 0, &entry(name));
    made.switch(ns + 1000, 0, (7, Left::Waiting), 0);
    made.found(ns + 1000 * MS)
}

#[test]
fn an_event_loop_that_computes_for_long_stands_out() {
    let found = event_loop(MS, 80 * MS, true);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("event loop stall 1 80000000 80000000 "),
        "{found:?}"
    );
    assert_eq!(event_loop(MS, 40 * MS, true), [""; 0]);
    assert_eq!(event_loop(10 * MS, 80 * MS, true), [""; 0]);
    assert_eq!(event_loop(MS, 80 * MS, false), [""; 0]);
}
