// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of one stream file, in their order. A packet, or a window of a large one, is in memory.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;

use piste_ctf::read::clock::ClockScale;
use piste_ctf::read::packet::{Event, Next, PacketFault, Passed, StreamReader};
use piste_ctf::read::plan::Plan;
use piste_ctf::read::schema::Scope;
use piste_ctf::read::walk::{Fault, Visitor};
use piste_reason::reason;

use crate::file_reader::FileReader;
use crate::finding::{Finding, Findings, Kind};
use crate::index::{Packet, StreamIndex};
use crate::merge::Span;
use crate::progress;

/// An event, or a packet's head, that does not fit into this is damage.
pub(crate) const EVENT_BYTES_MAX: usize = 64 << 20;

/// What a stream is read from.
#[derive(Debug)]
pub struct StreamFile<'t> {
    /// The trace's plan.
    pub plan: &'t Plan,
    /// Its packets.
    pub index: &'t StreamIndex,
}

/// Reads the events of a stream.
#[derive(Debug)]
pub struct Stream<'t> {
    /// Which stream it is.
    pub index: &'t StreamIndex,
    /// Its clock; its events have no times without.
    pub scale: Option<ClockScale>,
    source: FileReader<'t>,
    reader: StreamReader<'t>,
    /// Those that are still to be read.
    packets: Range<usize>,
    /// The one that is being read.
    packet: Option<Packet>,
    /// A part of the packet, from byte `base` on.
    window: Vec<u8>,
    base: u64,
    window_bytes: usize,
    /// The start of the packet: its header and context.
    head: Vec<u8>,
    last_ticks: u64,
    entered: u64,
    gaps: u64,
    faults: u64,
}

