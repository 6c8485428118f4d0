// SPDX-License-Identifier: MIT OR Apache-2.0
//! One ring and the stream that it is written to: takes packets, checks them, writes them, gives the space back.
//!
//! ```text
//!   copy the sub-buffer  ->  check its records  ->  append the packet  ->  its index entry  ->  release the sub-buffer
//! ```
//!
//! The order lets the consumer die anywhere: before the entry, the next consumer takes the sub-buffer again; after it, the next
//! consumer goes on behind it. A failed write leaves the sub-buffer in the ring.
//!
//! What a program wrote wrong is discarded and counted, and the stream goes on. The ring itself is crates/ring, the check
//! crates/ctf, the files are stream.rs.

use std::time::{Duration, Instant};

use piste_control::{FILES_GONE, INDEX_GONE, METADATA_GONE};
use piste_ctf::{Fault, Wrong};
use piste_ring::{ChannelMemory, Next, Packet, Reader};

use super::channel::{Channel, add_losses, add_stream};
use super::clock;
use super::earlier::count_events;
use super::gone::PastStream;
use super::outbox::Outbox;
use super::ring_set::Producer;
use super::storage::StorageError;
use super::stream::{Seen, Stream};
use super::trace::TraceFolder;
use super::verdict::Found;
use crate::link::{ChannelTotals, SessionId, ToControl};

/// How long a living program may leave a record unfinished.
pub(super) const GIVE_UP_AFTER: Duration = Duration::from_millis(500);

/// How long packets are written without a look whether somebody has removed the files. Those that are written meanwhile count as missing then.
const LOOK_AT_FILES_INTERVAL: Duration = Duration::from_millis(100);

/// No ring holds more; a program that writes on and on is not followed further.
const PACKETS_MAX: u32 = piste_abi::PISTE_SUBBUF_COUNT_MAX + 1;

/// A ring that somebody wrote to.
pub(super) struct Ring {
    reader: Reader,
    stream: Stream,
    unfinished: Option<Unfinished>,
    /// Records that could not be written as the program left them.
    damaged_events: u64,
    /// Records that the living program did not finish in time.
    given_up_events: u64,
    /// Packets that were given up because the trace could not be written. Their events are among the damaged ones.
    abandoned_packets: u64,
    /// Events in the packets of an earlier consumer, once somebody asked.
    earlier_events: Option<u64>,
    corrupt: bool,
    /// While the ring is emptied: packets that it can still have from before.
    left: Option<u32>,
    /// The sub-buffer that a flush goes up to.
    line: u64,
    /// The sub-buffer that waits for a program that is stopped.
    held: Option<u64>,
    /// There was more than the last look took.
    is_behind: bool,
    /// When its files are looked at next; absent before the first packet.
    next_look_at_files: Option<Instant>,
}

/// The sub-buffer that waits.
#[derive(Clone, Copy)]
struct Unfinished {
    sequence: u64,
    since: Instant,
}

/// How long to wait for a record that was begun.
#[derive(Clone, Copy)]
pub(super) enum Patience {
    /// The program runs: [`GIVE_UP_AFTER`], not counting the time that it is stopped.
    Living,
    /// The program runs, but the ring is to be emptied: until then.
    Until(Instant),
    /// The program is dead: nothing more comes.
    Dead,
}

/// What [`Ring::take`] came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Everything that is complete.
    All,
    /// As many packets as were asked for; there may be more.
    Some,
    /// A record is not finished yet, or of an event that is not known yet.
    Unfinished,
}

/// What a ring has in front of the line of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Before {
    /// Everything is written.
    Nothing,
    /// What a program that is stopped has begun, and what is behind that.
    Held,
    /// What is still to be written.
    Something,
}

/// What a ring needs to be written.
pub(super) struct Desk<'a> {
    pub(super) session: SessionId,
    pub(super) trace: &'a mut TraceFolder,
    pub(super) channel: &'a mut Channel,
    pub(super) outbox: &'a Outbox,
    pub(super) buffers: &'a mut Buffers,
    pub(super) now: Instant,
}

/// Memory for the packet in hand, used again and again.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) packet: Vec<u8>,
}

