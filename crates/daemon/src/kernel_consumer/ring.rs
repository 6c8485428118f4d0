// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of one CPU and the stream that it is written to.
//!
//! ```text
//!   page in the shared buffer -> converted -> tally noted -> packet written -> its index entry -> page done
//! ```
//!
//! The order lets the consumer die anywhere: before the entry, the next consumer finds the page and takes it again; after it, it finds
//! the entry that the tally speaks of, and the page is done. A failed write leaves the page where it is, and the kernel's ring fills.

use std::os::fd::{AsFd, BorrowedFd};

use piste_control::{FILES_GONE, INDEX_GONE, METADATA_GONE};
use piste_ctf::packet::KERNEL_HEADER_BYTES;
use piste_kernel::convert::{Converted, Converter, Cut};
use piste_kernel::page::{Lost, Page, PageLayout};
use piste_kernel::page_ring::PageRing;
use piste_kernel::shared_buffer::Position;
use piste_kernel::spec::{ChannelSpec, Loss};
use piste_reason::reason;

use super::folders::Folders;
use super::kept::{self, Counts, Until};
use super::metadata::Metadata;
use super::tally::{Standing, Tally};
use crate::consumer::chunks::Chunks;
use crate::consumer::storage::StorageError;
use crate::consumer::stream::{Identity, Origin, PacketFacts, Seen, Stream};
use crate::link::ChannelTotals;

pub(super) struct CpuRing {
    cpu: u32,
    /// Of its stream.
    instance_id: u64,
    /// What happens when it is full.
    loss: Loss,
    ring: Box<dyn PageRing + Send>,
    stream: Stream,
    tally: Tally,
    /// How the stream stands on disk.
    standing: Standing,
    /// Events that the kernel has lost, as far as it told.
    lost: u64,
    /// Events of the page in hand, and of what was kept before it, that could not be written.
    unwritten: u64,
    /// Events of each packet, where packets are kept for snapshots.
    counts: Option<Counts>,
    /// What of the last packet a snapshot has, if not all.
    cut: Option<Cut>,
    /// It records since then, of which its stream does not tell yet.
    recorded_from: Option<u64>,
    /// When the stream has so many bytes, it is time to forget old packets.
    forgets_at_bytes: u64,
}

/// Where a ring belongs.
pub(super) struct Home<'a> {
    pub(super) channel: &'a ChannelSpec,
    pub(super) folders: &'a Folders,
    pub(super) chunks: &'a Chunks,
    /// Packets are kept for snapshots.
    pub(super) is_recorder: bool,
}

/// A ring that is to be read.
pub(super) struct Opening {
    pub(super) cpu: u32,
    pub(super) pages: Box<dyn PageRing + Send>,
    /// Of its stream, among those of the channel.
    pub(super) instance_id: u64,
    /// Nobody has read it before.
    pub(super) is_new: bool,
    /// What happens when it is full.
    pub(super) loss: Loss,
    /// What the names of its files begin with.
    pub(super) files: &'static str,
}

/// What a ring needs to be written.
pub(super) struct Desk<'a> {
    pub(super) stream_id: u32,
    pub(super) pages: &'a PageLayout,
    pub(super) converter: &'a mut Converter,
    pub(super) metadata: &'a mut Metadata,
    pub(super) packet: &'a mut Vec<u8>,
    /// What people should know.
    pub(super) notes: &'a mut Vec<String>,
}

