// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lttng-cputop` and `piste analyze cputop`.

use std::collections::BTreeMap;

use piste_support::report::{number, rows};

use crate::Compared;
use crate::events::Event;
use crate::waits::TRACER;

/// What lttng-analyses makes of switches.
#[derive(Default)]
struct Turns {
    threads: BTreeMap<i64, i64>,
    cpus: BTreeMap<i64, i64>,
    migrations: BTreeMap<i64, i64>,
}

/// A thread has its CPU from a switch to it to a switch from it, whatever was in between; one whose first switch is from it, from the begin of
/// the trace; one whose last switch is to it, to the end. A CPU is busy from a switch to a thread to the next switch, and before the first.
fn turns(events: &[Event], (begin_ns, end_ns): (i64, i64)) -> Turns {
    let mut turns = Turns::default();
    let (mut running, mut busy) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        if let Some(next) = event.next() {
            let previous = event.number("prev_tid");
            if !turns.threads.contains_key(&previous) {
                running.insert(previous, begin_ns);
            }
            let since_ns = running.remove(&previous).unwrap_or(event.ns);
            *turns.threads.entry(previous).or_default() += event.ns - since_ns;
            if !turns.cpus.contains_key(&event.cpu) {
                busy.insert(event.cpu, begin_ns);
            }
            let since_ns = busy.remove(&event.cpu).unwrap_or(event.ns);
            *turns.cpus.entry(event.cpu).or_default() += event.ns - since_ns;
            if next != 0 {
                turns.threads.entry(next).or_default();
                running.insert(next, event.ns);
                busy.insert(event.cpu, event.ns);
            }
        } else if event.is("sched_migrate_task") {
            let thread = event.number("tid");
            turns.threads.entry(thread).or_default();
            *turns.migrations.entry(thread).or_default() += 1;
        }
    }
    for (thread, since_ns) in running {
        *turns.threads.entry(thread).or_default() += end_ns - since_ns;
    }
    for (cpu, since_ns) in busy {
        *turns.cpus.entry(cpu).or_default() += end_ns - since_ns;
    }
    turns
}

/// How long a thread had a CPU, as events tell.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Both events around that time name the thread, and no event of another CPU does in between. Events right after a switch away from the
    /// thread do not count until one names another thread: the kernel records a switch before it switches.
    least_ns: i64,
    /// One of them does.
    most_ns: i64,
}

fn bounds(events: &[Event], (begin_ns, end_ns): (i64, i64)) -> BTreeMap<i64, Bounds> {
    let mut threads = BTreeMap::<i64, Bounds>::new();
    // By CPU: its last event, and who has it behind that; who left it by a switch. By thread: the CPU of its last event.
    let mut last = BTreeMap::<i64, (i64, Option<i64>)>::new();
    let mut leaving = BTreeMap::new();
    let mut seen_on = BTreeMap::new();
    for event in events {
        let Some(thread) = event.thread else { continue };
        let (last_ns, before) = last.get(&event.cpu).copied().unwrap_or((begin_ns, None));
        let (behind, next) = match event.next() {
            Some(next) => (event.number("prev_tid"), next),
            None => (thread, thread),
        };
        let ns = event.ns - last_ns;
        let was_elsewhere = seen_on.insert(behind, event.cpu) != Some(event.cpu);
        let is_leaving = leaving.get(&event.cpu) == Some(&behind);
        if before == Some(behind) && !was_elsewhere && !is_leaving {
            threads.entry(behind).or_default().least_ns += ns;
        }
        for either in before.into_iter().filter(|before| *before != behind).chain([behind]) {
            threads.entry(either).or_default().most_ns += ns;
        }
        if next != behind {
            leaving.insert(event.cpu, behind);
        } else if !is_leaving {
            leaving.remove(&event.cpu);
        }
        seen_on.insert(next, event.cpu);
        last.insert(event.cpu, (event.ns, Some(next)));
    }
    for (last_ns, thread) in last.into_values() {
        threads.entry(thread.expect("its event says it")).or_default().most_ns += end_ns - last_ns;
    }
    threads
}

/// The CPUs to which a thread came, one after the other, if switches tell of each time that it came and left.
fn stays(events: &[Event]) -> BTreeMap<i64, Option<Vec<i64>>> {
    let mut threads = BTreeMap::<i64, Option<Vec<i64>>>::new();
    let mut on = BTreeMap::new();
    for event in events {
        let Some(next) = event.next() else { continue };
        let previous = event.number("prev_tid");
        let stay = threads.entry(previous).or_insert(None);
        if on.remove(&previous) != Some(event.cpu) {
            *stay = None;
        }
        let stay = threads.entry(next).or_insert_with(|| Some(Vec::new()));
        if on.insert(next, event.cpu).is_some() {
            *stay = None;
        }
        if let Some(cpus) = stay {
            cpus.push(event.cpu);
        }
    }
    for thread in on.into_keys() {
        threads.insert(thread, None);
    }
    threads
}

