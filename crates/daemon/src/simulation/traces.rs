// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the traces of a simulation against the truth: each record that a program committed is in the trace once, in the order of its ring, or
//! is counted there as discarded.

use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use piste_ctf::index::{self, FILE_HEADER_BYTES};
use piste_ctf::read::metadata;
use piste_ctf::read::packet::{Next, StreamReader};
use piste_ctf::read::plan::{IntegerNode, Plan};
use piste_ctf::read::schema::Scope;
use piste_ctf::read::walk::Visitor;

use super::truth::{Committed, RingTruth, Truth};
use crate::link::{ChannelTotals, SessionId};

/// What a stream has.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct Stream {
    /// Of its events.
    numbers: Vec<u64>,
    discarded: u64,
    packet_count: usize,
}

/// A trace that is complete.
pub(super) struct Finished<'f> {
    pub(super) session: SessionId,
    pub(super) output: &'f Path,
    /// As somebody was told.
    pub(super) totals: Option<&'f [ChannelTotals]>,
    /// The disk failed while it was closed.
    pub(super) is_cut: bool,
    /// Several consumers wrote it, perhaps.
    pub(super) was_taken_over: bool,
}

/// Checks a trace, and adds it to the log.
pub(super) fn check(finished: &Finished<'_>, truth: &Truth, log: &mut impl Hasher) {
    let session = finished.session;
    let chunks = chunks_of(finished.output);
    let (mut events, mut missed, mut is_exact) = (0, 0, !(finished.is_cut && finished.was_taken_over));
    for (key, id, ring) in truth.rings_of(session) {
        let is_lost = truth.lost.contains(&key);
        let stream = read(&chunks, id, is_lost || finished.is_cut);
        stream.hash(log);
        let what = format!("session {session}, ring set {key}, stream {id}");
        let late = ring.check(&stream.numbers, is_lost || finished.is_cut, &what);
        let was_stopped = ring.records.iter().any(|record| record.was_stopped);
        if !is_lost && !finished.is_cut {
            let counted = stream.discarded.checked_sub(ring.discarded);
            let counted =
                counted.unwrap_or_else(|| panic!("{what}: {} discarded of {}", stream.discarded, ring.discarded));
            let unfinished = ring.records.iter().filter(|record| !record.is_committed).count() as u64;
            // A consumer that takes over does not know how many the one before gave up: what the ring loses next takes their place.
            let least = if finished.was_taken_over { 0 } else { late };
            assert!(
                (least..=late + unfinished).contains(&counted),
                "{what}: {counted} records are counted as given up, but {late} are missing and {unfinished} unfinished"
            );
        }
        events += stream.numbers.len() as u64;
        missed += ring.discarded + late;
        is_exact &= !is_lost && !was_stopped;
    }
    if let Some(totals) = finished.totals.filter(|totals| !totals.is_empty()) {
        let counted: u64 = totals.iter().map(|totals| totals.events).sum();
        assert_eq!(counted, events, "events that session {session} is said to have");
        let counted: u64 = totals.iter().map(ChannelTotals::missed).sum();
        assert!(
            !is_exact || counted == missed,
            "session {session} is said to have missed {counted} events, not {missed}: {totals:?}"
        );
    }
}

/// Checks that a trace has what was committed before somebody asked for it to be written.
pub(super) fn check_flushed(session: SessionId, output: &Path, committed: &Committed, truth: &Truth) {
    let chunks = chunks_of(output);
    for (&(key, id), numbers) in committed {
        if truth.lost.contains(&key) {
            continue;
        }
        let stream = read(&chunks, id, true);
        let mut written = stream.numbers.iter();
        let missing = numbers.iter().find(|number| !written.any(|written| written == *number));
        assert_eq!(
            missing, None,
            "session {session} was flushed, and lacks an event of stream {id}"
        );
    }
}

/// A trace of its own: a part of what a session recorded.
struct Chunk {
    folder: PathBuf,
    plan: Plan,
}

