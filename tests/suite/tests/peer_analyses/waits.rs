// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lttng-schedlog`, `-schedstats`, `-schedtop` and those of `piste analyze`.

use std::collections::{BTreeMap, BTreeSet};

use piste_support::report::{number, rows};
use serde_json::Value;

use crate::Compared;
use crate::events::Event;
use crate::lttng::{Row, sum};

/// Threads of the tracer are recorded in part: Piste tells nothing of their waits.
pub(crate) const TRACER: &str = "pisted";

/// A thread, and when it came to a CPU.
type Arrival = (i64, i64);

/// What lttng-analyses makes of wake-ups and switches.
#[derive(Default)]
struct Waits {
    /// When each was woken, and by whom.
    waits: BTreeMap<Arrival, (i64, Option<i64>)>,
    /// Of a thread that has a CPU, as far as switches say.
    ignored: BTreeSet<(i64, i64)>,
    /// When those were woken of which it forgot that.
    forgotten: BTreeMap<Arrival, i64>,
}

impl Waits {
    /// It makes a process anew when it learns from a system call that a thread belongs to it, and counts from the next wake-up.
    fn forget(&mut self, events: &[Event], theirs: &BTreeMap<Arrival, (i64, Option<i64>)>) {
        for (arrival @ (process, _), wait) in &mut self.waits {
            let Some(their_wait) = theirs.get(arrival).filter(|(woken_ns, _)| *woken_ns > wait.0) else {
                continue;
            };
            let mut meanwhile = events
                .iter()
                .filter(|event| wait.0 < event.ns && event.ns < their_wait.0);
            let is_learnt = meanwhile.any(|event| {
                let is_call = event.call_entry().is_some() || event.is_call_exit();
                is_call && event.process == Some(*process) && event.thread != event.process
            });
            let mut woken = events.iter().filter(|event| event.ns == their_wait.0);
            if is_learnt && woken.any(|event| event.name.starts_with("sched_wak") && event.number("tid") == *process) {
                self.forgotten.insert(*arrival, wait.0);
                *wait = *their_wait;
            }
        }
    }
}

/// A wait is from the first wake-up since a thread last came to a CPU to when it comes to one again.
fn waits(events: &[Event]) -> Waits {
    let mut all = Waits::default();
    let (mut current, mut woken) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        if let Some(next) = event.next() {
            current.insert(event.cpu, next);
            if let Some(wait) = woken.remove(&next) {
                all.waits.insert((next, event.ns), wait);
            }
        } else if event.name.starts_with("sched_wak") {
            let thread = event.number("tid");
            let waker = current.get(&event.cpu).copied().filter(|waker| *waker != 0);
            if current.values().any(|running| *running == thread) {
                all.ignored.insert((thread, event.ns));
            } else {
                woken.entry(thread).or_insert((event.ns, waker));
            }
        }
    }
    all
}

fn arrival(row: &Row<'_>) -> Arrival {
    (row.number(5, "tid"), row.number(1, "value"))
}

fn arrival_of_piste(row: &Value) -> Arrival {
    let [tid, woken_ns, delay_ns] = ["tid", "woken_ns", "delay_ns"].map(|key| number(&row[key]));
    (tid, woken_ns + delay_ns)
}

