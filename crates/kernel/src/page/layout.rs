// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the words of a page's header are, asked of the running kernel, or said in a file by another one.

use std::io;

use crate::shared_buffer::SharedBuffer;
use crate::tracefs::Tracefs;

/// Where the words of a page's header are: the same for all pages of a running kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// Of the timestamp, eight bytes.
    timestamp_offset: usize,
    /// Of the word whose upper bits are flags.
    commit_offset: usize,
    /// Four on 32-bit kernels, else eight.
    commit_bytes: usize,
    /// Of the first record.
    data_offset: usize,
}

impl PageLayout {
    /// What kernels of 64-bit machines have.
    pub const USUAL: Self = Self {
        timestamp_offset: 0,
        commit_offset: 8,
        commit_bytes: 8,
        data_offset: 16,
    };

    /// Asks the running kernel.
    ///
    /// # Errors
    /// It cannot be read, or says what no kernel said so far.
    pub fn read(tracefs: &Tracefs) -> io::Result<Self> {
        const HEADER: &str = "events/header_page";
        const RECORD: &str = "events/header_event";
        let strange = |file: &str, text: &str| {
            io::Error::other(format!(
                "{} describes a ring buffer format that Piste does not know; report it to the Piste authors, with the version of the kernel: {text:?}",
                tracefs.path(file).display()
            ))
        };
        let text = tracefs.read(HEADER)?;
        let layout = Self::parse(&text).ok_or_else(|| strange(HEADER, &text))?;
        let text = tracefs.read(RECORD)?;
        if !records_are_as_usual(&text) {
            return Err(strange(RECORD, &text));
        }
        Ok(layout)
    }

    /// From the texts of `events/header_page` and `events/header_event` of any kernel. `None` where they describe what no kernel has so far.
    pub fn of_texts(header_page: &str, header_event: &str) -> Option<Self> {
        Self::parse(header_page).filter(|_| records_are_as_usual(header_event))
    }

    /// The kernel is one of a 64-bit machine.
    pub fn is_64_bit(&self) -> bool {
        self.commit_bytes == 8
    }

    /// From the text of `events/header_page`.
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text
                .lines()
                .find(|line| line.split(';').next().is_some_and(|decl| decl.ends_with(name)))?;
            let number = |key: &str| line.split_once(key)?.1.split(';').next()?.parse::<usize>().ok();
            Some((number("offset:")?, number("size:")?))
        };
        let (timestamp_offset, timestamp_bytes) = field(" timestamp")?;
        let (commit_offset, commit_bytes) = field(" commit")?;
        let (data_offset, _) = field(" data")?;
        let known = timestamp_bytes == 8
            && (commit_bytes == 4 || commit_bytes == 8)
            && timestamp_offset + timestamp_bytes <= data_offset
            && commit_offset + commit_bytes <= data_offset
            && commit_offset.is_multiple_of(4)
            && data_offset <= 64;
        known.then_some(Self {
            timestamp_offset,
            commit_offset,
            commit_bytes,
            data_offset,
        })
    }

    /// Bytes before the first record.
    pub(crate) const fn header_bytes(self) -> usize {
        self.data_offset
    }

    /// The time that the first record of a page counts from.
    pub(crate) fn timestamp(self, page: &[u8]) -> Option<u64> {
        let bytes = page.get(self.timestamp_offset..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    }

    /// Whether there is a page: one that was read has at least one record.
    pub(crate) fn holds_page(self, page: &[u8]) -> bool {
        self.commit(page).is_some_and(|commit| commit != 0)
    }

    /// Makes the buffer empty. First the page, then its position: a position alone means nothing.
    pub(crate) fn clear(self, buffer: &mut SharedBuffer) {
        buffer.page_mut()[..self.header_bytes()].fill(0);
        buffer.set_position(None);
    }

    /// The commit word of a page; none where there is no page.
    pub(crate) fn commit(self, page: &[u8]) -> Option<u64> {
        self.long(page.get(self.commit_offset..)?)
    }

    /// Sets the words of the header.
    pub(super) fn set_header(self, page: &mut [u8], begin_ticks: u64, commit: u64) {
        page[..self.data_offset].fill(0);
        page[self.timestamp_offset..][..8].copy_from_slice(&begin_ticks.to_ne_bytes());
        self.set_commit(page, commit);
    }

    /// Sets the commit word.
    pub(crate) fn set_commit(self, page: &mut [u8], commit: u64) {
        let to = &mut page[self.commit_offset..][..self.commit_bytes];
        match to.len() {
            4 => to.copy_from_slice(&(commit as u32).to_ne_bytes()),
            _ => to.copy_from_slice(&commit.to_ne_bytes()),
        }
    }

    /// Reads a long of the kernel's.
    pub(super) fn long(self, bytes: &[u8]) -> Option<u64> {
        match self.commit_bytes {
            4 => bytes.first_chunk().map(|bytes| u64::from(u32::from_ne_bytes(*bytes))),
            _ => bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
        }
    }
}

/// Whether the text of `events/header_event` says what the opening comment does.
fn records_are_as_usual(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let says = |wanted: &str| {
        let wanted: Vec<&str> = wanted.split(' ').collect();
        words.windows(wanted.len()).any(|window| window == wanted)
    };
    says("type_len : 5 bits")
        && says("time_delta : 27 bits")
        && says("padding : type == 29")
        && says("time_extend : type == 30")
        && says("data max type_len == 28")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 says it on a 64-bit machine.
    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";
    const RECORD: &str = "# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";

    #[test]
    fn the_layout_is_what_the_kernel_says() {
        assert_eq!(PageLayout::parse(HEADER), Some(PageLayout::USUAL));
        let narrow = HEADER.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4");
        let narrow = PageLayout::parse(&narrow.replace("offset:16;\tsize:4080", "offset:12;\tsize:4084")).unwrap();
        assert_eq!((narrow.commit_bytes, narrow.data_offset), (4, 12));
        assert!(records_are_as_usual(RECORD));
        let said = PageLayout::of_texts(HEADER, RECORD);
        assert!(said.is_some_and(|layout| layout.is_64_bit()) && !narrow.is_64_bit());
        assert_eq!(PageLayout::of_texts(HEADER, ""), None);
    }

    #[test]
    fn a_layout_that_cannot_be_is_refused() {
        for (from, to) in [
            ("size:8", "size:2"),
            ("offset:16", "offset:4"),
            ("data", "date"),
            ("offset:8;\tsize:8", "offset:x;\tsize:8"),
        ] {
            assert_eq!(PageLayout::parse(&HEADER.replace(from, to)), None, "{from} -> {to}");
        }
        assert_eq!(PageLayout::parse(""), None);
        assert!(!records_are_as_usual(&RECORD.replace("== 28", "== 27")));
    }
}
