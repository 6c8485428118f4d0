// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring set: the memory of one program and channel, and the rings of it that were written to.
//!
//! A ring set records until its program dies or gets other memory; then it is emptied and done. There may be thousands; only
//! touched rings are looked at, and only they have a stream.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use piste_ring::{ChannelMemory, Losses};

use super::channel::{Channel, Instance, add_losses};
use super::gone::PastStream;
use super::program::Program;
use super::ring::{self, Before, Desk, GIVE_UP_AFTER, Patience, Ring, Taken};
use super::storage::StorageError;
use super::trace::TraceFolder;
use super::watch::{Listening, Rung, Watch};
use crate::link::{BellPlace, ChannelTotals, RingSetKey};

pub(super) struct RingSet {
    pub(super) producer: Producer,
    pub(super) memory: ChannelMemory,
    pub(super) life: Life,
    rings: BTreeMap<u32, Ring>,
    touched: Vec<u32>,
    ears: Option<Ears>,
    /// While the program may record, and can be heard.
    listening: Option<Listening>,
}

/// How a program is heard when it rings.
pub(super) struct Ears {
    pub(super) watch: Arc<Watch>,
    pub(super) rung: Arc<Rung>,
    pub(super) place: BellPlace,
}

/// Where the events of a ring set come from.
pub(super) struct Producer {
    pub(super) key: RingSetKey,
    pub(super) stream_id: u32,
    pub(super) program: Program,
    pub(super) stream_instance_base: u64,
    /// An earlier consumer had it and may have taken packets from it.
    pub(super) inherited: bool,
}

/// What becomes of a ring set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// The program writes to it while the session records.
    Current,
    /// The program records into other memory since then, or earlier.
    Retired(Instant),
    /// The program is dead.
    Gone,
}

/// How much of the fullest ring was found to be complete sub-buffers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fullest {
    pub(super) fill_bytes: u64,
    pub(super) ring_bytes: u64,
}

impl RingSet {
    /// Without `ears` it is looked at all the time.
    pub(super) fn new(producer: Producer, memory: ChannelMemory, ears: Option<Ears>) -> Self {
        Self {
            producer,
            memory,
            life: Life::Current,
            rings: BTreeMap::new(),
            touched: Vec::new(),
            ears,
            listening: None,
        }
    }

    /// Lets the program record, or stops it. Only the program that has this memory records into it.
    pub(super) fn set_recording(&mut self, recording: bool) {
        let recording = recording && self.life == Life::Current;
        // Before the program may record: a bell that rings is heard.
        self.listening = match &self.ears {
            Some(Ears { watch, rung, place }) if recording => watch.listen(*place, rung, self.producer.key),
            _ => None,
        };
        self.memory.set_recording(recording);
        if recording {
            self.resume();
        }
    }

    /// Its rings fill again, or may have, since they were emptied.
    pub(super) fn resume(&mut self) {
        self.rings.values_mut().for_each(Ring::resume);
    }

    /// Whether it need not be looked at until its program rings.
    pub(super) fn is_heard(&self) -> bool {
        self.listening.is_some()
    }

    /// Writes what is complete in each ring, at most a ring's worth, so that one program does not hold up the others. True when there is
    /// nothing more to be seen, nor was.
    ///
    /// # Errors
    /// The file that could not be written.
    pub(super) fn take(&mut self, fullest: &mut Fullest, desk: &mut Desk<'_>) -> Result<bool, StorageError> {
        let ring_bytes = self.memory.geometry().ring_bytes();
        self.for_each_touched(desk, |ring, producer, desk| {
            let fill = ring.fill();
            desk.channel.note_fill(fill);
            fullest.observe(fill, desk.channel.geometry.subbuf_bytes().into(), ring_bytes);
            let all = desk.channel.geometry.subbuf_count();
            let mut most = all;
            if desk.trace.is_of_trigger() && !ring.is_behind() {
                ring.end_current();
            }
            let taken = ring.take(&mut most, Patience::Living, producer, desk)?;
            Ok(taken == Taken::All && most == all)
        })
    }

    /// Whether more is in a ring than was taken at the last look.
    pub(super) fn is_behind(&self) -> bool {
        self.rings.values().any(Ring::is_behind)
    }