pub(crate) fn check(compared: &Compared) {
    let mut rule = waits(&compared.events);
    let answer = compared.lttng_all("sched:runlog_mi");
    let log = answer.rows("log", "");
    let theirs: BTreeMap<Arrival, (i64, Option<i64>)> = log
        .iter()
        .map(|row| {
            assert_eq!(row.number(2, "value"), row.number(1, "value") - row.number(0, "value"));
            let waker = row.get(6, "tid").and_then(Value::as_i64);
            (arrival(row), (row.number(0, "value"), waker))
        })
        .collect();
    rule.forget(&compared.events, &theirs);
    for arrival in theirs.keys().chain(rule.waits.keys()) {
        let (their_wait, by_rule) = (theirs.get(arrival), rule.waits.get(arrival));
        let latest = || latest(&compared.events, *arrival);
        assert_eq!(their_wait, by_rule, "{arrival:?}: {:#?}", latest());
    }

    let report = compared.piste("schedlog");
    let delays = rows(&report, "delays");
    let ours: BTreeMap<Arrival, i64> = delays
        .iter()
        .map(|row| (arrival_of_piste(row), number(&row["woken_ns"])))
        .collect();
    let same: BTreeSet<Arrival> = theirs
        .iter()
        .filter(|(arrival, (woken_ns, _))| ours.get(arrival) == Some(woken_ns))
        .map(|(arrival, _)| *arrival)
        .collect();
    check_differences(compared, &rule, &ours, &same);
    assert!(same.len() > 40, "{} of {} and {}", same.len(), theirs.len(), ours.len());
    check_wakers(&compared.events, delays);
    check_sums(compared, &rule, &ours);

    // The longest of those in which both agree are in the same order.
    let answer = compared.lttng_all("sched:runtop_mi");
    let theirs: Vec<i64> = answer
        .rows("top", "")
        .iter()
        .filter(|row| same.contains(&arrival(row)))
        .map(|row| row.number(2, "value"))
        .collect();
    let report = compared.piste("schedtop");
    let ours: Vec<i64> = rows(&report, "delays")
        .iter()
        .filter(|row| same.contains(&arrival_of_piste(row)))
        .map(|row| number(&row["delay_ns"]))
        .collect();
    assert!(
        ours.is_sorted_by(|one, next| one >= next) && !ours.is_empty(),
        "{ours:?}"
    );
    assert_eq!(theirs, ours);
}

/// Each wait that is not the same has one of the reasons that there are.
fn check_differences(compared: &Compared, rule: &Waits, ours: &BTreeMap<Arrival, i64>, same: &BTreeSet<Arrival>) {
    let (events, complete_from_ns) = (&compared.events, compared.complete_from_ns());
    // Each event of a thread says that it had a CPU, that of a switch from it included.
    let mut seen = BTreeSet::new();
    let (mut names, mut left) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        seen.extend(event.thread.map(|thread| (thread, event.ns)));
        if event.next().is_some() {
            seen.insert((event.number("prev_tid"), event.ns));
            left.insert((event.number("prev_tid"), event.ns), event.number("prev_state"));
            names.insert((event.number("next_tid"), event.ns), event.text("next_comm"));
        }
    }
    // The kernel did not tell that it came to a CPU, but it did: that wait had ended.
    let ran = |thread: i64, from_ns: i64, until_ns: i64| {
        let range = (thread, from_ns)..(thread, until_ns);
        seen.range(range).next().is_some()
    };
    // The recording has only the end of its first wake-up: it may have had a CPU when that began.
    let began_before = |thread: i64, woken_ns: i64| {
        let until = events.iter().take_while(|event| event.ns <= woken_ns);
        let own = until.filter(|event| event.name.starts_with("sched_wak") && event.number("tid") == thread);
        own.map(|event| &*event.name).eq(["sched_wakeup"])
    };
    // It had lost its CPU on its way to a wait, and went on waiting for one.
    let was_ready = |thread: i64, woken_ns: i64| {
        let earlier = left.range((thread, i64::MIN)..(thread, woken_ns));
        earlier.last().is_some_and(|(_, state)| *state == 0)
    };
    for (arrival @ (thread, came_ns), (woken_ns, _)) in rule.waits.iter().filter(|(key, _)| !same.contains(key)) {
        let until_ns = ours.get(arrival).unwrap_or(came_ns);
        let is_of_tracer = names[arrival].starts_with(TRACER) && !ours.contains_key(arrival);
        assert!(
            is_of_tracer
                || ran(*thread, *woken_ns, *until_ns)
                || was_ready(*thread, *woken_ns)
                || began_before(*thread, *woken_ns)
                || *woken_ns < complete_from_ns
                || rule
                    .forgotten
                    .get(arrival)
                    .is_some_and(|woken_ns| ours.get(arrival) == Some(woken_ns)),
            "{thread} ({}) came at {came_ns}, woken at {woken_ns}; Piste: {:?}; {:#?}",
            names[arrival],
            ours.get(arrival),
            latest(events, *arrival)
        );
    }
    for ((thread, came_ns), woken_ns) in ours.iter().filter(|(arrival, _)| !rule.waits.contains_key(arrival)) {
        let is_ignored = rule.ignored.contains(&(*thread, *woken_ns));
        assert!(
            is_ignored,
            "{thread} came at {came_ns}, woken at {woken_ns}: not in lttng-schedlog"
        );
    }
}