impl CpuRing {
    /// Goes on behind what the stream has: a page that an earlier consumer took and did not write is the first one again.
    ///
    /// # Errors
    /// What cannot be opened, as a sentence.
    pub(super) fn open(
        home: &Home<'_>,
        opening: Opening,
        converter: &mut Converter,
        notes: &mut Vec<String>,
    ) -> Result<CpuRing, String> {
        let (folders, channel) = (home.folders, home.channel);
        let (cpu, mut ring) = (opening.cpu, opening.pages);
        let identity = Identity {
            trace_uuid: home.chunks.trace_uuid(),
            stream_id: channel.stream_id,
            stream_instance_id: opening.instance_id,
            origin: Origin::Cpu(cpu),
        };
        let sentence = |error: StorageError| error.to_string();
        let file = |kind: &str| folders.file(&channel.name, cpu, &format!("{}{kind}", opening.files));
        let mut stream = home.chunks.open_stream(&channel.name, identity).map_err(sentence)?;
        let tally = Tally::open(&file("tally")).map_err(sentence)?;
        let counts = if home.is_recorder {
            Some(Counts::open(&file("counts")).map_err(sentence)?)
        } else {
            None
        };
        let last = tally.last();
        let is_of_trigger = home.chunks.matches.is_some();
        let is_gone = counts.is_none() && !is_of_trigger && last.is_gone(stream.end());
        let in_hand = ring.position().is_some_and(|position| position.step == last.number);
        if is_of_trigger && let Some(packet) = last.packet {
            // There is no file that says whether the page in hand was told: it is told again.
            stream.begin_again(if in_hand { packet } else { packet + 1 });
        }
        if is_gone {
            stream.begin_again(last.packet.unwrap_or(stream.end().next_sequence));
            notes.push(FILES_GONE.to_owned());
        }
        let next_sequence = stream.end().next_sequence;
        if in_hand && last.packet.is_some_and(|packet| next_sequence > packet) {
            ring.done();
        }
        let mut standing = tally.standing(next_sequence, in_hand).clone();
        if opening.is_new {
            standing.lost_earlier = standing.lost;
        }
        ring.set_told(standing.lost - standing.lost_earlier);
        converter.restore(cpu, &standing.kept);
        let mut ring = CpuRing {
            cpu,
            instance_id: opening.instance_id,
            loss: opening.loss,
            ring,
            stream,
            tally,
            lost: standing.lost,
            unwritten: 0,
            standing,
            counts,
            cut: None,
            recorded_from: None,
            forgets_at_bytes: 0,
        };
        if is_gone {
            ring.lose_events_here();
        }
        Ok(ring)
    }

    pub(super) fn cpu(&self) -> u32 {
        self.cpu
    }

    pub(super) fn instance_id(&self) -> u64 {
        self.instance_id
    }

    pub(super) fn loss(&self) -> Loss {
        self.loss
    }

    /// Records that wait for the next page.
    pub(super) fn kept(&self) -> &[u8] {
        &self.standing.kept
    }

    /// Neither records nor losses wait for the next page.
    fn is_all_told(&self) -> bool {
        self.standing.kept.is_empty() && self.ring.missing() == 0
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn counts(&self) -> Option<&Counts> {
        self.counts.as_ref()
    }

    /// Takes and writes full pages, once the kernel says that there are any, but no more than `most`; returns how many. Of many small pages it
    /// says so when a hundredth of them is full.
    ///
    /// # Errors
    /// The file that could not be written. The page is not lost.
    pub(super) fn take(&mut self, most: u32, desk: &mut Desk<'_>) -> Result<u32, StorageError> {
        let mut taken = 0;
        while taken < most && self.take_page(false, desk)? {
            taken += 1;
        }
        Ok(taken)
    }

    /// Forgets all but the newest packets, if there are enough of others; for packets that are kept for snapshots.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn forget_old(&mut self, bytes_max: u64) -> Result<(), StorageError> {
        let bytes = self.stream.end().data_bytes;
        if bytes < self.forgets_at_bytes {
            return Ok(());
        }
        self.forgets_at_bytes = bytes + bytes_max / 4;
        kept::forget(self.stream.paths(), bytes_max)
    }

