// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes what the rings of a flight recorder hold to a trace of its own, while the programs go on.
//!
//! All open sub-buffers are ended first, so that the newest events are in; those of channels that keep their first events instead are left open.
//! Then one ring is written at a time, so that other sessions are not held up. The metadata comes last: a folder without it is a snapshot that was
//! interrupted.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;

use piste_ring::Next;

use super::channel::{Channel, add_losses, add_stream};
use super::metadata::Metadata;
use super::ring::Buffers;
use super::ring_set::RingSet;
use super::sink::Paths;
use super::storage::StorageError;
use super::stream::Stream;
use super::trace::user_folder;
use super::verdict::Found;
use crate::link::{ChannelTotals, Failure, RequestId, RingSetKey};
use crate::person::Output;

/// A snapshot that is being written.
pub(super) struct SnapshotJob {
    request: RequestId,
    output: Output,
    begun: bool,
    rings: VecDeque<(RingSetKey, u32)>,
    totals: BTreeMap<u32, ChannelTotals>,
}

/// The answer to a request.
type Outcome = Result<Vec<ChannelTotals>, Failure>;

impl SnapshotJob {
    /// A snapshot of everything that was recorded until now, to be written to `output`.
    pub(super) fn new(
        request: RequestId,
        output: Output,
        channels: &BTreeMap<u32, Channel>,
        ring_sets: &BTreeMap<RingSetKey, RingSet>,
    ) -> Self {
        let mut rings = VecDeque::new();
        for (key, ring_set) in ring_sets {
            for ring_index in ring_set.memory.touched() {
                // Rings that keep their first events are never emptied: what is left of a sub-buffer that is ended is lost for good.
                if channels
                    .get(&ring_set.producer.stream_id)
                    .is_some_and(Channel::overwrites)
                {
                    ring_set.memory.reader(ring_index, 0).end_current();
                }
                rings.push_back((*key, ring_index));
            }
        }
        Self {
            request,
            output,
            begun: false,
            rings,
            totals: BTreeMap::new(),
        }
    }

    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    /// Writes the next ring. Returns the totals of the snapshot once everything is written, or what could not be; then nothing
    /// of it is left.
    pub(super) fn step(
        &mut self,
        metadata: &Metadata,
        channels: &mut BTreeMap<u32, Channel>,
        ring_sets: &BTreeMap<RingSetKey, RingSet>,
        buffers: &mut Buffers,
    ) -> Option<Outcome> {
        let folder = user_folder(&self.output.folder);
        if !std::mem::replace(&mut self.begun, true) {
            if self.output.owner.sees(&folder.join("metadata")) {
                let what = format!(
                    "{} already contains a trace; choose another folder for the snapshot",
                    self.output.folder.display()
                );
                return Some(Err(Failure::Other { what }));
            }
            // What earlier snapshots wrote is not this one's.
            let totals = |channel: &Channel| ChannelTotals {
                events: 0,
                bytes: 0,
                packets: 0,
                ..channel.past.clone()
            };
            self.totals = channels
                .values()
                .map(|channel| (channel.stream_id, totals(channel)))
                .collect();
            // Not the folder that both domains are in: the other consumer may be making its own there.
            if let Ok(_as_owner) = self.output.owner.enter() {
                let _ = fs::remove_dir_all(&folder);
            }
        }
        match self.write_next(&folder, metadata, channels, ring_sets, buffers) {
            Ok(false) => None,
            Ok(true) => {
                for (stream_id, totals) in &mut self.totals {
                    if let Some(channel) = channels.get_mut(stream_id) {
                        totals.findings = channel.findings.list().to_vec();
                        channel.past.events += totals.events;
                        channel.past.bytes += totals.bytes;
                        channel.past.packets += totals.packets;
                    }
                }
                Some(Ok(std::mem::take(&mut self.totals).into_values().collect()))
            }
            Err(error) => {
                self.remove(&folder);
                Some(Err(error.failure()))
            }
        }
    }

