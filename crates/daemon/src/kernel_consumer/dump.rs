// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state dump of a trace: gathered by a thread, since /proc of a busy machine takes a while, and written by the loop.
//!
//! A file says that a dump is not all written: a consumer that takes over begins another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use piste_ctf::StreamClass;
use piste_ctf::packet::KERNEL_HEADER_BYTES;
use piste_kernel::state_dump::{self, Packet, STREAM_ID};
use piste_kernel::tracked::Hiding;
use piste_ring::ClockSource;
use rustix::thread::gettid;

use super::folders::STATE_DUMP;
use super::metadata::Metadata;
use super::tally::{Standing, Tally};
use crate::consumer::chunks::Chunks;
use crate::consumer::clock;
use crate::consumer::storage::StorageError;
use crate::consumer::stream::{Identity, Origin, PacketFacts, Seen, Stream};
use crate::link::ChannelTotals;

/// Packets are cut at this size.
const PACKET_BYTES: usize = 64 << 10;
/// Packets that wait to be written.
const WAITING_MAX: usize = 8;

/// The stream of the state dumps of a trace.
pub(super) struct StateDump {
    stream: Stream,
    tally: Tally,
    standing: Standing,
    /// There while a dump is not all written.
    marker: PathBuf,
    running: Option<Running>,
}

struct Running {
    packets: Receiver<Packet>,
    /// One that could not be written yet.
    in_hand: Option<Packet>,
}

impl StateDump {
    /// The state dumps of a trace, in their stream (`identity`).
    ///
    /// # Errors
    /// The file that cannot be opened.
    pub(super) fn open(stream: Stream, tally: &Path, marker: PathBuf) -> Result<StateDump, StorageError> {
        let tally = Tally::open(tally)?;
        let mut dump = StateDump {
            standing: tally.standing(stream.end().next_sequence, false).clone(),
            stream,
            tally,
            marker,
            running: None,
        };
        let (last, end) = (dump.tally.last(), dump.stream.end());
        // A dump that has come to its end is all written.
        let lacks_last = !dump.marker.exists() && last.packet.is_some_and(|packet| end.next_sequence <= packet);
        if lacks_last || last.is_gone(end) {
            dump.standing.events = dump.stream.end().start.events;
            dump.mark();
        }
        Ok(dump)
    }

    /// What its stream's packets say.
    pub(super) fn identity(trace_uuid: [u8; 16]) -> Identity {
        Identity {
            trace_uuid,
            stream_id: STREAM_ID,
            stream_instance_id: 0,
            origin: Origin::Cpu(0),
        }
    }

    /// An earlier consumer did not come to its end.
    pub(super) fn was_interrupted(&self) -> bool {
        self.running.is_none() && self.marker.exists()
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Begins a dump, unless one is being written. Its thread hides itself first.
    pub(super) fn begin(&mut self, clock: ClockSource, hidings: Vec<Hiding>) {
        if self.running.is_some() {
            return;
        }
        self.mark();
        let (sender, packets) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("pisted-dump".into());
        let started = thread.spawn(move || gather(clock, &hidings, &sender));
        if started.is_ok() {
            self.running = Some(Running { packets, in_hand: None });
        }
    }

    /// Says that a dump is not all written.
    fn mark(&self) {
        // A consumer that cannot note it will not begin again after an accident, and that is all.
        let _ = fs::write(&self.marker, "");
    }

    /// The files of its stream were moved with the chunk that ends.
    pub(super) fn moved(&mut self, chunks: &Chunks) {
        chunks.moved(&mut self.stream);
    }

    /// Whether it has to move on.
    pub(super) fn is_behind(&self, chunks: &Chunks) -> bool {
        chunks.is_behind(&self.stream)
    }

    /// Goes on in the next chunk of the trace, once no dump is left to write; with `again`, with another dump. True when it has, also at
    /// an earlier time.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(super) fn move_on(&mut self, chunks: &mut Chunks, again: bool) -> Result<bool, StorageError> {
        if !self.is_behind(chunks) {
            return Ok(true);
        }
        if self.is_running() {
            return Ok(false);
        }
        if again {
            // A consumer that is killed before it begins leaves this to the next one.
            self.mark();
        }
        // The tally counts the events of all chunks.
        let events = self.standing.events.saturating_sub(self.stream.end().start.events);
        chunks.move_on(&mut self.stream, events)?;
        Ok(true)
    }

    /// Writes what was gathered meanwhile. True when no dump is left to write.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(super) fn write(&mut self, metadata: &mut Metadata) -> Result<bool, StorageError> {
        while let Some(running) = &mut self.running {
            if running.in_hand.is_none() {
                match running.packets.try_recv() {
                    Ok(packet) => running.in_hand = Some(packet),
                    Err(TryRecvError::Empty) => return Ok(false),
                    Err(TryRecvError::Disconnected) => {
                        self.running = None;
                        let _ = fs::remove_file(&self.marker);
                        break;
                    }
                }
            }
            if let Some(packet) = &running.in_hand {
                let packet = packet.clone();
                self.write_packet(packet, metadata)?;
            }
            if let Some(running) = &mut self.running {
                running.in_hand = None;
            }
        }
        Ok(true)
    }

    /// Whether somebody has removed its stream, which begins again then.
    pub(super) fn is_gone(&mut self) -> bool {
        let is_gone = matches!(self.stream.look_at_files(), Seen::Gone(_));
        if is_gone {
            // What it has still to write follows on what is gone.
            self.running = None;
            self.standing.events = self.stream.end().start.events;
        }
        is_gone
    }

    /// Gives up the dump that is being written.
    pub(super) fn abandon(&mut self) {
        self.running = None;
    }

    /// What it wrote: events since the session began, bytes and packets of this chunk.
    pub(super) fn totals(&self) -> ChannelTotals {
        let end = self.stream.end();
        ChannelTotals {
            events: self.standing.events,
            bytes: end.data_bytes,
            packets: end.packets,
            ..ChannelTotals::of(STREAM_ID)
        }
    }

    fn write_packet(&mut self, mut packet: Packet, metadata: &mut Metadata) -> Result<(), StorageError> {
        describe(metadata);
        metadata.write()?;
        let sequence = self.stream.end().next_sequence;
        let after = Standing {
            events: self.standing.events + packet.events,
            ..Standing::default()
        };
        self.tally.begin(Some(sequence), &self.standing, &after)?;
        let facts = PacketFacts {
            sequence,
            begin_ticks: packet.begin_ticks,
            end_ticks: packet.end_ticks,
            content_bytes: packet.bytes.len(),
            events: packet.events,
            discarded: 0,
        };
        self.stream.append(&mut packet.bytes, &facts)?;
        self.standing = after;
        Ok(())
    }
}

/// The stream class and the event classes, told once.
fn describe(metadata: &mut Metadata) {
    metadata.add_stream(&StreamClass {
        id: STREAM_ID,
        channel: STATE_DUMP.into(),
        contexts: vec![],
    });
    for class in state_dump::classes() {
        metadata.add_class(STREAM_ID, &class);
    }
}

fn gather(clock: ClockSource, hidings: &[Hiding], to: &SyncSender<Packet>) {
    let own_thread = gettid().as_raw_pid();
    for hiding in hidings {
        hiding.hide(&[own_thread]);
    }
    let now_ticks = || clock::now_ticks(clock);
    state_dump::dump(KERNEL_HEADER_BYTES, PACKET_BYTES, &now_ticks, &mut |packet| {
        to.send(packet).is_ok()
    });
}
