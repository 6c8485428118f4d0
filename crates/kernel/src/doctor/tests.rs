// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judgements of machines that lack things.

use super::facts::TracefsFacts;
use super::idle::IdleEnds;
use super::*;
use crate::tracefs::Lack;
use piste_syscalls::Architecture;

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// A machine that has everything.
fn complete() -> Facts {
    Facts {
        release: "6.18.4-generic".to_owned(),
        architecture: Architecture::named("x86_64"),
        is_realtime: false,
        tracefs: Ok(files()),
        is_root: true,
        tracing_group: Some(vec!["ann".to_owned()]),
        lockdown: Some("none".to_owned()),
        is_counter_invariant: true,
        clock_source: "tsc".to_owned(),
        clock_sources: words("tsc hpet"),
        cpus_possible: 4,
        available_bytes: 8 << 30,
        perf_paranoid: Some(2),
        has_hardware_counters: true,
        container: Vec::new(),
        is_in_pid_namespace: false,
        rseq_bytes: 28,
        c_library: Some("2.36".to_owned()),
        memfd: Ok(()),
        futex: Ok(()),
        run_folder: "/run/piste".into(),
        run_folder_free_bytes: Ok(1 << 30),
        open_files_max: Some(1 << 20),
    }
}

fn files() -> TracefsFacts {
    TracefsFacts {
        root: "/sys/kernel/tracing".into(),
        groups: 90,
        strange_events: Vec::new(),
        idle_ends: IdleEnds::default(),
        clocks: words("local mono x86-tsc"),
        files: [
            "events/raw_syscalls/sys_enter",
            "events/sched/sched_switch",
            "buffer_subbuf_size_kb",
            "uprobe_events",
            "kprobe_events",
            "options/userstacktrace",
            "options/event-fork",
            "set_event_notrace_pid",
        ]
        .into(),
    }
}

/// The checks that are not ok: name and level of each.
fn faults(facts: &Facts) -> Vec<(String, Level)> {
    let checks = judge(facts);
    for check in &checks {
        let is_ok = check.level == Level::Ok;
        assert_eq!(check.cost.is_none(), is_ok, "what is not ok costs something: {check:?}");
        assert!(check.mend.is_none() || !is_ok, "what is ok needs no mending: {check:?}");
    }
    let faults = checks.into_iter().filter(|check| check.level != Level::Ok);
    faults.map(|check| (check.name, check.level)).collect()
}

#[track_caller]
fn check(facts: Facts, expected: &[(&str, Level)]) {
    let expected: Vec<(String, Level)> = expected.iter().map(|&(name, level)| (name.to_owned(), level)).collect();
    assert_eq!(faults(&facts), expected);
}

#[test]
fn a_machine_that_has_everything_is_ok() {
    check(complete(), &[]);
}

#[test]
fn an_old_kernel_is_told_what_newer_ones_have() {
    let mut tracefs = files();
    tracefs.files.remove("buffer_subbuf_size_kb");
    tracefs.files.remove("kprobe_events");
    let old = Facts {
        release: "5.15.0".to_owned(),
        tracefs: Ok(tracefs),
        rseq_bytes: 0,
        ..complete()
    };
    let notes = ["sub-buffers", "kprobes", "rseq"];
    check(old.clone(), &notes.map(|name| (name, Level::Note)));
    let older = Facts {
        release: "4.19.0".to_owned(),
        ..old
    };
    assert_eq!(faults(&older)[0], ("kernel".to_owned(), Level::Lack));
}

#[test]
fn a_user_without_rights_is_told_the_group() {
    let user = Facts {
        tracefs: Err(Lack {
            reason: "no right".to_owned(),
            mend: "be root".to_owned(),
        }),
        is_root: false,
        ..complete()
    };
    check(user.clone(), &[("tracefs", Level::Lack), ("permission", Level::Lack)]);
    let mend = |user: &Facts| {
        let permission = judge(user).into_iter().find(|check| check.name == "permission");
        permission.and_then(|check| check.mend).expect("a mend")
    };
    let join = "`sudo usermod -aG tracing $USER`";
    assert!(mend(&user).contains(join), "{}", mend(&user));
    let alone = Facts {
        tracing_group: None,
        ..user
    };
    assert!(mend(&alone).contains("`sudo groupadd --system tracing; sudo usermod -aG tracing $USER`"));
    let groupless = Facts {
        tracing_group: None,
        ..complete()
    };
    check(groupless, &[("permission", Level::Note)]);
}

