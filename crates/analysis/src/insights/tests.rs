// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constructed traces in which one thing stands out, and the same with a little less of it.

use super::*;
use crate::facts::{Arguments, DeviceOperation, Fact, Fork, Interrupt, Left, RequestFact, RequestStep, Switch, Woken};
use crate::model::{At, Circumstances, Gap, Gaps};
use crate::names::Name;

const MS: i64 = 1_000_000;

/// A trace, event by event.
struct Made {
    system: System,
    detectors: Listeners<dyn Detector>,
}

impl Made {
    fn new() -> Made {
        Made::of(Circumstances::whole(0))
    }

    fn of(circumstances: Circumstances) -> Made {
        Made {
            system: System::new(circumstances),
            detectors: detectors(),
        }
    }

    fn event(&mut self, ns: i64, cpu: u32, fact: &Fact<'_>) {
        let at = At {
            ns,
            cpu: Some(cpu),
            tid: None,
        };
        self.system.apply(fact, at, &mut self.detectors);
    }

    fn switch(&mut self, ns: i64, cpu: u32, previous: (i32, Left), next: i32) {
        self.switch_to(ns, cpu, previous, (next, 20));
    }

    fn switch_to(&mut self, ns: i64, cpu: u32, previous: (i32, Left), next: (i32, i32)) {
        let switch = Fact::Switch(Switch {
            previous_tid: previous.0,
            previous_name: b"a",
            previous: previous.1,
            next_tid: next.0,
            next_name: b"b",
            next_priority: next.1,
            previous_priority: None,
        });
        self.event(ns, cpu, &switch);
    }

    fn wake(&mut self, ns: i64, cpu: u32, tid: i32) {
        self.event(ns, cpu, &Fact::Waking(Woken { tid, cpu: None }));
    }

    fn call(&mut self, (begin_ns, end_ns): (i64, i64), cpu: u32, name: &str) {
        let call = self.system.names.keep(name.as_bytes());
        self.event(begin_ns, cpu, &entry(call));
        self.answer(end_ns, cpu, name);
    }

    fn answer(&mut self, ns: i64, cpu: u32, name: &str) {
        let call = Some(self.system.names.keep(name.as_bytes()));
        self.event(ns, cpu, &Fact::CallExit { call, result: 0 });
    }

    /// What stands out, by kinds and evidence: `throttled 3 240000000 80000000`.
    fn found(mut self, end_ns: i64) -> Vec<String> {
        self.system.finish(end_ns, &mut self.detectors);
        let all = self.detectors.insights(&self.system);
        let number = |value: &Value| match value {
            Value::Number(number) => number.to_string(),
            Value::Percent(percent) => format!("{percent:.0}%"),
            other => format!("{other:?}"),
        };
        let line = |one: &Insight| {
            let evidence: Vec<String> = one.evidence.iter().map(|(_, value)| number(value)).collect();
            assert!(one.span_ns.0 <= one.span_ns.1, "{one:?}");
            format!("{} {}", one.kind, evidence.join(" "))
        };
        all.iter().map(line).collect()
    }
}

fn entry(call: Name) -> Fact<'static> {
    Fact::CallEntry {
        call,
        arguments: Arguments::default(),
    }
}

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
        ["uninterruptible wait 2 300000000 150000000"]
    );
    assert_eq!(waits("fsync", 50 * MS, 2), [""; 0]);
    // A parent waits like that for what it cloned.
    assert_eq!(waits("clone3", 150 * MS, 2), [""; 0]);
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

#[test]
fn who_could_run_on_an_idle_cpu_is_throttled() {
    let made = |idle: i32| {
        let mut made = Made::new();
        for turn in 0..5 {
            let begin_ns = turn * 100 * MS;
            made.switch(begin_ns, 0, (idle, Left::Runnable), 7);
            made.switch(begin_ns + 30 * MS, 0, (7, Left::Runnable), idle);
        }
        made.found(500 * MS)
    };
    let throttled = made(0);
    assert!(
        throttled.contains(&"throttled 5 350000000 70000000".to_owned()),
        "{throttled:?}"
    );
    assert!(!made(8).iter().any(|line| line.starts_with("throttled")));
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
    assert!(found.iter().any(|line| line.starts_with("no CPU ")), "{found:?}");
    let mut alone = Made::new();
    alone.switch(0, 0, (0, Left::Runnable), 7);
    alone.switch(990 * MS, 0, (7, Left::Waiting), 0);
    assert_eq!(alone.found(1000 * MS), ["busy thread 990000000 99%"]);
}

/// Threads 7 and 9 of one process hand over a lock, each waiting so long.
fn convoy(wait_ns: i64, is_of_one_process: bool) -> Vec<String> {
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
    let mut ns = 1000;
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
    made.found(ns)
}

#[test]
fn threads_that_hand_over_a_lock_are_a_convoy() {
    let is_found = |found: Vec<String>| {
        found
            .iter()
            .any(|line| line.starts_with("lock convoy 300 15000000 50000"))
    };
    assert!(is_found(convoy(50_000, true)));
    assert!(!is_found(convoy(50_000, false)), "processes have no locks in common");
    assert_eq!(convoy(1_000, true), [""; 0], "they work more than they wait");
    assert!(!is_found(convoy(20 * MS, true)), "whoever waits for work is idle");
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
        include_str!("losses.rs"),
        include_str!("deadlines.rs"),
        include_str!("interrupts.rs"),
        include_str!("uninterruptible.rs"),
        include_str!("throttled.rs"),
        include_str!("competition.rs"),
        include_str!("convoys.rs"),
        include_str!("slow_calls.rs"),
        include_str!("slow_requests.rs"),
        include_str!("faults.rs"),
    ]
    .concat();
    let named: Vec<&str> = source
        .split("Closer::new(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(named.len() >= 9);
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