    /// Takes and writes what was recorded until then, also in the page that is being filled, but no more than `most` pages. False when there may
    /// be more.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn take_until(&mut self, ticks: u64, most: u32, desk: &mut Desk<'_>) -> Result<bool, StorageError> {
        for _ in 0..most {
            if self.stream.end().end_ticks >= ticks || !self.take_page(true, desk)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same for those who follow the trace: nothing of it waits for another page.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn flush(&mut self, ticks: u64, most: u32, desk: &mut Desk<'_>) -> Result<bool, StorageError> {
        if !self.take_until(ticks, most, desk)? {
            return Ok(false);
        }
        if desk.converter.kept_since(self.cpu).is_some_and(|since| since <= ticks) {
            prepare(desk.packet);
            if let Some(converted) = desk.converter.finish(self.cpu, desk.packet) {
                self.write(converted, desk)?;
            }
        }
        Ok(true)
    }

    /// The same for a snapshot, in which nothing is later. Returns where it ends.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn take_for_snapshot(
        &mut self,
        ticks: u64,
        most: u32,
        desk: &mut Desk<'_>,
    ) -> Result<Until, StorageError> {
        self.cut = None;
        desk.converter.cut_at(Some(ticks));
        let taken = self.take_until(ticks, most, desk);
        desk.converter.cut_at(None);
        if taken? && self.ring.missing() > 0 {
            self.tell_missing(ticks, desk)?;
        }
        let is_whole = self.cut.is_some() || self.is_all_told();
        Ok(Until {
            ticks: is_whole.then_some(ticks),
            next_sequence: self.stream.end().next_sequence,
            cut: self.cut,
        })
    }

    /// Says that events are missing behind all that was taken.
    fn tell_missing(&mut self, ticks: u64, desk: &mut Desk<'_>) -> Result<(), StorageError> {
        match self.ring.lost_at_end() {
            Ok(lost) => self.lost += lost,
            Err(error) => desk.notes.push(format!(
                "the number of events lost on CPU {} is unknown: {}",
                self.cpu,
                reason(&error)
            )),
        }
        let before = self.standing.clone();
        self.standing.lost = self.lost;
        self.tally.begin(None, &before, &self.standing)?;
        let end_ticks = ticks.max(self.stream.end().end_ticks);
        self.stream
            .append_quiet(end_ticks, end_ticks, self.standing.damaged + self.lost)
    }

    /// It begins to record.
    pub(super) fn records_from(&mut self, ticks: u64) {
        self.recorded_from = Some(ticks).filter(|_| self.counts.is_none());
    }

    /// Writes what was recorded until now to the chunk of the trace that ends. It has recorded until `until_ticks` at least, where that is known.
    ///
    /// # Errors
    /// As `take`. The rest is the next call's.
    pub(super) fn end_in_chunk(
        &mut self,
        most: u32,
        now_ticks: u64,
        until_ticks: Option<u64>,
        chunks: &Chunks,
        desk: &mut Desk<'_>,
    ) -> Result<(), StorageError> {
        if !self.is_behind(chunks) {
            return Ok(());
        }
        self.find_gone_files(desk);
        if self.take_until(now_ticks, most, desk)?
            && let Some(until_ticks) = until_ticks.filter(|_| self.is_all_told())
        {
            self.stream.reach(until_ticks, self.stream.end().discarded)?;
            self.records_from(until_ticks.max(self.recorded_from.unwrap_or(0)));
        }
        Ok(())
    }

    /// Goes on in the next chunk of the trace.
    ///
    /// # Errors
    /// The file that could not be made.
    pub(super) fn move_on(&mut self, chunks: &mut Chunks) -> Result<(), StorageError> {
        if !self.is_behind(chunks) {
            return Ok(());
        }
        let events = self.events_here();
        chunks.move_on(&mut self.stream, events)
    }

    /// Events in this chunk: the tally counts those of all.
    fn events_here(&self) -> u64 {
        self.standing.events.saturating_sub(self.stream.end().start.events)
    }

    /// Whether it has to move on.
    pub(super) fn is_behind(&self, chunks: &Chunks) -> bool {
        chunks.is_behind(&self.stream)
    }

    /// The files of its stream were moved with the chunk that ends.
    pub(super) fn moved(&mut self, chunks: &Chunks) {
        chunks.moved(&mut self.stream);
    }

