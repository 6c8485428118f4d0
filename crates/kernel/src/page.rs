// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of the kernel's ring: a sub-buffer as the kernel hands it out, and the records in it.
//!
//! ```text
//!   timestamp u64 | commit (a long) | data ...
//!                    bits 0..29: bytes of data that hold records
//!                    bit 30: the count of lost records follows them     bit 31: records before this page were lost
//!
//!   a record: u32 = type_len (5 bits) | time_delta (27 bits), then by type_len
//!     1..28  4 * type_len bytes of data
//!     0      u32 bytes (itself counted), then the data
//!     29     nothing: to the end of the page where time_delta is 0, else u32 bytes (itself counted) to skip
//!     30     u32 more of the delta, above the 27 bits               31     u32 likewise, but it is the time, not a delta
//! ```
//!
//! The bytes come from the kernel, but a page may have been kept in a file: nothing in it is believed. What the data of a record says
//! is the affair of `format.rs` and `convert.rs`.

mod layout;
mod records;
mod writer;

pub use self::layout::PageLayout;
pub use self::records::{Record, Records};
pub use self::writer::PageWriter;

const LOST: u32 = 1 << 31;
const LOST_STORED: u32 = 1 << 30;

/// What is wrong with a page. What came before the fault is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// There is no room for a header.
    #[error("the page has {page_bytes} bytes, but its header needs {header_bytes}")]
    NoHeader {
        /// What there is.
        page_bytes: usize,
        /// What it takes.
        header_bytes: usize,
    },
    /// The records reach past the end of the page.
    #[error("the page claims {commit_bytes} bytes of records, but has room for {data_bytes}")]
    CommitTooLarge {
        /// What the header says.
        commit_bytes: usize,
        /// What there is.
        data_bytes: usize,
    },
    /// A record reaches past the end of the records.
    #[error("offset {offset}: a record has {record_bytes} bytes, but only {left_bytes} are left")]
    RecordTooLong {
        /// Of the record in the data of the page.
        offset: usize,
        /// What its head says, with the head.
        record_bytes: usize,
        /// What there is.
        left_bytes: usize,
    },
    /// A length that counts itself and is smaller than that.
    #[error("offset {offset}: a record claims {said_bytes} bytes, fewer than the minimum of four")]
    RecordTooShort {
        /// Of the record in the data of the page.
        offset: usize,
        /// What it says.
        said_bytes: usize,
    },
}

/// Records that should have been before a page and are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lost {
    /// None.
    None,
    /// So many.
    Count(u64),
    /// Some; the page had no room to say how many. The CPU's counts say it ([`crate::cpu_stats::CpuStats`]).
    Unknown,
}

/// A page whose header was checked.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    begin_ticks: u64,
    lost: Lost,
    records: &'a [u8],
}

impl<'a> Page<'a> {
    /// Checks the header of a page.
    ///
    /// # Errors
    /// The page is no page. Records are looked at later, each in its turn.
    pub fn parse(layout: &PageLayout, bytes: &'a [u8]) -> Result<Self, Damage> {
        let (Some((_, data)), Some(begin_ticks), Some(commit)) = (
            bytes.split_at_checked(layout.header_bytes()),
            layout.timestamp(bytes),
            layout.commit(bytes),
        ) else {
            return Err(Damage::NoHeader {
                page_bytes: bytes.len(),
                header_bytes: layout.header_bytes(),
            });
        };
        // The upper half of a long means nothing: the kernel adds bit 31 as a negative number.
        let commit = commit as u32;
        let flags = commit & (LOST | LOST_STORED);
        let commit_bytes = (commit & !flags) as usize;
        let Some((records, behind)) = data.split_at_checked(commit_bytes) else {
            let data_bytes = data.len();
            return Err(Damage::CommitTooLarge {
                commit_bytes,
                data_bytes,
            });
        };
        let lost = match flags {
            0 => Lost::None,
            flags if flags & LOST_STORED != 0 => layout.long(behind).map_or(Lost::Unknown, Lost::Count),
            _ => Lost::Unknown,
        };
        Ok(Self {
            begin_ticks,
            lost,
            records,
        })
    }

    /// The time that the first record counts from, in ticks: at or before it.
    pub fn begin_ticks(&self) -> u64 {
        self.begin_ticks
    }

    /// What is missing before this page: an overwriting ring tells here what it overwrote, a discarding one only in the CPU's counts.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Bytes that records take, with their heads.
    pub fn record_bytes(&self) -> usize {
        self.records.len()
    }

    /// The records in the order in which they were reserved.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        Records::new(self.begin_ticks, self.records)
    }
}
