// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index file beside each stream: one entry for each packet, so that a reader finds packets without walking the stream.
//!
//! The format is LTTng's index 1.1, big-endian on every machine:
//!
//! | offset | bytes | file header | | offset | bytes | entry |
//! |---|---|---|---|---|---|---|
//! | 0 | 4 | magic 0xc1f1dcc1 | | 0 | 8 | offset of the packet in the stream file, bytes |
//! | 4 | 4 | major version, 1 | | 8 | 8 | packet size, bits |
//! | 8 | 4 | minor version, 1 | | 16 | 8 | content size, bits |
//! | 12 | 4 | bytes of an entry, 72 | | 24 | 8 | timestamp begin, ticks |
//! | | | | | 32 | 8 | timestamp end, ticks |
//! | | | | | 40 | 8 | events discarded since the start of the stream |
//! | | | | | 48 | 8 | stream class id |
//! | | | | | 56 | 8 | stream instance id |
//! | | | | | 64 | 8 | packet sequence number |

/// First word of an index file.
pub const MAGIC: u32 = 0xc1f1_dcc1;
/// Bytes of the file header.
pub const FILE_HEADER_BYTES: usize = 16;
/// Bytes of an encoded [`Entry`].
pub const ENTRY_BYTES: usize = 72;

const MAJOR: u32 = 1;
const MINOR: u32 = 1;

/// The first bytes of an index file; entries follow.
pub fn file_header() -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    for (place, value) in bytes.chunks_exact_mut(4).zip([MAGIC, MAJOR, MINOR, ENTRY_BYTES as u32]) {
        place.copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

/// Where a packet lies and what it holds.
///
/// ```
/// use piste_ctf::index::{self, Entry};
///
/// let first = Entry { packet_bits: 8 * 4096, content_bits: 8 * 4000, ..Entry::default() };
/// let second = Entry { offset_bytes: 4096, packet_seq_num: 1, ..first };
/// let file = [&index::file_header()[..], &first.encode(), &second.encode()].concat();
/// assert_eq!(index::decode(&file), Some(vec![first, second]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Where the packet starts in the stream file.
    pub offset_bytes: u64,
    /// As in the packet.
    pub packet_bits: u64,
    /// As in the packet.
    pub content_bits: u64,
    /// As in the packet.
    pub timestamp_begin: u64,
    /// As in the packet.
    pub timestamp_end: u64,
    /// As in the packet.
    pub events_discarded: u64,
    /// As in the packet.
    pub stream_id: u64,
    /// As in the packet.
    pub stream_instance_id: u64,
    /// As in the packet.
    pub packet_seq_num: u64,
}

impl Entry {
    /// The entry of a packet with this header that starts at `offset_bytes` of its stream file.
    pub fn of(header: &crate::packet::Header, offset_bytes: u64) -> Entry {
        Entry {
            offset_bytes,
            packet_bits: header.packet_bits,
            content_bits: header.content_bits,
            timestamp_begin: header.timestamp_begin,
            timestamp_end: header.timestamp_end,
            events_discarded: header.events_discarded,
            stream_id: header.stream_id.into(),
            stream_instance_id: header.stream_instance_id,
            packet_seq_num: header.packet_seq_num,
        }
    }

    /// The entry as it stands in a file.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let values = [
            self.offset_bytes,
            self.packet_bits,
            self.content_bits,
            self.timestamp_begin,
            self.timestamp_end,
            self.events_discarded,
            self.stream_id,
            self.stream_instance_id,
            self.packet_seq_num,
        ];
        let mut bytes = [0; ENTRY_BYTES];
        for (place, value) in bytes.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    /// The entry that `bytes` hold.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Entry {
        let value = |index: usize| u64::from_be_bytes(*bytes[8 * index..].first_chunk().expect("inside the entry"));
        Entry {
            offset_bytes: value(0),
            packet_bits: value(1),
            content_bits: value(2),
            timestamp_begin: value(3),
            timestamp_end: value(4),
            events_discarded: value(5),
            stream_id: value(6),
            stream_instance_id: value(7),
            packet_seq_num: value(8),
        }
    }
}

/// The entries of an index file; `None` when it does not start with [`file_header`]. An entry that the file cuts short is left
/// out: its packet was not yet written.
pub fn decode(file: &[u8]) -> Option<Vec<Entry>> {
    let entries = file.strip_prefix(&file_header())?;
    Some(entries.as_chunks().0.iter().map(Entry::decode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_big_endian_and_in_order() {
        assert_eq!(
            file_header(),
            [0xc1, 0xf1, 0xdc, 0xc1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 72]
        );
        let entry = Entry {
            offset_bytes: 0x0102030405060708,
            packet_bits: 1,
            content_bits: 2,
            timestamp_begin: 3,
            timestamp_end: 4,
            events_discarded: 5,
            stream_id: 6,
            stream_instance_id: 7,
            packet_seq_num: 8,
        };
        let bytes = entry.encode();
        assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        for (index, value) in bytes.chunks(8).enumerate().skip(1) {
            assert_eq!(value, [0, 0, 0, 0, 0, 0, 0, index as u8]);
        }
        assert_eq!(Entry::decode(&bytes), entry);
    }

    #[test]
    fn an_entry_says_what_its_packet_says() {
        let header = crate::packet::Header {
            stream_id: 1,
            stream_instance_id: 2,
            timestamp_begin: 3,
            timestamp_end: 4,
            content_bits: 5,
            packet_bits: 6,
            packet_seq_num: 7,
            events_discarded: 8,
            ..Default::default()
        };
        let expected = Entry {
            offset_bytes: 4096,
            packet_bits: 6,
            content_bits: 5,
            timestamp_begin: 3,
            timestamp_end: 4,
            events_discarded: 8,
            stream_id: 1,
            stream_instance_id: 2,
            packet_seq_num: 7,
        };
        assert_eq!(Entry::of(&header, 4096), expected);
    }

    #[test]
    fn a_file_cut_inside_an_entry_keeps_the_entries_before() {
        let file = [
            &file_header()[..],
            &Entry::default().encode(),
            &Entry::default().encode(),
        ]
        .concat();
        assert_eq!(decode(&file[..file.len() - 1]), Some(vec![Entry::default()]));
        assert_eq!(decode(&file_header()), Some(vec![]));
        assert_eq!(decode(&file[..15]), None);
        assert_eq!(decode(&[0; 88]), None);
    }
}
