// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace that an import writes: streams of CPUs, each with its index, and at last the metadata that describes them.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use piste_ctf::index::{self, Entry};
use piste_ctf::metadata::{self, Form};
use piste_ctf::packet::{Header, KERNEL_HEADER_BYTES, KernelHeader, UNIT_BYTES};
use piste_ctf::{EventClass, StreamClass, Trace};

use crate::ImportError;

/// A trace of a kernel that is being written.
#[derive(Debug)]
pub(crate) struct TraceFolder {
    folder: PathBuf,
    uuid: [u8; 16],
    streams: Vec<StreamClass>,
    /// By stream class and number.
    classes: BTreeMap<(u32, u32), EventClass>,
}

/// A stream that packets are appended to.
#[derive(Debug)]
pub(crate) struct Stream {
    path: PathBuf,
    stream: BufWriter<File>,
    index: BufWriter<File>,
    uuid: [u8; 16],
    stream_id: u32,
    cpu: u32,
    bytes: u64,
    packets: u64,
    end_ticks: u64,
    /// Number of the next packet that has events.
    sequence: u64,
    /// Events that were discarded, as far as packets tell.
    discarded: u64,
}

/// What is particular to a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketFacts {
    pub(crate) begin_ticks: u64,
    pub(crate) end_ticks: u64,
    /// Events discarded since the begin of the stream.
    pub(crate) discarded: u64,
}

impl TraceFolder {
    /// In a folder that is made.
    pub(crate) fn create(folder: &Path, uuid: [u8; 16]) -> Result<TraceFolder, ImportError> {
        for folder in [folder.to_owned(), folder.join("index")] {
            let made = DirBuilder::new().mode(0o750).create(&folder);
            made.map_err(|error| unwritable(&folder, error))?;
        }
        Ok(TraceFolder {
            folder: folder.to_owned(),
            uuid,
            streams: Vec::new(),
            classes: BTreeMap::new(),
        })
    }

    pub(crate) fn add_channel(&mut self, class: StreamClass) {
        self.streams.push(class);
    }

    pub(crate) fn add_classes(&mut self, stream_id: u32, classes: impl IntoIterator<Item = EventClass>) {
        for class in classes {
            self.classes.entry((stream_id, class.id)).or_insert(class);
        }
    }

    /// The stream of a CPU. Its first packet is numbered `first_sequence`: readers take one that begins with 0 for recorded from the begin of
    /// the trace on.
    pub(crate) fn stream(&self, channel: &StreamClass, cpu: u32, first_sequence: u64) -> Result<Stream, ImportError> {
        let name = format!("{}_{cpu}", channel.channel);
        let path = self.folder.join(&name);
        let index_path = self.folder.join("index").join(format!("{name}.idx"));
        let mut index = BufWriter::new(create(&index_path)?);
        let begun = index.write_all(&index::file_header());
        begun.map_err(|error| unwritable(&index_path, error))?;
        Ok(Stream {
            stream: BufWriter::new(create(&path)?),
            path,
            index,
            uuid: self.uuid,
            stream_id: channel.id,
            cpu,
            bytes: 0,
            packets: 0,
            end_ticks: 0,
            sequence: first_sequence,
            discarded: 0,
        })
    }

    /// Writes the metadata.
    pub(crate) fn finish(self, trace: &Trace) -> Result<(), ImportError> {
        let mut text = metadata::opening(trace, Form::Kernel);
        for stream in &self.streams {
            text += &metadata::stream_class(stream);
            let classes = self.classes.range((stream.id, 0)..=(stream.id, u32::MAX));
            classes.for_each(|(_, class)| text += &metadata::event_class(stream.id, class));
        }
        let path = self.folder.join("metadata");
        let written = create(&path)?.write_all(text.as_bytes());
        written.map_err(|error| unwritable(&path, error))
    }
}

impl Stream {
    /// Where its last packet ends.
    pub(crate) fn end_ticks(&self) -> u64 {
        self.end_ticks
    }

    /// Events that were discarded, as far as its packets tell.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Appends a packet with events, which are in `packet` behind the space for its header.
    pub(crate) fn append(&mut self, packet: &mut Vec<u8>, facts: PacketFacts) -> Result<(), ImportError> {
        if self.packets == 0 && facts.discarded > 0 {
            // Readers count from packet to packet, so that the first one has to say 0.
            let end_ticks = facts.begin_ticks;
            self.append_quiet(PacketFacts {
                end_ticks,
                discarded: 0,
                ..facts
            })?;
        }
        self.write(packet, self.sequence, facts)?;
        self.sequence += 1;
        Ok(())
    }

    /// Appends a packet without events: nothing happened in its time.
    pub(crate) fn append_quiet(&mut self, facts: PacketFacts) -> Result<(), ImportError> {
        self.write(
            &mut vec![0; KERNEL_HEADER_BYTES],
            self.sequence.saturating_sub(1),
            facts,
        )
    }

    /// A packet is missing.
    pub(crate) fn lose_packet(&mut self) {
        self.sequence += 1;
    }

    /// All of it is written.
    pub(crate) fn finish(mut self) -> Result<(), ImportError> {
        let flushed = self.stream.flush().and_then(|()| self.index.flush());
        flushed.map_err(|error| unwritable(&self.path, error))
    }

    fn write(&mut self, packet: &mut Vec<u8>, sequence: u64, facts: PacketFacts) -> Result<(), ImportError> {
        let content_bytes = packet.len();
        packet.resize(content_bytes.next_multiple_of(UNIT_BYTES), 0);
        let discarded = facts.discarded.max(self.discarded);
        let header = KernelHeader {
            trace_uuid: self.uuid,
            stream_id: self.stream_id,
            stream_instance_id: self.cpu.into(),
            timestamp_begin: facts.begin_ticks,
            timestamp_end: facts.end_ticks,
            content_bits: 8 * content_bytes as u64,
            packet_bits: 8 * packet.len() as u64,
            packet_seq_num: sequence,
            events_discarded: discarded,
            cpu_id: self.cpu,
        };
        packet[..KERNEL_HEADER_BYTES].copy_from_slice(&header.encode());
        let entry = Entry::of(&Header::from(header), self.bytes);
        let written = self
            .stream
            .write_all(packet)
            .and_then(|()| self.index.write_all(&entry.encode()));
        written.map_err(|error| unwritable(&self.path, error))?;
        self.bytes += packet.len() as u64;
        self.packets += 1;
        (self.discarded, self.end_ticks) = (discarded, facts.end_ticks);
        Ok(())
    }
}

pub(crate) fn create(path: &Path) -> Result<File, ImportError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path);
    file.map_err(|error| unwritable(path, error))
}

pub(crate) fn unwritable(path: &Path, error: io::Error) -> ImportError {
    ImportError::Unwritable {
        path: path.to_owned(),
        error,
    }
}
