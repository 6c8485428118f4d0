// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 96 bytes at the start of each packet: CTF packet header and packet context.
//!
//! The layout is `struct piste_packet_header` of `include/piste/abi/ring.h`, and [`metadata`](crate::metadata) describes it to
//! readers. A traced program writes the time of its first record; the consumer writes the rest into its own copy.
//!
//! Packets of the kernel domain are the consumer's own. They have 84 bytes there ([`KernelHeader`]): a CPU instead of ring and process.

/// First word of every packet.
pub const MAGIC: u32 = 0xc1fc_1fc1;
/// Bytes of an encoded [`Header`]; the first record starts there.
pub const HEADER_BYTES: usize = 96;
/// Records start at multiples of this many bytes.
pub const UNIT_BYTES: usize = 8;

/// What a packet says about itself.
///
/// ```
/// use piste_ctf::packet::Header;
///
/// let header = Header { packet_seq_num: 7, content_bits: 8 * 100, packet_bits: 8 * 104, ..Header::default() };
/// assert_eq!(Header::decode(&header.encode()), Some(header));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The trace it belongs to.
    pub trace_uuid: [u8; 16],
    /// Stream class: the channel.
    pub stream_id: u32,
    /// Stream: one ring of one program.
    pub stream_instance_id: u64,
    /// Ticks: when the sub-buffer was entered; no record is earlier.
    pub timestamp_begin: u64,
    /// Ticks: time of the last record, else `timestamp_begin`.
    pub timestamp_end: u64,
    /// Header and records, to the exact end of the last record.
    pub content_bits: u64,
    /// The packet in the file: the content and padding to whole units.
    pub packet_bits: u64,
    /// Number of the packet in its stream; a gap is a lost packet.
    pub packet_seq_num: u64,
    /// Events discarded since the start of the stream.
    pub events_discarded: u64,
    /// Ring of the program. Its events may come from any CPU.
    pub ring_index: u32,
    /// Process id in the program's own pid namespace, as the program says.
    pub vpid: i32,
    /// Process id in pisted's pid namespace, as the kernel says.
    pub pid: i32,
    /// User id of the process, as the kernel says.
    pub uid: u32,
}

impl Header {
    /// The header as it stands in a file.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut rest = &mut bytes[..];
        let mut put = |value: &[u8]| {
            let (place, tail) = std::mem::take(&mut rest).split_at_mut(value.len());
            place.copy_from_slice(value);
            rest = tail;
        };
        put(&MAGIC.to_le_bytes());
        put(&self.trace_uuid);
        put(&self.stream_id.to_le_bytes());
        put(&self.stream_instance_id.to_le_bytes());
        put(&self.timestamp_begin.to_le_bytes());
        put(&self.timestamp_end.to_le_bytes());
        put(&self.content_bits.to_le_bytes());
        put(&self.packet_bits.to_le_bytes());
        put(&self.packet_seq_num.to_le_bytes());
        put(&self.events_discarded.to_le_bytes());
        put(&self.ring_index.to_le_bytes());
        put(&self.vpid.to_le_bytes());
        put(&self.pid.to_le_bytes());
        put(&self.uid.to_le_bytes());
        assert!(rest.is_empty());
        bytes
    }

    /// Reads the header of `packet`; `None` when it is shorter than a header or starts with another magic.
    pub fn decode(packet: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_BYTES] = packet.first_chunk()?;
        let word = |offset| u32::from_le_bytes(*bytes[offset..].first_chunk().expect("inside the header"));
        let long = |offset| u64::from_le_bytes(*bytes[offset..].first_chunk().expect("inside the header"));
        (word(0) == MAGIC).then(|| Header {
            trace_uuid: *bytes[4..].first_chunk().expect("inside the header"),
            stream_id: word(20),
            stream_instance_id: long(24),
            timestamp_begin: long(TIMESTAMP_BEGIN_OFFSET),
            timestamp_end: long(40),
            content_bits: long(48),
            packet_bits: long(56),
            packet_seq_num: long(64),
            events_discarded: long(72),
            ring_index: word(80),
            vpid: word(84) as i32,
            pid: word(88) as i32,
            uid: word(92),
        })
    }
}

/// Bytes of an encoded [`KernelHeader`]; the first record starts there.
pub const KERNEL_HEADER_BYTES: usize = 84;

