// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a state dump as CTF records, gathered into packets.

use super::event::{Event, Listener};

/// Records, behind space for the header that whoever writes the packet fills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The space and the records.
    pub bytes: Vec<u8>,
    /// Time of the first record.
    pub begin_ticks: u64,
    /// Time of the last record.
    pub end_ticks: u64,
    /// Records.
    pub events: u64,
}

/// Gathers records until a packet is full.
#[derive(Debug)]
pub struct Packets {
    header_bytes: usize,
    packet_bytes: usize,
    open: Option<Packet>,
}

/// What stands in a compact header's id when the full id and the full time follow. Ids of these classes are less than 30.
const EXTENDED: u32 = 31;
/// Bits of a compact header's id.
const ID_BITS: u32 = 5;
/// A compact header has the low bits of the time: enough to tell it from the last record's up to this many ticks.
const COMPACT_TICKS: u64 = 1 << (u32::BITS - ID_BITS);

impl Packets {
    /// Packets of at most `packet_bytes`, except for a record that is longer, with `header_bytes` of space in front.
    pub fn new(header_bytes: usize, packet_bytes: usize) -> Packets {
        Packets {
            header_bytes,
            packet_bytes,
            open: None,
        }
    }

    /// Adds an event that is true now; returns the packet that is full.
    pub fn add(&mut self, event: &Event, now_ticks: u64) -> Option<Packet> {
        let last_ticks = self.open.as_ref().map_or(now_ticks, |open| open.end_ticks);
        // A counter may be read on another CPU, a few ticks behind.
        let ticks = now_ticks.max(last_ticks);
        let record = encode(event, ticks, ticks - last_ticks);
        let is_full = |open: &Packet| open.bytes.len() + record.len() > self.packet_bytes;
        let full = if self.open.as_ref().is_some_and(is_full) {
            self.open.take()
        } else {
            None
        };
        let open = self.open.get_or_insert_with(|| Packet {
            bytes: vec![0; self.header_bytes],
            begin_ticks: ticks,
            end_ticks: ticks,
            events: 0,
        });
        open.bytes.extend(record);
        open.end_ticks = ticks;
        open.events += 1;
        full
    }

    /// The last packet, which is not full.
    pub fn finish(&mut self) -> Option<Packet> {
        self.open.take()
    }
}

/// One record: header and fields, nothing aligned.
fn encode(event: &Event, ticks: u64, since_last_ticks: u64) -> Vec<u8> {
    let (id, _) = event.class();
    let mut record = Record(Vec::with_capacity(128));
    if since_last_ticks < COMPACT_TICKS {
        record.0.extend(((ticks as u32) << ID_BITS | id).to_le_bytes());
    } else {
        // The five bits of the id are a byte: what follows is aligned.
        record.0.push(EXTENDED as u8);
        record.0.extend(id.to_le_bytes());
        record.0.extend(ticks.to_le_bytes());
    }
    event.tell(&mut record);
    record.0
}

struct Record(Vec<u8>);

impl Listener for Record {
    fn signed(&mut self, _: &'static str, value: i32) {
        self.0.extend(value.to_le_bytes());
    }

    fn unsigned(&mut self, _: &'static str, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, _: &'static str, value: &str) {
        // The text ends at the first zero.
        self.0.extend(value.bytes().take_while(|byte| *byte != 0));
        self.0.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Block;
    use super::*;

    fn block(name: &str) -> Event {
        Event::Block(Block {
            device: 0x0080_0001,
            name: name.into(),
        })
    }

    #[test]
    fn record_has_the_low_bits_of_the_time_unless_it_is_long_after_the_last() {
        let mut packets = Packets::new(4, 4096);
        assert_eq!(packets.add(&block("a"), 1000), None);
        assert_eq!(packets.add(&Event::End, 1000 + COMPACT_TICKS), None);
        let packet = packets.finish().unwrap();
        let first = [
            &(1000u32 << 5 | 4).to_le_bytes()[..],
            &0x0080_0001u32.to_le_bytes(),
            b"a\0",
        ]
        .concat();
        let second = [&[31][..], &1u32.to_le_bytes(), &(1000 + COMPACT_TICKS).to_le_bytes()].concat();
        assert_eq!(packet.bytes, [&[0; 4][..], &first, &second].concat());
        assert_eq!(
            (packet.begin_ticks, packet.end_ticks, packet.events),
            (1000, 1000 + COMPACT_TICKS, 2)
        );
        assert_eq!(packets.finish(), None);
    }

    #[test]
    fn full_packet_is_handed_over_and_a_long_record_has_one_of_its_own() {
        let mut packets = Packets::new(0, 64);
        let long = "x".repeat(100);
        assert_eq!(packets.add(&block("short"), 1), None);
        let first = packets.add(&block(&long), 2).unwrap();
        let second = packets.add(&block("short"), 3).unwrap();
        let third = packets.finish().unwrap();
        let bytes = [&first, &second, &third].map(|packet| packet.bytes.len());
        assert_eq!(bytes, [14, 109, 14]);
        assert_eq!([first.begin_ticks, second.begin_ticks, third.begin_ticks], [1, 2, 3]);
    }

    #[test]
    fn time_never_goes_back_and_a_zero_ends_a_text() {
        let mut packets = Packets::new(0, 4096);
        packets.add(&Event::Start, 100);
        packets.add(&block("a\0b"), 99);
        let packet = packets.finish().unwrap();
        assert_eq!(packet.end_ticks, 100);
        assert_eq!(packet.bytes[4..8], (100u32 << 5 | 4).to_le_bytes());
        assert_eq!(&packet.bytes[12..], b"a\0");
    }
}
