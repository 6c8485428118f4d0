// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records that wait for the next page, as bytes that can be kept outside of a process.
//!
//! | | |
//! |---|---|
//! | u64 | time |
//! | u32 | bytes of the record |
//! | bytes | the record |

use crate::page::Record;

/// Appends a record.
pub(super) fn append(kept: &mut Vec<u8>, record: Record) {
    kept.extend(record.ticks.to_le_bytes());
    kept.extend((record.data.len() as u32).to_le_bytes());
    kept.extend(record.data);
}

/// The records; ends before one that is not whole.
#[derive(Clone, Debug)]
pub(super) struct Kept<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Kept<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (ticks, rest) = self.0.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let (data, rest) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
        self.0 = rest;
        Some(Record {
            ticks: u64::from_le_bytes(*ticks),
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let records = [
            Record { ticks: 7, data: b"abc" },
            Record {
                ticks: u64::MAX,
                data: b"",
            },
        ];
        let mut kept = Vec::new();
        for record in records {
            append(&mut kept, record);
        }
        assert!(Kept(&kept).eq(records));
        assert_eq!(Kept(&kept[..kept.len() - 1]).count(), 1);
        assert_eq!(Kept(&kept[..14]).count(), 0);
    }
}
