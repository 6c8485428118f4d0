// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of traces whose answers are known.

use std::cell::RefCell;
use std::rc::Rc;

use super::{ALL, Cell, Rows, Sink, Table};
use crate::model::device_script::Run;
use crate::model::{Circumstances, Gap, Gaps, System, script};
use crate::pass::Listeners;

/// Rows as text: values with spaces between, `-` for none.
#[derive(Clone, Default)]
struct Text(Rc<RefCell<Vec<Vec<String>>>>);

impl Sink for Text {
    fn cell(&mut self, cell: Cell<'_>) {
        let mut rows = self.0.borrow_mut();
        let text = match cell {
            Cell::None => "-".to_owned(),
            Cell::Number(number) => number.to_string(),
            Cell::Text(text) => text.into_owned(),
        };
        if rows.is_empty() {
            rows.push(Vec::new());
        }
        rows.last_mut().expect("one was begun").push(text);
    }

    fn end_row(&mut self) {
        self.0.borrow_mut().push(Vec::new());
    }
}

impl Text {
    fn lines(&self) -> Vec<String> {
        let rows = self.0.borrow();
        let rows = rows.iter().filter(|row| !row.is_empty());
        rows.map(|row| row.join(" ")).collect()
    }
}

fn table(name: &str) -> &'static Table {
    ALL.into_iter().find(|table| table.name == name).expect("there is one")
}

/// A table with these columns.
fn begin(name: &str, columns: &str) -> (Listeners<dyn Rows>, Text) {
    let headings = (table(name).columns)();
    let place = |key: &str| {
        let found = headings.iter().position(|heading| heading.key == key);
        found.unwrap_or_else(|| panic!("no column {key}"))
    };
    let columns: Vec<usize> = columns.split(' ').map(place).collect();
    let text = Text::default();
    let rows = table(name).begin(&columns, Box::new(text.clone()));
    (Listeners(vec![rows]), text)
}

/// The rows of a trace as script.rs has them, up to 100 ns.
fn rows_in(circumstances: Circumstances, name: &str, columns: &str, lines: &str) -> Vec<String> {
    let (mut rows, text) = begin(name, columns);
    let mut system = System::new(circumstances);
    script::apply(&mut system, lines, &mut rows);
    system.finish(100, &mut rows);
    rows.0[0].finish(&system);
    text.lines()
}

#[track_caller]
fn check(name: &str, columns: &str, lines: &str, expected: &[&str]) {
    assert_eq!(rows_in(Circumstances::whole(0), name, columns, lines), expected);
}

/// The same for traces as device_script.rs has them.
#[track_caller]
fn check_devices(name: &str, columns: &str, lines: &str, expected: &[&str]) {
    let (mut rows, text) = begin(name, columns);
    let run = Run::new().lines(lines, &mut rows);
    rows.0[0].finish(&run.system);
    assert_eq!(text.lines(), expected);
}

/// 1 reads, waits, is woken by an interrupt, is preempted by 2, which dies.
const LINES: &str = "
    10 cpu0 switch 0/20 runs 1/20
    12 cpu0 read
    20 cpu0 switch 1/20 waits 0/20
    30 cpu0 irq 3
    32 cpu0 waking 1
    33 cpu0 wakeup 1
    35 cpu0 irqend 3
    40 cpu0 switch 0/20 runs 1/20
    45 cpu0 answer
    46 cpu0 timer
    48 cpu0 timerend
    50 cpu0 switch 1/20 runs 2/-5
    60 cpu0 exit 2
    70 cpu0 switch 2/-5 dies 1/20";

#[test]
fn a_slice_lasts_as_long_as_the_thread_has_the_cpu() {
    check(
        "sched_slices",
        "begin_ns end_ns duration_ns cpu tid priority end_state interrupted_ns",
        LINES,
        &[
            "0 10 10 0 0 20 preempted 0",
            "10 20 10 0 1 20 blocked 0",
            "40 50 10 0 1 20 preempted 2",
            "20 40 20 0 0 20 preempted 5",
            "50 70 20 0 2 -5 dead 0",
            "70 100 30 0 1 20 - 0",
        ],
    );
}

