// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter means the same to the kernel, which evaluates it before it records an event, and to `piste view`, which evaluates it when it
//! reads the trace.

use piste_support::Workplace;
use piste_support::kernel;
use serde_json::Value;

/// Events, what of them is of the program, and filters.
struct Kind {
    pattern: &'static str,
    /// Whether a thread that ends is dead or a zombie, and when its memory is freed, is another matter for each instance.
    of_program: &'static str,
    filters: [&'static str; 7],
}

const KINDS: [Kind; 3] = [
    Kind {
        pattern: "sched_switch",
        of_program: "(prev_comm == \"viewer_work\" || next_comm == \"viewer_work\") && (prev_state & 64) == 0",
        filters: [
            "next_comm =~ \"v?ewer_*\"",
            "prev_prio < 0 || next_prio < 20",
            "prev_state == 1 && !(next_tid == 0)",
            "prev_comm !~ \"swapper/[0-9]*\" && $cpu == 0",
            "(prev_state & 0x3) != 0 || next_comm ~ \"[!s]*\"",
            "$tid > 1 && next_tid > 4K",
            "$comm == \"viewer_work\"",
        ],
    },
    Kind {
        pattern: "sched_wak*",
        of_program: "comm == \"viewer_work\"",
        filters: [
            "prio < 0",
            "!(target_cpu == 0)",
            "name == \"sched_waking\"",
            "name =~ \"*new\" || target_cpu != 1",
            "prio >= 20 && 39 >= prio",
            "$tid == 0 && $cpu < 2",
            "tid != 0 && (1 < 2 || prio == 7)",
        ],
    },
    Kind {
        pattern: "sched_process_*",
        of_program: "name != \"sched_process_free\" && (comm == \"viewer_work\" || parent_comm == \"viewer_work\" || filename =~ \"*/viewer_work\")",
        filters: [
            "exists(child_comm)",
            "prio == 20 || !exists(prio)",
            "name !~ \"*ex[ie]*\"",
            "child_tid > 0.0",
            "comm == \"viewer_work\"",
            "filename =~ \"*[/]viewer_work\" && old_tid > 0",
            "!(comm =~ \"*\")",
        ],
    },
];

/// A session that records these patterns with these filters.
fn start(place: &Workplace, session: &str, rules: &[(&str, Option<String>)]) {
    let output = place.path(session);
    place.piste_succeeds(&["create", session, "-o", output.to_str().expect("UTF-8")]);
    place.piste_succeeds(&[
        "enable-channel",
        "-k",
        "-s",
        session,
        "kernel",
        "--context",
        "tid,cpu_id",
    ]);
    for (pattern, filter) in rules {
        let enable = ["enable-event", "-k", "-s", session, "-c", "kernel", pattern];
        match filter {
            Some(filter) => place.piste_succeeds(&[&enable[..], &["--filter", filter]].concat()),
            None => place.piste_succeeds(&enable),
        };
    }
    place.piste_succeeds(&["start", session]);
}

/// What the events say that are of a pattern and fulfil a filter, in an order of its own: each instance takes its own times.
fn events(place: &Workplace, session: &str, pattern: &str, filter: &str) -> Vec<String> {
    let folder = place.path(session);
    let folder = folder.to_str().expect("UTF-8");
    let shown = place.piste_succeeds(&["view", folder, "--json", "--event", pattern, "--filter", filter]);
    let fields = |line: &str| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        format!("{} {}", event["name"], event["payload"])
    };
    let mut events: Vec<String> = shown.lines().map(fields).collect();
    events.sort_unstable();
    events
}

#[test]
fn the_kernel_records_what_the_same_filter_selects_in_a_trace() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("viewer_work.c");
    let rules = |index: usize| KINDS.map(|kind| (kind.pattern, Some(both(&kind, index))));
    let everything = KINDS.map(|kind| (kind.pattern, None));
    // Names of threads come from these as well.
    start(&place, "all", &[&everything[..], &[("task_rename", None)]].concat());
    for index in 0..7 {
        start(&place, &format!("some{index}"), &rules(index));
    }
    place.run(&program, &[]).expect_success();
    for session in ["all".to_owned()]
        .into_iter()
        .chain((0..7).map(|index| format!("some{index}")))
    {
        let status = place.piste_json(&["destroy", &session]);
        assert_eq!(status["channels"][0]["discarded_events"], 0, "{status:#}");
    }
    let mut mixed = 0;
    for kind in KINDS {
        let all = events(&place, "all", kind.pattern, kind.of_program);
        assert!(!all.is_empty(), "{}", kind.pattern);
        for index in 0..7 {
            let filter = both(&kind, index);
            let selected = events(&place, "all", kind.pattern, &filter);
            let recorded = events(&place, &format!("some{index}"), kind.pattern, "1 == 1");
            let strange: Vec<_> = recorded.iter().filter(|event| !selected.contains(event)).collect();
            let missing: Vec<_> = selected.iter().filter(|event| !recorded.contains(event)).collect();
            assert_eq!((strange, missing), (vec![], vec![]), "{}: {filter}", kind.pattern);
            assert_eq!(recorded.len(), selected.len(), "{}: {filter}", kind.pattern);
            mixed += usize::from(!selected.is_empty() && selected.len() < all.len());
        }
    }
    // Those that let everything or nothing through show little.
    assert!(
        mixed >= 12,
        "only {mixed} filters are true of some events and false of others"
    );
}

/// What is of the program and fulfils a filter.
fn both(kind: &Kind, index: usize) -> String {
    format!("({}) && ({})", kind.of_program, kind.filters[index])
}
