// SPDX-License-Identifier: MIT OR Apache-2.0

use fastrand::Rng;

use super::*;
use crate::analysis::Who;
use crate::model::{Circumstances, Gap, Gaps, script};

/// The path of a thread through a script that ends at 100 ns: `0-20 1 running, 20-60 2 running (lock)`, where the cause in brackets is
/// that of the wait of the thread whose path it is.
fn path(tid: i64, lines: &str) -> String {
    path_in(Circumstances::whole(0), tid, lines)
}

fn path_in(circumstances: Circumstances, tid: i64, lines: &str) -> String {
    let report = report(circumstances, tid, lines);
    let rows = &report.tables[3].rows;
    let texts = rows.iter().map(|row| {
        let [begin, ns, _, _, tid, _, _, state, cause, _, by, wait, _] = row.as_slice() else {
            panic!("{row:?}");
        };
        let (Value::Number(begin), Value::Number(ns), Value::Number(tid)) = (begin, ns, tid) else {
            panic!("{row:?}");
        };
        let word = |value: &Value, before: &str, behind: &str| match value {
            Value::Text(text) => format!("{before}{text}{behind}"),
            _ => String::new(),
        };
        format!(
            "{begin}-{} {tid} {}{}{}{}",
            begin + ns,
            word(state, "", ""),
            word(cause, " ", ""),
            word(by, " by ", ""),
            word(wait, " (", ")"),
        )
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn report(circumstances: Circumstances, tid: i64, lines: &str) -> Report {
    let options = Options {
        who: Who {
            tids: Vec::from_iter(Some(tid).filter(|tid| *tid != 0)),
            ..Who::default()
        },
        ..Options::default()
    };
    let mut analysis = CriticalPath::new(&options);
    let mut system = System::new(circumstances);
    script::apply(&mut system, lines, &mut analysis);
    system.finish(100, &mut analysis);
    analysis.report(&system)
}

/// Lines without the spaces before them.
fn check(path: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).collect();
    assert_eq!(path, expected.join("\n"));
}

const PING_PONG: &str = "
    5 cpu0 switch 9 waits 1
    5 cpu1 switch 8 waits 0
    10 cpu0 read
    20 cpu0 switch 1 waits 2
    25 cpu0 call write
    30 cpu0 waking 1
    40 cpu0 switch 2 waits 1
    50 cpu0 waking 2
    60 cpu0 switch 1 waits 2
    70 cpu0 waking 1
    80 cpu0 switch 2 waits 1";

#[test]
fn two_that_hand_a_byte_to_and_fro_share_the_path() {
    check(
        &path(1, PING_PONG),
        "0-5 1 runnable by (9)
         5-20 1 running
         20-30 2 running (thread)
         30-40 1 runnable by (2)
         40-60 1 running
         60-70 2 running (thread)
         70-80 1 runnable by (2)
         80-100 1 running",
    );
    // What comes after it has left does not matter to it.
    check(
        &path(2, PING_PONG),
        "0-20 2 runnable by (1)
         20-40 2 running
         40-50 1 running (thread)
         50-60 2 runnable by (1)
         60-80 2 running
         80-100 2 blocked unknown",
    );
}

#[test]
fn shares_are_of_the_path() {
    let report = report(Circumstances::whole(0), 1, PING_PONG);
    let of = |table: &Table, key: &str, row: usize| {
        let place = table.columns.iter().position(|column| column.key == key);
        table.rows[row][place.expect("there is such a column")].clone()
    };
    let threads = &report.tables[1];
    assert_eq!(threads.rows.len(), 2);
    assert_eq!(of(threads, "tid", 0), Value::Number(1));
    assert_eq!(of(threads, "share_percent", 0), Value::Percent(80.0));
    assert_eq!(of(threads, "running_ns", 0), Value::Number(55));
    assert_eq!(of(threads, "runnable_ns", 0), Value::Number(25));
    assert_eq!(of(threads, "share_percent", 1), Value::Percent(20.0));
    let causes = &report.tables[0];
    assert_eq!(of(causes, "state", 0), "running".into());
    assert_eq!(of(causes, "share_percent", 0), Value::Percent(75.0));
    assert_eq!(of(causes, "share_percent", 1), Value::Percent(25.0));
    assert_eq!(report.notes, Vec::<String>::new());
}

#[test]
fn the_last_of_a_lock_convoy_waits_for_all_before_it() {
    // 1 has the lock until 20, hands it to 2, that one to 3; each holds it for 30 ns.
    let convoy = "
        1 cpu0 switch 9 waits 1
        1 cpu1 switch 8 waits 2
        2 cpu1 call futex
        5 cpu1 switch 2 waits 3
        6 cpu1 call futex
        10 cpu1 switch 3 waits 0
        15 cpu0 call futex
        20 cpu0 waking 2
        25 cpu1 switch 0 runs 2
        26 cpu1 return 0
        50 cpu1 call futex
        55 cpu1 waking 3
        60 cpu1 switch 2 waits 3
        61 cpu1 return 0";
    check(
        &path(3, convoy),
        "0-5 3 runnable by (2)
         5-10 3 running
         10-20 1 running (lock)
         20-25 2 runnable (lock)
         25-55 2 running (lock)
         55-60 3 runnable by (2)
         60-100 3 running",
    );
}

#[test]
fn a_wait_for_a_disk_leads_to_its_interrupt() {
    // The kernel's thread 7 does what the interrupt left.
    let disk = "
        1 cpu0 kernel 7
        1 cpu0 switch 9 waits 1
        2 cpu0 read
        10 cpu0 switch 1 waits! 0
        40 cpu0 device 36
        42 cpu0 waking 7
        44 cpu0 deviceend 36
        46 cpu0 switch 0 runs 7
        50 cpu0 waking 1
        55 cpu0 switch 7 waits 1
        60 cpu0 answer
        70 cpu0 timer
        73 cpu0 timerend";
    check(
        &path(1, disk),
        "0-1 1 runnable by (9)
         1-10 1 running
         10-42 7 blocked io by irq 36 disk (io)
         42-46 7 runnable (io)
         46-50 7 running (io)
         50-55 1 runnable by (7)
         55-70 1 running
         70-73 1 interrupted by timer
         73-100 1 running",
    );
}

/// 1 waits for what 2 sends to it, over the loopback interface.
const LOOPBACK: &str = "
    1 cpu0 switch 9 waits 1
    1 cpu1 switch 8 waits 2
    10 cpu0 call recvfrom
    12 cpu0 switch 1 waits 0
    40 cpu1 call sendto
    42 cpu1 raise 3
    43 cpu1 irq 3
    44 cpu1 waking 1
    45 cpu1 irqend 3
    50 cpu0 switch 0 runs 1";

#[test]
fn a_wait_for_the_loopback_interface_leads_to_who_sent() {
    check(
        &path(1, LOOPBACK),
        "0-1 1 runnable by (9)
         1-12 1 running
         12-43 2 running (network)
         43-44 2 interrupted by softirq NET_RX (network)
         44-50 1 runnable
         50-100 1 running",
    );
    // What came from outside while it sent, or may have, is not its work.
    let begin = "0-1 1 runnable by (9)
         1-12 1 running
         12-44 1 blocked network by softirq NET_RX
         44-50 1 runnable
         50-100 1 running";
    for raise in [
        "42 cpu1 device 36\n 42 cpu1 raise 3\n 42 cpu1 deviceend 36\n",
        "41 cpu1 device 36\n 41 cpu1 raise 3\n 41 cpu1 deviceend 36\n 42 cpu1 raise 3\n",
        "42 cpu1 raise 3\n 42 cpu1 device 36\n 42 cpu1 raise 3\n 42 cpu1 deviceend 36\n",
        "",
    ] {
        check(&path(1, &LOOPBACK.replace("42 cpu1 raise 3\n", raise)), begin);
    }
    let circumstances = Circumstances {
        has_interrupts: false,
        ..Circumstances::whole(0)
    };
    check(&path_in(circumstances, 1, LOOPBACK), begin);
}

#[test]
fn what_is_left_of_soft_interrupts_leads_over_the_thread_that_does_it() {
    let deferred = "
        0 cpu1 rename 7 ksoftirqd/1
        1 cpu0 switch 9 waits 1
        1 cpu1 switch 7 waits 2
        10 cpu0 call recvfrom
        12 cpu0 switch 1 waits 0
        40 cpu1 call sendto
        42 cpu1 raise 3
        43 cpu1 waking 7
        45 cpu1 switch 2 runs 7
        46 cpu1 irq 3
        47 cpu1 waking 1
        48 cpu1 irqend 3
        50 cpu0 switch 0 runs 1";
    check(
        &path(1, deferred),
        "0-1 1 runnable by (9)
         1-12 1 running
         12-43 2 running (network)
         43-45 7 runnable by (2) (network)
         45-46 7 running (network)
         46-47 7 interrupted by softirq NET_RX (network)
         47-50 1 runnable
         50-100 1 running",
    );
}

#[test]
fn a_wait_for_a_disk_names_the_device_and_who_else_asked() {
    let wait = |asked_ns: i64, completed: &str| {
        let mut lines = vec![
            "1 cpu0 switch 9 waits 2",
            "2 cpu0 rename 2 writer",
            "6 cpu0 switch 2 waits 1",
            "10 cpu0 switch 1 waits! 0",
            "40 cpu0 device 36",
            completed,
            "42 cpu0 waking 1",
            "44 cpu0 deviceend 36",
            "46 cpu0 switch 0 runs 1",
        ];
        let asked = format!("{asked_ns} cpu0 issue 100");
        lines.insert(if asked_ns < 6 { 2 } else { 3 }, &asked);
        let path = path(1, &lines.join("\n"));
        let wait = path.lines().find(|line| line.starts_with("10-42"));
        wait.expect("it waits").to_owned()
    };
    let done = "41 cpu0 complete 100";
    assert_eq!(wait(4, done), "10-42 1 blocked io by irq 36 disk: 8:0 for writer (2)");
    assert_eq!(
        wait(8, done),
        "10-42 1 blocked io by irq 36 disk: 8:0",
        "it asks itself"
    );
    // Of the other one nobody knows who asked for it.
    let several = "41 cpu0 complete 100\n41 cpu0 complete 200";
    assert_eq!(wait(4, several), "10-42 1 blocked io by irq 36 disk: 8:0");
}

#[test]
fn a_wait_for_time_leads_to_the_timer() {
    let timer = "
        1 cpu0 switch 9 waits 1
        2 cpu0 call clock_nanosleep
        10 cpu0 switch 1 waits 0
        90 cpu0 timer
        91 cpu0 waking 1
        92 cpu0 timerend
        95 cpu0 switch 0 runs 1";
    check(
        &path(1, timer),
        "0-1 1 runnable by (9)
         1-10 1 running
         10-91 1 blocked timer by timer
         91-95 1 runnable
         95-100 1 running",
    );
    // Without interrupts in the trace nobody knows who ended it, and the call tells what it was.
    let nobody = timer.replace("90 cpu0 timer\n", "\n").replace("92 cpu0 timerend", "");
    assert!(path(1, &nobody).contains("10-91 1 blocked timer\n91-95"));
}

#[test]
fn a_chain_over_three_processes_goes_back_to_who_began_it() {
    // 1 waits for its child 2, which waits for 3, which sleeps; 3 is begun by 2.
    let chain = "
        1 cpu0 switch 9 waits 1
        5 cpu0 fork 1 2
        6 cpu0 call wait4
        10 cpu0 switch 1 waits 2
        15 cpu0 fork 2 3
        16 cpu0 call wait4
        20 cpu0 switch 2 waits 3
        25 cpu0 call clock_nanosleep
        30 cpu0 switch 3 waits 0
        60 cpu0 timer
        61 cpu0 waking 3
        62 cpu0 timerend
        65 cpu0 switch 0 runs 3
        70 cpu0 exit 3
        71 cpu0 waking 2
        75 cpu0 switch 3 dies 2
        80 cpu0 exit 2
        81 cpu0 waking 1
        85 cpu0 switch 2 dies 1
        86 cpu0 return 2
        90 cpu0 exit 1
        91 cpu0 switch 1 dies 0";
    check(
        &path(1, chain),
        "0-1 1 runnable by (9)
         1-10 1 running
         10-20 2 running (thread)
         20-30 3 running (thread)
         30-61 3 blocked timer by timer (thread)
         61-65 3 runnable (thread)
         65-71 3 running (thread)
         71-75 2 runnable by child (3) (thread)
         75-81 2 running (thread)
         81-85 1 runnable by child (2)
         85-91 1 running",
    );
    // Its own path begins with it, and ends.
    check(
        &path(3, chain),
        "15-20 3 runnable by child (2)
         20-30 3 running
         30-61 3 blocked timer by timer
         61-65 3 runnable
         65-75 3 running",
    );
}

#[test]
fn who_did_the_work_before_it_began_is_its_parent() {
    // 5 does 2's work from 30 on; 1 waits for 5 and not for 2.
    let born = "
        1 cpu0 switch 9 waits 1
        1 cpu1 switch 8 waits 2
        10 cpu0 switch 1 waits 0
        30 cpu1 fork 2 5
        40 cpu1 switch 2 waits 5
        50 cpu1 waking 1
        60 cpu0 switch 0 runs 1";
    check(
        &path(1, born),
        "0-1 1 runnable by (9)
         1-10 1 running
         10-30 2 running (thread)
         30-40 5 runnable by (2) (thread)
         40-50 5 running (thread)
         50-60 1 runnable
         60-100 1 running",
    );
}

#[test]
fn a_gap_stays_unknown_and_hides_nothing_else() {
    let gap = Gap {
        cpu: Some(1),
        begin_ns: 30,
        end_ns: 40,
    };
    let circumstances = Circumstances {
        gaps: Gaps::new(&[gap]),
        ..Circumstances::whole(0)
    };
    let lines = "
        1 cpu0 switch 9 waits 1
        1 cpu1 switch 8 waits 2
        10 cpu0 switch 1 waits 0
        50 cpu1 switch 2 runs 3
        60 cpu1 switch 3 waits 2
        70 cpu1 waking 1
        80 cpu0 switch 0 runs 1";
    // A wait in which events are missing may have been several.
    check(
        &path_in(circumstances, 1, lines),
        "0-1 1 runnable by (9)
         1-10 1 running
         10-30 1 blocked unknown
         30-40 1 unknown
         40-50 2 running (thread)
         50-60 2 preempted by (3) (thread)
         60-70 2 running (thread)
         70-80 1 runnable
         80-100 1 running",
    );
}

#[test]
fn of_a_part_of_time_the_path_is_that_part_of_the_whole_one() {
    let circumstances = Circumstances {
        tell_from_ns: 15,
        tell_until_ns: 65,
        ..Circumstances::whole(0)
    };
    check(
        &path_in(circumstances, 1, PING_PONG),
        "15-20 1 running
         20-30 2 running (thread)
         30-40 1 runnable by (2)
         40-60 1 running
         60-65 2 running (thread)",
    );
}

#[test]
fn without_a_name_it_is_the_thread_that_had_a_cpu_longest() {
    let report = report(Circumstances::whole(0), 0, PING_PONG);
    assert_eq!(
        report.notes,
        ["this is the path of (1); choose another thread with --tid"]
    );
}

/// Whatever the events say, the segments fill the time exactly.
#[test]
fn segments_fill_the_time_whatever_the_events_say() {
    let mut dice = Rng::with_seed(1);
    let mut roll = |sides: u64| dice.u64(..sides);
    for _ in 0..200 {
        let mut lines = String::new();
        let mut ns = 0;
        while ns < 100 {
            let (cpu, tid, other) = (roll(2), roll(5) + 1, roll(6));
            let left = ["runs", "waits", "stops", "dies"][(roll(20) as usize).min(19) / 6];
            let event = match roll(10) {
                0..=3 => format!("switch {tid} {left} {other}"),
                4..=6 => format!("waking {tid}"),
                7 => format!("fork {tid} {}", other + 10),
                8 => "irq 1".to_owned(),
                _ => "irqend 1".to_owned(),
            };
            lines += &format!("{ns} cpu{cpu} {event}\n");
            ns += roll(3);
        }
        let mut analysis = CriticalPath::new(&Options::default());
        let mut system = System::new(Circumstances::whole(0));
        script::apply(&mut system, &lines, &mut analysis);
        system.finish(100, &mut analysis);
        for (thread, _) in system.threads() {
            let (mut until_ns, end_ns) = analysis.life(thread);
            for segment in walk(&analysis.graph, thread, (until_ns, end_ns)) {
                assert_eq!(segment.begin_ns, until_ns, "{lines}");
                assert!(segment.end_ns > until_ns, "{lines}");
                until_ns = segment.end_ns;
            }
            assert_eq!(until_ns, end_ns, "{lines}");
        }
    }
}