#[test]
fn states_fill_the_time_and_say_why() {
    let columns = "tid begin_ns end_ns state mode syscall why cause waker_tid waker_interrupt";
    let mut rows = rows_in(Circumstances::whole(0), "thread_states", columns, LINES);
    rows.sort_by_key(|row| {
        let numbers: Vec<i64> = row
            .split(' ')
            .take(2)
            .map(|word| word.parse().expect("a number"))
            .collect();
        (numbers[0], numbers[1])
    });
    let expected = [
        "0 0 10 running idle - - - - -",
        "0 20 30 running idle - - - - -",
        "0 30 35 running interrupted - - - - -",
        "0 35 40 running idle - - - - -",
        "1 0 10 runnable - - - - - -",
        "1 10 12 running user - - - - -",
        "1 12 20 running kernel read - - - -",
        "1 20 32 blocked - read - network - softirq NET_RX",
        "1 32 40 runnable - - woken - - -",
        "1 40 45 running kernel read - - - -",
        "1 45 46 running user - - - - -",
        "1 46 48 running interrupted - - - - -",
        "1 48 50 running user - - - - -",
        "1 50 70 runnable - - preempted - - -",
        "1 70 100 running user - - - - -",
        "2 0 50 runnable - - - - - -",
        "2 50 70 running - - - - - -",
        "2 70 100 absent - - - - - -",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn what_a_gap_hides_is_null() {
    let gap = Gap {
        cpu: Some(0),
        begin_ns: 22,
        end_ns: 34,
    };
    let circumstances = Circumstances {
        gaps: Gaps::new(&[gap]),
        ..Circumstances::whole(0)
    };
    let columns = "tid begin_ns end_ns state";
    let rows = rows_in(circumstances.clone(), "thread_states", columns, LINES);
    let of_first: Vec<&str> = rows.iter().filter_map(|row| row.strip_prefix("1 ")).take(5).collect();
    assert_eq!(
        of_first,
        [
            "0 10 runnable",
            "10 12 running",
            "12 20 running",
            "20 22 blocked",
            "22 32 -"
        ]
    );
    // A call may have been another one's end, an interrupt another one's.
    assert_eq!(rows_in(circumstances.clone(), "syscalls", "name", LINES), [""; 0]);
    assert_eq!(rows_in(circumstances, "irqs", "kind", LINES), ["timer"]);
}

#[test]
fn calls_and_interrupts_have_both_ends() {
    check(
        "syscalls",
        "begin_ns end_ns duration_ns name ret tid",
        LINES,
        &["12 45 33 read 1 1"],
    );
    check(
        "irqs",
        "kind number name cpu begin_ns end_ns raised_ns nested_ns",
        "10 cpu1 device 36
         12 cpu1 irq 4
         15 cpu1 irqend 4
         20 cpu1 deviceend 36
         30 cpu1 timer
         31 cpu1 timerend
         40 cpu1 irq 1",
        &[
            "softirq 4 BLOCK 1 12 15 - 0",
            "irq 36 disk 1 10 20 - 3",
            "timer - - 1 30 31 - 0",
        ],
    );
}

#[test]
fn requests_have_the_times_that_the_trace_has() {
    check_devices(
        "io_requests",
        "device device_name operation sector bytes queued_ns issued_ns completed_ns queue_ns latency_ns error tid",
        "on 7
         insert R 100 8
         issue R 100 8
         complete R 100 8
         device
         issue F 0 0
         complete F -1 0
         issue W 200 16",
        &[
            "8:0 - read 100 4096 20 30 40 10 10 0 7",
            "8:0 sda flush - 0 - 60 70 - 10 0 7",
            "8:0 sda write 200 8192 - 80 - - - - 7",
        ],
    );
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let lines = "
        10 cpu0 switch 0 runs 1
        12 cpu0 fork 1 5
        14 cpu0 thread 5 6
        20 cpu0 switch 1 waits 5
        30 cpu0 exit 5
        31 cpu0 switch 5 dies 6
        35 cpu0 exit 6
        40 cpu0 switch 6 dies 1
        50 cpu0 fork 1 5
        60 cpu0 switch 1 waits 5";
    check(
        "processes",
        "pid begin_ns end_ns threads on_cpu_ns",
        lines,
        &["5 12 31 2 20", "5 50 - 1 40"],
    );
    check(
        "threads",
        "tid pid ppid begin_ns end_ns on_cpu_ns runnable_ns",
        lines,
        &[
            "1 - - - - 30 10",
            "5 5 1 12 31 11 8",
            "6 5 5 14 40 9 17",
            "5 5 1 50 - 40 10",
        ],
    );
}

#[test]
fn columns_come_in_the_order_in_which_they_are_asked_for() {
    check("syscalls", "ret name begin_ns", LINES, &["1 read 12"]);
}

#[test]
fn a_wait_for_a_cpu_has_a_row_for_each_thread_that_had_it_meanwhile() {
    check(
        "cpu_waits",
        "begin_ns end_ns tid why by_tid by_ns",
        "1 cpu0 switch 9 waits 2
         10 cpu1 waking 1 0
         20 cpu0 switch 2 runs 4
         50 cpu0 switch 4 runs 1
         60 cpu0 switch 1 waits 2",
        &[
            "0 1 2 - 9 1",
            "0 20 4 - 2 19",
            "0 20 4 - 9 1",
            "10 50 1 woken 4 30",
            "10 50 1 woken 2 10",
            "20 60 2 preempted 4 30",
            "20 60 2 preempted 1 10",
            "50 100 4 preempted 2 40",
            "50 100 4 preempted 1 10",
        ],
    );
}
