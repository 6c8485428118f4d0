// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the packets of a stream file are, and when. Built by looking at the start of each packet; that of a large trace is kept beside it
//! ([`cache`]).

mod build;
pub(crate) mod cache;
mod of_tracer;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use piste_ctf::read::plan::Plan;
use piste_ctf::read::schema::EnvironmentValue;
use piste_reason::reason;

use crate::finding::{Findings, Kind};
use crate::progress;

/// The packets of a stream file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamIndex {
    /// The file.
    pub path: PathBuf,
    /// What the file was when it was looked at.
    pub state: FileState,
    /// Class of the stream, as its first packet says.
    pub class_id: u64,
    /// Which stream of its class, as its first packet says.
    pub stream_id: Option<u64>,
    /// The same for those that do not say, or whose packets do not say when they begin: their place among such files of the trace.
    pub number: u64,
    /// The CPU, as its first packet says.
    pub cpu_id: Option<u64>,
    /// Number of its first packet, as that says.
    pub first_number: Option<u64>,
    /// In the order of the file.
    pub packets: Vec<Packet>,
    /// Where something is missing.
    pub losses: Vec<Loss>,
    /// Packets that its file has lost at its end, as the tracer's own index tells.
    pub missing_packets: u64,
}

/// Tells whether a file has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// Its size.
    pub bytes: u64,
    /// When it was written to.
    pub modified_ns: u64,
}

/// A packet of a stream file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Byte of the file.
    pub offset: u64,
    /// Bytes of it that are in the file.
    pub bytes: u64,
    /// Cycles.
    pub begin: Option<u64>,
    /// Cycles.
    pub end: Option<u64>,
    /// It has no events.
    pub is_empty: bool,
}

/// Something that the tracer says is missing before the end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Index of the packet that tells it.
    pub packet: u64,
    /// Events since the packet before.
    pub discarded_events: u64,
    /// Packets between the one before and this one.
    pub lost_packets: u64,
}

impl StreamIndex {
    /// The packets that may hold events from `begin` to `end`, in cycles.
    pub fn packets_between(&self, begin: u64, end: u64) -> std::ops::Range<usize> {
        // Damage may make packets overlap: then the order of the begins is still that of the file, or everything is read.
        let begins = |packet: &Packet| packet.begin.unwrap_or(0);
        let ends = |packet: &Packet| packet.end.unwrap_or(u64::MAX);
        let is_sorted = self.packets.is_sorted_by_key(begins) && self.packets.is_sorted_by_key(ends);
        if !is_sorted {
            return 0..self.packets.len();
        }
        let first = self.packets.partition_point(|packet| ends(packet) < begin);
        let last = self.packets.partition_point(|packet| begins(packet) <= end);
        first..last.max(first)
    }
}

/// The indices of a trace's stream files. Those that have changed, or that nobody has looked at with this metadata, are built.
pub(crate) fn load(
    folder: &Path,
    metadata: &[u8],
    plan: &Plan,
    files: Vec<PathBuf>,
    findings: &mut Findings,
) -> Vec<StreamIndex> {
    let mut states = Vec::with_capacity(files.len());
    for path in files {
        match state_of(&path) {
            Ok(state) => states.push((path, state)),
            Err(error) => findings.about_file(Kind::UnreadableFile, &path, reason(&error)),
        }
    }
    let mut kept: HashMap<PathBuf, StreamIndex> = cache::load(folder, metadata, &states)
        .into_iter()
        .map(|index| (index.path.clone(), index))
        .collect();
    let mut looked = Vec::with_capacity(states.len());
    for (path, state) in states {
        let known = kept.remove(&path).filter(|known| known.state == state);
        if known.is_none() {
            progress::will_index(state.bytes);
        }
        looked.push((path, state, known));
    }
    let mut has_news = false;
    let mut streams = Vec::with_capacity(looked.len());
    for (path, state, known) in looked {
        if let Some(known) = known {
            streams.push(known);
            continue;
        }
        match build::index(plan, &path, state, findings) {
            Ok((index, is_whole)) => {
                // What was found is not kept, so such a file is looked at again.
                has_news |= is_whole && index.packets.len() >= cache::PACKETS_MIN;
                streams.push(index);
            }
            Err(error) => findings.about_file(Kind::UnreadableFile, &path, reason(&error)),
        }
    }
    if has_news {
        // Where it cannot be kept, it is built again.
        let _ = cache::save(folder, metadata, &streams, findings);
    }
    let is_of_piste = says(plan, "piste_version", None);
    if is_of_piste {
        let is_of_kernel = says(plan, "domain", Some("kernel"));
        streams.extend(of_tracer::missing_streams(folder, &streams, is_of_kernel));
        streams.sort_by(|left, right| left.path.cmp(&right.path));
    }
    let has_indices = is_of_piste && folder.join("index").is_dir();
    let mut next = 0;
    for stream in &mut streams {
        if let Some(fault) = of_tracer::fault(folder, stream).filter(|_| has_indices) {
            let what = format!("{fault}; whether packets are missing at the end of the file is unknown");
            findings.about_file(Kind::DamagedIndex, &stream.path, what);
        }
        stream.missing_packets = stream
            .missing_packets
            .max(of_tracer::missing_packets(folder, stream, is_of_piste));
        let has_begin = stream.packets.first().is_some_and(|packet| packet.begin.is_some());
        let own = stream.stream_id.filter(|_| has_begin);
        stream.number = own.unwrap_or(next);
        next += u64::from(own.is_none() && stream.state.bytes > 0);
        report(stream, findings);
    }
    streams
}

/// The environment has such a text, or any.
fn says(plan: &Plan, key: &str, text: Option<&str>) -> bool {
    let mut environment = plan.schema.environment.iter();
    environment.any(|(known, value)| {
        let is_text = |text| matches!(value, EnvironmentValue::Text(known) if known == text);
        known == key && text.is_none_or(is_text)
    })
}

pub(crate) fn state_of(path: &Path) -> std::io::Result<FileState> {
    let metadata = fs::metadata(path)?;
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(FileState {
        bytes: metadata.len(),
        modified_ns: modified.map_or(0, |time| time.as_nanos() as u64),
    })
}

/// Adds what the tracer says is missing.
fn report(stream: &StreamIndex, findings: &mut Findings) {
    if stream.missing_packets > 0 {
        let what = match (stream.path.exists(), stream.missing_packets) {
            (true, 1) => "the last packet that the index lists is missing from the file".to_owned(),
            (true, many) => format!("the last {many} packets that the index lists are missing from the file"),
            (false, 1) => "the file is missing, with the packet that its index lists".to_owned(),
            (false, many) => format!("the file is missing, with the {many} packets that its index lists"),
        };
        findings.add(crate::Finding {
            kind: Kind::MissingPackets,
            file: stream.path.clone(),
            count: stream.missing_packets,
            offset: stream.state.bytes,
            what,
        });
    }
    for loss in &stream.losses {
        let offset = stream
            .packets
            .get(loss.packet as usize)
            .map_or(0, |packet| packet.offset);
        for (kind, count, what) in [
            (
                Kind::DiscardedEvents,
                loss.discarded_events,
                "events were discarded by the tracer",
            ),
            (Kind::LostPackets, loss.lost_packets, "packets are missing"),
        ] {
            if count > 0 {
                findings.add(crate::Finding {
                    kind,
                    file: stream.path.clone(),
                    count,
                    offset,
                    what: what.into(),
                });
            }
        }
    }
}
