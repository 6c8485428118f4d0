// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lttng-syscallstats` and `piste analyze syscallstats`.

use std::collections::BTreeMap;

use piste_support::report::{number, rows};
use serde_json::Value;

use crate::Compared;
use crate::events::{Event, Whose, attributed};
use crate::lttng::sum;

/// A system call whose begin and end are in the trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) thread: i64,
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) name: String,
    pub(crate) result: i64,
}

/// By either rule of whose an event is.
pub(crate) fn calls(events: &[Event], whose: Whose) -> Vec<Call> {
    let (mut open, mut calls) = (BTreeMap::new(), Vec::new());
    for (event, thread) in attributed(events, whose) {
        let Some(thread) = thread else { continue };
        if let Some(name) = event.call_entry() {
            open.insert(thread, (event.ns, name));
        } else if event.is_call_exit()
            && let Some((begin_ns, name)) = open.remove(&thread)
        {
            calls.push(Call {
                thread,
                begin_ns,
                end_ns: event.ns,
                name: name.to_owned(),
                result: event.number("ret"),
            });
        }
    }
    calls
}

/// Of how many something is said, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    count: i64,
    failed: i64,
    total_ns: i64,
    min_ns: i64,
    max_ns: i64,
}

impl Figures {
    fn add(before: Option<Figures>, call: &Call) -> Figures {
        let ns = call.end_ns - call.begin_ns;
        let nothing = Figures {
            count: 0,
            failed: 0,
            total_ns: 0,
            min_ns: i64::MAX,
            max_ns: 0,
        };
        let before = before.unwrap_or(nothing);
        Figures {
            count: before.count + 1,
            failed: before.failed + i64::from(call.result < 0),
            total_ns: before.total_ns + ns,
            min_ns: before.min_ns.min(ns),
            max_ns: before.max_ns.max(ns),
        }
    }

    fn of_piste(row: &Value) -> Figures {
        let of = |key: &str| number(&row[key]);
        Figures {
            count: of("count"),
            failed: of("failed"),
            total_ns: of("total_ns"),
            min_ns: of("min_ns"),
            max_ns: of("max_ns"),
        }
    }
}

fn figures<K: Ord>(calls: &[Call], key: impl Fn(&Call) -> K) -> BTreeMap<K, Figures> {
    let mut figures = BTreeMap::new();
    for call in calls {
        let key = key(call);
        let sum = Figures::add(figures.get(&key).copied(), call);
        figures.insert(key, sum);
    }
    figures
}

pub(crate) fn check(compared: &Compared) {
    let by_switches = calls(&compared.events, Whose::LastSwitch);
    let by_contexts = calls(&compared.events, Whose::Context);

    // lttng-analyses believes switches.
    let answer = compared.lttng("syscallstats:run_mi");
    let mut theirs = BTreeMap::new();
    let mut listed = Vec::new();
    for (title, rows) in answer.tables("per-tid") {
        let thread = title.rsplit_once("TID: ").and_then(|(_, tid)| tid.strip_suffix(")]"));
        let thread: i64 = thread.and_then(|tid| tid.parse().ok()).expect(title);
        let mut of_thread = 0;
        for row in rows {
            let count = row.number(1, "value");
            let own = Figures {
                count,
                failed: failed(row.text(6, "value"), count),
                total_ns: sum(row.fraction(3, "value"), count),
                min_ns: row.number(2, "value"),
                max_ns: row.number(4, "value"),
            };
            theirs.insert((thread, row.text(0, "name").to_owned()), own);
            of_thread += count;
        }
        listed.push(of_thread);
    }
    assert_eq!(theirs, figures(&by_switches, |call| (call.thread, call.name.clone())));
    assert!(listed.is_sorted_by(|one, next| one >= next), "its top list: {listed:?}");

    // Piste believes the contexts of events.
    let report = compared.piste("syscallstats");
    let ours: Vec<(String, Figures)> = rows(&report, "syscalls")
        .iter()
        .map(|row| {
            (
                row["syscall"].as_str().expect("a name").to_owned(),
                Figures::of_piste(row),
            )
        })
        .collect();
    assert!(
        ours.is_sorted_by(|one, next| one.1.total_ns >= next.1.total_ns),
        "{ours:?}"
    );
    assert_eq!(
        BTreeMap::from_iter(ours),
        figures(&by_contexts, |call| call.name.clone())
    );

    // So the two say the same of every thread whose events switches and contexts give to the same.
    let (theirs, ours) = (
        figures(&by_switches, |call| (call.thread, call.name.clone())),
        figures(&by_contexts, |call| (call.thread, call.name.clone())),
    );
    let same = theirs.iter().filter(|(key, own)| ours.get(*key) == Some(*own)).count();
    assert!(same > 50, "{same} of {} and {}", theirs.len(), ours.len());
    check_processes(&report, compared, &by_contexts);
}

/// Whose process a thread is of says the event at which it is made.
fn check_processes(report: &Value, compared: &Compared, calls: &[Call]) {
    const CLONE_THREAD: i64 = 0x1_0000;
    let mut processes = BTreeMap::new();
    for event in compared.events.iter().filter(|event| event.is("task_newtask")) {
        let thread = event.number("pid");
        let process = match event.number("clone_flags") & CLONE_THREAD {
            0 => Some(thread),
            _ => event.thread.and_then(|maker| processes.get(&maker).copied()),
        };
        processes.extend(process.map(|process| (thread, process)));
    }
    let of_processes = figures(calls, |call| (processes.get(&call.thread), call.name.clone()));
    let mut compared_rows = 0;
    for row in rows(report, "processes") {
        let pid = row["pid"].as_i64();
        let Some(process) = pid.and_then(|pid| processes.get(&pid)) else {
            continue;
        };
        assert_eq!(Some(*process), pid, "a thread that is taken for a process: {row:#}");
        let name = row["syscall"].as_str().expect("a name").to_owned();
        assert_eq!(
            Some(&Figures::of_piste(row)),
            of_processes.get(&(Some(process), name)),
            "{row:#}"
        );
        compared_rows += 1;
    }
    assert!(
        compared_rows > 20,
        "{compared_rows} rows of processes that began in the trace"
    );
}

/// How many failed, out of `{'success': 11, 'ENOENT': 4}`: each of these is one too large, as it begins at 1 and counts the first, too.
fn failed(returned: &str, count: i64) -> i64 {
    let returned: BTreeMap<String, i64> = serde_json::from_str(&returned.replace('\'', "\"")).expect(returned);
    assert_eq!(
        returned.values().map(|count| count - 1).sum::<i64>(),
        count,
        "{returned:?}"
    );
    let failed = returned.iter().filter(|(what, _)| *what != "success");
    failed.map(|(_, count)| count - 1).sum()
}
