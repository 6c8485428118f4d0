// SPDX-License-Identifier: MIT OR Apache-2.0
//! Over an event in one leap: most events are a header with an id and a time, and whole bytes whose number is known or follows from a few
//! numbers among them. It takes 5 to 10 ns, most of it waiting for the id that says how far the next event is; 3 ns where that can be guessed
//! ([`guess`]).
//!
//! A leap is made or not, without any reason given: what is damaged, cut, or of another shape is walked over by
//! [`super::packet`], which says what is wrong.

pub(super) mod guess;

use super::packet::Event;
use super::plan::leap::{Form, HeaderLeap, Leap, Number, Part, What};
use super::plan::{EventPlan, StreamPlan};
use super::schema::ByteOrder;

/// What leaps need of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'p, 'b> {
    stream: &'p StreamPlan,
    header: &'p HeaderLeap,
    /// Up to the end of the packet's content.
    bytes: &'b [u8],
    /// Where `bytes` begins in the packet.
    base_bytes: u64,
}

/// What an event is, which its id tells.
#[derive(Clone, Copy, Debug)]
struct Shape<'p> {
    class: &'p EventPlan,
    form: &'p Form,
    leap: &'p Leap,
    /// How long it is, when that is always the same; otherwise 0.
    bytes: u32,
}

/// An event that was passed over. Places are in bytes from where the ground begins.
#[derive(Clone, Copy, Debug)]
struct Leapt {
    ticks: u64,
    /// Behind its last byte.
    end: usize,
}

impl<'p, 'b> Ground<'p, 'b> {
    /// `end` is in bits of the packet.
    #[inline(always)]
    pub(super) fn new(stream: &'p StreamPlan, bytes: &'b [u8], base_bytes: u64, end: u64) -> Option<Ground<'p, 'b>> {
        let content = (end / 8).checked_sub(base_bytes)?;
        let bytes = match usize::try_from(content) {
            Ok(content) if content < bytes.len() => &bytes[..content],
            _ => bytes,
        };
        Some(Ground {
            stream,
            header: stream.header_leap.as_ref()?,
            bytes,
            base_bytes,
        })
    }

    pub(super) fn byte_order(&self) -> ByteOrder {
        self.header.byte_order
    }

    /// Where the ground has a place of the packet that is given in bits.
    #[inline(always)]
    pub(super) fn place(&self, position: u64) -> Option<usize> {
        let is_whole = position.is_multiple_of(8) || self.header.alignment >= 8;
        usize::try_from(position.div_ceil(8).checked_sub(self.base_bytes)?)
            .ok()
            .filter(|_| is_whole)
    }

    /// In bits of the packet.
    #[inline(always)]
    pub(super) fn position(&self, place: usize) -> u64 {
        8 * (self.base_bytes + place as u64)
    }

    /// Where the header of an event begins that follows what ends at a place.
    #[inline(always)]
    pub(super) fn start(&self, place: usize) -> usize {
        let mask = u64::from(self.header.alignment / 8).saturating_sub(1);
        (((self.base_bytes + place as u64 + mask) & !mask) - self.base_bytes) as usize
    }

    /// The event at a place, in bits of the packet, and where the next one is.
    #[inline(always)]
    pub(super) fn event(&self, position: u64, clock: u64) -> Option<(Event<'p>, u64)> {
        let start = self.start(self.place(position)?);
        let (shape, leapt) = match self.byte_order() {
            ByteOrder::Little => self.leap::<false>(start, clock)?,
            ByteOrder::Big => self.leap::<true>(start, clock)?,
        };
        let start = self.position(start);
        let at = |bytes: u32| start + 8 * u64::from(bytes);
        let event = Event {
            class: shape.class,
            ticks: leapt.ticks,
            position,
            context_at: at(shape.leap.context_at),
            specific_at: at(shape.leap.specific_at),
            payload_at: at(shape.leap.payload_at),
        };
        Some((event, self.position(leapt.end)))
    }

