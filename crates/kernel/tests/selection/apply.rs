// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules as the kernel has them.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use piste_kernel::catalog::Catalog;
use piste_kernel::instance::Instance;
use piste_kernel::resolve::{self, Refusal};
use piste_kernel::spec::{Rule, Stack, Tracked};
use rustix::process::getppid;
use rustix::thread::gettid;

use super::recorder::{Recorder, filtered, kernel, syscalls, tracepoints};

fn enabled(instance: &Instance) -> BTreeSet<String> {
    let text = instance.read("set_event").expect("the events");
    text.lines().map(str::to_owned).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn file(instance: &Instance, event: &str, file: &str) -> String {
    let folder = event.replace(':', "/");
    let text = instance
        .read(format!("events/{folder}/{file}"))
        .expect("a file of an event");
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn formats_are_read_before_the_rings_fill() {
    let Some(kernel) = kernel() else { return };
    let events = kernel.tracefs.path("events");
    let recorder = Recorder::new(kernel, 4);
    let picture = tempfile::tempdir().expect("a folder");
    let names = [
        "sched/sched_switch",
        "sched/sched_waking",
        "raw_syscalls/sys_enter",
        "raw_syscalls/sys_exit",
    ];
    for name in names {
        let (from, to) = (events.join(name), picture.path().join(name));
        fs::create_dir_all(&to).expect("a folder");
        for file in ["enable", "format", "id"] {
            fs::copy(from.join(file), to.join(file)).expect("a copy");
        }
    }
    let catalog = Catalog::read_folder(picture.path()).expect("a catalog");
    recorder.apply(
        &catalog,
        &[tracepoints("sched_switch"), syscalls("futex")],
        &Tracked::default(),
    );
    drop(picture);
    let is_known = |name: &str| {
        let (system, name) = name.split_once('/').expect("a group");
        catalog.by_name(system, name).is_ok()
    };
    assert_eq!(names.map(is_known), [true, false, true, true]);
}

#[test]
fn rules_are_what_the_kernel_records_and_nothing_else() {
    let Some(kernel) = kernel() else { return };
    let (catalog, recorder) = (kernel.catalog(), Recorder::new(kernel, 4));
    let instance = recorder.instance();
    let apply = |rules: &[Rule]| recorder.apply(&catalog, rules, &Tracked::default());

    let mut forks = tracepoints("sched_process_*");
    forks.excluded = vec!["*_w*".to_owned(), "sched:sched_process_hang".to_owned()];
    apply(&[forks.clone(), tracepoints("irq_softirq_raise")]);
    let known = [
        "sched:sched_process_exec",
        "sched:sched_process_exit",
        "sched:sched_process_fork",
        "sched:sched_process_free",
    ];
    let seen = enabled(instance);
    assert!(
        seen.is_superset(&names(&known)) && seen.contains("irq:softirq_raise"),
        "{seen:?}"
    );
    assert!(
        seen.iter().all(|name| !name.contains("_w") && !name.contains("hang")),
        "{seen:?}"
    );

    // Two rules for an event: what one of them wants. One that was disabled wants nothing.
    let one = filtered(tracepoints("sched_switch"), "prev_tid == 3");
    let other = filtered(tracepoints("sched:sched_switch"), "next_comm =~ \"a*\"");
    apply(&[one.clone(), other.clone(), one.clone()]);
    assert_eq!(enabled(instance), names(&["sched:sched_switch"]));
    assert_eq!(
        file(instance, "sched:sched_switch", "filter"),
        r#"(prev_pid == 3) || (next_comm ~ "\a*")"#
    );
    assert_eq!(file(instance, "sched:sched_process_exit", "filter"), "none");
    apply(&[
        one.clone(),
        Rule {
            enabled: false,
            ..other
        },
    ]);
    assert_eq!(file(instance, "sched:sched_switch", "filter"), "prev_pid == 3");
    apply(&[one, tracepoints("sched_switch")]);
    assert_eq!(file(instance, "sched:sched_switch", "filter"), "none");

    // System calls by their numbers in both tables, and by either name.
    apply(&[syscalls("fstat")]);
    assert_eq!(
        file(instance, "raw_syscalls:sys_enter", "filter"),
        "id == 5 || id == 108"
    );
    apply(&[syscalls("futex")]);
    assert_eq!(
        enabled(instance),
        names(&["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"])
    );
    assert_eq!(
        file(instance, "raw_syscalls:sys_enter", "filter"),
        "id == 202 || id == 240"
    );
    apply(&[syscalls("futex"), tracepoints("raw_syscalls:*")]);
    assert_eq!(file(instance, "raw_syscalls:sys_exit", "filter"), "none");

    apply(&[]);
    assert_eq!(enabled(instance), names(&[]));
}

#[test]
fn everything_is_everything() {
    let Some(kernel) = kernel() else { return };
    let (catalog, recorder) = (kernel.catalog(), Recorder::new(kernel, 4));
    let all = || {
        catalog
            .names()
            .filter(|(system, _)| *system != "ftrace")
            .map(|(system, name)| format!("{system}:{name}"))
    };
    recorder.apply(&catalog, &[tracepoints("*")], &Tracked::default());
    let missing: Vec<String> = all()
        .filter(|name| !enabled(recorder.instance()).contains(name))
        .collect();
    assert_eq!(missing, <[String; 0]>::default());
    assert!(
        enabled(recorder.instance())
            .iter()
            .all(|name| !name.starts_with("syscalls:"))
    );

    let mut most = tracepoints("*");
    most.excluded = vec!["sched_switch".to_owned(), "kmem:*".to_owned()];
    recorder.apply(&catalog, &[most], &Tracked::default());
    let expected: BTreeSet<String> = all()
        .filter(|name| name != "sched:sched_switch" && !name.starts_with("kmem:"))
        .collect();
    assert_eq!(enabled(recorder.instance()), expected);
    recorder.apply(&catalog, &[], &Tracked::default());
    assert_eq!(enabled(recorder.instance()), names(&[]));
}

#[test]
fn stacks_are_taken_of_what_their_rule_records() {
    let Some(kernel) = kernel() else { return };
    let (catalog, recorder) = (kernel.catalog(), Recorder::new(kernel, 64));
    let instance = recorder.instance();
    let event = "raw_syscalls:sys_enter";
    let trigger = || file(instance, event, "trigger");
    let stack = |kernel, user| {
        Some(Stack {
            kernel,
            user,
            depth: None,
            range: None,
        })
    };
    let own = Tracked {
        pids: vec![std::process::id()],
        ..Tracked::default()
    };
    let with_stack = Rule {
        stack: stack(true, false),
        ..filtered(tracepoints(event), "id == 110")
    };
    recorder.apply(&catalog, &[with_stack.clone(), tracepoints(event)], &own);
    assert_eq!(trigger(), "stacktrace:unlimited if id == 110");
    instance.set_on(true).expect("on");
    let thread = gettid();
    for _ in 0..100 {
        let _ = getppid();
    }
    instance.set_on(false).expect("off");
    let id = catalog.by_name("raw_syscalls", "sys_enter").expect("an event").id;
    let mut records = recorder.records();
    records.retain(|record| record.thread() == thread.as_raw_nonzero().get() as u32);
    let call = |bytes: &[u8]| u64::from_ne_bytes(bytes[8..16].try_into().expect("a number"));
    let calls = records
        .iter()
        .filter(|record| record.id() == id && call(&record.bytes) == 110)
        .count();
    let stacks: Vec<usize> = (0..records.len()).filter(|&index| records[index].id() != id).collect();
    assert_eq!((calls, stacks.len()), (100, 100));
    for index in stacks {
        assert_eq!(
            (records[index - 1].id(), call(&records[index - 1].bytes)),
            (id, 110),
            "a stack is behind its event"
        );
    }

    // A changed filter is the stack's as well, and a rule that goes takes its stacks along.
    let changed = filtered(with_stack.clone(), "id == 39");
    recorder.apply(&catalog, &[changed, filtered(with_stack, "id == 110")], &own);
    assert_eq!(trigger(), "stacktrace:unlimited if (id == 39) || (id == 110)");
    let user = Rule {
        stack: stack(false, true),
        ..tracepoints(event)
    };
    let findings = recorder.findings(&catalog, &[user], &own);
    let option = instance
        .read("options/userstacktrace")
        .unwrap_or_else(|_| "1".to_owned());
    assert_eq!((trigger(), option.trim()), (String::new(), "1"), "{findings:?}");
    recorder.apply(&catalog, &[tracepoints(event)], &own);
    assert_eq!(
        instance
            .read("options/userstacktrace")
            .unwrap_or_else(|_| "0".to_owned())
            .trim(),
        "0"
    );
}

#[test]
fn what_old_and_new_rules_both_record_is_never_missed() {
    let Some(kernel) = kernel() else { return };
    let (catalog, recorder) = (kernel.catalog(), Recorder::new(kernel, 2000));
    let own = Tracked {
        pids: vec![std::process::id()],
        ..Tracked::default()
    };
    let changing = [
        vec![syscalls("getppid")],
        vec![syscalls("getp*"), tracepoints("sched_switch")],
        vec![filtered(syscalls("*"), "id != 39"), syscalls("getppid")],
        vec![syscalls("futex"), filtered(tracepoints("raw_syscalls:*"), "id == 110")],
        vec![Rule {
            stack: Some(Stack {
                kernel: true,
                user: false,
                depth: None,
                range: None,
            }),
            ..syscalls("getppid")
        }],
    ];
    recorder.apply(&catalog, &changing[0], &own);
    recorder.instance().set_on(true).expect("on");
    let is_over = AtomicBool::new(false);
    let (thread, made) = std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut made = 0_u64;
            while !is_over.load(Ordering::Relaxed) && made < 100_000 {
                let _ = getppid();
                made += 1;
                if made.is_multiple_of(200) {
                    // The rings are read at the end only.
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            (gettid().as_raw_nonzero().get() as u32, made)
        });
        for rules in changing.iter().cycle().take(60) {
            recorder.apply(&catalog, rules, &own);
        }
        is_over.store(true, Ordering::Relaxed);
        caller.join().expect("a thread")
    });
    recorder.instance().set_on(false).expect("off");
    let id = catalog.by_name("raw_syscalls", "sys_enter").expect("an event").id;
    let records = recorder.records();
    let seen = records
        .iter()
        .filter(|record| record.thread() == thread && record.id() == id && record.bytes[8..16] == 110_u64.to_ne_bytes())
        .count();
    assert_eq!(seen as u64, made);
}

