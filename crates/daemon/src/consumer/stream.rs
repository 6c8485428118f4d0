// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream of a trace: the packets of one ring, in a stream file with an index file beside it.
//!
//! A packet is written to the stream file first and is on disk once its index entry is whole: the index is the consumer's
//! journal. A consumer that was killed between the two leaves bytes behind the last entry, and the next consumer, which opens
//! the stream, cuts them off and goes on with the sequence number after the entry's.
//!
//! A packet without records that repeats the sequence number of its neighbour only says how many events were discarded: it ends
//! a stream whose ring discarded events after its last packet, and begins one whose first packet tells of discarded events.
//! The number 0 of such a first packet does not tell whether the ring had a packet 0 without records; then the next consumer
//! takes that one once more, and nothing is lost. The same packet without records covers a time in which a CPU was recorded and nothing
//! happened there, before the first packet and after the last.
//!
//! A stream may go on from one of another trace ([`Start`]). Its files count from 0; here, everything counts as the ring does.
//!
//! A stream whose files somebody removed, moved or cut begins again in new files, which say that what the old ones had was discarded.
//!
//! What goes into a packet is decided in rings.rs and snapshot.rs; sink.rs writes; storage.rs says what a failed write means.

use std::path::Path;

use piste_ctf::index::Entry;
use piste_ctf::packet::{HEADER_BYTES, Header, KERNEL_HEADER_BYTES, UNIT_BYTES};

use super::continued::StreamKey;
use super::matches::Matches;
use super::sink::{Intact, Paths, Position, StreamFiles, StreamSink};
use super::storage::StorageError;

/// A stream that packets can be appended to. Nothing is on disk before the first one.
#[derive(Debug)]
pub(crate) struct Stream<Sink = StreamFiles> {
    sink: Sink,
    identity: Identity,
    end: End,
    /// Packets go there instead of to the sink.
    matches: Option<Matches>,
}

/// What every packet of a stream says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) trace_uuid: [u8; 16],
    pub(crate) stream_id: u32,
    pub(crate) stream_instance_id: u64,
    pub(crate) origin: Origin,
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// Sequence number of its ring's first packet.
    pub(crate) next_sequence: u64,
    /// Events that were discarded before, of which the stream does not tell.
    pub(crate) discarded: u64,
    /// Events in the streams before it.
    pub(crate) events: u64,
}

/// Where the events of a stream come from; its packets' headers end with it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// A ring of a program.
    Ring { ring_index: u32, process: ProcessIds },
    /// A CPU in the kernel domain.
    Cpu(u32),
}

/// The process whose events a ring holds. The kernel reports `pid` and `uid` when the program connects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessIds {
    /// Process id in its own pid namespace, as the program reports it.
    pub(crate) vpid: i32,
    /// Process id in pisted's pid namespace.
    pub(crate) pid: i32,
    /// User id.
    pub(crate) uid: u32,
}

/// What is particular to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketFacts {
    pub(crate) sequence: u64,
    pub(crate) begin_ticks: u64,
    pub(crate) end_ticks: u64,
    /// Header and records, to the exact end of the last record.
    pub(crate) content_bytes: usize,
    pub(crate) events: u64,
    /// Events discarded since the start of the stream.
    pub(crate) discarded: u64,
}

/// Where a stream ends and what it has, as its index file says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Where it begins.
    pub(crate) start: Start,
    /// Sequence number of the next packet of the ring.
    pub(crate) next_sequence: u64,
    pub(crate) data_bytes: u64,
    pub(crate) packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) end_ticks: u64,
    pub(crate) discarded: u64,
    /// Events in the packets that this consumer wrote.
    pub(crate) events: u64,
    /// Packets that an earlier consumer wrote, whose events are not in `events`.
    pub(crate) earlier_packets: u64,
}

/// What a look at the files of a stream came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Everything,
    /// Nothing is missing.
    IndexMended,
    /// The stream has begun again; it had come to this end.
    Gone(End),
}

