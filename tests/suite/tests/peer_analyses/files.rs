// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lttng-iolog`, `-iolatencystats`, `-iousagetop` and `piste analyze iolog`, `iolatencystats`, `iotop`: calls that open, read, write and sync.

use std::collections::{BTreeMap, BTreeSet};

use piste_support::report::{number, rows};
use serde_json::Value;

use crate::Compared;
use crate::events::Whose;
use crate::lttng::{Answer, sum};
use crate::system_calls::calls;

const OPENING: [&str; 2] = ["open", "openat"];
const READING: [&str; 7] = ["read", "recvmsg", "recvfrom", "readv", "pread", "pread64", "preadv"];
const WRITING: [&str; 7] = ["write", "sendmsg", "sendto", "writev", "pwrite", "pwrite64", "pwritev"];
const SYNCING: [&str; 4] = ["sync", "sync_file_range", "fsync", "fdatasync"];
/// Calls that are input and output for lttng-analyses only.
const THEIRS: [&str; 6] = ["close", "dup", "dup2", "dup3", "fcntl", "socket"];

/// Thread, begin, end, name.
type Key = (i64, i64, i64, String);

pub(crate) fn check(compared: &Compared) {
    let keys = |whose| -> BTreeSet<Key> {
        let calls = calls(&compared.events, whose).into_iter();
        calls
            .map(|call| (call.thread, call.begin_ns, call.end_ns, call.name))
            .collect()
    };
    let (by_switches, by_contexts) = (keys(Whose::LastSwitch), keys(Whose::Context));
    let log = compared.lttng("io:runlog_mi");
    let theirs: BTreeMap<Key, Option<i64>> = log
        .rows("log", "")
        .iter()
        .filter(|row| row.get(3, "name").is_some())
        .map(|row| {
            let (begin_ns, end_ns) = row.range(0);
            let name = row.text(3, "name").to_owned();
            (
                (row.number(5, "tid"), begin_ns, end_ns, name),
                row.get(4, "value").and_then(Value::as_i64),
            )
        })
        .collect();
    let report = compared.piste("iolog");
    let log: Vec<&Value> = rows(&report, "log")
        .iter()
        .filter(|row| row["device"].is_null())
        .collect();
    let ours: BTreeMap<Key, &Value> = log
        .iter()
        .map(|row| {
            let [tid, begin_ns, ns] = ["tid", "begin_ns", "duration_ns"].map(|key| number(&row[key]));
            let name = row["what"].as_str().expect("a name").to_owned();
            ((tid, begin_ns, begin_ns + ns, name), *row)
        })
        .collect();
    assert_eq!(ours.len(), log.len());

    // Each is of the calls that its rule finds.
    assert!(theirs.keys().all(|key| by_switches.contains(key)));
    assert!(ours.keys().all(|key| by_contexts.contains(key)));
    let known: BTreeSet<&str> = [&OPENING[..], &READING, &WRITING, &SYNCING, &THEIRS]
        .concat()
        .into_iter()
        .collect();
    for (key, bytes) in &theirs {
        let Some(own) = ours.get(key) else {
            let is_theirs = THEIRS.contains(&key.3.as_str());
            assert!(is_theirs || !by_contexts.contains(key), "not in Piste's log: {key:?}");
            continue;
        };
        // Of what failed it has no size.
        let is_failed = bytes.is_none()
            && (OPENING.contains(&key.3.as_str()) || SYNCING.contains(&key.3.as_str()) || !own["error"].is_null());
        assert!(is_failed || Some(number(&own["bytes"])) == *bytes, "{bytes:?} {own:#}");
    }
    let with_threads: BTreeSet<i64> = log
        .iter()
        .filter(|row| row["pid"] != row["tid"])
        .filter_map(|row| row["pid"].as_i64())
        .collect();
    let mut lost = 0;
    for (key, own) in ours.iter().filter(|(key, _)| !theirs.contains_key(*key)) {
        let is_unknown = !known.contains(key.3.as_str()) || !by_switches.contains(key);
        // Of threads that share descriptors lttng-analyses takes some for closed that are not, and leaves out what is done with them.
        let may_be_closed =
            own["pid"] != own["tid"] || own["pid"].as_i64().is_none_or(|pid| with_threads.contains(&pid));
        assert!(is_unknown || may_be_closed, "not in lttng-iolog: {own:#}");
        lost += i64::from(!is_unknown);
    }
    let same = ours.keys().filter(|key| theirs.contains_key(*key)).count();
    println!(
        "{same} calls in both logs, {} and {}, {lost} of descriptors taken for closed",
        theirs.len(),
        ours.len()
    );
    assert!(same > 50, "{same} of {} and {}", theirs.len(), ours.len());
    check_latency(compared, &theirs, &log);
    check_bytes(compared, &theirs, &log);
}

