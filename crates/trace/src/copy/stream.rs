// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream file that is written once more, packet by packet, with its index file where the source has one.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use piste_ctf::read::packet::{Event, PacketFault, PacketInfo, PacketNumbers, StreamReader};
use piste_ctf::write::bits::BitWriter;

use super::output::Output;
use super::packet::PacketWriter;
use super::{Copied, CopyError, INDEX, Target, WINDOW_BYTES, unreadable};
use crate::blind::recorded_cycles;
use crate::file_reader::FileReader;
use crate::finding::Findings;
use crate::folder::Trace;
use crate::index::StreamIndex;
use crate::merge::Span;
use crate::progress;
use crate::stream::{EVENT_BYTES_MAX, Stream};

/// The header of every tracer that is known fits into this.
const HEAD_BYTES: u64 = 4 << 10;

/// How streams are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Packets that are made anew end when they have so many.
    pub(super) packet_bytes: usize,
    /// Files are open from the begin to the end: there are not too many.
    pub(super) keeps_open: bool,
}

/// A stream on its way.
#[derive(Debug)]
pub(super) struct StreamCopy<'t> {
    index: &'t StreamIndex,
    source: FileReader<'t>,
    /// Cycles that are wanted.
    ticks: (u64, u64),
    /// Those that may hold wanted events.
    range: Range<usize>,
    /// The first that was not dealt with.
    next: usize,
    /// Reads heads of the source.
    heads: StreamReader<'t>,
    /// Of the packet whose events are being written.
    head: Vec<u8>,
    info: PacketInfo,
    current: Option<usize>,
    packet: PacketWriter<'t>,
    /// Of the packet that was begun last.
    sequence: Option<u64>,
    discarded: u64,
    packet_bytes: usize,
    /// Cycles in which the source was recorded, event or not; empty where that does not matter.
    recorded: Vec<(u64, u64)>,
    /// When what is written ends.
    end: Option<u64>,
    output: Output,
    copied: Copied,
}

