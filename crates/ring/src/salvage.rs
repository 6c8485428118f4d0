// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving up on a record that never comes: the whole records of the sub-buffer are taken, and the reader goes on behind it.
//!
//! A program can die, or a thread of it be cancelled, between reserving a record and committing it. The sub-buffer is then never
//! complete. Its marks tell which records are whole, wherever the hole is: a head, which is stored last, and the tagged units behind
//! it. What the records say does not matter here.
//!
//! ```text
//! marks   T T T ... T  H T T  H  . T T  H T  . . . .  H T  | T T T        T tag, H tag and head, . of an earlier lap
//!         header       record rec hole   rec  hole     rec  | padding
//! ```
//!
//! A thread that was only slow may still commit. Its record is whole in the copy, or missing from it; the sub-buffer is never
//! entered again, because `consumed` stays in front of it.

use piste_abi::HEAD;

use crate::corruption::Corruption;
use crate::layout::{HEADER_UNITS, Ring, SubbufView, begin_ticks};
use crate::packet::Salvage;
use crate::reader::{Reader, content};

impl Reader {
    /// Takes the whole records of the next sub-buffer: the one that [`Reader::next`] called incomplete, or the open one, which is then
    /// ended. `packet` has the packet header and these records afterwards; [`Reader::release`] follows once they are stored. `None`
    /// when there is nothing to give up: the sub-buffer is complete by now, overwritten, or was never entered.
    ///
    /// The space is not given back to the program, here and from here on: the reader takes what the ring still has, and what finds no
    /// space is discarded and counted. The memory of a living program should be replaced.
    /// # Errors
    /// [`Corruption`] as for [`Reader::next`].
    pub fn salvage(&mut self, packet: &mut Vec<u8>) -> Result<Option<Salvage>, Corruption> {
        if self.position(self.ring())?.sequence == self.sequence() {
            self.try_end_current()?;
        }
        let memory = self.memory();
        let ring = memory.ring(self.ring_index());
        let place = ring.place(self.sequence());
        let is_ended = self.position(ring)?.sequence > self.sequence();
        if !is_ended || place.complete_records().is_some() || !self.give_up() {
            return Ok(None);
        }
        copy_whole_records(ring, place, packet).map(Some)
    }
}

/// Copies the packet header and the whole records of the ended sub-buffer at `place` to `packet`.
pub(crate) fn copy_whole_records(
    ring: Ring<'_>,
    place: SubbufView<'_>,
    packet: &mut Vec<u8>,
) -> Result<Salvage, Corruption> {
    let (content_units, _) = content(place)?;
    let marks = place.copy_marks(content_units);
    packet.clear();
    place.copy_data(0..HEADER_UNITS, packet);
    let is_header_written = marks[..HEADER_UNITS].iter().all(|&mark| mark == place.tag);
    let begin_ticks = is_header_written.then(|| begin_ticks(packet));
    let is_tagged = |mark: u8| mark & !HEAD == place.tag;
    let (mut unit, mut records, mut holes) = (HEADER_UNITS, 0, 0);
    while unit < content_units {
        let (first, behind) = (marks[unit], &marks[unit + 1..]);
        let more = behind.iter().take_while(|&&mark| {
            if is_tagged(first) {
                mark == place.tag
            } else {
                !is_tagged(mark)
            }
        });
        let end = unit + 1 + more.count();
        if first == place.tag | HEAD {
            place.copy_data(unit..end, packet);
            records += 1;
        } else if !is_tagged(first) {
            // Tagged units without a head are of a record whose head is still to come: the one that this hole starts with.
            holes += 1;
        }
        unit = end;
    }
    Ok(Salvage {
        sequence: place.sequence,
        begin_ticks,
        content_bytes: packet.len() as u32,
        records,
        holes,
        discarded: ring.discarded(),
    })
}
