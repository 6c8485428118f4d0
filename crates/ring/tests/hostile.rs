// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that writes anything into its rings, at any time: every call of the reader returns, and says something sensible.

#![cfg(not(loom))]

mod channel;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;

use channel::{Channel, shape, write_one};
use piste_ring::fuzzing::ring_image;
use piste_ring::{Corruption, LossMode, Next};

#[test]
fn the_corpus_and_random_scripts_break_no_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/ring_image");
    let scripts: Vec<_> = std::fs::read_dir(&corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!scripts.is_empty(), "{} has scripts", corpus.display());
    for script in scripts {
        ring_image(&std::fs::read(script).unwrap());
    }
    let mut random = Rng::with_seed(1);
    for _ in 0..5000 {
        let length = random.usize(..400);
        let script: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        ring_image(&script);
    }
}

#[test]
fn a_program_that_scribbles_meanwhile_stops_nobody() {
    for loss in [LossMode::Discard, LossMode::Overwrite, LossMode::Block] {
        let channel = Channel::new(shape(loss));
        let done = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let program = channel.program.clone();
            let scribbler = scope.spawn(move || {
                let mut random = Rng::with_seed(7);
                // The words of ring 0, from its header to its last sub-buffer's; the small values stay near to the truth.
                while !done.load(Ordering::Acquire) {
                    let word = 512 + random.usize(..128);
                    program.scribble(word, random.u64(..) >> random.u32(..64));
                }
            });
            let mut data = Vec::new();
            for round in 0..20_000 {
                let mut reader = channel.memory.reader(0, round % 3);
                reader.end_current();
                if let Next::Packet(packet) = reader.next(&mut data) {
                    assert_eq!(packet.content_bytes as usize, data.len());
                    reader.release();
                }
                if let Ok(Some(salvage)) = reader.salvage(&mut data) {
                    assert_eq!(data.len(), salvage.content_bytes as usize);
                    reader.release();
                }
                if let Ok(mut snapshot) = reader.snapshot() {
                    while !matches!(snapshot.next(&mut data), Next::Empty | Next::Corrupt(_)) {}
                }
            }
            done.store(true, Ordering::Release);
            scribbler.join().unwrap();
        });
    }
}

/// What `Reader::next` says about a ring with two packets after the word at `offset_bytes` of the ring became `value`.
fn next_after(loss: LossMode, offset_bytes: usize, value: u64) -> String {
    let channel = Channel::new(shape(loss));
    let writer = channel.program.writer(0, 0);
    for number in 0..200 {
        write_one(&writer, 0, number);
    }
    let mut reader = channel.memory.reader(0, 0);
    reader.end_current();
    assert!(matches!(reader.next(&mut Vec::new()), Next::Packet(_)));
    reader.release();
    channel.program.scribble((4096 + offset_bytes) / 8, value);
    match reader.next(&mut Vec::new()) {
        Next::Corrupt(corruption) => corruption.to_string(),
        next => format!("{next:?}"),
    }
}

#[test]
fn nonsense_in_a_ring_is_named() {
    let (position, consumed, ended_1) = (0, 128, 4096 + 16384 + 128);
    let says = |offset_bytes, value| next_after(LossMode::Discard, offset_bytes, value);
    assert_eq!(
        says(position, 5),
        "the write position is in sub-buffer 0, but sub-buffers before 1 were already taken"
    );
    assert_eq!(
        says(position, 6 * 512),
        "the write position is in sub-buffer 6, further than a ring of 4 ahead of 1"
    );
    assert_eq!(says(consumed, 6), "the consumed word is 0x6 where 0x2 was left");
    assert_eq!(
        says(ended_1, 2 << 24 | 10),
        "sub-buffer 1 claims 10 units of content; 12 to 512 are possible"
    );
    assert_eq!(
        says(ended_1, 2 << 24 | 513),
        "sub-buffer 1 claims 513 units of content; 12 to 512 are possible"
    );
    let overwriting = |value| next_after(LossMode::Overwrite, consumed, value);
    assert_eq!(
        overwriting(1 << 40),
        "the consumed word is 0x10000000000 where 0x2 was left"
    );
    assert_eq!(overwriting(3), "the consumed word is 0x3 where 0x2 was left");
}

#[test]
fn a_corrupt_ring_leaves_the_others_alone() {
    let channel = Channel::new(shape(LossMode::Discard));
    write_one(&channel.program.writer(0, 0), 0, 0);
    write_one(&channel.program.writer(1, 0), 1, 0);
    channel.program.scribble(4096 / 8, 1 << 48);
    let mut readers = [0, 1].map(|ring_index| channel.memory.reader(ring_index, 0));
    for reader in &mut readers {
        reader.end_current();
    }
    let [first, second] = readers.map(|mut reader| reader.next(&mut Vec::new()));
    assert!(matches!(first, Next::Corrupt(Corruption::PositionAhead { .. })));
    assert!(matches!(second, Next::Packet(_)));
}
