// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tracers say that they lost, in babeltrace2's sentences.

use std::path::{Component, Path, PathBuf, absolute};

use piste_ctf::read::text::{Loss, Lost, Times, loss};

use crate::folder::Trace;
use crate::index::StreamIndex;

/// A line for each loss, in the order of the times from which on something is missing.
pub fn sentences(traces: &[Trace], times: &mut Times) -> Vec<u8> {
    let named = |stream: &StreamIndex| full_name(&stream.path);
    let names: Vec<Vec<String>> = traces
        .iter()
        .map(|trace| trace.streams.iter().map(named).collect())
        .collect();
    let mut losses = Vec::new();
    for (trace, names) in traces.iter().zip(&names) {
        for (stream, name) in trace.streams.iter().zip(names) {
            losses.extend(of_stream(trace, stream, name));
        }
    }
    losses.sort_by_key(|loss: &Loss<'_>| loss.between.and_then(|[begin, _]| begin));
    let mut out = Vec::new();
    for one in &losses {
        loss(&mut out, times, one);
    }
    out
}

fn of_stream<'t>(trace: &'t Trace, stream: &'t StreamIndex, stream_name: &'t str) -> Vec<Loss<'t>> {
    let schema = trace.schema();
    let scale = trace.scale(stream);
    let at = |cycles| scale.and_then(|scale| scale.nanoseconds(cycles));
    let mut losses = Vec::new();
    for found in &stream.losses {
        let Some(packet) = stream.packets.get(found.packet as usize) else {
            continue;
        };
        let before = (found.packet as usize)
            .checked_sub(1)
            .map(|before| &stream.packets[before]);
        let between = |begin: Option<u64>, end: Option<u64>| {
            let has_times = packet.begin.is_some() && packet.end.is_some();
            Some([at(begin.filter(|_| has_times)?), at(end?)])
        };
        let parts = [
            (Lost::Events, found.discarded_events, packet.end),
            (Lost::Packets, found.lost_packets, packet.begin),
        ];
        for (what, count, end) in parts.into_iter().filter(|(_, count, _)| *count > 0) {
            let begin = before.map_or(packet.begin, |before| before.end);
            losses.push(Loss {
                what,
                count: before.map(|_| count),
                between: between(begin, end),
                trace_name: &trace.name,
                trace_uuid: schema.uuid,
                stream_name,
                stream_class_id: stream.class_id,
                stream_id: Some(stream.number),
            });
        }
    }
    losses
}

/// From the root, without `.` and `..`; links stay.
fn full_name(path: &Path) -> String {
    let mut full = PathBuf::new();
    for part in absolute(path).as_deref().unwrap_or(path).components() {
        match part {
            Component::ParentDir => _ = full.pop(),
            part => full.push(part),
        }
    }
    full.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_from_the_root() {
        assert_eq!(full_name(Path::new("/a/./b/../c/")), "/a/c");
        assert!(full_name(Path::new("a")).starts_with('/'));
    }
}