    /// Writes the next ring, and after the last one the metadata: then it returns true.
    fn write_next(
        &mut self,
        folder: &Path,
        metadata: &Metadata,
        channels: &mut BTreeMap<u32, Channel>,
        ring_sets: &BTreeMap<RingSetKey, RingSet>,
        buffers: &mut Buffers,
    ) -> Result<bool, StorageError> {
        let Some((key, ring_index)) = self.rings.pop_front() else {
            metadata.write_to(&self.output.owner, folder)?;
            return Ok(true);
        };
        if let Some(ring_set) = ring_sets.get(&key)
            && let Some(channel) = channels.get_mut(&ring_set.producer.stream_id)
        {
            let totals = self.totals.entry(channel.stream_id).or_default();
            write_ring(&self.output, metadata, channel, ring_set, ring_index, buffers, totals)?;
        }
        Ok(false)
    }

    /// Removes what was written. The folder itself goes when nothing else is in it.
    fn remove(&self, folder: &Path) {
        if let Ok(_as_owner) = self.output.owner.enter() {
            let _ = fs::remove_dir_all(folder);
            let _ = fs::remove_dir(&self.output.folder);
        }
    }
}

/// Writes the packets that a ring holds, from the oldest to the newest.
fn write_ring(
    output: &Output,
    metadata: &Metadata,
    channel: &mut Channel,
    ring_set: &RingSet,
    ring_index: u32,
    buffers: &mut Buffers,
    totals: &mut ChannelTotals,
) -> Result<(), StorageError> {
    let (producer, trace) = (&ring_set.producer, metadata.trace());
    let identity = channel.identity(trace.uuid, producer.instance(ring_index));
    let folder = user_folder(&output.folder);
    let paths = Paths::new(&output.owner, &folder, &channel.name, identity.stream_instance_id);
    let mut stream = Stream::open(paths, identity)?;
    let reader = ring_set.memory.reader(ring_index, 0);
    let mut lost_packets = 0;
    let corruption = match reader.snapshot() {
        Err(corruption) => Some(corruption),
        Ok(mut snapshot) => loop {
            let (found, discarded) = match snapshot.next(&mut buffers.packet) {
                Next::Empty => break None,
                Next::Corrupt(corruption) => break Some(corruption),
                Next::Lost { packets } => {
                    // What was overwritten before the oldest packet that is left is none of the snapshot's.
                    lost_packets += if stream.end().packets == 0 { 0 } else { packets };
                    continue;
                }
                Next::Packet(packet) => {
                    let checked = channel.check(&buffers.packet, packet.content_bytes, packet.begin_ticks);
                    let (sequence, begin_ticks, committed) = (packet.sequence, packet.begin_ticks, packet.records);
                    (
                        Found {
                            sequence,
                            begin_ticks,
                            checked,
                            committed,
                        },
                        packet.discarded,
                    )
                }
                Next::Incomplete { sequence } => {
                    let salvage = match snapshot.salvage(sequence, &mut buffers.packet) {
                        Ok(None) => continue,
                        Err(corruption) => break Some(corruption),
                        Ok(Some(salvage)) => salvage,
                    };
                    let begin_ticks = salvage.begin_ticks.unwrap_or(stream.end().end_ticks);
                    let checked = channel.check(&buffers.packet, salvage.content_bytes, begin_ticks);
                    (
                        Found {
                            sequence,
                            begin_ticks,
                            checked,
                            committed: salvage.records,
                        },
                        salvage.discarded,
                    )
                }
            };
            let mut verdict = found.judge(stream.end().end_ticks);
            verdict.facts.discarded = discarded.max(stream.end().discarded);
            if let Some(fault) = verdict.fault {
                let what = producer.damaged(verdict.missing, ring_index, found.sequence, &fault);
                channel.findings.note(&what);
            }
            stream.append(&mut buffers.packet, &verdict.facts)?;
        },
    };
    if let Some(corruption) = corruption {
        let what = format!(
            "ring {ring_index} of {} is incomplete in the snapshot, because its memory is corrupt: {corruption}",
            producer.program
        );
        channel.findings.note(&what);
    }
    // Sequence numbers begin where the oldest packet is.
    let end = super::stream::End {
        lost_packets,
        ..*stream.end()
    };
    add_stream(totals, &end, 0);
    add_losses(
        totals,
        &piste_ring::Losses {
            overwritten_records: 0,
            ..reader.losses()
        },
    );
    Ok(())
}
