// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste analyze` says of requests to a device of our own, which nobody else uses: beside what the device counts, and where requests cannot
//! be told from each other.

use piste_support::Workplace;
use piste_support::disk::LoopDevice;
use piste_support::kernel::workplace as kernel_workplace;
use piste_support::report::{analyze, number, record_whole, rows, text};
use serde_json::Value;

/// Reads and writes a device past the page cache, one request after the other, and says what the device counted meanwhile.
const USE_DEVICE: &str = "
import mmap, os, sys
device = sys.argv[1]
def counts():
    with open(f'/sys/block/{os.path.basename(device)}/stat') as file:
        return [int(word) for word in file.read().split()]
page = mmap.mmap(-1, 8192)
fd = os.open(device, os.O_RDWR | os.O_DIRECT)
before = counts()
for turn in range(40):
    os.preadv(fd, [page], 8192 * turn)
for turn in range(30):
    os.pwritev(fd, [page], 8192 * turn)
print(os.getpid(), *(now - then for now, then in zip(counts(), before)))
";

#[test]
fn requests_are_counted_and_timed_as_the_device_does() {
    const KINDS: [(&str, usize, i64); 2] = [("read", 0, 40), ("write", 4, 30)];
    let Some(place) = kernel_workplace() else { return };
    let file = place.path("memory");
    std::fs::write(&file, vec![1; 1 << 20]).expect("there is space");
    let Some(device) = LoopDevice::of(&place, &file) else {
        return;
    };
    let name = device.0.trim_start_matches("/dev/");
    let (trace, said) = record_whole(
        &place,
        &["-a", "--preset", "io,sched,syscalls"],
        &["python3", "-c", USE_DEVICE, &device.0],
    );
    let said: Vec<i64> = said
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    let (pid, counted) = (said[0].to_string(), &said[1..]);
    let log = analyze(&place, "iolog", &trace, &["--limit", "1000000"]);
    let calls = analyze(&place, "syscallstats", &trace, &["--pid", &pid, "--limit", "1000"]);
    for (kind, place_in_counts, made) in KINDS {
        let [ios, _, sectors, ticks_ms] = counted[place_in_counts..place_in_counts + 4] else {
            panic!("{counted:?}")
        };
        let what = format!("request {kind}");
        let all: Vec<&Value> = rows(&log, "log")
            .iter()
            .filter(|entry| entry["what"] == what.as_str() && entry["device"] == name)
            .collect();
        let own: Vec<&&Value> = all.iter().filter(|entry| entry["pid"] == said[0]).collect();
        // Who looks at every new device may have asked for something, too.
        let count = own.len() as i64;
        assert_eq!(count, made, "{kind}: {all:#?}");
        assert!(count <= ios && ios <= all.len() as i64, "{kind}: {ios}: {all:#?}");
        let bytes: i64 = own.iter().map(|request| number(&request["bytes"])).sum();
        assert_eq!(bytes, made * 8192);
        if all.len() as i64 > count {
            continue;
        }
        assert_eq!(sectors * 512, bytes, "{kind}");
        // An end that interrupts a thread of pisted is not recorded.
        if own.iter().any(|request| request["duration_ns"].is_null()) {
            continue;
        }
        let ns = |request: &Value| number(&request["duration_ns"]) + request["queue_ns"].as_i64().unwrap_or(0);
        let requests_ns: i64 = own.iter().map(|request| ns(request)).sum();
        // preadv or preadv2
        let name = format!("p{kind}v");
        let is_it = |row: &&Value| row["syscall"].as_str().is_some_and(|call| call.starts_with(&name));
        let of_kind = rows(&calls, "syscalls").iter().filter(is_it);
        let calls_ns: i64 = of_kind.map(|row| number(&row["total_ns"])).sum();
        // The device counts whole milliseconds, from before a request is in its queue; and each of the two may be interrupted between the
        // moment that it notes and what it notes it for.
        let counted_ns = ((ticks_ms - 10) * 1_000_000, (ticks_ms + 10) * 1_000_000);
        assert!(
            requests_ns < counted_ns.1 && counted_ns.0 <= calls_ns,
            "{kind}: requests took {requests_ns} ns, calls {calls_ns} ns; the device counted {ticks_ms} ms"
        );
    }
}

/// The reads of a device's first sector, in the order of their begins: when each began, and how long it took if no other one was under way
/// meanwhile. `None` when an end is missing: those that interrupt a thread of pisted are not recorded.
fn first_sector_reads(place: &Workplace, trace: &str, device: &str) -> Option<Vec<(i64, Option<i64>)>> {
    let (major, minor) = device.split_once(':').expect("MAJOR:MINOR");
    let number_of = |text: &str| text.trim().parse::<i64>().expect("a number");
    let device = number_of(major) << 20 | number_of(minor);
    let choice = ["--event", "block_rq_issue", "--event", "block_rq_complete"];
    let events = place.piste_succeeds(&[&["view", trace, "--format", "ndjson"], &choice[..]].concat());
    let mut reads: Vec<(i64, Option<i64>)> = Vec::new();
    let (mut under_way, mut is_alone) = (0, true);
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let payload = &event["payload"];
        if payload["dev"] != device || payload["sector"] != 0 {
            continue;
        }
        let ns = number(&event["time_ns"]);
        if event["name"] == "block_rq_issue" {
            is_alone = under_way == 0;
            under_way += 1;
            reads.push((ns, None));
        } else {
            let last = reads.last_mut()?;
            last.1 = (under_way == 1 && is_alone).then_some(ns - last.0);
            under_way -= 1;
        }
    }
    (under_way == 0).then_some(reads)
}

#[test]
fn requests_of_one_sector_at_once_are_not_taken_for_one() {
    let Some(place) = kernel_workplace() else { return };
    let program = place.program("same_sector.c");
    let file = place.path("memory");
    std::fs::write(&file, vec![1; 1 << 20]).expect("there is space");
    let Some(device) = LoopDevice::of(&place, &file) else {
        return;
    };
    let name = device.0.trim_start_matches("/dev/");
    let number_of_device =
        std::fs::read_to_string(format!("/sys/block/{name}/dev")).expect("every device has a number");
    for _ in 1..=5 {
        let command = [text(&program), &device.0];
        let (trace, said) = record_whole(&place, &["-a", "--preset", "io,sched,syscalls"], &command);
        let Some(expected) = first_sector_reads(&place, &trace, &number_of_device) else {
            continue;
        };
        let log = analyze(&place, "iolog", &trace, &["--limit", "1000000"]);
        let own = rows(&log, "log")
            .iter()
            .filter(|entry| entry["what"] == "request read" && entry["device"] == name && entry["sector"] == 0);
        let told: Vec<(i64, Option<i64>)> = own
            .clone()
            .map(|entry| (number(&entry["begin_ns"]), entry["duration_ns"].as_i64()))
            .collect();
        assert_eq!(told, expected, "{log:#}");
        let pid: i64 = said.trim().parse().expect("a number");
        let of_program = own.filter(|entry| entry["pid"] == pid);
        assert_eq!(of_program.count(), 64 + 8, "{log:#}");
        let known = expected.iter().filter(|(_, duration_ns)| duration_ns.is_some()).count();
        if known >= 8 && expected.len() - known >= 2 {
            return;
        }
    }
    println!("skipped: requests are never at once, or their ends are never recorded");
}