impl<'t> Stream<'t> {
    /// Of the packets in that range; windows are of `window_bytes`.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(file: &StreamFile<'t>, packets: Range<usize>, window_bytes: usize) -> io::Result<Stream<'t>> {
        let StreamFile { plan, index } = *file;
        let class = plan.schema.streams.get(&index.class_id);
        let clock = class.and_then(|class| plan.schema.clocks.get(class.clock?));
        Ok(Stream {
            index,
            scale: clock.map(ClockScale::new),
            // A file without packets may not even be there.
            source: match index.packets.is_empty() {
                true => FileReader::unopened(&index.path),
                false => FileReader::open(&index.path)?,
            },
            reader: StreamReader::new(plan),
            packets,
            packet: None,
            window: Vec::new(),
            base: 0,
            window_bytes,
            head: Vec::new(),
            last_ticks: 0,
            entered: 0,
            gaps: 0,
            faults: 0,
        })
    }

    /// Reads only the packets that may hold events of a part of time.
    pub fn choose(&mut self, span: Span) {
        self.packets = match span.cycles(self.scale.as_ref()) {
            Some((begin, end)) => self.index.packets_between(begin, end),
            None => 0..0,
        };
    }

    /// How often something was missing, up to the last event that was read: it was lost, or cannot be read, or the stream has ended.
    pub fn gap_count(&self) -> u64 {
        self.gaps
    }

    /// How often events could not be read that were there.
    pub(crate) fn fault_count(&self) -> u64 {
        self.faults
    }

    /// Cycles of the event that was read last; 0 before the first.
    pub(crate) fn last_ticks(&self) -> u64 {
        self.last_ticks
    }

    /// Reads only these packets.
    pub(crate) fn choose_packets(&mut self, packets: Range<usize>) {
        self.packets = packets;
        self.packet = None;
    }

    /// Which of the packets of its index the event that was read last is in.
    pub fn packet_number(&self) -> usize {
        self.packets.start.saturating_sub(1)
    }

    /// Opens the file for each read from now on: there are more streams than a process may have open files.
    pub fn open_for_each_read(&mut self) {
        self.source.open_for_each_read();
    }

    /// The next event; `None` at the end. What cannot be read is passed over and found.
    #[inline]
    pub fn next(&mut self, findings: &mut Findings) -> Option<Event<'t>> {
        self.usual(0..=u64::MAX).or_else(|| self.any(findings))
    }

    /// The same, if its time is one of `ticks`, and nothing has to be done for it but to look at the bytes in memory; otherwise nothing happens.
    #[inline(always)]
    pub(crate) fn usual(&mut self, ticks: RangeInclusive<u64>) -> Option<Event<'t>> {
        self.packet?;
        let first = self.last_ticks.max(*ticks.start());
        let event = self.reader.usual(&self.window, self.base, first..=*ticks.end())?;
        self.last_ticks = event.ticks;
        Some(event)
    }

    /// The same, where anything may have to be done for it.
    fn any(&mut self, findings: &mut Findings) -> Option<Event<'t>> {
        loop {
            if self.packet.is_none() && !self.enter(findings) {
                self.gaps += 1;
                return None;
            }
            match self.reader.next(&self.window, self.base) {
                Next::Event(event) => {
                    let (ticks, before) = (event.ticks, self.last_ticks);
                    if ticks < before {
                        self.find_at(findings, Kind::TimeGoesBack, earlier(ticks, before), event.position, 1);
                    }
                    self.last_ticks = ticks;
                    return Some(event);
                }
                Next::End => self.packet = None,
                Next::Short => match self.slide() {
                    Ok(true) => {}
                    Ok(false) => {
                        // Of a packet that the file cuts is said so already.
                        let said = self.reader.info().content_bits.unwrap_or(0) / 8;
                        if said > self.packet.map_or(0, |packet| packet.bytes) {
                            self.faults += 1;
                            self.packet = None;
                            continue;
                        }
                        self.find(
                            findings,
                            Kind::DamagedEvent,
                            "an event extends beyond the end of the packet".into(),
                        );
                        self.packet = None;
                    }
                    Err(error) => {
                        self.find(findings, Kind::UnreadableFile, reason(&error));
                        return None;
                    }
                },
                Next::Fault(fault) => {
                    let kind = match fault {
                        Fault::UnknownEvent(_) => Kind::UnknownEvent,
                        _ => Kind::DamagedEvent,
                    };
                    self.find(findings, kind, format!("cannot read the rest of the packet: {fault}"));
                    self.packet = None;
                }
            }
        }
    }

    /// Passes over every event that is left, in less time than [`Stream::next`] takes. What cannot be read is found.
    #[inline]
    pub fn each(&mut self, findings: &mut Findings, mut look: impl FnMut(Passed<'t>)) {
        while let Some(event) = self.next(findings) {
            look(event.into());
            let mut last_ticks = self.last_ticks;
            let (mut times_back, mut first_back) = (0, None);
            self.reader.leap(&self.window, self.base, |event| {
                if event.ticks < last_ticks {
                    times_back += 1;
                    first_back = first_back.or(Some((event.position, event.ticks, last_ticks)));
                }
                last_ticks = event.ticks;
                look(event);
            });
            self.last_ticks = last_ticks;
            if let Some((position, ticks, before)) = first_back {
                self.find_at(
                    findings,
                    Kind::TimeGoesBack,
                    earlier(ticks, before),
                    position,
                    times_back,
                );
            }
        }
    }

    /// When an event of this stream was, in nanoseconds from its clock's origin; `None` without a clock, and where 64 bits do not hold it.
    #[inline]
    pub fn ns(&self, event: &Event<'_>) -> Option<i64> {
        self.scale.as_ref()?.nanoseconds(event.ticks)
    }

    /// Byte of the file where the event that was read last begins.
    pub fn offset(&self, event: &Event<'_>) -> u64 {
        self.packet.map_or(0, |packet| packet.offset) + event.position / 8
    }

    /// How many packets have been begun: tells whether the last event is of another packet than the one before.
    pub fn packet_count(&self) -> u64 {
        self.entered
    }

    /// Looks at the values of a part of the event that was read last, or of its packet. False when there is no such part.
    ///
    /// # Errors
    /// It cannot be read, which `next` has seen before.
    pub fn visit(&mut self, event: &Event<'t>, scope: Scope, visitor: &mut impl Visitor) -> Result<bool, Fault> {
        match scope {
            Scope::PacketHeader | Scope::PacketContext => self.reader.visit_packet(scope, &self.head, visitor),
            _ => self.reader.visit(event, scope, &self.window, self.base, visitor),
        }
    }

    /// What the printer of texts needs: the reader, and the bytes that the last event is in with their place in the packet.
    pub fn parts(&mut self) -> (&mut StreamReader<'t>, &[u8], u64, &[u8]) {
        (&mut self.reader, &self.window, self.base, &self.head)
    }

    /// Enters the next packet that can be read.
    fn enter(&mut self, findings: &mut Findings) -> bool {
        while let Some(number) = self.packets.next() {
            let packet = self.index.packets[number];
            self.packet = Some(packet);
            self.base = 0;
            let wanted = usize::try_from(packet.bytes).map_or(self.window_bytes, |bytes| bytes.min(self.window_bytes));
            if let Err(error) = self.fill(wanted) {
                self.find(findings, Kind::UnreadableFile, reason(&error));
                return false;
            }
            let entered = loop {
                match self.reader.packet(&self.window) {
                    Err(PacketFault::Short)
                        if (self.window.len() as u64) < packet.bytes && self.window.len() < EVENT_BYTES_MAX =>
                    {
                        let more = self.window.len() * 2;
                        if self.fill(more.min(packet.bytes as usize)).is_err() {
                            break false;
                        }
                    }
                    result => break result.is_ok(),
                }
            };
            if entered {
                let head_bytes = (self.reader.info().events_at.div_ceil(8) as usize).min(self.window.len());
                if self.reader.info().content_bits.is_none() {
                    self.reader.end_at(8 * packet.bytes);
                }
                self.entered += 1;
                let losses = &self.index.losses;
                let lost_here = losses.binary_search_by_key(&(number as u64), |loss| loss.packet);
                self.gaps += u64::from(lost_here.is_ok());
                self.head.clear();
                self.head.extend_from_slice(&self.window[..head_bytes]);
                return true;
            }
            self.find(
                findings,
                Kind::DamagedPacket,
                "it has changed since it was indexed".into(),
            );
        }
        self.packet = None;
        false
    }

    /// Moves the window to the next event, and makes it larger when that is there already. False when there is no more of the packet.
    fn slide(&mut self) -> io::Result<bool> {
        let Some(packet) = self.packet else {
            return Ok(false);
        };
        let at = self.reader.position() / 8;
        let left = packet.bytes.saturating_sub(at);
        let had = self.base + self.window.len() as u64;
        // What is there of the event was not enough.
        let wanted = self.window_bytes.max(2 * had.saturating_sub(at) as usize);
        if had >= packet.bytes || wanted > EVENT_BYTES_MAX {
            return Ok(false);
        }
        self.base = at;
        self.fill(usize::try_from(left).map_or(wanted, |left| left.min(wanted)))?;
        Ok(self.base + self.window.len() as u64 > had)
    }

    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let offset = self.packet.map_or(0, |packet| packet.offset) + self.base;
        self.window.resize(wanted, 0);
        let window = &mut self.window;
        let filled = self.source.read(|file| {
            let mut filled = 0;
            while filled < wanted {
                match file.read_at(&mut window[filled..], offset + filled as u64) {
                    Ok(0) => break,
                    Ok(bytes) => filled += bytes,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(filled)
        })?;
        self.window.truncate(filled);
        progress::add(filled);
        Ok(())
    }

    fn find(&mut self, findings: &mut Findings, kind: Kind, what: String) {
        self.gaps += 1;
        self.faults += 1;
        self.find_at(findings, kind, what, self.reader.position(), 1);
    }

    /// `position` is in bits of the packet.
    fn find_at(&self, findings: &mut Findings, kind: Kind, what: String, position: u64, count: u64) {
        let packet_at = self.packet.map_or(0, |packet| packet.offset);
        findings.add(Finding {
            kind,
            file: self.index.path.clone(),
            count,
            offset: packet_at + position / 8,
            what,
        });
    }
}

fn earlier(ticks: u64, before: u64) -> String {
    format!("an event at {ticks} cycles follows an event at {before}")
}