#[test]
fn every_choice_of_system_calls_is_a_filter_that_the_kernel_takes() {
    let Some(kernel) = kernel() else { return };
    let (catalog, recorder) = (kernel.catalog(), Recorder::new(kernel, 4));
    for pattern in [
        "*",
        "*a*",
        "*e*",
        "s*",
        "*t",
        "*_*",
        "open*",
        "*sigreturn",
        "read",
        "*64",
    ] {
        for excluded in [&[][..], &["*s*"], &["mmap*", "*i*"]] {
            let mut rule = syscalls(pattern);
            rule.excluded = excluded.iter().map(|&name| name.to_owned()).collect();
            if resolve::rule(&rule, &catalog, None).is_err() {
                continue;
            }
            recorder.apply(&catalog, std::slice::from_ref(&rule), &Tracked::default());
            recorder.apply(&catalog, &[filtered(rule, "ret < 0 && $tid != 1")], &Tracked::default());
        }
    }
}

#[test]
fn what_cannot_be_recorded_is_refused_with_what_can() {
    let Some(kernel) = kernel() else { return };
    let catalog = kernel.catalog();
    let refusal = |rule: Rule| resolve::rule(&rule, &catalog, None).expect_err("a refusal");
    let nearest = |rule: Rule| match refusal(rule) {
        Refusal::NoEvent { nearest, .. } => nearest,
        other => panic!("{other}"),
    };
    assert_eq!(nearest(tracepoints("sched_swich"))[0], "sched_switch");
    assert_eq!(nearest(tracepoints("shed:sched_switch"))[0], "sched:sched_switch");
    assert_eq!(nearest(syscalls("opnat"))[0], "openat");
    assert!(matches!(refusal(tracepoints("a b")), Refusal::InvalidPattern(invalid) if invalid.position == 1));
    assert!(matches!(
        refusal(tracepoints("syscalls:sys_enter_read")),
        Refusal::InvalidPattern(_)
    ));
    let position = |rule: Rule| match refusal(rule) {
        Refusal::InvalidFilter { position, .. } => position,
        other => panic!("{other}"),
    };
    assert_eq!(
        position(filtered(tracepoints("sched_switch"), "prev_prio < \"ten\"")),
        12
    );
    assert_eq!(position(filtered(tracepoints("sched_*"), "no_such < 10")), 0);
    assert_eq!(position(filtered(syscalls("openat"), "$tid == 1 && filename == 3")), 22);
    // What has no such field is left out.
    let some = resolve::rule(&filtered(tracepoints("sched_*"), "prev_prio < 10"), &catalog, None).expect("events");
    assert_eq!(some.len(), 1);
    let findings = is_finding(&catalog, filtered(tracepoints("sched_switch"), "prev_prio < "));
    assert_eq!(findings.len(), 1, "{findings:?}");
}

fn is_finding(catalog: &Catalog, rule: Rule) -> Vec<String> {
    let recorder = Recorder::new(kernel().expect("it was there"), 4);
    recorder.findings(catalog, &[rule], &Tracked::default())
}