impl Stream {
    /// Opens the stream of `identity` in the trace's folder, and goes on behind the packets that it has.
    ///
    /// # Errors
    /// The file that could not be read or cut, and a file that is not the index of such a stream.
    pub(crate) fn open(paths: Paths, identity: Identity) -> Result<Stream, StorageError> {
        Stream::open_continued(paths, identity, Start::default())
    }

    /// As `open`; the stream begins at `start`.
    ///
    /// # Errors
    /// As `open`.
    pub(crate) fn open_continued(paths: Paths, identity: Identity, start: Start) -> Result<Stream, StorageError> {
        let sink = StreamFiles::new(paths);
        let end = match sink.entries()? {
            None => End::at(start),
            Some(entries) => end_of(&entries, &identity, start).ok_or_else(|| sink.foreign())?,
        };
        Ok(Stream {
            sink,
            identity,
            end,
            matches: None,
        })
    }

    /// One whose packets are told instead of written.
    pub(crate) fn of_matches(paths: Paths, identity: Identity, matches: Matches) -> Stream {
        Stream {
            matches: Some(matches),
            ..Stream::ended(paths, identity, End::default())
        }
    }

    /// One that was written to its `end` before.
    pub(crate) fn ended(paths: Paths, identity: Identity, end: End) -> Stream {
        Stream {
            sink: StreamFiles::new(paths),
            identity,
            end,
            matches: None,
        }
    }

    pub(crate) fn paths(&self) -> &Paths {
        self.sink.paths()
    }

    /// Its files lie in another folder now.
    pub(crate) fn moved(&mut self, folder: &Path) {
        self.sink.moved(folder);
    }

    /// Looks whether the files are still there. An index that is not is written again; a stream that is not begins again.
    pub(crate) fn look_at_files(&mut self) -> Seen {
        let end = self.end.position();
        let header_bytes = self.identity.origin.header_bytes();
        if self.matches.is_some() {
            return Seen::Everything;
        }
        match self.sink.intact(end) {
            Intact::Everything => return Seen::Everything,
            Intact::Packets => {
                if let Ok(index) = self.sink.index_of_packets(end, header_bytes) {
                    return match self.sink.replace_index(&index) {
                        Ok(()) => Seen::IndexMended,
                        // Nothing is missing so far. The next look tries again.
                        Err(_) => Seen::Everything,
                    };
                }
            }
            Intact::Nothing => {}
        }
        self.sink.forget();
        let gone = self.end;
        self.begin_again(gone.next_sequence);
        Seen::Gone(gone)
    }
}

impl<Sink: StreamSink> Stream<Sink> {
    /// Appends a packet of the ring: the records are in `packet`, behind the space for the header.
    ///
    /// # Errors
    /// The file that could not be written. The stream is as before, and the same packet can be tried again.
    pub(crate) fn append(&mut self, packet: &mut Vec<u8>, facts: &PacketFacts) -> Result<(), StorageError> {
        self.write(packet, facts)?;
        self.end.next_sequence = facts.sequence + 1;
        Ok(())
    }

    /// Appends a packet without records, unless the stream says already that `discarded` events were discarded. Its time is that
    /// of the end of the stream, or `now_ticks` where there is none.
    ///
    /// # Errors
    /// As `append`.
    pub(crate) fn settle(&mut self, discarded: u64, now_ticks: u64) -> Result<(), StorageError> {
        if discarded <= self.end.discarded {
            return Ok(());
        }
        let ticks = if self.end.packets == 0 {
            now_ticks
        } else {
            self.end.end_ticks
        };
        self.append_quiet(ticks, ticks, discarded)
    }