impl<'t> StreamCopy<'t> {
    /// `None` when nothing of the stream is wanted.
    pub(super) fn open(
        trace: &'t Trace,
        index: &'t StreamIndex,
        target: &Target,
        span: Span,
        form: Form,
    ) -> Result<Option<StreamCopy<'t>>, CopyError> {
        let Some(ticks) = span.cycles(trace.scale(index).as_ref()) else {
            return Ok(None);
        };
        let name = index.path.file_name().unwrap_or_default();
        let mut index_name = name.to_owned();
        index_name.push(".idx");
        let of_index = |folder: &Path| folder.join(INDEX).join(&index_name);
        let mut source = FileReader::open(&index.path).map_err(|error| unreadable(&index.path, error))?;
        if !form.keeps_open {
            source.open_for_each_read();
        }
        Ok(Some(StreamCopy {
            index,
            source,
            ticks,
            range: index.packets_between(ticks.0, ticks.1),
            next: index.packets_between(ticks.0, ticks.1).start,
            heads: StreamReader::new(&trace.plan),
            head: Vec::new(),
            info: PacketInfo::default(),
            current: None,
            packet: PacketWriter::new(&trace.plan),
            sequence: None,
            discarded: 0,
            packet_bytes: form.packet_bytes,
            recorded: Vec::new(),
            end: None,
            output: Output::new(
                target.folder.join(name),
                of_index(&trace.folder).is_file().then(|| of_index(&target.folder)),
                form.keeps_open,
            ),
            copied: Copied::default(),
        }))
    }

    /// Tells what of the wanted time the source was recorded, though nothing of it may be wanted.
    pub(super) fn tell_quiet(&mut self, trace: &Trace) {
        self.recorded = recorded_cycles(trace, self.index);
    }

    /// Writes every event of the wanted time. `stream` is the source, of which nothing was read.
    pub(super) fn all(&mut self, stream: &mut Stream<'t>, findings: &mut Findings) -> Result<(), CopyError> {
        for number in self.range.clone() {
            if self.whole(number, findings)? {
                continue;
            }
            if self.index.packets[number].is_empty {
                self.enter(number)?;
                continue;
            }
            stream.choose_packets(number..number + 1);
            while let Some(event) = stream.next(findings) {
                if event.ticks >= self.ticks.0 && event.ticks <= self.ticks.1 {
                    self.event(stream, &event)?;
                }
            }
        }
        Ok(())
    }

    /// Copies a packet as it is, but for its numbers, if all of it is wanted.
    fn whole(&mut self, number: usize, findings: &mut Findings) -> Result<bool, CopyError> {
        let packet = self.index.packets[number];
        let is_inside = self.ticks == (0, u64::MAX)
            || packet.begin.is_some_and(|begin| begin >= self.ticks.0)
                && packet.end.is_some_and(|end| end <= self.ticks.1);
        if !is_inside {
            return Ok(false);
        }
        self.leave()?;
        self.empty_packets_to(number)?;
        self.begin_quietly(number)?;
        if !self.read_head(number)? {
            findings.lost_packet(
                &self.index.path,
                packet.offset,
                "it has changed since it was indexed".into(),
            );
            self.next = number + 1;
            return Ok(true);
        }
        let is_cut = self.info.total_bits.is_some_and(|bits| bits != 8 * packet.bytes);
        let head_bytes = self.info.events_at.div_ceil(8);
        if is_cut || head_bytes > packet.bytes {
            return Ok(false);
        }
        let before = (self.sequence, self.discarded);
        let numbers = self.count(number);
        let changed = |new: Option<u64>, old: Option<u64>| new.filter(|_| new != old && old.is_some());
        let numbers = PacketNumbers {
            sequence_number: changed(numbers.sequence_number, self.info.sequence_number),
            discarded_events: changed(numbers.discarded_events, self.info.discarded_events),
            ..PacketNumbers::default()
        };
        let mut out = BitWriter::over(self.head[..head_bytes as usize].to_vec());
        let copied = self.heads.copy_head(&self.head, &numbers, &mut out);
        if copied.is_err() || out.position() != self.info.events_at {
            // Numbers of another length: what is behind them would move.
            (self.sequence, self.discarded) = before;
            return Ok(false);
        }
        let info = PacketInfo {
            sequence_number: numbers.sequence_number.or(self.info.sequence_number),
            discarded_events: numbers.discarded_events.or(self.info.discarded_events),
            ..self.info.clone()
        };
        self.end = info.end;
        self.output.begin(&info, packet.bytes);
        self.output.write(out.bytes())?;
        let mut at = packet.offset + head_bytes;
        let end = packet.offset + packet.bytes;
        let mut block = vec![0; WINDOW_BYTES.min((end - at) as usize)];
        while at < end {
            let wanted = block.len().min((end - at) as usize);
            let read = self.source.read(|file| file.read_exact_at(&mut block[..wanted], at));
            read.map_err(|error| unreadable(&self.index.path, error))?;
            self.output.write(&block[..wanted])?;
            progress::add(wanted);
            at += wanted as u64;
        }
        self.next = number + 1;
        self.copied.packets += 1;
        self.copied.whole_packets += 1;
        Ok(true)
    }

    /// Writes the event that `stream` has just read.
    pub(super) fn event(&mut self, stream: &mut Stream<'t>, event: &Event<'t>) -> Result<(), CopyError> {
        self.enter(stream.packet_number())?;
        if self.packet.has_size && self.packet.events > 0 && self.packet.len() >= self.packet_bytes {
            self.split(event.ticks)?;
        }
        if self.packet.event(stream, event) {
            return Ok(());
        }
        // The packet is full, or the few bits of the time do not suffice after what came before.
        if self.packet.has_size {
            self.split(event.ticks)?;
            if self.packet.event(stream, event) {
                return Ok(());
            }
        }
        Err(CopyError::Bound {
            path: self.index.path.clone(),
            offset: stream.offset(event),
            why: match self.info.begin {
                Some(_) => "its time cannot be represented there".into(),
                None => "its time is relative to theirs, and its packet has no begin time".into(),
            },
        })
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> Result<Copied, CopyError> {
        self.leave()?;
        self.empty_packets_to(self.range.end)?;
        self.end_quietly()?;
        self.copied.bytes = self.output.bytes;
        self.output.finish()?;
        Ok(self.copied)
    }

    /// Begins a packet for events of one of the source.
    fn enter(&mut self, number: usize) -> Result<(), CopyError> {
        if self.current == Some(number) {
            return Ok(());
        }
        self.leave()?;
        self.empty_packets_to(number)?;
        self.begin_quietly(number)?;
        self.begin(number)
    }

    /// Where a packet of the source follows a time that was not recorded, or is the first: a packet without events that ends what is before,
    /// and one up to it, if nothing was lost there.
    fn begin_quietly(&mut self, number: usize) -> Result<(), CopyError> {
        let first = self.index.packets[number].begin;
        let Some((first, (begin, end))) = first.and_then(|first| Some((first, self.recorded_around(first)?))) else {
            return Ok(());
        };
        match self.end {
            Some(last) if (begin..=end).contains(&last) => return Ok(()),
            _ => self.end_quietly()?,
        }
        let is_lossless = self.loss(number).is_none();
        if begin < first && is_lossless && self.read_head(number)? && self.info.total_bits.is_some() {
            let numbers = self.count(number);
            self.quiet(begin, first, numbers)?;
        }
        Ok(())
    }

    /// A packet without events behind the last.
    fn end_quietly(&mut self) -> Result<(), CopyError> {
        let Some(last) = self.end else { return Ok(()) };
        let Some((_, end)) = self.recorded_around(last) else {
            return Ok(());
        };
        if end > last && self.read_head(self.range.end - 1)? && self.info.total_bits.is_some() {
            self.sequence = self.sequence.map(|before| before.saturating_add(1));
            let numbers = PacketNumbers {
                sequence_number: self.sequence,
                discarded_events: Some(self.discarded),
                ..PacketNumbers::default()
            };
            self.quiet(last, end, numbers)?;
        }
        Ok(())
    }

    /// What of the wanted time was recorded without a break around some cycles.
    fn recorded_around(&self, ticks: u64) -> Option<(u64, u64)> {
        let around = self
            .recorded
            .iter()
            .find(|(begin, end)| (*begin..=*end).contains(&ticks))?;
        Some((around.0.max(self.ticks.0), around.1.min(self.ticks.1)))
    }

    /// A packet without events, with the head that was read last.
    fn quiet(&mut self, begin: u64, end: u64, numbers: PacketNumbers) -> Result<(), CopyError> {
        let numbers = PacketNumbers {
            begin: Some(begin),
            ..numbers
        };
        if self.packet.begin(&mut self.heads, &self.head, numbers) {
            self.write(Some(end))?;
        }
        Ok(())
    }

    fn begin(&mut self, number: usize) -> Result<(), CopyError> {
        let changed = || io::Error::other("a packet has changed since it was indexed");
        if !self.read_head(number)? {
            return Err(unreadable(&self.index.path, changed()));
        }
        let numbers = PacketNumbers {
            begin: self.info.begin.map(|begin| begin.max(self.ticks.0)),
            ..self.count(number)
        };
        if !self.packet.begin(&mut self.heads, &self.head, numbers) {
            return Err(unreadable(&self.index.path, changed()));
        }
        self.next = number + 1;
        self.current = Some(number);
        Ok(())
    }

    /// The next numbers of the stream: what was lost before that packet of the source is lost here, and nothing else.
    fn count(&mut self, number: usize) -> PacketNumbers {
        let loss = self.loss(number);
        let (discarded, lost) = loss.map_or((0, 0), |loss| (loss.discarded_events, loss.lost_packets));
        self.discarded = self.discarded.saturating_add(discarded);
        self.sequence = match self.sequence {
            Some(before) => Some(before.saturating_add(1).saturating_add(lost)),
            None => self.info.sequence_number,
        };
        PacketNumbers {
            sequence_number: self.sequence,
            discarded_events: Some(self.discarded),
            ..PacketNumbers::default()
        }
    }

    fn loss(&self, number: usize) -> Option<crate::index::Loss> {
        let losses = &self.index.losses;
        let found = losses.binary_search_by_key(&(number as u64), |loss| loss.packet);
        found.ok().map(|found| losses[found])
    }

    /// Ends the packet, and begins another that goes on with it at a time.
    fn split(&mut self, ticks: u64) -> Result<(), CopyError> {
        if self.packet.events > 0 {
            self.write(Some(self.packet.last_ticks))?;
            self.sequence = self.sequence.map(|before| before.saturating_add(1));
        }
        let numbers = PacketNumbers {
            begin: self.info.begin.map(|_| ticks),
            sequence_number: self.sequence,
            discarded_events: Some(self.discarded),
            ..PacketNumbers::default()
        };
        self.packet.begin(&mut self.heads, &self.head, numbers);
        Ok(())
    }

    /// Ends the packet that is being written.
    fn leave(&mut self) -> Result<(), CopyError> {
        if self.current.take().is_some() {
            let end = self
                .info
                .end
                .map(|end| end.min(self.ticks.1).max(self.packet.last_ticks));
            self.write(end)?;
        }
        Ok(())
    }

    fn write(&mut self, end: Option<u64>) -> Result<(), CopyError> {
        let end = end.filter(|_| self.info.end.is_some());
        let Some((bytes, info)) = self.packet.end(&mut self.heads, &self.head, end) else {
            let why = "the numbers in its packet header cannot be represented".to_owned();
            return Err(CopyError::Bound {
                path: self.index.path.clone(),
                offset: 0,
                why,
            });
        };
        self.end = end;
        self.output.begin(&info, bytes.len() as u64);
        self.output.write(bytes)?;
        self.copied.packets += 1;
        Ok(())
    }

    /// Writes packets before `number` of which nothing is wanted, but which tell a loss.
    fn empty_packets_to(&mut self, number: usize) -> Result<(), CopyError> {
        while self.next < number {
            let next = self.next;
            self.next += 1;
            if self.loss(next).is_some() && self.read_head(next)? && self.info.total_bits.is_some() {
                self.begin(next)?;
                self.leave()?;
            }
        }
        Ok(())
    }

    /// Reads the start of a packet of the source; false when it is none.
    fn read_head(&mut self, number: usize) -> Result<bool, CopyError> {
        let packet = self.index.packets[number];
        let mut wanted = HEAD_BYTES.min(packet.bytes);
        loop {
            self.head.resize(wanted as usize, 0);
            let head = &mut self.head;
            let read = self.source.read(|file| file.read_exact_at(head, packet.offset));
            read.map_err(|error| unreadable(&self.index.path, error))?;
            match self.heads.packet(&self.head) {
                Ok(info) => {
                    self.info = info.clone();
                    return Ok(true);
                }
                Err(PacketFault::Short) if wanted < packet.bytes.min(EVENT_BYTES_MAX as u64) => {
                    wanted = (wanted * 4).min(packet.bytes);
                }
                Err(_) => return Ok(false),
            }
        }
    }
}