/// The finished chunks of a trace in their order, the one that ends in a rotation, and the last one.
fn chunks_of(output: &Path) -> Vec<Chunk> {
    let archives = fs::read_dir(output.join("archives")).into_iter().flatten();
    let mut folders: Vec<(u64, PathBuf)> = archives
        .map(|entry| {
            let entry = entry.expect("the folder can be read");
            let name = entry.file_name().into_string().expect("a name that pisted made");
            let number = name
                .trim_start_matches('.')
                .split('-')
                .next()
                .expect("it begins with a number");
            (number.parse().expect("a number"), entry.path().join("user"))
        })
        .collect();
    folders.push((u64::MAX, output.join("user")));
    folders.sort();
    let open = |folder: PathBuf| {
        let text = fs::read(folder.join("metadata")).ok()?;
        let schema = metadata::parse(&text).expect("metadata can be read");
        let plan = Plan::new(schema).expect("metadata is understood");
        Some(Chunk { folder, plan })
    };
    folders.into_iter().filter_map(|(_, folder)| open(folder)).collect()
}

/// What a stream has in all chunks.
fn read(chunks: &[Chunk], id: u64, may_be_cut: bool) -> Stream {
    let mut all = Stream::default();
    for chunk in chunks {
        let stream = read_chunk(chunk, id, may_be_cut);
        all.numbers.extend(stream.numbers);
        all.discarded += stream.discarded;
        all.packet_count += stream.packet_count;
    }
    all
}

impl RingTruth {
    /// Checks which numbers a stream has. Returns how many records are missing of threads that went on too late.
    fn check(&self, numbers: &[u64], may_miss: bool, what: &str) -> u64 {
        let (mut numbers, mut missing) = (numbers.iter().copied().peekable(), 0);
        for record in self.records.iter().filter(|record| record.is_committed) {
            if numbers.next_if_eq(&record.number).is_some() {
                continue;
            }
            assert!(
                may_miss || record.was_stopped,
                "{what}: event {} is not in the trace, but {:?} follows",
                record.number,
                numbers.peek()
            );
            missing += 1;
        }
        assert_eq!(
            numbers.next(),
            None,
            "{what} has an event that nobody recorded there then"
        );
        missing
    }
}

fn read_chunk(Chunk { folder, plan }: &Chunk, id: u64, may_be_cut: bool) -> Stream {
    let name = format!("default_{id}");
    let index = fs::read(folder.join("index").join(format!("{name}.idx"))).unwrap_or_default();
    let entries = match index.len() {
        // Nothing was written for good.
        ..FILE_HEADER_BYTES => vec![],
        _ => index::decode(&index).expect("an index can be read"),
    };
    let bytes = fs::read(folder.join(&name)).unwrap_or_default();
    let (mut stream, mut reader, mut rest) = (Stream::default(), StreamReader::new(plan), &bytes[..]);
    for entry in &entries {
        let info = reader.packet(rest).expect("a packet can be read");
        assert_eq!(
            info.total_bits,
            Some(entry.packet_bits),
            "the index says where packets are"
        );
        stream.discarded = info.discarded_events.expect("packets count discarded events");
        let (packet, after) = rest.split_at((entry.packet_bits / 8) as usize);
        loop {
            match reader.next(packet, 0) {
                Next::Event(event) => {
                    let mut number = Number::default();
                    reader
                        .visit(&event, Scope::Payload, packet, 0, &mut number)
                        .expect("an event can be read");
                    stream.numbers.push(number.0.expect("an event has a number"));
                }
                Next::End => break,
                other => panic!("{name}: {other:?}"),
            }
        }
        rest = after;
    }
    assert!(
        may_be_cut || rest.is_empty(),
        "{name} has {} bytes behind its packets",
        rest.len()
    );
    stream.packet_count = entries.len();
    stream
}

/// The first field of an event.
#[derive(Default)]
struct Number(Option<u64>);

impl Visitor for Number {
    fn integer(&mut self, _: &IntegerNode, value: u64) {
        self.0.get_or_insert(value);
    }
}
