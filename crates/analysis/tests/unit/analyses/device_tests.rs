// SPDX-License-Identifier: MIT OR Apache-2.0
//! Analyses of files, devices, memory and networks, over traces whose answers are known.

use crate::analysis::{Description, Options, Who};
use crate::model::device_script::Run;
use crate::report::Report;

/// The reports of an analysis as CSV without headings, after the name of each table.
fn report(description: &Description, options: &Options, lines: &str) -> (String, Report) {
    let mut analysis = (description.begin)(options);
    let run = Run::new().lines(lines, &mut *analysis);
    let report = analysis.report(&run.system);
    let tables = report.tables.iter().map(|table| {
        let csv = table.csv();
        let rows: Vec<&str> = csv.lines().skip(1).collect();
        format!("{}: {}", table.name, rows.join(" | "))
    });
    (tables.collect::<Vec<_>>().join("\n"), report)
}

#[track_caller]
fn check(description: &Description, lines: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).collect();
    let (found, _) = report(description, &Options::default(), lines);
    assert_eq!(found, expected.join("\n"));
}

const IO: &str = "device
    on 7
    open 3 /a
    write 3 100
    read 3 30
    close 3 0
    open 4 /a
    read 4 20
    fork 8
    sendfile 1 4 5
    fsync 4 0
    insert R 100 8
    issue R 100 8
    complete R 100 8
    on 8
    write 4 7
    read 9 -11
    issue W 200 16
    issue F 0 0
    complete F -1 0
    complete W 200 16
    issue R 900 8";

#[test]
fn iotop_sums_up_what_calls_and_devices_moved() {
    check(
        &super::iotop::IOTOP,
        IO,
        "processes: 8,b,0,7,4096,8192 | 7,b,55,105,4096,0
         files: /a,file,55,107,2 | ,unknown,0,5,1
         devices: sda,8192,8192,2,1,1,0",
    );
    let (_, report) = report(&super::iotop::IOTOP, &Options::default(), IO);
    let notes = Vec::from_iter(report.all_notes());
    assert!(notes[0].starts_with("1 request "), "{notes:?}");
}

#[test]
fn iousage_tells_the_files_of_each_process() {
    check(
        &super::iousage::IOUSAGE,
        IO,
        "processes: 7,b,55,105,3,2,3,70 | 8,b,0,7,1,1,0,20
         files: 7,b,,/a,file,55,100,3,1,3,70 | 7,b,1,,unknown,0,5,0,1,0,10 | 8,b,9,,unknown,0,0,1,0,0,10 | 8,b,4,/a,file,0,7,0,1,0,10",
    );
}

#[test]
fn iolatencystats_are_those_of_calls_and_devices() {
    check(
        &super::iolatency::STATS,
        IO,
        "calls: open,2,0,20,10,10,10,10,10,10 | read,3,1,30,10,10,10,10,10,10 | write,2,0,20,10,10,10,10,10,10 | copy,1,0,10,10,10,10,10,10,10 | sync,1,0,10,10,10,10,10,10,10
         devices: sda,read,1,0,10,10,10,10,10,10,10,10,10,4096 | sda,write,1,0,30,30,30,30,30,30,30,,,8192 | sda,flush,1,0,10,10,10,10,10,10,10,,,0",
    );
}

#[test]
fn iolatencyfreq_counts_all_of_them() {
    check(
        &super::iolatency::FREQUENCIES,
        IO,
        "calls: open,8,16,2 | read,8,16,3 | write,8,16,2 | copy,8,16,1 | sync,8,16,1
         devices: sda,read,8,16,1 | sda,write,16,32,1 | sda,flush,8,16,1",
    );
}

#[test]
fn iolog_has_every_one_in_the_order_of_their_begins() {
    check(
        &super::iolog::IOLOG,
        "device
         on 7
         open 3 /a
         read 3 -5
         issue R 100 8
         write 3 9
         complete R 100 8",
        "log: 30,10,7,,b,openat,3,/a,,,,, | 50,10,7,,b,read,3,/a,,,0,-5, | 70,30,7,,b,request read,,,sda,100,4096,, | 80,10,7,,b,write,3,/a,,,9,,",
    );
}

#[test]
fn filters_choose_processes_and_durations() {
    let options = Options {
        who: Who {
            pids: vec![8],
            ..Who::default()
        },
        min_ns: Some(20),
        ..Options::default()
    };
    let (found, _) = report(&super::iotop::IOTOP, &options, IO);
    assert_eq!(found, "processes: 8,b,0,0,0,8192\nfiles: \ndevices: sda,0,8192,0,1,0,0");
}

#[test]
fn memtop_tells_pages_by_thread_and_in_interrupts() {
    check(
        &super::memtop::MEMTOP,
        "on 7
         alloc 0
         alloc 3
         fault
         on 8
         free 3
         irq 9
         free 1
         irqend 9",
        "all: threads,9,8,1,1,0 | interrupts,0,2,-2,0,0
         threads: 7,,b,9,0,9,1,0 | 8,,b,0,8,-8,0,0",
    );
}

#[test]
fn nettop_tells_packets_by_interface_and_bytes_by_socket() {
    check(
        &super::nettop::NETTOP,
        "on 7
         socket 3
         open 4 /a
         write 4 1000
         sendto 3 50
         queued lo 92
         irq 3
         received lo 78
         queued eth0 40
         irqend 3
         read 3 20
         write 3 5
         read 3 -11
         on 8
         recvfrom 6 11",
        "interfaces: lo,78,1,92,1 | eth0,0,0,40,1
         processes: 7,b,20,1,55,2,1,92 | 8,b,11,1,0,0,0,0",
    );
}

#[test]
fn nettop_counts_what_devices_were_given_where_the_trace_tells() {
    check(
        &super::nettop::NETTOP,
        "on 7
         queued lo 3000
         sent lo 1500
         irq 2
         sent lo 1500
         irqend 2
         on 8
         sent eth0 40",
        "interfaces: lo,0,0,3000,2 | eth0,0,0,40,1
         processes: 7,b,0,0,0,0,1,3000 | 8,b,0,0,0,0,1,40",
    );
}
