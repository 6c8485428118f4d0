// SPDX-License-Identifier: MIT OR Apache-2.0
//! What viewers look for by name: every event and field of the layout that their analyses of Linux traces use (control flow, resources, CPU
//! usage, critical path, disk, memory), in a trace of this computer as babeltrace2 reads it.

use std::collections::{BTreeMap, BTreeSet};

use piste_support::kernel;
use piste_support::process::run;

/// Events, and the fields that an analysis takes from each.
const LAYOUT: &[(&str, &[&str])] = &[
    // CPU usage, and which thread runs where.
    (
        "sched_switch",
        &[
            "prev_comm",
            "prev_tid",
            "prev_prio",
            "prev_state",
            "next_comm",
            "next_tid",
            "next_prio",
        ],
    ),
    // Control flow and resources.
    ("sched_wakeup", &["comm", "tid", "prio", "target_cpu"]),
    ("sched_wakeup_new", &["comm", "tid", "prio", "target_cpu"]),
    ("sched_waking", &["comm", "tid", "prio", "target_cpu"]),
    ("sched_migrate_task", &["comm", "tid", "prio", "orig_cpu", "dest_cpu"]),
    (
        "sched_process_fork",
        &[
            "parent_comm",
            "parent_tid",
            "parent_pid",
            "child_comm",
            "child_tid",
            "child_pid",
        ],
    ),
    ("sched_process_exec", &["filename", "tid", "old_tid"]),
    ("sched_process_exit", &["comm", "tid", "prio"]),
    ("sched_process_free", &["comm", "tid", "prio"]),
    ("sched_pi_setprio", &["comm", "tid", "oldprio", "newprio"]),
    ("irq_softirq_entry", &["vec"]),
    ("irq_softirq_exit", &["vec"]),
    ("irq_softirq_raise", &["vec"]),
    ("x86_irq_vectors_local_timer_entry", &["vector"]),
    ("x86_irq_vectors_local_timer_exit", &["vector"]),
    ("syscall_entry_read", &["fd", "buf", "count"]),
    ("syscall_exit_read", &["ret"]),
    ("syscall_entry_write", &["fd", "buf", "count"]),
    ("syscall_exit_write", &["ret"]),
    ("syscall_entry_openat", &["dfd", "filename", "flags", "mode"]),
    ("syscall_exit_openat", &["ret"]),
    // Critical path.
    (
        "timer_hrtimer_start",
        &["hrtimer", "function", "expires", "softexpires"],
    ),
    ("timer_hrtimer_expire_entry", &["hrtimer", "now", "function"]),
    ("timer_hrtimer_expire_exit", &["hrtimer"]),
    ("timer_hrtimer_cancel", &["hrtimer"]),
    ("net_dev_queue", &["skbaddr", "len", "name"]),
    ("net_if_receive_skb", &["skbaddr", "len", "name"]),
    // Memory.
    ("kmem_mm_page_alloc", &["pfn", "order"]),
    ("kmem_mm_page_free", &["pfn", "order"]),
    // State dump.
    ("lttng_statedump_start", &[]),
    (
        "lttng_statedump_process_state",
        &["tid", "pid", "ppid", "name", "type", "mode", "submode", "status", "cpu"],
    ),
    ("lttng_statedump_file_descriptor", &["pid", "fd", "filename"]),
    ("lttng_statedump_end", &[]),
];

/// Where the temporary folder is on a disk.
const DISK: &[(&str, &[&str])] = &[
    (
        "block_rq_insert",
        &["dev", "sector", "nr_sector", "tid", "rwbs", "comm"],
    ),
    ("block_rq_issue", &["dev", "sector", "nr_sector", "tid", "rwbs", "comm"]),
    ("block_rq_complete", &["dev", "sector", "nr_sector", "error", "rwbs"]),
    (
        "block_bio_queue",
        &["dev", "sector", "nr_sector", "rwbs", "tid", "comm"],
    ),
    ("lttng_statedump_block_device", &["dev", "diskname"]),
];

/// Events of interrupts: a computer may have none that fire now.
const WHERE_THEY_FIRE: &[(&str, &[&str])] = &[
    ("irq_handler_entry", &["irq", "name"]),
    ("irq_handler_exit", &["irq", "ret"]),
    ("lttng_statedump_interrupt", &["irq", "name", "action"]),
    ("lttng_statedump_network_interface", &["name"]),
];

#[test]
fn viewers_find_every_event_and_field_by_name() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("viewer_work.c");
    let presets = "sched,syscalls,irq,io,net,mem";
    let options = ["-a", "--no-user", "--kernel-subbuf-count", "512", "--preset", presets];
    let recording = place.record_with_kernel(&options, &program, &[]);
    recording.expect_whole();
    let trace = recording.trace();

    let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut cpus = BTreeSet::new();
    trace.for_each(|event| {
        if let Some((_, cpu)) = event.contexts.iter().find(|(name, _)| name == "cpu_id") {
            cpus.insert(cpu.clone());
        }
        fields
            .entry(event.name.clone())
            .or_insert_with(|| field_names(&event.fields));
    });
    let mut missing = check(LAYOUT, &fields);
    // A file system without a disk makes no block events.
    if run(std::process::Command::new("df")
        .arg("--output=source")
        .arg(place.path("")))
    .stdout
    .contains("/dev/")
    {
        missing.extend(check(DISK, &fields));
    }
    for (event, names) in WHERE_THEY_FIRE {
        if fields.contains_key(*event) {
            missing.extend(check(&[(event, names)], &fields));
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "there are {:?}", fields.keys());
    assert!(!cpus.is_empty(), "no packet says its CPU");

    let metadata = std::fs::read_to_string(trace.path().join("kernel/metadata")).expect("the kernel's metadata");
    for words in [
        "/* CTF 1.8 */\n",
        "domain = \"kernel\";",
        "tracer_name = \"lttng-modules\";",
        "tracer_major = 2;",
        "uint32_t cpu_id;",
    ] {
        assert!(metadata.contains(words), "{words} is not in the metadata");
    }
    assert!(metadata.starts_with("/* CTF 1.8 */"));
}

fn check(layout: &[(&str, &[&str])], fields: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut missing = vec![];
    for (event, names) in layout {
        match fields.get(*event) {
            None => missing.push((*event).to_owned()),
            Some(present) => missing.extend(
                names
                    .iter()
                    .filter(|name| !present.contains(**name))
                    .map(|name| format!("{event}.{name}, which has {present:?}")),
            ),
        }
    }
    missing
}

/// Names of the outermost fields of `{ a = 1, b = [ [0] = 2 ], c = "x" }`.
fn field_names(text: &str) -> BTreeSet<String> {
    let (mut depth, mut in_quotes, mut escaped) = (0, false, false);
    let (mut names, mut word) = (BTreeSet::new(), String::new());
    for character in text.chars() {
        if in_quotes {
            in_quotes = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '"' => in_quotes = true,
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' => word.clear(),
            '=' if depth == 1 => {
                names.insert(word.trim().to_owned());
            }
            _ if depth == 1 => word.push(character),
            _ => {}
        }
        if character == '{' && depth == 1 {
            word.clear();
        }
    }
    names
}

#[test]
fn names_of_fields_are_found_in_any_text() {
    let names = field_names(r#"{ a = 1, b = [ [0] = 2, [1] = 3 ], _c = "x = { y", d = ( "e" : container = 4 ) }"#);
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["_c", "a", "b", "d"]);
}
