// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of one CPU as whoever writes the trace sees it: it is read page by page, whoever fills it.

use std::io;
use std::os::fd::AsFd;

use crate::page::{Lost, PageLayout};
use crate::shared_buffer::{Position, SharedBuffer};

/// A ring that is read page by page. Its descriptor is for poll: readable when there is a page.
pub trait PageRing: AsFd {
    /// The next page, or the same again before [`PageRing::done`]. Takes full pages only, or with `flush` also what there is of the one that is being
    /// written; never waits.
    ///
    /// # Errors
    /// The kernel's.
    fn next(&mut self, flush: bool) -> io::Result<Option<&[u8]>>;

    /// Records that were lost and not told so far, told with the current page whose [`Page::lost`](crate::page::Page::lost) it is. They are missing
    /// before the page; where nobody says the place, before it or right behind it. All that is told adds up to the CPU's counts.
    ///
    /// # Errors
    /// The kernel's.
    fn newly_lost(&mut self, lost: Lost) -> io::Result<u64>;

    /// The rest, when nothing more will be read: all that was lost and not told.
    ///
    /// # Errors
    /// The kernel's.
    fn lost_at_end(&mut self) -> io::Result<u64>;

    /// What readers before this one have told already: the sum of losses that is on disk.
    fn set_told(&mut self, lost_records: u64);

    /// Records that were lost behind the pages that were read so far.
    fn missing(&self) -> u64;

    /// Records that were lost so far and not told with a page; 0 where nobody knows.
    fn untold(&self) -> u64;

    /// Records behind the current page; 0 where nobody knows.
    fn left(&self) -> u64;

    /// What holds the current page.
    fn hand(&self) -> &Hand;

    /// The same, to be changed.
    fn hand_mut(&mut self) -> &mut Hand;

    /// The current page is written: the next one may take its place.
    fn done(&mut self) {
        self.hand_mut().empty();
    }

    /// Notes where the current page is about to be written. Before the first byte is.
    fn set_position(&mut self, position: Position) {
        self.hand_mut().buffer.set_position(Some(position));
    }

    /// Where the current page was about to be written, by this reader or the one before it: if it is there, the page is done.
    fn position(&self) -> Option<Position> {
        let hand = self.hand();
        hand.buffer.position().filter(|_| hand.has_page)
    }
}

/// The page that was taken out of a ring and is not written yet. It lies in a buffer that outlives the reader.
#[derive(Debug)]
pub struct Hand {
    pub(crate) layout: PageLayout,
    pub(crate) buffer: SharedBuffer,
    has_page: bool,
}

impl Hand {
    /// With the page that the last reader took and did not finish, if there is one.
    pub(crate) fn open(layout: &PageLayout, buffer: SharedBuffer) -> Hand {
        let mut hand = Hand {
            layout: *layout,
            buffer,
            has_page: false,
        };
        hand.look();
        hand
    }

    /// Finds out whether a page is there by now.
    pub(crate) fn look(&mut self) {
        self.has_page = self.layout.holds_page(self.buffer.page());
    }

    /// First the page, then its position: a position alone means nothing.
    pub(crate) fn empty(&mut self) {
        self.layout.clear(&mut self.buffer);
        self.has_page = false;
    }

    pub(crate) fn has_page(&self) -> bool {
        self.has_page
    }

    pub(crate) fn page(&self) -> Option<&[u8]> {
        self.has_page.then(|| self.buffer.page())
    }

    /// The time that the first record of the page counts from.
    pub(crate) fn begin_ticks(&self) -> u64 {
        self.layout.timestamp(self.buffer.page()).unwrap_or(0)
    }
}