    /// Appends a packet without records that reaches from the end of the stream to `until_ticks`, unless the stream reaches so far already
    /// and says that `discarded` events were discarded. A stream without packets gets none for a quiet time only.
    ///
    /// # Errors
    /// As `append`.
    pub(crate) fn reach(&mut self, until_ticks: u64, discarded: u64) -> Result<(), StorageError> {
        let end = self.end;
        if end.packets == 0 || until_ticks <= end.end_ticks {
            return self.settle(discarded, until_ticks);
        }
        self.append_quiet(end.end_ticks, until_ticks, discarded.max(end.discarded))
    }

    /// Appends a packet without records: of a time in which nothing happened.
    ///
    /// # Errors
    /// As `append`.
    pub(crate) fn append_quiet(
        &mut self,
        begin_ticks: u64,
        end_ticks: u64,
        discarded: u64,
    ) -> Result<(), StorageError> {
        let facts = PacketFacts {
            sequence: self.end.last_sequence(),
            begin_ticks,
            end_ticks,
            content_bytes: self.identity.origin.header_bytes(),
            events: 0,
            discarded,
        };
        self.write(&mut vec![0; facts.content_bytes], &facts)
    }

    /// Begins the stream again with its ring's packet `next_sequence`: what it had before is gone.
    pub(crate) fn begin_again(&mut self, next_sequence: u64) {
        self.end = End {
            next_sequence,
            lost_packets: self.end.lost_packets,
            end_ticks: self.end.end_ticks,
            ..End::at(self.end.start)
        };
    }

    /// Packets are missing, the last before the next one, that nobody knows the events of. In a stream that begins again, a gap behind its first
    /// packet says so.
    pub(crate) fn lose(&mut self, packets: u64) {
        self.end.lost_packets += packets;
    }

    pub(crate) fn end(&self) -> &End {
        &self.end
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    fn write(&mut self, packet: &mut Vec<u8>, facts: &PacketFacts) -> Result<(), StorageError> {
        let start = self.end.start;
        if self.end.packets == 0 && (facts.discarded > start.discarded || self.end.has_gap(facts)) {
            // Readers count from packet to packet, so that the first one has to say 0.
            let ticks = facts.begin_ticks;
            let first = PacketFacts {
                sequence: self.end.first_sequence(),
                begin_ticks: ticks,
                end_ticks: ticks,
                content_bytes: self.identity.origin.header_bytes(),
                events: 0,
                discarded: start.discarded,
            };
            self.write(&mut vec![0; first.content_bytes], &first)?;
        }
        let header_bytes = self.identity.origin.header_bytes();
        assert!(
            (header_bytes..=packet.len()).contains(&facts.content_bytes),
            "the content lies in the packet"
        );
        let packet_bytes = facts.content_bytes.next_multiple_of(UNIT_BYTES);
        packet.resize(packet_bytes, 0);
        packet[facts.content_bytes..].fill(0);
        let header = self.identity.header(facts, start, packet_bytes);
        // The header of a kernel packet is the same but for its end.
        packet[..header_bytes].copy_from_slice(&header.encode()[..header_bytes]);

        let entry = Entry::of(&header, self.end.data_bytes);
        let end = self.end.position();
        if let Some(matches) = &self.matches {
            matches.take(packet, facts.events, &self.identity);
        } else if let Err(error) = self.sink.append(packet, &entry, end) {
            self.sink.truncate(end);
            return Err(error);
        }
        self.end.follow(&entry, header_bytes);
        self.end.events += facts.events;
        Ok(())
    }
}

impl Origin {
    /// Space that packets have for their header.
    pub(crate) fn header_bytes(self) -> usize {
        match self {
            Origin::Ring { .. } => HEADER_BYTES,
            Origin::Cpu(_) => KERNEL_HEADER_BYTES,
        }
    }
}

impl Identity {
    pub(crate) fn key(&self) -> StreamKey {
        (self.stream_id, self.stream_instance_id)
    }

