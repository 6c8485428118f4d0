// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze` of files, devices and memory, on recordings whose answers the kernel counts as well.

use piste_support::kernel::workplace as kernel_workplace;
use piste_support::process::allowed_cpu;
use piste_support::report::{READ_DIRECTLY, analyze, number, record_whole, rows, text};
use serde_json::Value;

#[test]
fn bytes_are_those_that_the_kernel_counts() {
    let Some(place) = kernel_workplace() else { return };
    let program = place.program("io_mix.c");
    let folder = place.path(".");
    let (trace, said) = record_whole(&place, &[], &[text(&program), text(&folder)]);
    let said: Vec<i64> = said
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    let [pid, rchar, wchar] = said[..] else {
        panic!("{said:?}")
    };
    let pid = pid.to_string();
    let options = ["--pid", &pid, "--limit", "1000"];

    let top = analyze(&place, "iotop", &trace, &options);
    let [own] = &rows(&top, "processes")[..] else {
        panic!("{top:#}")
    };
    assert_eq!(
        (number(&own["read_bytes"]), number(&own["written_bytes"])),
        (rchar, wchar)
    );

    // What each file has is what the process has.
    let usage = analyze(&place, "iousage", &trace, &options);
    let sum = |key: &str| -> i64 { rows(&usage, "files").iter().map(|file| number(&file[key])).sum() };
    assert_eq!((sum("read_bytes"), sum("written_bytes")), (rchar, wchar), "{usage:#}");
    // What went to the pipe and the socket went to no file.
    let files = rows(&usage, "files").iter().filter(|file| file["kind"] == "file");
    let to_files: i64 = files.map(|file| number(&file["written_bytes"])).sum();
    assert_eq!(to_files, wchar - 4000 - 300, "{usage:#}");

    let log = analyze(&place, "iolog", &trace, &options);
    let of = |what: &str| rows(&log, "log").iter().filter(|entry| entry["what"] == what).count();
    assert_eq!(
        (of("openat"), of("read"), of("fsync"), of("sendfile64")),
        (2, 4, 1, 1),
        "{log:#}"
    );

    let latency = analyze(&place, "iolatencystats", &trace, &options);
    let counts: Vec<(&str, i64)> = rows(&latency, "calls")
        .iter()
        .map(|row| (row["operation"].as_str().expect("a name"), number(&row["count"])))
        .collect();
    assert_eq!(
        counts,
        [("open", 2), ("read", 8), ("write", 7), ("copy", 2), ("sync", 1)]
    );
}

/// Bytes that all devices have read since the machine began.
fn read_by_devices() -> i64 {
    let all = std::fs::read_to_string("/proc/diskstats").expect("Linux has it");
    let sectors = all.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Parts are counted with the whole, too: what is asked is only whether it is enough.
        words[5].parse::<i64>().expect("a number")
    });
    512 * sectors.sum::<i64>()
}

