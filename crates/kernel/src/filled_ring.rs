// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of one CPU whose records do not come in pages: makes pages of them, and loses none when the reader is killed.
//!
//! As with [`Ring`](crate::ring::Ring), a page lies in a [`SharedBuffer`] until its packet is written. Only a page that is complete there counts;
//! then the records that it has are given back to where they came from.
//!
//! ```text
//!   records -> page, its commit word 0 -> where the source goes on -> commit word -> records released -> written -> done()
//!   killed here:  they come again             they come again        released by the next reader      written unless the output has it
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::losses::Losses;
use crate::page::{Lost, PageLayout, PageWriter};
use crate::page_ring::{Hand, PageRing};
use crate::shared_buffer::SharedBuffer;

/// Where records come from, one after the other. A position in it says how far somebody came; it never goes back.
pub trait Supply: AsFd {
    /// The next record, with its time in ticks; `None` if there is none so far.
    fn next(&mut self) -> Option<(u64, &[u8])>;
    /// Behind the last record that `next` returned.
    fn position(&self) -> u64;
    /// Returns to a position that was not given back.
    fn rewind(&mut self, position: u64);
    /// Gives back everything before a position.
    fn release(&mut self, position: u64);
    /// Bytes of records that were not given back.
    fn filled_bytes(&self) -> u64;
    /// Records that were not given back.
    fn left(&self) -> u64;
    /// Records that found no room so far.
    ///
    /// # Errors
    /// It is not known.
    fn lost(&self) -> io::Result<u64>;
    /// Now.
    fn now_ticks(&self) -> u64;
}

/// The ring of one CPU, and the buffer that its pages go through.
#[derive(Debug)]
pub struct FilledRing<S> {
    supply: S,
    hand: Hand,
    losses: Losses,
}

impl<S: Supply> FilledRing<S> {
    /// Goes on where the last reader of this buffer ended.
    pub fn open(mut supply: S, layout: &PageLayout, buffer: SharedBuffer) -> FilledRing<S> {
        let mut hand = Hand::open(layout, buffer);
        if hand.has_page() {
            supply.release(hand.buffer.supply_position());
        } else {
            hand.empty();
        }
        FilledRing {
            supply,
            hand,
            losses: Losses::default(),
        }
    }

    /// Makes a page of the next records, if there are any.
    fn fill(&mut self) {
        self.hand.empty();
        let mut end = self.supply.position();
        let Some((begin_ticks, _)) = self.supply.next() else {
            return;
        };
        self.supply.rewind(end);
        let Hand { layout, buffer, .. } = &mut self.hand;
        let mut writer = PageWriter::begin(*layout, buffer.page_mut(), begin_ticks);
        while let Some((ticks, record)) = self.supply.next() {
            if !writer.put(ticks, record) {
                break;
            }
            end = self.supply.position();
        }
        let bytes = writer.bytes();
        self.supply.rewind(end);
        if bytes == 0 {
            // One that is longer than a page; none is.
            return;
        }
        buffer.set_supply_position(end);
        buffer.commit(|page| layout.set_commit(page, bytes));
        self.hand.look();
        self.supply.release(end);
    }
}

impl<S: Supply> PageRing for FilledRing<S> {
    /// Without `flush`, only if there are enough records for most of a page.
    fn next(&mut self, flush: bool) -> io::Result<Option<&[u8]>> {
        let enough_bytes = self.hand.buffer.page().len() as u64 / 2;
        if !self.hand.has_page() && (flush || self.supply.filled_bytes() >= enough_bytes) {
            let space_ticks = self.supply.now_ticks();
            self.fill();
            let lost = self.supply.lost()?;
            self.losses.find(lost, space_ticks);
        }
        Ok(self.hand.page())
    }

    fn newly_lost(&mut self, _: Lost) -> io::Result<u64> {
        Ok(self.losses.tell_before(self.hand.begin_ticks()))
    }

    fn lost_at_end(&mut self) -> io::Result<u64> {
        Ok(self.losses.tell_rest(self.supply.lost()?))
    }

    fn set_told(&mut self, lost_records: u64) {
        self.losses.set_told(lost_records);
    }

    fn missing(&self) -> u64 {
        self.losses.missing()
    }

    fn untold(&self) -> u64 {
        self.supply.lost().map_or(0, |lost| self.losses.untold(lost))
    }

    fn left(&self) -> u64 {
        self.supply.left()
    }

    fn hand(&self) -> &Hand {
        &self.hand
    }

    fn hand_mut(&mut self) -> &mut Hand {
        &mut self.hand
    }
}