#[test]
fn containers_and_lockdown_are_seen() {
    let confined = Facts {
        lockdown: Some("confidentiality".to_owned()),
        container: words("/.dockerenv"),
        is_in_pid_namespace: true,
        memfd: Err("EPERM".to_owned()),
        futex: Err("EPERM".to_owned()),
        ..complete()
    };
    let expected = [
        ("lockdown", Level::Lack),
        ("container", Level::Note),
        ("memfd", Level::Lack),
        ("futex", Level::Lack),
    ];
    check(confined, &expected);
}

#[test]
fn a_clock_that_is_not_the_counter_is_a_note() {
    let other = |is_counter_invariant, sources| Facts {
        clock_source: "kvm-clock".to_owned(),
        clock_sources: words(sources),
        is_counter_invariant,
        ..complete()
    };
    for (facts, mend) in [
        (other(true, "kvm-clock tsc"), "echo tsc"),
        (other(true, "kvm-clock"), "tsc=reliable"),
        (other(false, "kvm-clock"), "invtsc=on"),
    ] {
        check(facts.clone(), &[("clock", Level::Note)]);
        let checks = judge(&facts);
        let found = checks
            .iter()
            .find(|check| check.name == "clock")
            .and_then(|check| check.mend.clone());
        assert!(found.is_some_and(|found| found.contains(mend)), "{mend}");
    }
    let other_machine = Facts {
        architecture: Architecture::named("aarch64"),
        clock_source: "arch_sys_counter".to_owned(),
        ..complete()
    };
    check(other_machine.clone(), &[]);
    let unknown_machine = Facts {
        architecture: Architecture::named("loongarch64"),
        ..other_machine
    };
    check(unknown_machine, &[("system calls", Level::Note)]);
}

#[test]
fn rings_that_do_not_fit_are_told_before_they_fail() {
    let memory = |available_bytes| Facts {
        available_bytes,
        ..complete()
    };
    check(memory(160 << 20), &[("memory", Level::Note)]);
    check(memory(60 << 20), &[("memory", Level::Lack)]);
    let full = Facts {
        run_folder_free_bytes: Ok(100),
        open_files_max: Some(1024),
        ..complete()
    };
    check(full, &[("run folder", Level::Lack), ("open files", Level::Note)]);
}

#[test]
fn cpus_that_do_not_tell_the_end_of_idling_are_a_note_and_so_are_those_that_were_never_idle() {
    for (untold, unknown, said) in [
        (
            vec![1, 3],
            vec![2],
            "switches from idle to a thread are not recorded on CPU 1, 3",
        ),
        (vec![], vec![2], "unknown for CPU 2: never idle during the test"),
    ] {
        let files = TracefsFacts {
            idle_ends: IdleEnds { untold, unknown },
            ..files()
        };
        let facts = Facts {
            tracefs: Ok(files),
            ..complete()
        };
        let checks = judge(&facts);
        let check = checks
            .iter()
            .find(|check| check.name == "idle CPUs")
            .expect("it is checked");
        assert_eq!((check.level, &*check.value), (Level::Note, said));
    }
}

#[test]
fn soft_interrupts_in_threads_are_a_note() {
    let facts = Facts {
        is_realtime: true,
        ..complete()
    };
    check(facts, &[("soft interrupts", Level::Note)]);
}

#[test]
fn events_of_another_shape_are_a_note() {
    let files = TracefsFacts {
        strange_events: vec!["sched_switch: prev_state is missing".to_owned()],
        ..files()
    };
    let facts = Facts {
        tracefs: Ok(files),
        ..complete()
    };
    check(facts, &[("event formats", Level::Note)]);
}

#[test]
fn a_virtual_machine_without_counters_is_a_note() {
    let without = Facts {
        has_hardware_counters: false,
        ..complete()
    };
    check(without, &[("hardware counters", Level::Note)]);
    let paranoid = Facts {
        perf_paranoid: Some(4),
        is_root: false,
        ..complete()
    };
    check(
        paranoid,
        &[("permission", Level::Lack), ("hardware counters", Level::Note)],
    );
}
