// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose thread a new one is: known from the event before the fork, and unknown, not guessed, where nobody knows it any more. Needs tracefs
//! for the formats; nothing is recorded.

mod handmade;
mod real;

use std::collections::HashMap;
use std::sync::Arc;

use handmade::decode::{self, Value};
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{Converter, RecordedThreads};
use piste_kernel::format::EventFormat;
use piste_kernel::layout::Layout;
use piste_kernel::spec::EventSource;

const CLONE_THREAD: u64 = 0x1_0000;

#[test]
fn the_process_of_a_new_thread_is_known_or_unknown_but_not_guessed() {
    let Some(tracefs) = real::tracefs() else { return };
    let catalog = Arc::new(Catalog::read(&tracefs).unwrap());
    let layout = Arc::new(Layout::new(catalog.names()));
    let new_task = catalog.by_name("task", "task_newtask").unwrap();
    let fork = catalog.by_name("sched", "sched_process_fork").unwrap();
    let mut channel = handmade::channel(&[]);
    let pattern = "sched_process_fork".to_owned();
    channel.rules = vec![handmade::rule(EventSource::Tracepoint { pattern })];

    let made = |maker, tid, flags| record(new_task, maker, &[("pid", tid), ("clone_flags", flags)]);
    let forked = |maker, tid| record(fork, maker, &[("parent_pid", maker), ("child_pid", tid)]);
    let records = [
        // Before the recording began, somebody made thread 70.
        made(70, 71, CLONE_THREAD),
        forked(70, 71),
        made(70, 80, 0),
        forked(70, 80),
        made(80, 81, CLONE_THREAD),
        forked(80, 81),
    ];
    let page = handmade::page(1, (2..).zip(records.iter().map(Vec::as_slice)));
    let mut converter = Converter::new(Arc::clone(&catalog), layout, &channel, &[], Box::new(RecordedThreads));
    let mut packet = Vec::new();
    let converted = converter.page(&handmade::parse(&page), 0, &mut packet);
    assert_eq!((converted.events, converted.discarded), (6, 0));

    let classes: HashMap<_, _> = converter
        .take_new_classes()
        .into_iter()
        .map(|class| (class.id, class))
        .collect();
    let events = decode::events(&packet, converted.begin_ticks, &[], &classes).unwrap();
    let told = |event: &decode::Event| {
        let fields = &classes[&event.class_id].fields;
        ["parent_tid", "parent_pid", "child_tid", "child_pid"].map(|name| {
            let position = fields.iter().position(|field| field.name == name).unwrap();
            int(&event.fields[position])
        })
    };
    let forks = events
        .iter()
        .filter(|event| classes[&event.class_id].name == "sched_process_fork");
    let told: Vec<_> = forks.map(told).collect();
    assert_eq!(told, [[70, -1, 71, -1], [70, -1, 80, 80], [80, 80, 81, 80]]);
}

/// A record of `tid` with these numbers in its fields.
fn record(format: &EventFormat, tid: u64, numbers: &[(&str, u64)]) -> Vec<u8> {
    let end = |field: &piste_kernel::format::FieldFormat| (field.offset + field.bytes) as usize;
    let bytes = format.fields.iter().map(end).max().unwrap();
    let mut record = vec![0; bytes];
    record[..2].copy_from_slice(&format.id.to_le_bytes());
    record[4..8].copy_from_slice(&(tid as u32).to_le_bytes());
    for (name, number) in numbers {
        let field = format.field(name).unwrap();
        let from = field.offset as usize;
        record[from..from + field.bytes as usize].copy_from_slice(&number.to_le_bytes()[..field.bytes as usize]);
    }
    record
}

fn int(value: &Value) -> i32 {
    i32::from_le_bytes(value.bytes().try_into().unwrap())
}