    /// Over the event whose header begins at `start`.
    #[inline(always)]
    fn leap<const BIG: bool>(&self, start: usize, clock: u64) -> Option<(Shape<'p>, Leapt)> {
        let header = self.header;
        let [short, first, second] = &header.forms;
        let id = self.number::<BIG>(start, &short.id)?;
        let shape = if id == header.selectors[0] {
            self.shape::<1>(first, self.number::<BIG>(start, &first.id)?)?
        } else if id == header.selectors[1] {
            self.shape::<2>(second, self.number::<BIG>(start, &second.id)?)?
        } else {
            self.shape::<0>(short, id | short.only_id)?
        };
        Some((shape, self.over::<BIG>(start, &shape, clock)?))
    }

    /// `FORM` is 0 for the short form.
    #[inline(always)]
    fn shape<const FORM: usize>(&self, form: &'p Form, id: u64) -> Option<Shape<'p>> {
        let row = self.stream.events.row(id)?;
        let class = self.stream.events.of_row(row)?;
        Some(Shape {
            class,
            form,
            leap: class.leaps[FORM].as_ref()?,
            bytes: row.bytes[FORM],
        })
    }

    #[inline(always)]
    fn over<const BIG: bool>(&self, start: usize, shape: &Shape<'p>, clock: u64) -> Option<Leapt> {
        let end = match shape.bytes {
            0 => self.parts(shape.leap, start)?,
            bytes => start + bytes as usize,
        };
        if end > self.bytes.len() {
            return None;
        }
        let time = &shape.form.time;
        let ticks = counted_on(clock, self.number::<BIG>(start, time)?, time.mask);
        Some(Leapt { ticks, end })
    }

    #[inline(always)]
    fn number<const BIG: bool>(&self, start: usize, number: &Number) -> Option<u64> {
        let word = self.word::<BIG>(start + number.at as usize)?;
        Some(word >> (number.shift & 63) & number.mask)
    }

    #[inline(always)]
    fn word<const BIG: bool>(&self, at: usize) -> Option<u64> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(match BIG {
            true => u64::from_be_bytes(bytes),
            false => u64::from_le_bytes(bytes),
        })
    }

    /// Where an event ends that has parts without a fixed size.
    #[inline]
    fn parts(&self, leap: &Leap, start: usize) -> Option<usize> {
        let mut end = start + leap.bytes as usize;
        if end > self.bytes.len() {
            return None;
        }
        for part in &leap.parts {
            end = self.part(part, end)?;
        }
        Some(end)
    }

    #[inline]
    fn part(&self, part: &Part, at: usize) -> Option<usize> {
        let end = match part.what {
            What::Text => at + text_bytes(&self.bytes[at..])? + 1,
            What::Elements { count, back, bytes } => {
                let number = self.bytes.get(at - back as usize..)?;
                let number = &number[..count.bytes as usize];
                let mut wide = [0; 8];
                let count = match count.byte_order {
                    ByteOrder::Little => {
                        wide[..number.len()].copy_from_slice(number);
                        u64::from_le_bytes(wide)
                    }
                    ByteOrder::Big => {
                        wide[8 - number.len()..].copy_from_slice(number);
                        u64::from_be_bytes(wide)
                    }
                };
                at.checked_add(usize::try_from(count.checked_mul(bytes.into())?).ok()?)?
            }
            What::Align(bytes) => {
                let place = self.base_bytes + at as u64;
                at + (place.next_multiple_of(bytes.into()) - place) as usize
            }
        };
        let end = end.checked_add(part.then as usize)?;
        (end <= self.bytes.len()).then_some(end)
    }
}

/// A number of fewer bits than the clock's replaces its low bits, and counts on when it is lower than they were.
#[inline(always)]
pub(super) fn counted_on(clock: u64, low: u64, mask: u64) -> u64 {
    let on = clock & !mask | low;
    // Of all bits, there is nothing to count on: 0 is added.
    let more = if low < clock & mask { mask.wrapping_add(1) } else { 0 };
    on.wrapping_add(more)
}

/// Bytes before the 0. Most texts are shorter than what a call costs.
#[inline]
fn text_bytes(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, _) = bytes.as_chunks();
    for (index, word) in words.iter().take(4).enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest bit that is set is of the first byte that is 0.
        let zeros = word.wrapping_sub(ONES) & !word & ONES << 7;
        if zeros != 0 {
            return Some(8 * index + zeros.trailing_zeros() as usize / 8);
        }
    }
    memchr::memchr(0, bytes)
}