    /// Draws a line in each ring, as [`Ring::draw_line`] does. True when everything in front of them is written.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn draw_lines(&mut self, desk: &mut Desk<'_>) -> Result<bool, StorageError> {
        self.for_each_touched(desk, |ring, _, _| Ok(ring.draw_line()))
    }

    /// What is left in front of its lines. The program had the time to fill its sub-buffers when `is_time` is set.
    pub(super) fn before_lines(&mut self, is_time: bool) -> Before {
        let rings = self.rings.values_mut();
        rings
            .map(|ring| ring.before_line(is_time))
            .max()
            .unwrap_or(Before::Nothing)
    }

    /// Empties every ring, as [`Ring::finish`] does one. A living program's unfinished records are given up at `deadline`.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn finish(&mut self, deadline: Instant, desk: &mut Desk<'_>) -> Result<bool, StorageError> {
        let patience = match self.life {
            Life::Current => Patience::Until(deadline),
            Life::Retired(since) => Patience::Until(deadline.min(since + GIVE_UP_AFTER)),
            Life::Gone => Patience::Dead,
        };
        if self.life != Life::Current {
            // A call that began before the program had other memory goes there now.
            self.memory.set_recording(false);
        }
        self.for_each_touched(desk, |ring, producer, desk| ring.finish(patience, producer, desk))
    }

    /// Lets every ring go on in the next chunk of the trace, as [`Ring::move_on`] does one.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn move_on(&mut self, deadline: Instant, desk: &mut Desk<'_>) -> Result<bool, StorageError> {
        let patience = match self.life {
            Life::Gone => Patience::Dead,
            Life::Current | Life::Retired(_) => Patience::Living,
        };
        self.for_each_touched(desk, |ring, producer, desk| {
            ring.move_on(patience, deadline, producer, desk)
        })
    }

    /// A chunk of the trace ends: its rings' files were moved.
    pub(super) fn moved(&mut self, trace: &TraceFolder) {
        self.rings.values_mut().for_each(|ring| ring.moved(trace));
    }

    /// Gives up what is in the rings, because the trace cannot be written; returns how many events that are.
    pub(super) fn abandon(&mut self, desk: &mut Desk<'_>) -> u64 {
        let mut all_events = 0;
        for ring_index in self.memory.touched() {
            let opened = match self.rings.entry(ring_index) {
                Entry::Occupied(ring) => Ok(ring.into_mut()),
                Entry::Vacant(place) => {
                    Ring::open(&self.memory, ring_index, &self.producer, desk).map(|ring| place.insert(ring))
                }
            };
            all_events += match opened {
                Ok(ring) => ring.abandon(desk),
                // Its stream cannot be read.
                Err(_) => {
                    let events = ring::abandon(&mut self.memory.reader(ring_index, 0), desk.buffers).events;
                    desk.channel.past.discarded_late += events;
                    events
                }
            };
        }
        all_events
    }

    /// Looks whether the files of its streams are still there. Returns what people should know.
    pub(super) fn look_at_files(&mut self) -> Vec<&'static str> {
        self.rings.values_mut().filter_map(Ring::look_at_files).collect()
    }

    /// What its rings leave in the trace.
    pub(super) fn legacy(&mut self, channel: &Channel) -> Vec<PastStream> {
        let rings = self.rings.values_mut();
        rings.filter_map(|ring| ring.legacy(channel)).collect()
    }

    /// Adds what the rings wrote and lost.
    pub(super) fn add_to(&mut self, totals: &mut ChannelTotals, channel: &Channel) {
        for ring in self.rings.values_mut() {
            ring.add_to(totals, channel);
        }
    }

    /// Events that nobody will see.
    pub(super) fn missed(&self) -> u64 {
        self.rings.values().map(Ring::missed).fold(0, u64::saturating_add)
    }

    /// Adds what the rings lost, where nobody takes anything out of them.
    pub(super) fn add_losses_to(&self, totals: &mut ChannelTotals) {
        for ring_index in self.memory.touched() {
            let losses = self.memory.reader(ring_index, 0).losses();
            // What a flight recorder overwrites is not lost to the snapshot that nobody asked for.
            add_losses(
                totals,
                &Losses {
                    overwritten_records: 0,
                    ..losses
                },
            );
        }
    }

    /// Records that found no space, in all rings.
    pub(super) fn discarded_full(&self) -> u64 {
        let discarded = |ring_index| self.memory.reader(ring_index, 0).losses().discarded_full;
        self.memory.touched().map(discarded).fold(0, u64::saturating_add)
    }

    /// The program wrote something, ever.
    pub(super) fn is_touched(&self) -> bool {
        self.memory.touched().next().is_some()
    }

    /// Calls `visit` for every touched ring; true when all calls returned true.
    fn for_each_touched<'a>(
        &mut self,
        desk: &mut Desk<'a>,
        mut visit: impl FnMut(&mut Ring, &Producer, &mut Desk<'a>) -> Result<bool, StorageError>,
    ) -> Result<bool, StorageError> {
        let mut all = true;
        self.touched.clear();
        self.touched.extend(self.memory.touched());
        for &ring_index in &self.touched {
            let ring = match self.rings.entry(ring_index) {
                Entry::Occupied(ring) => ring.into_mut(),
                Entry::Vacant(place) => place.insert(Ring::open(&self.memory, ring_index, &self.producer, desk)?),
            };
            all &= visit(ring, &self.producer, desk)?;
        }
        Ok(all)
    }
}

impl Producer {
    pub(super) fn instance(&self, ring_index: u32) -> Instance {
        Instance {
            stream_instance_base: self.stream_instance_base,
            ring_index,
            process: self.program.ids,
        }
    }

    /// The finding for a packet that was not as it should be.
    pub(super) fn damaged(&self, missing: u32, ring_index: u32, sequence: u64, fault: &str) -> String {
        let (program, events) = (&self.program, if missing == 1 { "event" } else { "events" });
        format!("{missing} damaged {events} of {program} discarded in packet {sequence} of ring {ring_index}: {fault}")
    }
}

impl Fullest {
    fn observe(&mut self, fill_bytes: u64, subbuf_bytes: u64, ring_bytes: u64) {
        let fill_bytes = fill_bytes - fill_bytes % subbuf_bytes;
        // fill / ring > the fullest's, without dividing.
        let fuller = u128::from(fill_bytes) * u128::from(self.ring_bytes.max(1));
        if self.ring_bytes == 0 || fuller > u128::from(self.fill_bytes) * u128::from(ring_bytes) {
            *self = Self { fill_bytes, ring_bytes };
        }
    }
}
