// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program does is what is recorded. Needs root, tracefs and uprobes.

use std::fs;
use std::os::unix::fs::symlink;

use piste_kernel::probe::{Asker, Plans, ProbeEvent, Probes};

use crate::programs::compile;
use crate::rig::{CHANNEL, Rig, SESSION, pass_the_gate, rules, uprobe, uretprobe, usdt, wait_at_the_gate};

/// Records `count` calls of `work` at `place` in a program compiled with `options`.
fn check_calls(place: &str, options: &[&str]) {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", options);
    let probes = rig.define(&[uprobe(
        &program,
        place,
        &["number=%di:s32", "text=+0(%si):string", "wide=%dx:s64"],
    )]);
    rig.enable(probes.events());
    rig.run(&program, &["100"], false);
    let expected: Vec<String> = (0..100)
        .map(|call| {
            let text = if call % 2 == 1 { "odd" } else { "even" };
            format!("number={call} text=\"{text}\" wide={}", -1 - call)
        })
        .collect();
    assert_eq!(rig.records(&probes.events()[0]), expected);
}

#[test]
fn each_call_is_recorded_with_its_arguments() {
    check_calls("work", &[]);
}

#[test]
fn an_alias_is_the_function() {
    check_calls("the_same_work", &[]);
}

#[test]
fn a_program_at_a_fixed_address_is_probed() {
    check_calls("work", &["-no-pie"]);
}

#[test]
fn a_stripped_program_is_probed_by_offset() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "calls.c", "calls", &[]);
    let kind = piste_kernel::probe::ProbePlaceKind::Symbol;
    let offset = piste_kernel::probe::places(&program, kind, Some("work")).unwrap()[0].offset;
    check_calls(&format!("{offset:#x}"), &["-s"]);
}

#[test]
fn each_return_is_recorded_with_its_value() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", &[]);
    let probes = rig.define(&[uretprobe(&program, "work", &["value=$retval:s32"])]);
    rig.enable(probes.events());
    rig.run(&program, &["50"], false);
    let expected: Vec<String> = (0..50).map(|call| format!("value={}", -2 * call)).collect();
    assert_eq!(rig.records(&probes.events()[0]), expected);
}

#[test]
fn a_path_with_blanks_is_probed() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls # of mine", &[]);
    let probes = rig.define(&[uprobe(&program, "work", &[])]);
    rig.enable(probes.events());
    rig.run(&program, &["3"], false);
    assert_eq!(rig.records(&probes.events()[0]).len(), 3);
}

#[test]
fn what_was_looked_at_is_probed_and_not_what_has_its_path_by_now() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "calls.c", "calls", &[]);
    let other = compile(rig.folder.path(), "calls.c", "other", &["-O0"]);
    let rules = rules(&[uprobe(&program, "work", &[])]);
    let plans = Plans::of(&rules, Asker::Root);
    let kept = rig.folder.path().join("kept");
    fs::rename(&program, &kept).unwrap();
    fs::rename(&other, &program).unwrap();
    let (probes, findings) = Probes::define(&rig.tracefs, &rig.owner, SESSION, CHANNEL, &rules, plans);
    assert_eq!(findings, [""; 0]);
    rig.enable(probes.events());
    rig.run(&program, &["5"], false);
    assert_eq!(rig.records(&probes.events()[0]), [""; 0]);
    rig.run(&kept, &["3"], false);
    assert_eq!(rig.records(&probes.events()[0]).len(), 3);
}

#[test]
fn static_probes_are_recorded_with_all_their_arguments() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "static_probes.c", "static_probes", &[]);
    let names = ["none", "one", "two", "three", "variable"];
    let probes = rig.define(&names.map(|name| usdt(&program, name)));
    assert_eq!(probes.events().len(), names.len());
    rig.enable(probes.events());
    rig.run(&program, &[], false);
    for round in 0..10_i64 {
        for (event, expected) in probes.events().iter().zip([
            String::new(),
            format!("arg1={round}"),
            format!("arg1={} arg2={}", -round, 0x12_3456_789a_i64),
            format!("arg1={round} arg2={} arg3={}", -round, 0xffff - round),
            format!("arg1={}", 41 + round),
        ]) {
            assert_eq!(rig.records(event)[round as usize], expected, "{}", event.trace_name);
        }
    }
}