impl Desk<'_> {
    /// Notes something that people should know about the channel, and tells control when it is new.
    pub(super) fn find(&mut self, what: String) {
        if self.channel.findings.note(&what) {
            self.outbox.send(&ToControl::Finding {
                session: self.session,
                what,
            });
        }
    }
}

impl Ring {
    /// Goes on with ring `ring_index` behind the last packet that its stream has.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub(super) fn open(
        memory: &ChannelMemory,
        ring_index: u32,
        producer: &Producer,
        desk: &mut Desk<'_>,
    ) -> Result<Ring, StorageError> {
        let identity = desk
            .channel
            .identity(desk.trace.metadata.trace().uuid, producer.instance(ring_index));
        let mut stream = desk.trace.open_stream(&desk.channel.name, identity)?;
        let mut next_sequence = stream.end().next_sequence;
        let earlier = memory.first_kept(ring_index).saturating_sub(next_sequence);
        // Of a ring that no other consumer read, only a program that wrote nonsense into its memory says this: reading it finds that out.
        if earlier > 0 && desk.trace.is_of_trigger() {
            // An earlier consumer has told of them.
            next_sequence += earlier;
            stream.begin_again(next_sequence);
        } else if earlier > 0 && producer.inherited && !desk.channel.overwrites() {
            // An earlier consumer wrote them, and the files are gone since. Behind other packets, the gap in the numbers tells.
            next_sequence += earlier;
            if stream.end().packets == 0 {
                stream.begin_again(next_sequence);
                stream.lose(earlier);
            }
            desk.find(FILES_GONE.to_owned());
        }
        Ok(Ring {
            reader: memory.reader(ring_index, next_sequence),
            stream,
            unfinished: None,
            damaged_events: 0,
            given_up_events: 0,
            abandoned_packets: 0,
            earlier_events: None,
            corrupt: false,
            left: None,
            line: 0,
            held: None,
            is_behind: false,
            next_look_at_files: None,
        })
    }

    /// Has everything taken at the next look that was recorded by now. The next event enters a sub-buffer, and its program rings.
    pub(super) fn end_current(&mut self) {
        self.reader.end_current();
    }

    /// Whether there was more than the last look took: a record that is not finished, or too many.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Bytes that wait to be taken.
    pub(super) fn fill(&self) -> u64 {
        self.reader.fill()
    }

    /// Takes and writes what is complete, at most `*most` packets, and counts `*most` down.
    ///
    /// # Errors
    /// The file that could not be written. The packet stays in the ring.
    pub(super) fn take(
        &mut self,
        most: &mut u32,
        patience: Patience,
        producer: &Producer,
        desk: &mut Desk<'_>,
    ) -> Result<Taken, StorageError> {
        // Until everything is taken.
        self.is_behind = !self.corrupt;
        while !self.corrupt {
            if *most == 0 {
                return Ok(Taken::Some);
            }
            match self.reader.next(&mut desk.buffers.packet) {
                Next::Empty => break,
                // The gap in the sequence numbers tells.
                Next::Lost { .. } => {}
                Next::Packet(packet) => {
                    if !self.deliver(&packet, patience, producer, desk)? {
                        return Ok(Taken::Unfinished);
                    }
                }
                Next::Incomplete { sequence } if self.is_waiting(sequence, patience, producer, desk.now) => {
                    return Ok(Taken::Unfinished);
                }
                Next::Incomplete { .. } => self.rescue(patience, producer, desk)?,
                Next::Corrupt(corruption) => self.close(corruption, producer, desk),
            }
            *most -= 1;
        }
        self.is_behind = false;
        Ok(Taken::All)
    }

    /// Empties the ring: ends its open sub-buffer once, takes everything up to there, and writes the final loss. True when all
    /// of that is done; else to be called again. What a program writes meanwhile may stay behind.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn finish(
        &mut self,
        patience: Patience,
        producer: &Producer,
        desk: &mut Desk<'_>,
    ) -> Result<bool, StorageError> {
        if self.empty(patience, producer, desk)? == Taken::Unfinished {
            return Ok(false);
        }
        self.find_gone_files(desk);
        let discarded = self.discarded(self.reader.losses().discarded(), self.damaged_events, desk);
        // A consumer that is told to stop what another one has stopped need not make the trace's folder again.
        if self.stream.end().packets > 0 || discarded > 0 {
            desk.trace.write_metadata()?;
            let now_ticks = clock::now_ticks(desk.channel.clock());
            self.stream.settle(discarded, now_ticks)?;
        }
        Ok(true)
    }

    /// Empties the ring likewise, then goes on in the next chunk of the trace. True when it has, also at an earlier time. A record that
    /// is not finished at the `deadline` is the next chunk's.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn move_on(
        &mut self,
        patience: Patience,
        deadline: Instant,
        producer: &Producer,
        desk: &mut Desk<'_>,
    ) -> Result<bool, StorageError> {
        if !desk.trace.chunks.is_behind(&self.stream) {
            return Ok(true);
        }
        if self.empty(patience, producer, desk)? == Taken::Unfinished && desk.now < deadline {
            return Ok(false);
        }
        self.find_gone_files(desk);
        let events = self.stream.end().events + self.earlier_events(desk.channel);
        desk.trace.chunks.move_on(&mut self.stream, events)?;
        self.earlier_events = None;
        self.left = None;
        Ok(true)
    }

    /// Looks whether the files of its stream are still there. The events of those that are gone are missing. Returns what people should know.
    pub(super) fn look_at_files(&mut self) -> Option<&'static str> {
        let gone = match self.stream.look_at_files() {
            Seen::Everything => return None,
            Seen::IndexMended => return Some(INDEX_GONE),
            Seen::Gone(gone) => gone,
        };
        match self.earlier_events.take() {
            Some(events) => self.damaged_events += events,
            None => self.stream.lose(gone.earlier_packets),
        }
        self.damaged_events += gone.events;
        Some(FILES_GONE)
    }

    /// The same before something is written.
    fn find_gone_files(&mut self, desk: &mut Desk<'_>) {
        if let Some(what) = self.look_at_files() {
            desk.find(what.to_owned());
            if desk.trace.metadata_is_gone() {
                desk.find(METADATA_GONE.to_owned());
            }
        }
    }

    /// What it leaves in the trace when it is done, if anything.
    pub(super) fn legacy(&mut self, channel: &Channel) -> Option<PastStream> {
        let earlier_events = self.earlier_events(channel);
        let (identity, end) = (*self.stream.identity(), *self.stream.end());
        (end.packets > 0).then(|| PastStream {
            identity,
            events: end.events + earlier_events,
            end,
        })
    }

    /// The files of its stream were moved with the chunk that ends.
    pub(super) fn moved(&mut self, trace: &TraceFolder) {
        trace.chunks.moved(&mut self.stream);
    }

    /// Ends the open sub-buffer once, and takes everything up to there.
    fn empty(&mut self, patience: Patience, producer: &Producer, desk: &mut Desk<'_>) -> Result<Taken, StorageError> {
        let mut left = self.left.unwrap_or_else(|| {
            self.reader.end_current();
            // One more step for packets that were overwritten.
            desk.channel.geometry.subbuf_count() + 1
        });
        let taken = self.take(&mut left, patience, producer, desk);
        self.left = Some(left);
        taken
    }

    /// Draws a line behind everything that was recorded by now. True when all of it is written.
    pub(super) fn draw_line(&mut self) -> bool {
        self.line = self.reader.line();
        self.before_line(false) == Before::Nothing
    }

    /// What is left in front of the line. Once the program had the time to fill the open sub-buffer, that is ended; its packet comes with the
    /// next look.
    pub(super) fn before_line(&mut self, is_time: bool) -> Before {
        let next = self.reader.sequence();
        if self.corrupt || next >= self.line {
            return Before::Nothing;
        }
        if is_time {
            self.reader.end_before(self.line);
            // Whoever asked wants to know what became of it, too.
            self.next_look_at_files = None;
        }
        match self.held == Some(next) {
            true => Before::Held,
            false => Before::Something,
        }
    }

    /// The ring fills again after `finish`.
    pub(super) fn resume(&mut self) {
        self.left = None;
    }

    /// Gives up what is in the ring, because the trace cannot be written, and returns how many events that are. The stream says so too, if
    /// there is room for so much.
    pub(super) fn abandon(&mut self, desk: &mut Desk<'_>) -> u64 {
        let Abandoned { events, packets } = abandon(&mut self.reader, desk.buffers);
        self.damaged_events += events;
        self.abandoned_packets += packets;
        let discarded = self.discarded(self.reader.losses().discarded(), self.damaged_events, desk);
        // Who cannot write this either has said so.
        let _ = self.stream.settle(discarded, clock::now_ticks(desk.channel.clock()));
        events
    }

    /// Adds what the ring wrote and lost.
    pub(super) fn add_to(&mut self, totals: &mut ChannelTotals, channel: &Channel) {
        let earlier_events = self.earlier_events(channel);
        let end = *self.stream.end();
        add_stream(totals, &end, earlier_events);
        let missing = self.reader.sequence().saturating_sub(end.next_sequence);
        // The events of those are counted.
        totals.lost_packets += missing.saturating_sub(self.abandoned_packets);
        totals.discarded_late += self.damaged_events + self.given_up_events;
        add_losses(totals, &self.reader.losses());
    }

    /// Events that nobody will see, as `add_to` counts them.
    pub(super) fn missed(&self) -> u64 {
        let losses = self.reader.losses();
        let packets = self.reader.sequence().saturating_sub(self.stream.end().next_sequence);
        [
            losses.discarded_full,
            losses.discarded_too_large,
            losses.overwritten_records,
            self.damaged_events,
            self.given_up_events,
            packets.saturating_sub(self.abandoned_packets),
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// Events in the packets of an earlier consumer.
    fn earlier_events(&mut self, channel: &Channel) -> u64 {
        let stream = &self.stream;
        *self
            .earlier_events
            .get_or_insert_with(|| match stream.end().earlier_packets {
                0 => 0,
                // A stream that cannot be read back has no events that anybody can see.
                packets => count_events(stream.paths(), packets, &channel.layouts).unwrap_or(0),
            })
    }

    /// Writes a complete packet. False when it has to wait: an event of a class that control has yet to tell us about.
    fn deliver(
        &mut self,
        packet: &Packet,
        patience: Patience,
        producer: &Producer,
        desk: &mut Desk<'_>,
    ) -> Result<bool, StorageError> {
        let checked = desk
            .channel
            .check(&desk.buffers.packet, packet.content_bytes, packet.begin_ticks);
        let is_unknown = |fault: Fault| matches!(fault.what, Wrong::UnknownEvent { .. });
        let (sequence, begin_ticks, committed) = (packet.sequence, packet.begin_ticks, packet.records);
        if checked.fault.is_some_and(is_unknown) && self.is_waiting(sequence, patience, producer, desk.now) {
            return Ok(false);
        }
        self.write(
            Found {
                sequence,
                begin_ticks,
                checked,
                committed,
            },
            packet.discarded,
            producer,
            desk,
        )?;
        Ok(true)
    }

    /// Takes the whole records of a sub-buffer with an unfinished one.
    fn rescue(&mut self, patience: Patience, producer: &Producer, desk: &mut Desk<'_>) -> Result<(), StorageError> {
        let salvage = match self.reader.salvage(&mut desk.buffers.packet) {
            Ok(Some(salvage)) => salvage,
            Ok(None) => return Ok(()),
            Err(corruption) => {
                self.close(corruption, producer, desk);
                return Ok(());
            }
        };
        let is_dead = matches!(patience, Patience::Dead);
        if !is_dead {
            // Before the packet is on disk: a consumer that dies in between finds the record unfinished again and says it
            // again, whereas one that has the packet does not look back.
            desk.outbox.send(&ToControl::RingRecovered { key: producer.key });
            // The calls may return yet.
            self.given_up_events += u64::from(salvage.holes);
        }
        let begin_ticks = salvage.begin_ticks.unwrap_or(self.stream.end().end_ticks);
        let checked = desk
            .channel
            .check(&desk.buffers.packet, salvage.content_bytes, begin_ticks);
        let (sequence, committed) = (salvage.sequence, salvage.records);
        let written = self.write(
            Found {
                sequence,
                begin_ticks,
                checked,
                committed,
            },
            salvage.discarded,
            producer,
            desk,
        );
        if written.is_err() && !is_dead {
            self.given_up_events -= u64::from(salvage.holes);
        }
        written?;
        if salvage.holes > 0 {
            let records = if salvage.holes == 1 { "record" } else { "records" };
            let end = if is_dead { "" } else { ", given up" };
            desk.find(format!(
                "{} unfinished {records} of {}{end}",
                salvage.holes, producer.program
            ));
        }
        Ok(())
    }

    /// Writes the good part of a packet and releases the sub-buffer. `discarded` is what the ring counted until then.
    fn write(
        &mut self,
        found: Found,
        discarded: u64,
        producer: &Producer,
        desk: &mut Desk<'_>,
    ) -> Result<(), StorageError> {
        if self.next_look_at_files.is_none_or(|next| desk.now >= next) {
            self.find_gone_files(desk);
            self.next_look_at_files = Some(desk.now + LOOK_AT_FILES_INTERVAL);
        }
        let mut verdict = found.judge(self.stream.end().end_ticks);
        let damaged_events = self.damaged_events + u64::from(verdict.missing);
        verdict.facts.discarded = self.discarded(discarded, damaged_events, desk);
        desk.trace.write_metadata()?;
        self.stream.append(&mut desk.buffers.packet, &verdict.facts)?;
        self.reader.release();
        self.damaged_events = damaged_events;
        if let Some(fault) = verdict.fault {
            desk.find(producer.damaged(verdict.missing, self.reader.ring_index(), found.sequence, &fault));
        }
        Ok(())
    }

    /// `events_discarded` of a packet: what the ring counted, and what was damaged or overwritten. Never less than before.
    fn discarded(&self, by_ring: u64, damaged_events: u64, desk: &Desk<'_>) -> u64 {
        let overwritten = if desk.channel.overwrites() {
            self.reader.losses().overwritten_records
        } else {
            0
        };
        let by_us = damaged_events + self.given_up_events;
        by_ring
            .saturating_add(by_us)
            .saturating_add(overwritten)
            .max(self.stream.end().discarded)
    }

    /// There is reason to wait for something in the packet `sequence`.
    fn is_waiting(&mut self, sequence: u64, patience: Patience, producer: &Producer, now: Instant) -> bool {
        let begun = Unfinished { sequence, since: now };
        let unfinished = *self.unfinished.get_or_insert(begun);
        if unfinished.sequence != sequence {
            self.unfinished = Some(begun);
        }
        match patience {
            Patience::Dead => false,
            Patience::Until(deadline) => now < deadline,
            Patience::Living if unfinished.sequence != sequence || now < unfinished.since + GIVE_UP_AFTER => true,
            Patience::Living if producer.program.is_stopped() => {
                self.held = Some(sequence);
                self.unfinished = Some(begun);
                true
            }
            Patience::Living => false,
        }
    }

    fn close(&mut self, corruption: piste_ring::Corruption, producer: &Producer, desk: &mut Desk<'_>) {
        self.corrupt = true;
        let (program, ring_index) = (&producer.program, self.reader.ring_index());
        desk.find(format!(
            "ring {ring_index} of {program} was closed, because its memory is corrupt: {corruption}"
        ));
    }
}

/// What was in a ring and could not be written.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Abandoned {
    pub(super) events: u64,
    packets: u64,
}

/// Gives up what is in a ring, and returns how much that is.
pub(super) fn abandon(reader: &mut Reader, buffers: &mut Buffers) -> Abandoned {
    reader.end_current();
    let mut abandoned = Abandoned::default();
    for _ in 0..PACKETS_MAX {
        abandoned.events += match reader.next(&mut buffers.packet) {
            Next::Packet(packet) => u64::from(packet.records),
            Next::Lost { .. } => continue,
            Next::Incomplete { .. } => match reader.salvage(&mut buffers.packet) {
                Ok(Some(salvage)) => u64::from(salvage.records),
                Ok(None) => continue,
                Err(_) => break,
            },
            Next::Empty | Next::Corrupt(_) => break,
        };
        abandoned.packets += 1;
        reader.release();
    }
    abandoned
}
