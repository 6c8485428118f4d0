// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a page of records that the kernel did not put into its own ring.

use super::PageLayout;
use super::records::{DELTA_BITS, TYPE_BITS, TYPE_TIME_EXTEND};

/// Fills a page. It is none until its commit word says how many bytes it has.
#[derive(Debug)]
pub struct PageWriter<'a> {
    layout: PageLayout,
    page: &'a mut [u8],
    /// Where the next record begins.
    at: usize,
    /// Of the last record.
    ticks: u64,
}

impl<'a> PageWriter<'a> {
    /// Begins a page whose records are not earlier than `begin_ticks`.
    pub fn begin(layout: PageLayout, page: &'a mut [u8], begin_ticks: u64) -> PageWriter<'a> {
        let at = layout.header_bytes();
        layout.set_header(page, begin_ticks, 0);
        PageWriter {
            layout,
            page,
            at,
            ticks: begin_ticks,
        }
    }

    /// Appends a record. One that is earlier than the one before it gets the time of that. False when there is no room.
    pub fn put(&mut self, ticks: u64, data: &[u8]) -> bool {
        let delta = ticks.saturating_sub(self.ticks);
        let padded_bytes = data.len().next_multiple_of(4);
        let far = delta >> DELTA_BITS;
        let needed_bytes = 8 + padded_bytes + if far == 0 { 0 } else { 8 };
        if self.page.len() - self.at < needed_bytes {
            return false;
        }
        let mut near = delta as u32;
        if far != 0 {
            // All of the delta; the record itself then has none.
            let low = near & ((1 << DELTA_BITS) - 1);
            self.word(TYPE_TIME_EXTEND | low << TYPE_BITS);
            self.word(far as u32);
            near = 0;
        }
        self.word(near << TYPE_BITS);
        self.word(4 + padded_bytes as u32);
        let to = &mut self.page[self.at..self.at + padded_bytes];
        let (content, padding) = to.split_at_mut(data.len());
        content.copy_from_slice(data);
        padding.fill(0);
        self.at += padded_bytes;
        self.ticks += delta;
        true
    }

    /// Bytes of the records so far: with them as its commit word, it is a page.
    pub fn bytes(&self) -> u64 {
        (self.at - self.layout.header_bytes()) as u64
    }

    fn word(&mut self, word: u32) {
        self.page[self.at..self.at + 4].copy_from_slice(&word.to_ne_bytes());
        self.at += 4;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Lost, Page};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut page = vec![0xff; 4096];
        let records: [(u64, &[u8]); 5] = [
            (1000, b"abcd"),
            (1000, b"abcde"),
            // Earlier than the last one.
            (900, b""),
            (1000 + (1 << DELTA_BITS), b"far"),
            (1 << 45, b"farther"),
        ];
        let mut writer = PageWriter::begin(PageLayout::USUAL, &mut page, 990);
        assert_eq!(writer.bytes(), 0);
        assert!(records.iter().all(|(ticks, data)| writer.put(*ticks, data)));
        assert!(!writer.put(1 << 46, &[0; 4096]));
        let bytes = writer.bytes();
        PageLayout::USUAL.set_commit(&mut page, bytes);
        let page = Page::parse(&PageLayout::USUAL, &page).unwrap();
        assert_eq!((page.begin_ticks(), page.lost()), (990, Lost::None));
        let read: Vec<_> = page
            .records()
            .map(|record| (record.ticks, record.data.to_vec()))
            .collect();
        for ((ticks, data), (read_ticks, read)) in records.iter().zip(&read) {
            assert_eq!(*read_ticks, (*ticks).max(1000));
            assert!(read.starts_with(data) && read.len() == data.len().next_multiple_of(4));
        }
        assert_eq!(read.len(), records.len());
    }

    #[test]
    fn a_page_is_none_until_it_is_finished() {
        let mut page = vec![0xff; 64];
        let mut writer = PageWriter::begin(PageLayout::USUAL, &mut page, 1);
        assert!(writer.put(2, b"data") && !writer.put(2, &[0; 40]));
        assert_eq!(PageLayout::USUAL.commit(&page), Some(0));
    }
}
