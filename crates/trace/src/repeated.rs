// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that are in more than one of some traces, as the snapshots of one flight recorder have them in common: whoever reads such traces
//! together meets their events once for each.
//!
//! It is said only where it is certain: the traces have one uuid, the packets are of one stream, and begin and end at the same cycles.
//! Packets without events repeat nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::finding::{Finding, Findings, Kind};
use crate::folder::Trace;
use crate::index::StreamIndex;

/// What one trace has of others.
#[derive(Clone, Debug)]
pub struct Repeated<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// Where its packets are as well, in the order of the traces: the last before it that has one. Itself, where it has copies of its files.
    pub others: Vec<&'t Trace>,
    /// Packets of it that others have.
    pub packets: u64,
}

/// What each of the traces has of those before it, if it has anything.
pub fn repeated(traces: &[Trace]) -> Vec<Repeated<'_>> {
    let mut streams: BTreeMap<_, Vec<Part<'_>>> = BTreeMap::new();
    for (number, trace) in traces.iter().enumerate() {
        for stream in &trace.streams {
            if let (Some(key), Some(part)) = (key(trace, stream), Part::new(number, stream)) {
                streams.entry(key).or_default().push(part);
            }
        }
    }
    let mut found: BTreeMap<usize, (BTreeSet<usize>, u64)> = BTreeMap::new();
    for mut parts in streams.into_values() {
        parts.sort_by_key(|part| (part.begin, part.trace));
        let mut rest = &parts[..];
        while !rest.is_empty() {
            let (together, behind) = rest.split_at(at_one_time(rest));
            if together.len() > 1 {
                compare(together, &mut found);
            }
            rest = behind;
        }
    }
    let repeated = found.into_iter().map(|(number, (others, packets))| Repeated {
        trace: &traces[number],
        others: others.into_iter().map(|other| &traces[other]).collect(),
        packets,
    });
    repeated.collect()
}

/// Adds which traces have packets of others.
pub fn find_repeated(traces: &[Trace], findings: &mut Findings) {
    for repeated in repeated(traces) {
        findings.add(Finding {
            kind: Kind::RepeatedPackets,
            file: repeated.trace.folder.clone(),
            count: repeated.packets,
            offset: 0,
            what: repeated.sentence(),
        });
    }
}

impl Repeated<'_> {
    fn sentence(&self) -> String {
        let packets = match self.packets {
            1 => "1 packet is".to_owned(),
            many => format!("{many} packets are"),
        };
        let others: Vec<String> = self
            .others
            .iter()
            .map(|other| other.folder.display().to_string())
            .collect();
        let others = others.join(" or ");
        format!("{packets} also in {others}, so their events are read more than once; read only one of these traces")
    }
}

/// A file of a stream.
#[derive(Clone, Copy)]
struct Part<'t> {
    trace: usize,
    stream: &'t StreamIndex,
    begin: u64,
    end: u64,
}

impl<'t> Part<'t> {
    /// Of packets that say when they are.
    fn new(trace: usize, stream: &'t StreamIndex) -> Option<Part<'t>> {
        Some(Part {
            trace,
            stream,
            begin: stream.packets.iter().filter_map(|packet| packet.begin).min()?,
            end: stream.packets.iter().filter_map(|packet| packet.end).max()?,
        })
    }
}

/// What files of one stream have in common.
fn key(trace: &Trace, stream: &StreamIndex) -> Option<impl Ord + use<>> {
    let which = (stream.stream_id, stream.cpu_id);
    let is_told = which != (None, None);
    let uuid = trace.schema().uuid.filter(|_| is_told)?;
    Some((uuid, stream.class_id, which))
}

/// How many of the first parts are, one beside the other, at one time. The chunks of a trace follow each other, and have nothing in common.
fn at_one_time(parts: &[Part<'_>]) -> usize {
    let mut end = parts[0].end;
    let others = parts[1..].iter().take_while(|part| {
        let joins = part.begin <= end;
        end = end.max(part.end);
        joins
    });
    1 + others.count()
}

fn compare(parts: &[Part<'_>], found: &mut BTreeMap<usize, (BTreeSet<usize>, u64)>) {
    let mut in_order = parts.to_vec();
    in_order.sort_by_key(|part| part.trace);
    let mut known: HashMap<(u64, u64), usize> = HashMap::new();
    for part in in_order {
        let packets = part.stream.packets.iter().filter(|packet| !packet.is_empty);
        let times: Vec<(u64, u64)> = packets.filter_map(|packet| packet.begin.zip(packet.end)).collect();
        for time in &times {
            if let Some(other) = known.get(time) {
                let (others, packets) = found.entry(part.trace).or_default();
                others.insert(*other);
                *packets += 1;
            }
        }
        // Not before: packets of one file are no copies of each other.
        known.extend(times.into_iter().map(|time| (time, part.trace)));
    }
}