/// The events that may say why a thread waited: its own, and what others did to it.
fn latest(events: &[Event], (thread, came_ns): Arrival) -> Vec<&Event> {
    let is_about = |event: &&Event| {
        let mut about = event.fields.iter().filter(|(name, _)| name.ends_with("tid"));
        event.thread == Some(thread) || about.any(|(_, tid)| tid.as_i64() == Some(thread))
    };
    let until = events.iter().filter(|event| event.ns <= came_ns);
    let mut latest: Vec<&Event> = until.rev().filter(is_about).take(12).collect();
    latest.reverse();
    latest
}

/// Where Piste names a thread, it is the one in whose context the wake-up began: `sched_waking`, which may come before the woken one has left its
/// CPU; then `sched_wakeup` begins the wait. lttng-schedlog names the thread to which the CPU of the first event turned last, also when an
/// interrupt woke.
fn check_wakers(events: &[Event], delays: &[Value]) {
    let mut began = BTreeMap::new();
    let mut wakers = BTreeMap::<(i64, i64), Vec<Option<i64>>>::new();
    for event in events.iter().filter(|event| event.name.starts_with("sched_wak")) {
        let thread = event.number("tid");
        if event.is("sched_waking") {
            began.insert(thread, event.thread);
        }
        let own = wakers.entry((thread, event.ns)).or_default();
        own.extend([event.thread, began.get(&thread).copied().flatten()]);
    }
    let mut checked = 0;
    for row in delays {
        let waker = row["waker"].as_str().unwrap_or_default();
        let by_thread = waker.strip_suffix(')').and_then(|waker| waker.rsplit_once(" ("));
        if let Some(waker) = by_thread.and_then(|(_, tid)| tid.parse::<i64>().ok()) {
            let own = &wakers[&(number(&row["tid"]), number(&row["woken_ns"]))];
            assert!(own.contains(&Some(waker)), "{own:?}: {row:#}");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} wakers of {}", delays.len());
}

/// Sums of each thread are of the same waits as the log, in both; so they are the same where the waits are.
fn check_sums(compared: &Compared, rule: &Waits, ours: &BTreeMap<Arrival, i64>) {
    let sums = |waits: &mut dyn Iterator<Item = (Arrival, i64)>| {
        let mut of_threads = BTreeMap::<i64, Vec<i64>>::new();
        for ((thread, came_ns), woken_ns) in waits {
            of_threads.entry(thread).or_default().push(came_ns - woken_ns);
        }
        let figures = |waits: Vec<i64>| {
            let (min, max) = (waits.iter().min().copied(), waits.iter().max().copied());
            (waits.len() as i64, waits.iter().sum::<i64>(), min, max)
        };
        let of_threads = of_threads.into_iter();
        of_threads
            .map(|(thread, waits)| (thread, figures(waits)))
            .collect::<BTreeMap<_, _>>()
    };
    let answer = compared.lttng("sched:runstats_mi");
    let theirs = answer.rows("per_tid_stats", "");
    let theirs: BTreeMap<_, _> = theirs
        .iter()
        // One that only woke others has a row, too.
        .filter(|row| row.number(1, "value") > 0)
        .map(|row| {
            let count = row.number(1, "value");
            let [min, max] = [2, 4].map(|column| Some(row.number(column, "value")));
            (
                row.number(0, "tid"),
                (count, sum(row.fraction(3, "value"), count), min, max),
            )
        })
        .collect();
    assert_eq!(
        theirs,
        sums(&mut rule.waits.iter().map(|(key, (woken_ns, _))| (*key, *woken_ns)))
    );
    let report = compared.piste("schedstats");
    // Others only waited to get a CPU back.
    let was_woken = rows(&report, "threads").iter().filter(|row| number(&row["count"]) > 0);
    let own = was_woken.map(|row| {
        let [tid, count, total, min, max] =
            ["tid", "count", "total_ns", "min_ns", "max_ns"].map(|key| number(&row[key]));
        (tid, (count, total, Some(min), Some(max)))
    });
    assert_eq!(
        own.collect::<BTreeMap<_, _>>(),
        sums(&mut ours.iter().map(|(key, ns)| (*key, *ns)))
    );
}