    fn header(&self, facts: &PacketFacts, start: Start, packet_bytes: usize) -> Header {
        let (ring_index, process) = match self.origin {
            Origin::Ring { ring_index, process } => (ring_index, process),
            Origin::Cpu(cpu) => (cpu, ProcessIds::default()),
        };
        Header {
            trace_uuid: self.trace_uuid,
            stream_id: self.stream_id,
            stream_instance_id: self.stream_instance_id,
            timestamp_begin: facts.begin_ticks,
            timestamp_end: facts.end_ticks,
            content_bits: 8 * facts.content_bytes as u64,
            packet_bits: 8 * packet_bytes as u64,
            packet_seq_num: facts.sequence - start.next_sequence,
            events_discarded: facts.discarded - start.discarded,
            ring_index,
            vpid: process.vpid,
            pid: process.pid,
            uid: process.uid,
        }
    }
}

impl End {
    /// The end behind the packets of an index; `None` when an entry cannot follow the one before it.
    pub(crate) fn of(entries: &[Entry], header_bytes: usize, start: Start) -> Option<End> {
        let mut end = End::at(start);
        for entry in entries {
            if !end.can_follow(entry) {
                return None;
            }
            end.follow(entry, header_bytes);
        }
        end.earlier_packets = end.packets;
        Some(end)
    }

    /// The end of a stream without packets.
    pub(crate) fn at(start: Start) -> End {
        End {
            start,
            next_sequence: start.next_sequence,
            discarded: start.discarded,
            ..End::default()
        }
    }

    fn position(&self) -> Position {
        Position {
            packets: self.packets,
            data_bytes: self.data_bytes,
        }
    }

    /// Where a stream begins that goes on from here, with so many events behind this one's start.
    pub(crate) fn next_start(&self, events: u64) -> Start {
        Start {
            next_sequence: self.next_sequence,
            discarded: self.discarded,
            events: self.start.events + events,
        }
    }

    /// The number of the last packet, or of the first that there can be.
    fn last_sequence(&self) -> u64 {
        self.next_sequence.saturating_sub(1).max(self.start.next_sequence)
    }

    /// The number of a first packet without records: the packets from there to the next one are missing.
    fn first_sequence(&self) -> u64 {
        let last = self.last_sequence();
        last.saturating_sub(self.lost_packets).max(self.start.next_sequence)
    }

    /// Whether packets are missing before the first one, and it does not tell.
    fn has_gap(&self, first: &PacketFacts) -> bool {
        self.lost_packets > 0 && first.sequence > self.first_sequence()
    }

    fn can_follow(&self, entry: &Entry) -> bool {
        let sequence = entry.packet_seq_num.saturating_add(self.start.next_sequence);
        let repeats = sequence.saturating_add(1) == self.next_sequence;
        entry.offset_bytes == self.data_bytes && (repeats || sequence >= self.next_sequence)
    }

    fn follow(&mut self, entry: &Entry, header_bytes: usize) {
        let sequence = entry.packet_seq_num.saturating_add(self.start.next_sequence);
        let has_records = entry.content_bits > 8 * header_bytes as u64;
        if has_records || entry.packet_seq_num > 0 {
            // A stream that has begun again says where with a packet without records.
            let begins_again = self.packets == 0 && !has_records;
            let missing = sequence.saturating_sub(self.next_sequence);
            self.lost_packets += if begins_again { 0 } else { missing };
            self.next_sequence = self.next_sequence.max(sequence.saturating_add(1));
        }
        self.data_bytes += entry.packet_bits / 8;
        self.packets += 1;
        self.end_ticks = entry.timestamp_end;
        self.discarded = self.start.discarded.saturating_add(entry.events_discarded);
    }
}

/// The end behind the packets of an index; `None` when it is another stream's, or an entry cannot follow the one before it.
fn end_of(entries: &[Entry], identity: &Identity, start: Start) -> Option<End> {
    let ours = |entry: &Entry| {
        entry.stream_instance_id == identity.stream_instance_id && entry.stream_id == u64::from(identity.stream_id)
    };
    let all_ours = entries.iter().all(ours);
    all_ours.then(|| End::of(entries, identity.origin.header_bytes(), start))?
}

#[cfg(test)]
mod tests;