    /// Takes and writes everything, in a ring that nobody writes to. False when there may be more.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn finish(&mut self, most: u32, desk: &mut Desk<'_>) -> Result<bool, StorageError> {
        if !self.take_until(u64::MAX, most, desk)? {
            return Ok(false);
        }
        self.find_gone_files(desk);
        prepare(desk.packet);
        if let Some(converted) = desk.converter.finish(self.cpu, desk.packet) {
            self.write(converted, desk)?;
        }
        match self.ring.lost_at_end() {
            Ok(lost) => self.lost += lost,
            Err(error) => desk.notes.push(format!(
                "the number of events lost on CPU {} is unknown: {}",
                self.cpu,
                reason(&error)
            )),
        }
        Ok(true)
    }

    /// Says what the kernel lost in the end, and that the ring, of which everything is written, recorded until then.
    ///
    /// # Errors
    /// As `take`.
    pub(super) fn settle(&mut self, until_ticks: u64, desk: &mut Desk<'_>) -> Result<(), StorageError> {
        desk.metadata.write()?;
        self.stream.reach(until_ticks, self.standing.damaged + self.lost)
    }

    /// Looks whether the files of its stream are still there. The events of those that are gone are missing. Returns what people should know.
    pub(super) fn look_at_files(&mut self) -> Option<&'static str> {
        if self.counts.is_some() {
            return None;
        }
        match self.stream.look_at_files() {
            Seen::Everything => None,
            Seen::IndexMended => Some(INDEX_GONE),
            Seen::Gone(_) => {
                self.lose_events_here();
                Some(FILES_GONE)
            }
        }
    }

    fn lose_events_here(&mut self) {
        let events = self.events_here();
        self.standing.events -= events;
        self.standing.damaged += events;
    }

    /// Nobody knows how many events are missing before the next one: at least one.
    ///
    /// # Errors
    /// The next consumer would not know.
    pub(super) fn lose_unknown(&mut self) -> Result<(), StorageError> {
        let before = self.standing.clone();
        self.standing.damaged += 1;
        self.tally.begin(None, &before, &self.standing).map(drop)
    }

    /// The same before something is written.
    fn find_gone_files(&mut self, desk: &mut Desk<'_>) {
        if let Some(what) = self.look_at_files() {
            desk.notes.push(what.to_owned());
            if desk.metadata.is_gone() {
                desk.notes.push(METADATA_GONE.to_owned());
            }
        }
    }

    /// Events that were recorded and are not in the trace so far.
    pub(super) fn left(&self) -> u64 {
        self.unwritten + self.ring.left()
    }

    /// Gives up what is left, of a ring that recorded until then: the stream says how many events that are, if there is room for so much.
    pub(super) fn abandon(&mut self, until_ticks: u64) {
        let missing = self.standing.damaged + self.lost + self.ring.untold() + self.left();
        let end = *self.stream.end();
        if missing <= end.discarded {
            return;
        }
        let ticks = until_ticks.max(end.end_ticks);
        let begun = match self.recorded_from {
            Some(from) if (end.end_ticks..ticks).contains(&from) => self.stream.append_quiet(from, from, end.discarded),
            _ => Ok(()),
        };
        // Who cannot write this either has said so.
        let _ = begun.and_then(|()| self.stream.append_quiet(ticks, ticks, missing));
    }

    /// Adds what the ring recorded and lost.
    pub(super) fn add_to(&self, totals: &mut ChannelTotals) {
        let end = self.stream.end();
        totals.events += self.standing.events;
        totals.bytes += end.data_bytes;
        totals.packets += end.packets;
        totals.lost_packets += end.lost_packets;
        totals.discarded_late += self.standing.damaged;
        match self.loss {
            Loss::Discard => totals.discarded_full += self.lost + self.ring.untold(),
            Loss::Overwrite => totals.overwritten_events += self.lost + self.ring.untold(),
        }
    }

    fn take_page(&mut self, flush: bool, desk: &mut Desk<'_>) -> Result<bool, StorageError> {
        let cpu = self.cpu;
        let bytes = match self.ring.next(flush) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(false),
            Err(error) => {
                desk.notes
                    .push(format!("cannot read the ring of CPU {cpu}: {}", reason(&error)));
                return Ok(false);
            }
        };
        prepare(desk.packet);
        let (converted, lost) = match Page::parse(desk.pages, bytes) {
            Ok(page) => (Some(desk.converter.page(&page, cpu, desk.packet)), page.lost()),
            Err(damage) => {
                desk.notes
                    .push(format!("a damaged page of CPU {cpu} is lost: {damage}"));
                (None, Lost::None)
            }
        };
        match self.ring.newly_lost(lost) {
            Ok(lost) => self.lost += lost,
            Err(error) => desk.notes.push(format!(
                "the number of events lost on CPU {cpu} is unknown: {}",
                reason(&error)
            )),
        }
        if let Some(converted) = converted {
            self.write(converted, desk)?;
        }
        self.ring.done();
        Ok(true)
    }

    /// Makes one step: the events of the page in hand, or of what was kept, become a packet.
    fn write(&mut self, converted: Converted, desk: &mut Desk<'_>) -> Result<(), StorageError> {
        desk.notes.extend(converted.findings.iter().map(ToString::to_string));
        for class in desk.converter.take_new_classes() {
            desk.metadata.add_class(desk.stream_id, &class);
        }
        let after = Standing {
            events: self.standing.events + converted.events,
            damaged: self.standing.damaged + converted.discarded,
            lost: self.lost,
            lost_earlier: self.standing.lost_earlier,
            kept: desk.converter.kept(self.cpu).to_vec(),
        };
        let written = self.step(&converted, &after, desk);
        match written {
            Ok(()) => {
                self.standing = after;
                self.unwritten = 0;
            }
            // The same page will be converted again.
            Err(_) => {
                desk.converter.restore(self.cpu, &self.standing.kept);
                self.unwritten = converted.events + converted.discarded;
            }
        }
        written
    }

    fn step(&mut self, converted: &Converted, after: &Standing, desk: &mut Desk<'_>) -> Result<(), StorageError> {
        let sequence = self.stream.end().next_sequence;
        // What is lost before a page without events is told by the next packet.
        let packet = (converted.events > 0).then_some(sequence);
        let step = self.tally.begin(packet, &self.standing, after)?;
        self.ring.set_position(Position { step, packet: sequence });
        if packet.is_none() {
            return Ok(());
        }
        if let Some(counts) = &self.counts {
            counts.note(sequence, converted.events)?;
        }
        desk.metadata.write()?;
        self.begin_quietly(converted.first_ticks)?;
        // A page that was read in part begins with the last event of that part, and the stream may reach further by now.
        let begin_ticks = converted.begin_ticks.max(self.stream.end().end_ticks);
        let facts = PacketFacts {
            sequence,
            begin_ticks: begin_ticks.min(converted.first_ticks),
            end_ticks: converted.last_ticks,
            content_bytes: desk.packet.len(),
            events: converted.events,
            discarded: (after.damaged + after.lost).max(self.stream.end().discarded),
        };
        self.stream.append(desk.packet, &facts)?;
        self.cut = converted.cut;
        Ok(())
    }

    /// Says that nothing happened from when it began to record to its first event.
    fn begin_quietly(&mut self, first_ticks: u64) -> Result<(), StorageError> {
        let end = *self.stream.end();
        if let Some(from) = self.recorded_from
            && (end.end_ticks..first_ticks).contains(&from)
        {
            self.stream.append_quiet(from, first_ticks, end.discarded)?;
        }
        self.recorded_from = None;
        Ok(())
    }
}

impl AsFd for CpuRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// An empty packet, with space for its header.
fn prepare(packet: &mut Vec<u8>) {
    packet.clear();
    packet.resize(KERNEL_HEADER_BYTES, 0);
}
