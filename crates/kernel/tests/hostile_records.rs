// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records that no kernel writes: of any length, with anything in them. They become events or are counted as discarded, and what was
//! written can be read. Needs tracefs for the formats; nothing is recorded.

mod handmade;
mod real;

use std::collections::HashMap;
use std::sync::Arc;

use fastrand::Rng;
use handmade::decode;
use piste_kernel::catalog::Catalog;
use piste_kernel::convert::{Converter, stream_class};
use piste_kernel::layout::Layout;
use piste_kernel::spec::{Context, Stack};

const PAGES: u64 = 1500;
const RECORDS: usize = 100;

#[test]
fn hostile_records_are_counted_and_nothing_worse() {
    let Some(tracefs) = real::tracefs() else { return };
    let catalog = Arc::new(Catalog::read(&tracefs).unwrap());
    let layout = Arc::new(Layout::new(catalog.names()));
    let mut channel = handmade::channel(&Context::ALL);
    channel.rules[0].stack = Some(Stack {
        kernel: true,
        user: true,
        depth: Some(5),
        range: None,
    });
    let stacks = ["kernel_stack", "user_stack"].map(|name| catalog.by_name("ftrace", name).unwrap().id);
    let ids: Vec<_> = catalog
        .names()
        .map(|(system, name)| catalog.by_name(system, name).unwrap().id)
        .collect();
    let contexts = stream_class(&channel).contexts;
    let mut converter = Converter::new(
        Arc::clone(&catalog),
        Arc::clone(&layout),
        &channel,
        &[],
        Box::new(handmade::Numbered),
    );
    let mut classes = HashMap::new();
    let mut random = Rng::with_seed(1);
    let (mut all, mut stack_records, mut events, mut discarded, mut dropped) = (0, 0, 0, 0, 0);
    for round in 0..PAGES {
        let mut records: Vec<Vec<u8>> = (0..RECORDS).map(|_| record(&mut random, &ids, &stacks)).collect();
        all += records.len() as u64;
        stack_records += records
            .iter()
            .filter(|record| {
                record
                    .first_chunk()
                    .is_some_and(|id| stacks.contains(&u16::from_le_bytes(*id)))
            })
            .count() as u64;
        let begin_ticks = round << 40;
        let ticks = |index: usize| begin_ticks + (index as u64) * (1 << 20);
        let page = handmade::page(
            begin_ticks,
            records
                .iter()
                .enumerate()
                .map(|(index, record)| (ticks(index), &**record)),
        );
        let mut packet = Vec::new();
        let cut_ticks = ticks(random.usize(..RECORDS));
        converter.cut_at(Some(cut_ticks));
        let converted = converter.page(&handmade::parse(&page), 0, &mut packet);
        converter.cut_at(None);
        check(&mut converter, &converted, &packet, &contexts, &mut classes);
        check_cut(cut_ticks, &converted, &packet, &contexts, &classes);
        events += converted.events;
        discarded += converted.discarded;
        for finding in &converted.findings {
            assert!(!finding.to_string().is_empty());
        }
        // What is kept can be damaged too; what is lost of it is no event.
        let mut kept = converter.kept(0).to_vec();
        if round % 50 == 49 && !kept.is_empty() {
            let at = random.usize(..kept.len());
            kept[at] ^= 1 << random.usize(..8);
            converter.restore(0, &kept);
            let mut packet = Vec::new();
            if let Some(converted) = converter.finish(0, &mut packet) {
                check(&mut converter, &converted, &packet, &contexts, &mut classes);
            }
            records.clear();
            dropped += 1;
        }
    }
    let mut packet = Vec::new();
    if let Some(converted) = converter.finish(0, &mut packet) {
        check(&mut converter, &converted, &packet, &contexts, &mut classes);
        events += converted.events;
        discarded += converted.discarded;
    }
    eprintln!(
        "{all} records: {events} events, {discarded} discarded, {stack_records} stacks; {} classes",
        classes.len()
    );
    assert!(events > 1000 && discarded > 1000);
    assert!(events + discarded + stack_records <= all);
    assert!(all - events - discarded - stack_records <= dropped * RECORDS as u64);
}

fn check(
    converter: &mut Converter,
    converted: &piste_kernel::convert::Converted,
    packet: &[u8],
    contexts: &[piste_ctf::Field],
    classes: &mut HashMap<u32, piste_ctf::EventClass>,
) {
    classes.extend(converter.take_new_classes().into_iter().map(|class| (class.id, class)));
    let events = decode::events(packet, converted.begin_ticks, contexts, classes).unwrap();
    assert_eq!(events.len() as u64, converted.events);
    let mut last_ticks = converted.begin_ticks;
    for event in &events {
        assert!(event.ticks >= last_ticks);
        last_ticks = event.ticks;
    }
    assert_eq!(last_ticks, converted.last_ticks);
}

/// The part of a packet that is earlier than a time has the events that are.
fn check_cut(
    cut_ticks: u64,
    converted: &piste_kernel::convert::Converted,
    packet: &[u8],
    contexts: &[piste_ctf::Field],
    classes: &HashMap<u32, piste_ctf::EventClass>,
) {
    let ticks_of = |bytes: &[u8]| -> Vec<u64> {
        let events = decode::events(bytes, converted.begin_ticks, contexts, classes).unwrap();
        events.iter().map(|event| event.ticks).collect()
    };
    let mut earlier = ticks_of(packet);
    let later = earlier.split_off(earlier.partition_point(|ticks| *ticks < cut_ticks));
    let Some(cut) = converted.cut else {
        assert!(later.is_empty(), "all is earlier");
        return;
    };
    assert_eq!(ticks_of(&packet[..cut.content_bytes]), earlier);
    let last_ticks = earlier.last().copied().unwrap_or(converted.begin_ticks);
    assert_eq!((cut.events, cut.last_ticks), (earlier.len() as u64, last_ticks));
}

/// Mostly of a known event, now and then too short, too long, or one bit away from zeros.
fn record(random: &mut Rng, ids: &[u16], stacks: &[u16]) -> Vec<u8> {
    let length = match random.usize(..4) {
        0 => random.usize(..16),
        1 => random.usize(..600),
        _ => 40 + random.usize(..120),
    };
    let mut record: Vec<u8> = match random.usize(..3) {
        0 => vec![0; length],
        1 => (0..length).map(|_| random.u8(..)).collect(),
        // Words that are lengths and offsets more often than not.
        _ => (0..length)
            .map(|at| {
                if at % 4 == 1 || at % 4 == 3 {
                    0
                } else {
                    random.usize(..80) as u8
                }
            })
            .collect(),
    };
    let id = match random.usize(..10) {
        0 => random.u16(..),
        1 => stacks[random.usize(..stacks.len())],
        _ => ids[random.usize(..ids.len())],
    };
    for (place, byte) in record.iter_mut().zip(id.to_le_bytes()) {
        *place = byte;
    }
    record
}
