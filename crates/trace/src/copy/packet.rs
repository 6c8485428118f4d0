// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet that is being written. Each event is read again as soon as it is there: what does not come out with the same time at the same
//! place is taken back.

use piste_ctf::read::packet::{Event, HeaderForm, Next, PacketInfo, PacketNumbers, StreamReader};
use piste_ctf::read::plan::Plan;
use piste_ctf::write::bits::BitWriter;

use crate::stream::Stream;

/// More than any packet has, in whole bytes. A field of fewer bits says the most that it can.
const UNKNOWN_BITS: u64 = !7;
/// Packets end at a multiple of so many bits, as tracers' do.
const UNIT_BITS: u64 = 64;

/// A packet on its way.
#[derive(Debug)]
pub(super) struct PacketWriter<'t> {
    out: BitWriter,
    /// Reads what is written.
    reader: StreamReader<'t>,
    numbers: PacketNumbers,
    /// Events so far.
    pub(super) events: u64,
    /// Cycles of the last.
    pub(super) last_ticks: u64,
    /// Bits of content that its fields can say.
    limit_bits: u64,
    /// It says its size: another can follow.
    pub(super) has_size: bool,
    /// It says the size of its content besides.
    is_padded: bool,
}

impl<'t> PacketWriter<'t> {
    pub(super) fn new(plan: &'t Plan) -> PacketWriter<'t> {
        PacketWriter {
            out: BitWriter::default(),
            reader: StreamReader::new(plan),
            numbers: PacketNumbers::default(),
            events: 0,
            last_ticks: 0,
            limit_bits: 0,
            has_size: false,
            is_padded: false,
        }
    }

    /// Begins one with the head of another, which `heads` has read from `head`. False when that cannot be.
    pub(super) fn begin(&mut self, heads: &mut StreamReader<'t>, head: &[u8], numbers: PacketNumbers) -> bool {
        self.numbers = numbers;
        self.events = 0;
        self.last_ticks = 0;
        self.out.clear();
        let whole = PacketNumbers {
            content_bits: Some(UNKNOWN_BITS - UNIT_BITS),
            total_bits: Some(UNKNOWN_BITS),
            ..numbers
        };
        if heads.copy_head(head, &whole, &mut self.out).is_err() {
            return false;
        }
        let Ok(info) = self.reader.packet(self.out.bytes()) else {
            return false;
        };
        self.has_size = info.total_bits.is_some();
        // Where one field says both, they are the same.
        self.is_padded = info.content_bits != info.total_bits;
        let bits = [info.content_bits, info.total_bits];
        // To the end of its last unit.
        self.limit_bits = bits.into_iter().flatten().min().unwrap_or(u64::MAX) & !(UNIT_BITS - 1);
        info.events_at == self.out.position()
    }

    /// Writes the event that `stream` has just read; false when it cannot be read from here.
    pub(super) fn event(&mut self, stream: &mut Stream<'t>, event: &Event<'t>) -> bool {
        self.form(stream, event, HeaderForm::Same) || self.form(stream, event, HeaderForm::Extended)
    }

    fn form(&mut self, stream: &mut Stream<'t>, event: &Event<'t>, form: HeaderForm) -> bool {
        let (start, place) = (self.out.position(), self.reader.place());
        let (reader, window, base, _) = stream.parts();
        let written = reader.copy_event(event, (window, base), form, &mut self.out);
        let is_same = written == Ok(true)
            && self.out.position() <= self.limit_bits
            && match self.reader.next(self.out.bytes(), 0) {
                Next::Event(read) => {
                    read.ticks == event.ticks
                        && read.class.id == event.class.id
                        && self.reader.position() == self.out.position()
                }
                _ => false,
            };
        if is_same {
            self.events += 1;
            self.last_ticks = event.ticks;
        } else {
            self.out.truncate(start);
            self.reader.go_back(place);
        }
        is_same
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.out.bytes().len()
    }

    /// Ends it at a time, and gives its bytes and what they say of themselves.
    pub(super) fn end(
        &mut self,
        heads: &mut StreamReader<'t>,
        head: &[u8],
        end: Option<u64>,
    ) -> Option<(&[u8], PacketInfo)> {
        let content_bits = self.out.position();
        self.out.align(if self.is_padded { UNIT_BITS as u32 } else { 8 });
        let total_bits = self.out.position();
        let numbers = PacketNumbers {
            end,
            content_bits: Some(if self.is_padded { content_bits } else { total_bits }),
            total_bits: Some(total_bits),
            ..self.numbers
        };
        let mut out = BitWriter::over(std::mem::take(&mut self.out).into_bytes());
        heads.copy_head(head, &numbers, &mut out).ok()?;
        self.out = out;
        let place = self.reader.place();
        let info = self.reader.packet(self.out.bytes()).ok()?.clone();
        // Times of the next packet may count on from the last event.
        self.reader.go_back(place);
        Some((self.out.bytes(), info))
    }
}
