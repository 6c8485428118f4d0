// SPDX-License-Identifier: MIT OR Apache-2.0
//! A channel of a session: how its records are checked, and what is known of it beyond the rings that are there.

use piste_ctf::layout::CLASS_COUNT_MAX;
use piste_ctf::{Checked, EventClass, Layouts, StreamClass};
use piste_ring::{ClockSource, Geometry, GeometryError, LossMode, Losses};

use super::clock;
use super::findings::Findings;
use super::gone::PastStream;
use super::stream::{End, Identity, Origin, ProcessIds};
use crate::link::{self, ChannelTotals, Fill};

pub(super) struct Channel {
    pub(super) stream_id: u32,
    pub(super) name: String,
    pub(super) geometry: Geometry,
    pub(super) layouts: Layouts,
    pub(super) findings: Findings,
    /// Absent until a ring was looked at.
    fill: Option<Fill>,
    /// Events that had found no space when that was stated last; absent if others may have stated some of them.
    discarded_full: Option<u64>,
    /// Of ring sets that are done, and of the snapshots that were written.
    pub(super) past: ChannelTotals,
    /// Streams of this chunk whose ring sets are done.
    pub(super) past_streams: Vec<PastStream>,
}

impl Channel {
    /// # Errors
    /// A shape that no ring can have.
    pub(super) fn new(stream: &StreamClass, geometry: &link::Geometry) -> Result<Self, GeometryError> {
        Ok(Self {
            stream_id: stream.id,
            name: stream.channel.clone(),
            geometry: geometry.memory()?,
            layouts: Layouts::new(stream.contexts.clone()),
            findings: Findings::default(),
            fill: None,
            discarded_full: Some(0),
            past: ChannelTotals::of(stream.id),
            past_streams: Vec::new(),
        })
    }

    /// Adds an event class.
    ///
    /// # Errors
    /// Why there can be no such class, as a sentence.
    pub(super) fn add_class(&mut self, class: &EventClass) -> Result<(), String> {
        if class.id >= CLASS_COUNT_MAX {
            return Err(format!(
                "event {}: {} is not a valid id; a channel can have at most {CLASS_COUNT_MAX} events",
                class.name, class.id
            ));
        }
        self.layouts.insert(class);
        Ok(())
    }

    /// Notes how much waits in one of its rings.
    pub(super) fn note_fill(&mut self, waiting_bytes: u64) {
        let ring_bytes = self.geometry.ring_bytes();
        self.fill.get_or_insert_default().note(waiting_bytes, ring_bytes);
    }

    /// How full its rings were; what was lately begins anew. A ring in which an event found no space was full, whatever was seen of it.
    pub(super) fn state_fill(&mut self, discarded_full: u64) -> Option<Fill> {
        let had_no_space = self.discarded_full.is_some_and(|before| discarded_full > before);
        if self.fill.is_some() && had_no_space {
            self.note_fill(self.geometry.ring_bytes());
        }
        self.discarded_full = Some(discarded_full);
        let stated = self.fill;
        if let Some(fill) = &mut self.fill {
            fill.lately_percent = None;
        }
        stated
    }

    /// An earlier consumer has stated some of what was discarded, and nobody knows how much.
    pub(super) fn forget_stated(&mut self) {
        self.discarded_full = None;
    }

    /// The clock of the records.
    pub(super) fn clock(&self) -> ClockSource {
        self.geometry.shape().clock
    }

    /// Checks a packet that was just copied.
    pub(super) fn check(&self, packet: &[u8], content_bytes: u32, begin_ticks: u64) -> Checked {
        // Read after the copy: nothing in it can be later.
        let limit_ticks = clock::limit_ticks(self.clock());
        self.layouts.check(packet, content_bytes, begin_ticks, limit_ticks)
    }

    /// What is lost in memory is counted as overwritten in such a channel, as discarded in others.
    pub(super) fn overwrites(&self) -> bool {
        self.geometry.loss() == LossMode::Overwrite
    }

    /// What the packets of a ring say.
    pub(super) fn identity(&self, trace_uuid: [u8; 16], instance: Instance) -> Identity {
        Identity {
            trace_uuid,
            stream_id: self.stream_id,
            stream_instance_id: instance.stream_instance_base + u64::from(instance.ring_index),
            origin: Origin::Ring {
                ring_index: instance.ring_index,
                process: instance.process,
            },
        }
    }
}

/// Which ring of which program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instance {
    pub(super) stream_instance_base: u64,
    pub(super) ring_index: u32,
    pub(super) process: ProcessIds,
}

/// Adds what a stream has on disk; `earlier_events` are those that an earlier consumer wrote.
pub(super) fn add_stream(totals: &mut ChannelTotals, end: &End, earlier_events: u64) {
    totals.events += end.events + earlier_events;
    totals.bytes += end.data_bytes;
    totals.packets += end.packets;
    totals.lost_packets += end.lost_packets;
}

/// Adds what a ring lost. The program counts these, so that the sums are not trusted to stay small.
pub(super) fn add_losses(totals: &mut ChannelTotals, losses: &Losses) {
    for (sum, more) in [
        (&mut totals.discarded_full, losses.discarded_full),
        (&mut totals.discarded_too_large, losses.discarded_too_large),
        (&mut totals.overwritten_events, losses.overwritten_records),
    ] {
        *sum = sum.saturating_add(more);
    }
}
