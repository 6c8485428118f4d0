// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a packet, to be written on.
//!
//! Appending to a `Vec` reads and writes its length in memory for each field. Here an event is written through a cursor that stays in
//! registers; each write is checked against the room that there is, and an event that was not written whole leaves no trace.

#![expect(unsafe_code, reason = "writes behind the end of a Vec")]

use std::marker::PhantomData;
use std::ptr;

/// There is not enough room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// The end of a packet. What was written belongs to the packet when this is dropped.
pub(crate) struct Room<'a> {
    packet: &'a mut Vec<u8>,
    /// Where the next byte goes.
    next: *mut u8,
    /// Behind the last byte that there is room for.
    end: *mut u8,
}

/// Where the next byte goes, while something is written. The lifetime belongs to one [`Room::write`], so that no cursor can take the place of
/// another.
pub(crate) struct Cursor<'w> {
    next: *mut u8,
    end: *mut u8,
    write: PhantomData<fn(&'w ()) -> &'w ()>,
}

// Invariant R1: in a room and its cursor, `packet.as_ptr() + packet.len() <= next <= end == packet.as_ptr() + packet.capacity()`.
// Invariant R2: all bytes below `next` are initialised.
impl<'a> Room<'a> {
    pub(crate) fn behind(packet: &'a mut Vec<u8>) -> Room<'a> {
        let spare = packet.spare_capacity_mut().as_mut_ptr_range();
        Room {
            next: spare.start.cast(),
            end: spare.end.cast(),
            packet,
        }
    }

    /// Makes room for `bytes`.
    #[inline]
    pub(crate) fn ensure(&mut self, bytes: usize) {
        if self.end.addr() - self.next.addr() < bytes {
            self.grow(bytes);
        }
    }

    /// Writes with `put`, all of it or, where it fails, nothing.
    #[inline(always)]
    pub(crate) fn write<Error>(
        &mut self,
        put: impl for<'w> FnOnce(&mut Cursor<'w>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut cursor = Cursor {
            next: self.next,
            end: self.end,
            write: PhantomData,
        };
        put(&mut cursor)?;
        self.next = cursor.next;
        Ok(())
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        self.settle();
        self.packet.reserve(bytes.max(self.packet.capacity()));
        let spare = self.packet.spare_capacity_mut().as_mut_ptr_range();
        (self.next, self.end) = (spare.start.cast(), spare.end.cast());
    }

    /// Bytes of the packet so far.
    pub(crate) fn packet_bytes(&self) -> usize {
        self.next.addr() - self.packet.as_ptr().addr()
    }

    fn settle(&mut self) {
        let length = self.packet_bytes();
        // SAFETY: `length` is at most the capacity by R1, and the bytes are initialised by R2.
        unsafe { self.packet.set_len(length) }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Cursor<'_> {
    /// Writes `bytes`.
    #[inline(always)]
    pub(crate) fn put<const COUNT: usize>(&mut self, bytes: [u8; COUNT]) -> Result<(), NoRoom> {
        if self.free() < COUNT {
            return Err(NoRoom);
        }
        // SAFETY: `next + COUNT <= end` (checked above), inside the packet's memory by R1.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.next, COUNT);
            self.next = self.next.add(COUNT);
        }
        Ok(())
    }

    /// Writes `bytes`, of which there are `COUNT` to twice as many, as their first and their last `COUNT`; the two may overlap. Two moves
    /// of fixed size take less time than a copy of any size.
    #[inline(always)]
    pub(crate) fn put_in_two<const COUNT: usize>(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let (Some(first), Some(last), true) = (
            bytes.first_chunk::<COUNT>(),
            bytes.last_chunk::<COUNT>(),
            bytes.len() <= 2 * COUNT,
        ) else {
            return self.put_all(bytes);
        };
        if self.free() < bytes.len() {
            return Err(NoRoom);
        }
        // SAFETY: `COUNT <= bytes.len()` (it has a first chunk) and `next + bytes.len() <= end` (checked above), inside the packet's memory
        // by R1. With at most `2 * COUNT` bytes (checked above) the two moves leave no byte between them: R2.
        unsafe {
            ptr::copy_nonoverlapping(first.as_ptr(), self.next, COUNT);
            ptr::copy_nonoverlapping(last.as_ptr(), self.next.add(bytes.len() - COUNT), COUNT);
            self.next = self.next.add(bytes.len());
        }
        Ok(())
    }

    /// Writes any number of bytes.
    #[inline]
    pub(crate) fn put_all(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        if self.free() < bytes.len() {
            return Err(NoRoom);
        }
        // SAFETY: `next + bytes.len() <= end` (checked above), inside the packet's memory by R1; `bytes` is not of the packet, which the
        // room borrows mutably.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.next, bytes.len());
            self.next = self.next.add(bytes.len());
        }
        Ok(())
    }

    #[inline(always)]
    fn free(&self) -> usize {
        self.end.addr() - self.next.addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_whole_is_the_packets() {
        let mut packet = b"head".to_vec();
        let mut room = Room::behind(&mut packet);
        room.ensure(100);
        room.write(|cursor| cursor.put(*b"abc")).expect("room was made");
        let failed = room.write(|cursor| {
            cursor.put_all(b"forgotten").expect("room was made");
            Err(7)
        });
        assert_eq!(failed, Err(7));
        room.ensure(1000);
        room.write(|cursor| cursor.put_in_two::<4>(b"defghi"))
            .expect("room was made");
        drop(room);
        assert_eq!(packet, b"headabcdefghi");
    }

    #[test]
    fn without_room_nothing_is_written() {
        let mut packet = Vec::with_capacity(8);
        let mut room = Room::behind(&mut packet);
        let text = [b'x'; 4096];
        assert_eq!(room.write(|cursor| cursor.put(text)), Err(NoRoom));
        assert_eq!(room.write(|cursor| cursor.put_all(&text)), Err(NoRoom));
        assert_eq!(room.write(|cursor| cursor.put_in_two::<2048>(&text)), Err(NoRoom));
        drop(room);
        assert_eq!(packet, b"");
    }

    #[test]
    fn two_moves_write_every_length() {
        for length in 0..=12 {
            let bytes: Vec<u8> = (0..length).collect();
            let mut packet = Vec::new();
            let mut room = Room::behind(&mut packet);
            room.ensure(12);
            room.write(|cursor| cursor.put_in_two::<4>(&bytes))
                .expect("room was made");
            drop(room);
            assert_eq!(packet, bytes);
        }
    }
}