#[test]
fn six_arguments_of_every_size_keep_their_signs() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "static_probes.c", "static_probes", &[]);
    let probes = rig.define(&[usdt(&program, "six")]);
    rig.enable(probes.events());
    rig.run(&program, &[], false);
    let records = rig.records(&probes.events()[0]);
    assert_eq!(records.len(), 10);
    for (round, record) in records.iter().enumerate() {
        let expected = format!(
            "arg1=-1 arg2=200 arg3=-300 arg4={} arg5={} arg6=",
            4000 + round,
            1_u64 << 40
        );
        assert!(record.starts_with(&expected), "{record}");
    }
}

#[test]
fn one_static_probe_in_two_places_is_one_event_of_the_trace() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "static_probes.c", "static_probes", &[]);
    let probes = rig.define(&[usdt(&program, "twice")]);
    let [first, second] = probes.events() else {
        panic!("{probes:?}")
    };
    assert_ne!((first.id, &first.event), (second.id, &second.event));
    assert_eq!(
        (first.class_id, &first.trace_name),
        (second.class_id, &second.trace_name)
    );
    assert_eq!(first.class_id, first.id.min(second.id));
    let fields = |event: &ProbeEvent| {
        let format = rig.tracefs.read(event.folder().join("format")).unwrap();
        format
            .lines()
            .filter(|line| line.contains("field:"))
            .map(String::from)
            .collect::<Vec<_>>()
    };
    assert_eq!(fields(first), fields(second));
    rig.enable(probes.events());
    rig.run(&program, &[], false);
    let mut counts = [first, second].map(|event| rig.records(event).len());
    counts.sort_unstable();
    assert_eq!(counts, [1, 10]);
}

#[test]
fn a_semaphore_says_that_somebody_listens() {
    let Some(rig) = Rig::new() else { return };
    let program = compile(rig.folder.path(), "semaphore.c", "semaphore", &[]);
    assert_eq!(rig.run(&program, &[], false), "0\n");
    let probes = rig.define(&[usdt(&program, "asked")]);
    rig.enable(probes.events());
    assert_eq!(rig.run(&program, &[], false), "10\n");
    let expected: Vec<String> = (0..10).map(|round| format!("arg1={round}")).collect();
    assert_eq!(rig.records(&probes.events()[0]), expected);
}

#[test]
fn functions_of_libraries_are_recorded_where_they_are_called() {
    let Some(rig) = Rig::new() else { return };
    let folder = rig.folder.path();
    let library = compile(folder, "library.c", "libparcels.so", &["-shared", "-fPIC"]);
    let options = ["-L", folder.to_str().unwrap(), "-lparcels"];
    let program = compile(folder, "library_user.c", "library_user", &options);
    // A copy of the C library, so that no other program of the machine runs into the probe.
    let c_library = folder.join("libc.so.6");
    fs::copy("/lib/x86_64-linux-gnu/libc.so.6", &c_library).unwrap();
    symlink(&c_library, folder.join("link to libc")).unwrap();
    let probes = rig.define(&[
        uprobe(&library, "weigh", &["parcels=%di:s32"]),
        uprobe(&folder.join("link to libc"), "malloc", &["size=%di:u64"]),
    ]);
    let [weigh, malloc] = probes.events() else {
        panic!("{probes:?}")
    };
    rig.enable(probes.events());

    // One runs untracked beside the one that is tracked.
    let other = wait_at_the_gate(&program, &[]);
    rig.run(&program, &[], true);
    pass_the_gate(other);
    let expected: Vec<String> = (0..7).map(|parcels| format!("parcels={parcels}")).collect();
    assert_eq!(rig.records(weigh), expected);
    assert_eq!(
        rig.records(malloc)
            .iter()
            .filter(|record| *record == "size=12345")
            .count(),
        7
    );
}
