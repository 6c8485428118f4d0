// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes are defined once, found again, and go without a trace. Needs root, tracefs and uprobes.

use std::fs;

use piste_kernel::probe::{self, Asker, Plans, Probes};
use piste_kernel::spec::Rule;

use crate::programs::compile;
use crate::rig::{CHANNEL, Rig, SESSION, listed, new_owner, rules, uprobe, usdt};

fn open(rig: &Rig, rules: &[Rule]) -> (Probes, Vec<String>) {
    Probes::open(
        &rig.tracefs,
        &rig.owner,
        SESSION,
        CHANNEL,
        rules,
        Plans::of(rules, Asker::Root),
    )
}

#[test]
fn removed_probes_leave_nothing_even_when_they_were_on() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", &[]);
    let probes = rig.define(&[uprobe(&program, "work", &["%di"]), uprobe(&program, "main", &[])]);
    let group = rig.tracefs.path("events").join(&probes.events()[0].group);
    rig.enable(probes.events());
    rig.run(&program, &["3"], false);
    assert_eq!(rig.listed().len(), 2);
    assert!(group.exists());
    assert_eq!(probes.remove(&rig.tracefs), [""; 0]);
    assert_eq!(rig.listed(), [""; 0]);
    assert!(!group.exists());
}

#[test]
fn what_is_there_is_found_and_not_defined_again() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "static_probes.c", "static_probes", &[]);
    let sources = [
        uprobe(&program, "main", &["%di:u32"]),
        usdt(&program, "twice"),
        usdt(&program, "one"),
    ];
    let first = rig.define(&sources);
    let list = rig.listed();
    assert_eq!(list.len(), 4);
    let again = rig.define(&sources);
    let (opened, findings) = open(&rig, &rules(&sources));
    assert_eq!(findings, [""; 0]);
    assert_eq!(again.events(), first.events());
    assert_eq!(opened.events(), first.events());
    assert_eq!(rig.listed(), list);
}

#[test]
fn opening_makes_nothing() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", &[]);
    let rules = rules(&[uprobe(&program, "work", &[])]);
    let (probes, findings) = open(&rig, &rules);
    assert!(probes.events().is_empty());
    assert_eq!(findings, ["probe probed: the kernel no longer has it"]);
    assert_eq!(rig.listed(), [""; 0]);
}

#[test]
fn an_event_stays_known_when_its_rule_goes() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", &[]);
    let id = rig.define(&[uprobe(&program, "work", &[])]).events()[0].id;
    let later = rig.define(&[uprobe(&program, "main", &[])]);
    let [main, work] = later.events() else {
        panic!("{later:?}")
    };
    assert_eq!((main.is_wanted, work.is_wanted), (true, false));
    assert_eq!((work.id, work.class_id, work.trace_name.as_str()), (id, id, "probed"));
}

#[test]
fn an_event_keeps_its_name_and_rule_when_that_is_disabled() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "static_probes.c", "static_probes", &[]);
    rig.define(&[usdt(&program, "twice")]);
    let mut rules = rules(&[usdt(&program, "one"), usdt(&program, "twice")]);
    rules.iter_mut().for_each(|rule| rule.enabled = false);
    let (probes, findings) = Probes::define(
        &rig.tracefs,
        &rig.owner,
        SESSION,
        CHANNEL,
        &rules,
        Plans::of(&rules, Asker::Root),
    );
    assert_eq!(findings, [""; 0]);
    assert_eq!(probes.events().len(), 2, "none is made for a disabled rule");
    for event in probes.events() {
        assert_eq!((event.rule, event.is_wanted), (Some(1), false));
        assert_eq!(event.trace_name, "shop:twice");
    }
}

#[test]
fn what_is_there_stays_when_the_program_goes() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "static_probes.c", "static_probes", &[]);
    let source = usdt(&program, "twice");
    let first = rig.define(std::slice::from_ref(&source));
    fs::remove_file(&program).unwrap();
    let (probes, findings) = rig.try_define(&[source]);
    let [finding] = &findings[..] else {
        panic!("{findings:?}")
    };
    assert!(finding.ends_with("stays in place"), "{finding}");
    let sorted = |probes: &Probes| {
        let mut events = probes.events().to_vec();
        events.sort_unstable_by_key(|event| event.id);
        events
    };
    assert_eq!(sorted(&probes), sorted(&first));
}

#[test]
fn places_stay_one_event_when_their_rule_goes() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "static_probes.c", "static_probes", &[]);
    let classes = |probes: Probes| -> Vec<(u16, u16)> {
        probes.events().iter().map(|event| (event.id, event.class_id)).collect()
    };
    let mut with_rule = classes(rig.define(&[usdt(&program, "twice")]));
    let mut without = classes(rig.define(&[]));
    with_rule.sort_unstable();
    without.sort_unstable();
    assert_eq!(without, with_rule);
}

#[test]
fn a_rule_that_comes_twice_is_one_event() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", &[]);
    let source = uprobe(&program, "work", &[]);
    let (probes, findings) = rig.try_define(&[source.clone(), source]);
    assert_eq!(probes.events().len(), 1);
    assert_eq!(findings, ["probed was requested twice; it is recorded once"]);
    assert_eq!(rig.listed().len(), 1);
}

#[test]
fn leftovers_of_the_dead_go_and_those_of_the_living_stay() {
    let Some(living) = Rig::new() else { return };
    let program = compile(living.folder.path(), "calls.c", "calls", &[]);
    let rules = rules(&[uprobe(&program, "work", &[])]);
    let _living_probes = living.define(&[uprobe(&program, "work", &[])]);
    let dead = new_owner();
    let (dead_probes, findings) = Probes::define(
        &living.tracefs,
        &dead,
        3,
        "a channel",
        &rules,
        Plans::of(&rules, Asker::Root),
    );
    assert_eq!(findings, [""; 0]);
    // The dead one's event is on in an instance.
    let enable = living.instance().join(dead_probes.events()[0].folder()).join("enable");
    fs::write(&enable, "1").unwrap();
    assert_eq!(listed(&living.tracefs, &dead).len(), 1);
    assert_eq!(probe::leftovers(&living.tracefs, &[&dead]), [""; 0]);
    assert_eq!(listed(&living.tracefs, &dead), [""; 0]);
    assert_eq!(living.listed().len(), 1);
}

#[test]
fn a_probe_with_a_stack_trace_goes_too() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", &[]);
    let probes = rig.define(&[uprobe(&program, "work", &[])]);
    rig.enable(probes.events());
    let folder = rig.instance().join(probes.events()[0].folder());
    fs::write(folder.join("trigger"), "stacktrace").unwrap();
    rig.run(&program, &["3"], false);
    assert_eq!(probes.remove(&rig.tracefs), [""; 0]);
    assert_eq!(rig.listed(), [""; 0]);
}

#[test]
fn what_the_kernel_refuses_is_told_in_its_words() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", &[]);
    // Deeper than it follows.
    let deep = format!("{}%di{}", "+0(".repeat(15), ")".repeat(15));
    let (probes, findings) = rig.try_define(&[uprobe(&program, "work", &[&deep]), uprobe(&program, "main", &[])]);
    assert_eq!(probes.events().len(), 1);
    let [finding] = &findings[..] else {
        panic!("{findings:?}")
    };
    assert!(
        finding.starts_with("probe probed: the kernel refuses it: "),
        "{finding}"
    );
}
