// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lttng-irqstats`, `-irqlog` and those of `piste analyze`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use piste_support::report::{analyze, number, rows};
use serde_json::Value;

use crate::Compared;
use crate::events::Event;
use crate::lttng::{self, Row, sum};

/// Linux's soft interrupts, by number.
const SOFT: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Of a device or soft, and its number.
type Kind = (bool, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interrupt {
    cpu: i64,
    begin_ns: i64,
    end_ns: i64,
    kind: Option<Kind>,
}

/// From an entry to the next exit of the same on the same CPU.
fn interrupts(events: &[Event]) -> BTreeSet<Interrupt> {
    let (mut open, mut all) = (BTreeMap::new(), BTreeSet::new());
    for event in events {
        let kind = match event.name.as_str() {
            "irq_handler_entry" | "irq_handler_exit" => (true, event.number("irq")),
            "irq_softirq_entry" | "irq_softirq_exit" => (false, event.number("vec")),
            _ => continue,
        };
        if event.name.ends_with("entry") {
            open.insert((event.cpu, kind), event.ns);
        } else if let Some(begin_ns) = open.remove(&(event.cpu, kind)) {
            all.insert(Interrupt {
                cpu: event.cpu,
                begin_ns,
                end_ns: event.ns,
                kind: Some(kind),
            });
        }
    }
    all
}

/// CPU, number and begin of a soft interrupt, and when it was asked for.
type Raised = BTreeSet<(i64, i64, i64, i64)>;

/// When soft interrupts were asked for: the first time since they last began, as Piste has it.
fn raised(events: &[Event]) -> Raised {
    let (mut asked, mut all) = (BTreeMap::new(), Raised::new());
    for event in events.iter().filter(|event| event.name.starts_with("irq_softirq_")) {
        let place = (event.cpu, event.number("vec"));
        match event.name.as_str() {
            "irq_softirq_raise" => _ = asked.entry(place).or_insert(event.ns),
            "irq_softirq_entry" => {
                let raised_ns = asked.remove(&place);
                all.extend(raised_ns.map(|raised_ns| (place.0, place.1, event.ns, raised_ns)));
            }
            _ => {}
        }
    }
    all
}

/// The same as lttng-analyses has it: requests wait in a queue, from which those that end are taken. When an end is missing, the next begin is the
/// first one's again, and the interrupts behind it have the requests of those before them.
fn raised_in_queues(events: &[Event]) -> Raised {
    let mut queues = BTreeMap::<_, VecDeque<(Option<i64>, Option<i64>)>>::new();
    let mut all = Raised::new();
    for event in events.iter().filter(|event| event.name.starts_with("irq_softirq_")) {
        let place = (event.cpu, event.number("vec"));
        let queue = queues.entry(place).or_default();
        match (event.name.as_str(), queue.front_mut()) {
            ("irq_softirq_raise", Some((_, None))) => {}
            ("irq_softirq_raise", _) => queue.push_back((Some(event.ns), None)),
            ("irq_softirq_entry", Some((_, begin_ns))) => *begin_ns = Some(event.ns),
            ("irq_softirq_entry", None) => queue.push_back((None, Some(event.ns))),
            (_, Some((raised_ns, Some(begin_ns)))) => {
                all.extend(raised_ns.map(|raised_ns| (place.0, place.1, *begin_ns, raised_ns)));
                queue.pop_front();
            }
            _ => {}
        }
    }
    all
}

/// `irq 36 virtio1-req.0`, `softirq TIMER`; absent of others.
fn kind(name: &str) -> Option<Kind> {
    let mut words = name.split(' ');
    match (words.next()?, words.next()?) {
        ("irq", number) => Some((true, number.parse().ok()?)),
        ("softirq", name) => Some((false, SOFT.iter().position(|soft| *soft == name)? as i64)),
        _ => None,
    }
}

fn kind_of_theirs(row: &Row<'_>, column: usize) -> Option<Kind> {
    let is_hard = row.get(column, "hard").and_then(Value::as_bool)?;
    Some((is_hard, row.number(column, "nr")))
}

pub(crate) fn check(compared: &Compared) {
    let rule = interrupts(&compared.events);
    let log = compared.lttng("irq:runlog_mi");
    let theirs: BTreeSet<Interrupt> = log
        .rows("log", "")
        .iter()
        .map(|row| {
            let (begin_ns, end_ns) = row.range(0);
            let (cpu, kind) = (row.number(2, "id"), kind_of_theirs(row, 3));
            Interrupt {
                cpu,
                begin_ns,
                end_ns,
                kind,
            }
        })
        .collect();
    assert_eq!(theirs, rule);

    // Piste also tells of vectors and timers.
    let report = compared.piste("irqlog");
    let all: Vec<Interrupt> = rows(&report, "interrupts")
        .iter()
        .map(|row| {
            let [cpu, begin_ns, ns] = ["cpu", "begin_ns", "duration_ns"].map(|key| number(&row[key]));
            let kind = kind(row["interrupt"].as_str().expect("a name"));
            Interrupt {
                cpu,
                begin_ns,
                end_ns: begin_ns + ns,
                kind,
            }
        })
        .collect();
    let ours: BTreeSet<Interrupt> = all.iter().filter(|one| one.kind.is_some()).copied().collect();
    assert_eq!(ours, rule);
    assert!(rule.len() > 10, "{} interrupts", rule.len());
    check_sums(compared, &rule, &all);

    // When they were asked for.
    let soft = |one: Option<Kind>| one.filter(|(is_hard, _)| !is_hard).map(|(_, number)| number);
    let theirs = log.rows("log", "");
    let theirs = theirs.iter().filter_map(|row| {
        let raised_ns = row.get(1, "value").and_then(Value::as_i64)?;
        let number = soft(kind_of_theirs(row, 3))?;
        Some((row.number(2, "id"), number, row.range(0).0, raised_ns))
    });
    assert_eq!(theirs.collect::<Raised>(), raised_in_queues(&compared.events));
    let ours = rows(&report, "interrupts").iter().filter_map(|row| {
        let [cpu, begin_ns] = ["cpu", "begin_ns"].map(|key| number(&row[key]));
        let number = soft(kind(row["interrupt"].as_str()?))?;
        Some((cpu, number, begin_ns, begin_ns - row["late_ns"].as_i64()?))
    });
    let counted = |one: &(i64, i64, i64, i64)| {
        let is_it =
            |ended: &&Interrupt| (ended.cpu, ended.begin_ns) == (one.0, one.2) && soft(ended.kind) == Some(one.1);
        rule.iter().any(|ended| is_it(&ended))
    };
    let expected: Raised = raised(&compared.events).into_iter().filter(counted).collect();
    assert_eq!(ours.collect::<Raised>(), expected);
}

/// What comes on top of each, which interrupts it: without what comes on top of that.
fn nested_ns(all: &[Interrupt]) -> BTreeMap<Interrupt, i64> {
    let mut sorted = all.to_vec();
    sorted.sort_by_key(|one| (one.cpu, one.begin_ns, -one.end_ns));
    let (mut nested, mut around) = (BTreeMap::new(), Vec::<Interrupt>::new());
    for one in sorted {
        while around
            .last()
            .is_some_and(|outer| outer.cpu != one.cpu || outer.end_ns <= one.begin_ns)
        {
            around.pop();
        }
        if let Some(outer) = around.last() {
            *nested.entry(*outer).or_default() += one.end_ns - one.begin_ns;
        }
        around.push(one);
    }
    nested
}

/// lttng-irqstats counts what comes on top of an interrupt twice, Piste only as what it is.
fn check_sums(compared: &Compared, rule: &BTreeSet<Interrupt>, all: &[Interrupt]) {
    let answer = compared.lttng("irq:runstats_mi");
    let report = compared.piste("irqstats");
    let nested = nested_ns(all);
    let mut kinds = 0;
    for row in ["hard-stats", "soft-stats"]
        .iter()
        .flat_map(|class| answer.rows(class, ""))
    {
        let kind = kind_of_theirs(&row, 0);
        let of_kind: Vec<&Interrupt> = rule.iter().filter(|one| one.kind == kind).collect();
        let ns = || of_kind.iter().map(|one| one.end_ns - one.begin_ns);
        let count = row.number(1, "value");
        assert_eq!(count, of_kind.len() as i64);
        let own = rows(&report, "interrupts");
        let own: Vec<&Value> = own
            .iter()
            .filter(|own| self::kind(own["interrupt"].as_str().expect("a name")) == kind)
            .collect();
        assert_eq!(
            own.iter().map(|own| number(&own["count"])).sum::<i64>(),
            count,
            "{own:#?}"
        );
        if count == 0 {
            continue;
        }
        assert_eq!(
            (Some(row.number(2, "value")), Some(row.number(4, "value"))),
            (ns().min(), ns().max())
        );
        let theirs_ns = sum(row.fraction(3, "value"), count);
        assert_eq!(theirs_ns, ns().sum::<i64>());
        let nested_ns: i64 = of_kind.iter().filter_map(|one| nested.get(one)).sum();
        let ours_ns: i64 = own.iter().map(|own| number(&own["total_ns"])).sum();
        assert_eq!(ours_ns + nested_ns, theirs_ns, "{own:#?}");
        kinds += 1;
    }
    assert!(kinds >= 2, "{kinds} kinds of interrupts");
}

/// As Debian has it, lttng-irqstats tells of no soft interrupts, and the same of others.
pub(crate) fn check_names(compared: &Compared, trimmed: &str) {
    let answer = lttng::try_ask(compared.place, trimmed, "irq:runstats_mi", &[]);
    let Some(tables) = answer["results"].as_array() else {
        // A trace that begins inside an interrupt.
        return println!("lttng-irqstats: {answer}");
    };
    let classes: Vec<&Value> = tables.iter().map(|table| &table["class"]).collect();
    assert!(classes.iter().all(|class| *class == "hard-stats"), "{classes:?}");
    let soft = interrupts(&compared.events)
        .iter()
        .filter(|one| one.kind.is_some_and(|kind| !kind.0))
        .count();
    assert!(soft > 0, "no soft interrupts");
    println!("lttng-irqstats leaves out {soft} soft interrupts");
}

/// From the begin to the end of a soft interrupt on the same CPU, as periods that the asker defines.
pub(crate) fn check_periods(compared: &Compared) {
    let period = "soft : $evt.$name == \"irq_softirq_entry\" : \
        $evt.$name == \"irq_softirq_exit\" && $evt.cpu_id == $begin.$evt.cpu_id";
    let (place, trace) = (compared.place, &compared.trace);
    let of = |end: &str| compared.events.iter().filter(|event| event.is(end)).count();
    let (begins, ends) = (of("irq_softirq_entry"), of("irq_softirq_exit"));
    let pairs = interrupts(&compared.events)
        .iter()
        .filter(|one| one.kind.is_some_and(|kind| !kind.0))
        .count();
    if begins != pairs || ends != pairs {
        // An end ends all periods that have begun for lttng-analyses, and the last one for Piste.
        return println!("{begins} begins, {ends} ends, {pairs} soft interrupts: periods are not compared");
    }
    let answer = lttng::ask(place, trace, "periods:runstats_mi", &["--period", period]);
    let theirs = answer.rows("per_period_stats", "");
    let theirs: Vec<_> = theirs
        .iter()
        .map(|row| [1, 6, 2, 4].map(|column| row.number(column, "value")))
        .collect();
    let [begin, end] = ["entry", "exit"].map(|end| format!("name == \"irq_softirq_{end}\""));
    let options = ["--begin-event", &begin, "--end-event", &end, "--by", "$cpu"];
    let report = analyze(place, "periods", trace, &options);
    let ours: Vec<_> = rows(&report, "periods")
        .iter()
        .map(|row| ["count", "total_ns", "min_ns", "max_ns"].map(|key| number(&row[key])))
        .collect();
    assert_eq!(theirs, ours);
    assert!(!ours.is_empty(), "no soft interrupts");
}