#[test]
fn requests_are_those_that_a_device_has_done() {
    let Some(place) = kernel_workplace() else { return };
    // Where the build is, there is a disk if there is one at all.
    let file = piste_support::build_tree::build().join(format!("direct-{}", std::process::id()));
    let before = read_by_devices();
    let (trace, said) = record_whole(
        &place,
        &["-a", "--preset", "io,sched"],
        &["python3", "-c", READ_DIRECTLY, text(&file)],
    );
    let counted = read_by_devices() - before;
    let _ = std::fs::remove_file(&file);
    let said: Vec<i64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [pid, total] = said[..] else {
        println!(
            "skipped: files in {} cannot be read past the page cache",
            file.display()
        );
        return;
    };
    assert_eq!(total, 1 << 20);
    let pid = pid.to_string();
    let options = ["--pid", &pid, "--limit", "100000"];
    let log = analyze(&place, "iolog", &trace, &options);
    let requests: Vec<&Value> = rows(&log, "log")
        .iter()
        .filter(|entry| entry["what"] == "request read")
        .collect();
    if requests.is_empty() && counted == 0 {
        println!("skipped: no block device is below {}", file.display());
        return;
    }
    let bytes = |request: &Value| number(&request["bytes"]);
    let read: i64 = requests.iter().map(|request| bytes(request)).sum();
    // The rest belongs to the interpreter, which is loaded from the disk where it is not in memory.
    let of_file = requests.iter().filter(|request| request["file"] == text(&file));
    let of_file: i64 = of_file.map(|request| bytes(request)).sum();
    assert!(of_file >= total, "{of_file} of {total} bytes: {log:#}");
    assert!(read >= total, "{read} of {total} bytes: {log:#}");
    assert!(counted >= total, "{counted} bytes by devices");
    // An end that interrupts a thread of pisted is not recorded, and what was read ahead may have none yet.
    let ended: Vec<&&Value> = requests
        .iter()
        .filter(|request| !request["duration_ns"].is_null())
        .collect();
    for request in &ended {
        assert!(
            number(&request["duration_ns"]) > 0 && request["error"].is_null(),
            "{request:#}"
        );
    }
    let top = analyze(&place, "iotop", &trace, &options);
    assert_eq!(number(&rows(&top, "processes")[0]["device_read_bytes"]), read);
    let latency = analyze(&place, "iolatencystats", &trace, &options);
    let counts = rows(&latency, "devices")
        .iter()
        .filter(|row| row["operation"] == "read");
    let count: i64 = counts.map(|row| number(&row["count"])).sum();
    assert_eq!(count, ended.len() as i64);
}

/// Touches many pages for the first time, and sends over the loopback interface.
const TOUCH_AND_SEND: &str = "
import mmap, os, socket
memory = mmap.mmap(-1, 4096 * 2000)
for page in range(2000):
    memory[page * 4096] = 1
server = socket.socket()
server.bind(('127.0.0.1', 0))
server.listen()
client = socket.create_connection(server.getsockname())
other, _ = server.accept()
for _ in range(10):
    client.sendall(bytes(1000))
left = 10000
while left > 0:
    left -= len(other.recv(left))
print(os.getpid())
";

#[test]
fn memory_and_sockets_are_told_of_who_used_them() {
    let Some(place) = kernel_workplace() else { return };
    let (trace, said) = record_whole(
        &place,
        &["--preset", "mem,net,io,sched"],
        &["taskset", "-c", &allowed_cpu(), "python3", "-c", TOUCH_AND_SEND],
    );
    let pid = said.trim();
    let memory = analyze(&place, "memtop", &trace, &["--pid", pid]);
    let sum = |key: &str| -> i64 { rows(&memory, "threads").iter().map(|row| number(&row[key])).sum() };
    // A fault may bring several.
    assert!(sum("allocated_pages") >= 2000 && sum("user_faults") > 0, "{memory:#}");

    let network = analyze(&place, "nettop", &trace, &["--pid", pid]);
    let [own] = &rows(&network, "processes")[..] else {
        panic!("{network:#}")
    };
    assert_eq!(
        (number(&own["sent_bytes"]), number(&own["received_bytes"])),
        (10_000, 10_000),
        "{network:#}"
    );
    let all = analyze(&place, "nettop", &trace, &[]);
    let is_loopback = |row: &&Value| row["interface"] == "lo";
    let loopback = rows(&all, "interfaces").iter().find(is_loopback);
    // Some of it the kernel may do later, on a thread that is not recorded.
    let sent = loopback.map_or(0, |row| number(&row["sent_bytes"]));
    assert!(sent > 0, "{all:#}");
}

#[test]
fn a_trace_without_switches_tells_who_called() {
    let Some(place) = kernel_workplace() else { return };
    let program = place.program("io_mix.c");
    let folder = place.path(".");
    let (trace, said) = record_whole(&place, &["--preset", "syscalls"], &[text(&program), text(&folder)]);
    let said: Vec<&str> = said.split_whitespace().collect();
    let top = analyze(&place, "iotop", &trace, &["--tid", said[0]]);
    let [own] = &rows(&top, "processes")[..] else {
        panic!("{top:#}")
    };
    assert_eq!(number(&own["read_bytes"]).to_string(), said[1]);
    assert_eq!(number(&own["written_bytes"]).to_string(), said[2]);
}