/// It gives a part of the trace's time: a fraction of 53 bits.
fn ns(part: f64, (begin_ns, end_ns): (i64, i64)) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "traces are short"
    )]
    let ns = (part * (end_ns - begin_ns) as f64).round() as i64;
    ns
}

pub(crate) fn check(compared: &Compared) {
    let time = compared.time();
    let rule = turns(&compared.events, time);
    let answer = compared.lttng_all("cputop:run_mi");
    let mut theirs = Turns::default();
    for row in answer.rows("per-process", "") {
        let thread = row.number(0, "tid");
        theirs.threads.insert(thread, ns(row.fraction(3, "value"), time));
        if row.number(1, "value") > 0 {
            theirs.migrations.insert(thread, row.number(1, "value"));
        }
    }
    for row in answer.rows("per-cpu", "") {
        theirs
            .cpus
            .insert(row.number(0, "id"), ns(row.fraction(1, "value"), time));
    }
    assert_eq!(theirs.threads, rule.threads);
    assert_eq!(theirs.cpus, rule.cpus);
    assert_eq!(theirs.migrations, rule.migrations);

    let report = compared.piste("cputop");
    let own_time = (number(&report["begin_ns"]), number(&report["end_ns"]));
    // Events of the state dump may come behind the last one of the kernel's.
    let kernel = || compared.events.iter().filter(|event| event.thread.is_some());
    let last_ns = kernel().map(|event| event.ns).max().expect("events");
    assert!(
        own_time.0 <= time.0 && own_time.1 >= last_ns,
        "{own_time:?}, {time:?}, {last_ns}"
    );
    let bounds = bounds(&compared.events, own_time);
    let stays = stays(&compared.events);
    let threads = rows(&report, "threads");
    let times: Vec<i64> = threads.iter().map(|row| number(&row["on_cpu_ns"])).collect();
    assert!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
    let mut same = 0;
    for row in threads {
        let (thread, own_ns) = (number(&row["tid"]), number(&row["on_cpu_ns"]));
        // Of the tracer's own threads some switches are missing, which nothing shows.
        let is_of_tracer = row["comm"].as_str().is_some_and(|comm| comm.starts_with(TRACER));
        let Some(bounds) = bounds.get(&thread).filter(|_| !is_of_tracer) else {
            continue;
        };
        let Bounds { least_ns, most_ns } = *bounds;
        let own_events = || {
            let own = compared.events.iter().filter(|event| event.thread == Some(thread));
            own.take(20).collect::<Vec<_>>()
        };
        assert!(
            (least_ns..=most_ns).contains(&own_ns),
            "{row:#}: {bounds:?}: {:#?}",
            own_events()
        );
        let is_clear = least_ns == most_ns;
        let Some(Some(cpus)) = stays.get(&thread).filter(|_| is_clear) else {
            continue;
        };
        assert_eq!(Some(&own_ns), theirs.threads.get(&thread), "{row:#}");
        assert_eq!(number(&row["switches"]), cpus.len() as i64, "{row:#}");
        let moves = cpus.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(number(&row["migrations"]), moves as i64, "{row:#}");
        same += 1;
    }
    assert!(
        same > 0,
        "{same} of {} threads, of which all switches are known",
        threads.len()
    );
    // Of a thread without a row no event tells that it had a CPU for any time.
    let listed = |thread: i64| threads.iter().any(|row| row["tid"] == thread);
    for (thread, Bounds { least_ns, .. }) in bounds.iter().filter(|(thread, _)| **thread != 0) {
        assert!(*least_ns == 0 || listed(*thread), "{thread}: {least_ns} ns");
    }
    assert!(!rows(&report, "cpus").is_empty(), "{report:#}");
    for row in rows(&report, "cpus") {
        let of = |key: &str| number(&row[key]);
        let sum = of("busy_ns") + of("interrupted_ns") + of("idle_ns") + of("unknown_ns");
        assert_eq!(sum, own_time.1 - own_time.0, "{row:#}");
        let switches = kernel()
            .filter(|event| event.cpu == of("cpu") && event.is("sched_switch"))
            .count();
        assert_eq!(of("switches"), switches as i64, "{row:#}");
    }
}