/// What a packet of the kernel domain says about itself: a CPU stands where a program's packets have ring and process.
///
/// ```
/// use piste_ctf::index::Entry;
/// use piste_ctf::packet::{Header, KernelHeader};
///
/// let header = KernelHeader { packet_seq_num: 7, cpu_id: 3, ..KernelHeader::default() };
/// assert_eq!(KernelHeader::decode(&header.encode()), Some(header));
/// assert_eq!(Entry::of(&Header::from(header), 0).packet_seq_num, 7);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelHeader {
    /// The trace it belongs to.
    pub trace_uuid: [u8; 16],
    /// Stream class: the channel.
    pub stream_id: u32,
    /// Stream: one CPU of the channel.
    pub stream_instance_id: u64,
    /// Ticks: no record is earlier.
    pub timestamp_begin: u64,
    /// Ticks: time of the last record, else `timestamp_begin`.
    pub timestamp_end: u64,
    /// Header and records, to the exact end of the last record.
    pub content_bits: u64,
    /// The packet in the file: the content and what pads it.
    pub packet_bits: u64,
    /// Number of the packet in its stream; a gap is a lost packet.
    pub packet_seq_num: u64,
    /// Events discarded since the start of the stream.
    pub events_discarded: u64,
    /// The CPU that recorded its events.
    pub cpu_id: u32,
}

impl KernelHeader {
    /// The header as it stands in a file.
    pub fn encode(&self) -> [u8; KERNEL_HEADER_BYTES] {
        *Header::from(*self).encode().first_chunk().expect("shorter")
    }

    /// Reads the header of `packet`; `None` when it is shorter than a header or starts with another magic.
    pub fn decode(packet: &[u8]) -> Option<KernelHeader> {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..KERNEL_HEADER_BYTES].copy_from_slice(packet.get(..KERNEL_HEADER_BYTES)?);
        let header = Header::decode(&bytes)?;
        Some(KernelHeader {
            trace_uuid: header.trace_uuid,
            stream_id: header.stream_id,
            stream_instance_id: header.stream_instance_id,
            timestamp_begin: header.timestamp_begin,
            timestamp_end: header.timestamp_end,
            content_bits: header.content_bits,
            packet_bits: header.packet_bits,
            packet_seq_num: header.packet_seq_num,
            events_discarded: header.events_discarded,
            cpu_id: header.ring_index,
        })
    }
}

/// What both have in common, with the CPU as the ring: index entries are made of it.
impl From<KernelHeader> for Header {
    fn from(header: KernelHeader) -> Header {
        Header {
            trace_uuid: header.trace_uuid,
            stream_id: header.stream_id,
            stream_instance_id: header.stream_instance_id,
            timestamp_begin: header.timestamp_begin,
            timestamp_end: header.timestamp_end,
            content_bits: header.content_bits,
            packet_bits: header.packet_bits,
            packet_seq_num: header.packet_seq_num,
            events_discarded: header.events_discarded,
            ring_index: header.cpu_id,
            vpid: 0,
            pid: 0,
            uid: 0,
        }
    }
}

pub(crate) const TIMESTAMP_BEGIN_OFFSET: usize = 32;

/// `bytes`, rounded up to whole units.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_place() {
        let header = Header {
            trace_uuid: *b"0123456789abcdef",
            stream_id: 0x11111111,
            stream_instance_id: 0x22222222_22222222,
            timestamp_begin: 0x33333333_33333333,
            timestamp_end: 0x44444444_44444444,
            content_bits: 0x55555555_55555555,
            packet_bits: 0x66666666_66666666,
            packet_seq_num: 0x77777777_77777777,
            events_discarded: 0x88888888_88888888,
            ring_index: 0x99999999,
            vpid: 0x12345678,
            pid: 0x23456789,
            uid: 0xaaaaaaaa,
        };
        let bytes = header.encode();
        assert_eq!(bytes[..4], [0xc1, 0x1f, 0xfc, 0xc1]);
        assert_eq!(&bytes[4..20], b"0123456789abcdef");
        for (range, byte) in [
            (20..24, 0x11),
            (24..32, 0x22),
            (32..40, 0x33),
            (40..48, 0x44),
            (48..56, 0x55),
            (56..64, 0x66),
            (64..72, 0x77),
            (72..80, 0x88),
            (80..84, 0x99),
        ] {
            assert!(
                bytes[range.clone()].iter().all(|b| *b == byte),
                "{range:?} is not {byte:#x}"
            );
        }
        assert_eq!(bytes[84..92], [0x78, 0x56, 0x34, 0x12, 0x89, 0x67, 0x45, 0x23]);
        assert_eq!(bytes[92..], [0xaa; 4]);
        assert_eq!(Header::decode(&bytes), Some(header));
    }

    #[test]
    fn a_kernel_header_ends_with_its_cpu() {
        let header = KernelHeader {
            events_discarded: 5,
            cpu_id: 0x12345678,
            ..KernelHeader::default()
        };
        let bytes = header.encode();
        assert_eq!(bytes[72..], [5, 0, 0, 0, 0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12]);
        assert_eq!(KernelHeader::decode(&bytes), Some(header));
        assert_eq!(KernelHeader::decode(&bytes[..83]), None);
        assert_eq!(KernelHeader::decode(&[0; 84]), None);
    }

    #[test]
    fn what_is_no_packet_is_not_decoded() {
        let bytes = Header::default().encode();
        assert_eq!(Header::decode(&bytes[..87]), None);
        assert_eq!(Header::decode(&[0; 88]), None);
    }
}