impl<S: Supply> AsFd for FilledRing<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.supply.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::page::Page;
    use crate::shared_buffer::{Position, RingKey};

    const KEY: RingKey = RingKey {
        session: 1,
        stream_id: 2,
        cpu: 3,
    };
    const RECORD_BYTES: usize = 100;

    /// Records 0, 1, 2, ...: record `i` has time `i`, and `RECORD_BYTES` bytes `i`.
    struct Numbers {
        records: Vec<[u8; RECORD_BYTES]>,
        at: u64,
        /// Outlives the reader, as in the kernel.
        released: Rc<Cell<u64>>,
        lost: Rc<Cell<u64>>,
        pipe: io::PipeReader,
    }

    fn numbers(count: u8, released: &Rc<Cell<u64>>, lost: &Rc<Cell<u64>>) -> Numbers {
        Numbers {
            records: (0..count).map(|number| [number; RECORD_BYTES]).collect(),
            at: released.get(),
            released: released.clone(),
            lost: lost.clone(),
            pipe: io::pipe().unwrap().0,
        }
    }

    impl AsFd for Numbers {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.pipe.as_fd()
        }
    }

    impl Supply for Numbers {
        fn next(&mut self) -> Option<(u64, &[u8])> {
            let record = self.records.get(self.at as usize)?;
            self.at += 1;
            Some((self.at - 1, record))
        }

        fn position(&self) -> u64 {
            self.at
        }

        fn rewind(&mut self, position: u64) {
            assert!(position >= self.released.get());
            self.at = position;
        }

        fn release(&mut self, position: u64) {
            assert!(position >= self.released.get());
            self.released.set(position);
            self.at = self.at.max(position);
        }

        fn filled_bytes(&self) -> u64 {
            (self.records.len() as u64 - self.released.get()) * RECORD_BYTES as u64
        }

        fn left(&self) -> u64 {
            self.records.len() as u64 - self.at
        }

        fn lost(&self) -> io::Result<u64> {
            Ok(self.lost.get())
        }

        fn now_ticks(&self) -> u64 {
            self.records.len() as u64
        }
    }

    struct Rig {
        folder: tempfile::TempDir,
        released: Rc<Cell<u64>>,
        lost: Rc<Cell<u64>>,
    }

    impl Rig {
        fn new() -> Rig {
            Rig {
                folder: tempfile::tempdir().unwrap(),
                released: Rc::default(),
                lost: Rc::default(),
            }
        }

        fn open(&self, count: u8) -> FilledRing<Numbers> {
            let buffer = SharedBuffer::open(&self.folder.path().join("3"), KEY, 4096).unwrap();
            FilledRing::open(numbers(count, &self.released, &self.lost), &PageLayout::USUAL, buffer)
        }
    }

    /// The numbers that a page has.
    fn numbers_of(page: &[u8]) -> Vec<u8> {
        let page = Page::parse(&PageLayout::USUAL, page).unwrap();
        let numbers = page.records().map(|record| {
            assert_eq!(u64::from(record.data[0]), record.ticks);
            assert!(record.data.iter().all(|byte| *byte == record.data[0]));
            record.data[0]
        });
        numbers.collect()
    }

    #[test]
    fn records_come_in_pages_each_once() {
        let rig = Rig::new();
        let mut ring = rig.open(100);
        let mut all = Vec::new();
        while let Some(page) = ring.next(true).unwrap() {
            all.extend(numbers_of(page));
            assert_eq!(rig.released.get(), all.len() as u64);
            ring.done();
        }
        assert_eq!(all, (0..100).collect::<Vec<u8>>());
    }

    #[test]
    fn a_page_waits_until_there_is_enough_for_it() {
        let rig = Rig::new();
        assert_eq!(rig.open(20).next(false).unwrap(), None);
        let mut ring = rig.open(21);
        assert_eq!(numbers_of(ring.next(false).unwrap().unwrap()).len(), 21);
    }

    #[test]
    fn the_next_reader_goes_on_wherever_the_last_one_was_killed() {
        let rig = Rig::new();
        let mut ring = rig.open(60);
        let first = numbers_of(ring.next(true).unwrap().unwrap());
        let position = Position { step: 1, packet: 2 };
        ring.set_position(position);
        // Killed with a page in hand.
        drop(ring);
        let mut ring = rig.open(60);
        assert_eq!(ring.position(), Some(position));
        assert_eq!(numbers_of(ring.next(true).unwrap().unwrap()), first);
        ring.done();
        // Killed without one.
        drop(ring);
        // Killed before the records of a complete page were released.
        let before = rig.released.get();
        let mut ring = rig.open(60);
        let second = numbers_of(ring.next(true).unwrap().unwrap());
        drop(ring);
        rig.released.set(before);
        let mut ring = rig.open(60);
        assert_eq!(numbers_of(ring.next(true).unwrap().unwrap()), second);
        ring.done();
        assert_eq!(ring.next(true).unwrap(), None);
        assert_eq!([first, second].concat(), (0..60).collect::<Vec<u8>>());
    }

    #[test]
    fn what_is_lost_is_told_once_and_behind_what_was_there() {
        let rig = Rig::new();
        let mut ring = rig.open(60);
        rig.lost.set(7);
        assert!(ring.next(true).unwrap().is_some());
        assert_eq!(
            (ring.newly_lost(Lost::None).unwrap(), ring.untold(), ring.missing()),
            (0, 7, 7)
        );
        ring.done();
        assert!(ring.next(true).unwrap().is_some());
        assert_eq!(ring.newly_lost(Lost::None).unwrap(), 0);
        assert_eq!((ring.lost_at_end().unwrap(), ring.untold()), (7, 0));
        assert_eq!(ring.lost_at_end().unwrap(), 0);
    }
}
