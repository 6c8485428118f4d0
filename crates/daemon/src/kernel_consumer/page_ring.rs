// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring that is read page by page: one of tracefs, or one of the BPF program.

use std::io;
use std::os::fd::AsFd;

use piste_kernel::filled_ring::{FilledRing, Supply};
use piste_kernel::page::Lost;
use piste_kernel::ring::Ring;
use piste_kernel::shared_buffer::Position;

/// A ring that is read page by page; see [`Ring`], whose words these are.
pub(super) trait PageRing: AsFd {
    fn next(&mut self, flush: bool) -> io::Result<Option<&[u8]>>;
    fn done(&mut self);
    fn set_position(&mut self, position: Position);
    fn position(&self) -> Option<Position>;
    fn newly_lost(&mut self, lost: Lost) -> io::Result<u64>;
    fn lost_at_end(&mut self) -> io::Result<u64>;
    fn set_told(&mut self, lost_records: u64);
    fn missing(&self) -> u64;
    fn untold(&self) -> u64;
    /// Records behind the current page; 0 where nobody knows.
    fn left(&self) -> u64;
}

impl PageRing for Ring {
    fn next(&mut self, flush: bool) -> io::Result<Option<&[u8]>> {
        self.next(flush)
    }

    fn done(&mut self) {
        self.done();
    }

    fn set_position(&mut self, position: Position) {
        self.set_position(position);
    }

    fn position(&self) -> Option<Position> {
        self.position()
    }

    fn newly_lost(&mut self, lost: Lost) -> io::Result<u64> {
        self.newly_lost(lost)
    }

    fn lost_at_end(&mut self) -> io::Result<u64> {
        self.lost_at_end()
    }

    fn set_told(&mut self, lost_records: u64) {
        self.set_told(lost_records);
    }

    fn missing(&self) -> u64 {
        self.missing()
    }

    fn untold(&self) -> u64 {
        self.untold()
    }

    fn left(&self) -> u64 {
        self.stats().map_or(0, |stats| stats.entries)
    }
}

impl<S: Supply> PageRing for FilledRing<S> {
    fn next(&mut self, flush: bool) -> io::Result<Option<&[u8]>> {
        self.next(flush)
    }

    fn done(&mut self) {
        self.done();
    }

    fn set_position(&mut self, position: Position) {
        self.set_position(position);
    }

    fn position(&self) -> Option<Position> {
        self.position()
    }

    fn newly_lost(&mut self, lost: Lost) -> io::Result<u64> {
        Ok(self.newly_lost(lost))
    }

    fn lost_at_end(&mut self) -> io::Result<u64> {
        self.lost_at_end()
    }

    fn set_told(&mut self, lost_records: u64) {
        self.set_told(lost_records);
    }

    fn missing(&self) -> u64 {
        self.missing()
    }

    fn untold(&self) -> u64 {
        self.untold()
    }

    fn left(&self) -> u64 {
        self.left()
    }
}