/// Both sum up their own logs.
fn check_latency(compared: &Compared, theirs: &BTreeMap<Key, Option<i64>>, log: &[&Value]) {
    let answer = compared.lttng("io:runstats_mi");
    let opening = [&OPENING[..], &THEIRS[1..]].concat();
    let kinds = answer.rows("syscall-latency-stats", "");
    assert!(!kinds.is_empty(), "lttng-iolatencystats tells of no calls");
    for row in kinds {
        let names = match row.text(0, "value") {
            "Open" => &opening[..],
            "Read" => &READING,
            "Write" => &WRITING,
            "Sync" => &SYNCING,
            other => panic!("{other}"),
        };
        let of_kind: Vec<i64> = theirs
            .keys()
            .filter(|key| names.contains(&key.3.as_str()))
            .map(|key| key.2 - key.1)
            .collect();
        let count = row.number(1, "value");
        let theirs = (
            count,
            row.number(2, "value"),
            sum(row.fraction(3, "value"), count),
            row.number(4, "value"),
        );
        let least = of_kind.iter().min().copied().unwrap_or(0);
        let most = of_kind.iter().max().copied().unwrap_or(0);
        assert_eq!(theirs, (of_kind.len() as i64, least, of_kind.iter().sum(), most));
    }
    let report = compared.piste("iolatencystats");
    let of_piste = |key: &str| rows(&report, "calls").iter().map(|row| number(&row[key])).sum::<i64>();
    assert_eq!(of_piste("count"), log.len() as i64);
    assert_eq!(
        of_piste("total_ns"),
        log.iter().map(|row| number(&row["duration_ns"])).sum::<i64>()
    );
}

fn bytes_of_theirs(answer: &Answer, end: &str) -> BTreeMap<i64, i64> {
    let listed = answer.rows("per-process-top", end);
    let bytes = listed.iter().map(|row| {
        let parts: i64 = [2, 3, 4].iter().map(|column| row.number(*column, "value")).sum();
        assert_eq!(parts, row.number(1, "value"));
        (row.number(0, "tid"), parts)
    });
    bytes.filter(|(_, bytes)| *bytes > 0).collect()
}

/// So do they of bytes, lttng-analyses by thread and Piste by process.
fn check_bytes(compared: &Compared, theirs: &BTreeMap<Key, Option<i64>>, log: &[&Value]) {
    let answer = compared.lttng_all("io:runusage_mi");
    let report = compared.piste("iotop");
    for (end, names, key) in [
        ("[read]", READING, "read_bytes"),
        ("[written]", WRITING, "written_bytes"),
    ] {
        let mut of_threads = BTreeMap::<i64, i64>::new();
        for ((thread, .., name), bytes) in theirs {
            if let Some(bytes) = bytes.filter(|bytes| *bytes > 0 && names.contains(&name.as_str())) {
                *of_threads.entry(*thread).or_default() += bytes;
            }
        }
        assert_eq!(bytes_of_theirs(&answer, end), of_threads, "{end}");
        // Other names that begin alike read and write, too; what copies does both.
        let is_reading = |row: &Value| {
            let name = row["what"].as_str().expect("a name");
            let copies = ["copy_file_range", "sendfile", "sendfile64", "splice", "tee"].contains(&name);
            let begins: &[&str] = if key == "read_bytes" {
                &["read", "pread", "recv"]
            } else {
                &["write", "pwrite", "send", "vmsplice"]
            };
            copies || begins.iter().any(|begin| name.starts_with(begin))
        };
        let own: i64 = rows(&report, "processes").iter().map(|row| number(&row[key])).sum();
        let logged = log
            .iter()
            .filter(|row| is_reading(row))
            .filter_map(|row| row["bytes"].as_i64());
        assert_eq!(own, logged.sum::<i64>(), "{key}");
    }
}
