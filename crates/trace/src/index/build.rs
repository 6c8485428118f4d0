// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks at the start of each packet of a file. Behind damage the next packet is searched.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use piste_ctf::read::packet::{MAGIC, PacketFault, PacketInfo, StreamReader};
use piste_ctf::read::plan::Plan;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::{FileState, Loss, Packet, StreamIndex};
use crate::finding::{Finding, Findings, Kind};
use crate::{progress, regular};

/// Enough for the headers of every tracer that is known.
const HEAD_BYTES: usize = 512;
/// A header may be as large as this.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// The same while one is searched, where any place may look like a start.
const SEARCHED_HEAD_BYTES_MAX: usize = 4 << 10;
/// Small packets are read many at a time.
const BLOCK_BYTES: usize = 64 << 10;
const SMALL_PACKET_BYTES: u64 = 16 << 10;

/// The index of a file, and whether nothing was wrong with it.
pub(super) fn index(
    plan: &Plan,
    path: &Path,
    state: FileState,
    findings: &mut Findings,
) -> io::Result<(StreamIndex, bool)> {
    let mut builder = Builder {
        file: regular::open(path)?,
        path,
        reader: StreamReader::new(plan),
        block: Vec::new(),
        block_at: 0,
        block_bytes: HEAD_BYTES,
        index: StreamIndex {
            path: path.to_owned(),
            state,
            class_id: 0,
            stream_id: None,
            number: 0,
            cpu_id: None,
            first_number: None,
            packets: Vec::new(),
            losses: Vec::new(),
            missing_packets: 0,
        },
        discarded: 0,
        sequence: None,
        is_whole: true,
    };
    builder.build(plan.schema.uuid, findings)?;
    Ok((builder.index, builder.is_whole))
}

struct Builder<'a> {
    file: File,
    path: &'a Path,
    reader: StreamReader<'a>,
    block: Vec<u8>,
    block_at: u64,
    block_bytes: usize,
    index: StreamIndex,
    discarded: u64,
    sequence: Option<u64>,
    is_whole: bool,
}

impl Builder<'_> {
    fn build(&mut self, uuid: Option<[u8; 16]>, findings: &mut Findings) -> io::Result<()> {
        let file_bytes = self.index.state.bytes;
        let (mut offset, mut told) = (0, 0);
        while offset < file_bytes {
            progress::indexed(offset - told);
            told = offset;
            match self.packet(offset, HEAD_BYTES_MAX)? {
                Ok(info) => {
                    if is_other(&info, uuid) {
                        let what = "the packet has the UUID of another trace, but is read as a packet of this trace";
                        self.find(findings, Kind::OtherTrace, offset, what.into());
                    }
                    let next = self.step(&info, offset, file_bytes);
                    let said = info.total_bits.map_or(file_bytes - offset, |bits| bits / 8);
                    if said > file_bytes - offset {
                        let left = file_bytes - offset;
                        let what = format!("the file ends after {left} of the {said} bytes of the packet");
                        self.find(findings, Kind::CutFile, offset, what);
                    }
                    self.add(&info, offset, next - offset);
                    offset = next;
                }
                Err(fault) => {
                    let kind = match fault {
                        PacketFault::UnknownStream(_) => Kind::UnknownStream,
                        PacketFault::Short => Kind::CutFile,
                        _ => Kind::DamagedPacket,
                    };
                    self.find(findings, kind, offset, format!("no packet begins here: {fault}"));
                    match self.search(offset + 1, uuid)? {
                        Some(next) => offset = next,
                        None => break,
                    }
                }
            }
        }
        progress::indexed(file_bytes - told);
        Ok(())
    }

    /// Where the next packet begins, if there is one.
    fn step(&mut self, info: &PacketInfo, offset: u64, file_bytes: u64) -> u64 {
        let bytes = info.total_bits.map_or(file_bytes - offset, |bits| bits / 8);
        self.block_bytes = if bytes <= SMALL_PACKET_BYTES {
            BLOCK_BYTES
        } else {
            HEAD_BYTES
        };
        (offset + bytes).min(file_bytes)
    }

    fn add(&mut self, info: &PacketInfo, offset: u64, bytes: u64) {
        let index = &mut self.index;
        if index.packets.is_empty() {
            index.class_id = info.stream_class_id;
            index.stream_id = info.stream_id;
            index.cpu_id = info.cpu_id;
            index.first_number = info.sequence_number;
        }
        let discarded = info.discarded_events.unwrap_or(self.discarded);
        let lost_packets = match (self.sequence, info.sequence_number) {
            (Some(before), Some(now)) => now.saturating_sub(before).saturating_sub(1),
            _ => 0,
        };
        let loss = Loss {
            packet: index.packets.len() as u64,
            // A counter that goes back began again.
            discarded_events: discarded.saturating_sub(self.discarded),
            lost_packets,
        };
        if loss.discarded_events > 0 || loss.lost_packets > 0 {
            index.losses.push(loss);
        }
        self.discarded = discarded;
        self.sequence = info.sequence_number.or(self.sequence);
        index.packets.push(Packet {
            offset,
            bytes,
            begin: info.begin,
            end: info.end,
            is_empty: info.content_bits.is_some_and(|bits| bits <= info.events_at),
        });
    }

    /// Reads the header of the packet at `offset`, of as many bytes as it needs, but `bytes_max`.
    fn packet(&mut self, offset: u64, bytes_max: usize) -> io::Result<Result<PacketInfo, PacketFault>> {
        let mut wanted = self.block_bytes;
        loop {
            let is_here =
                offset >= self.block_at && offset + (HEAD_BYTES as u64) <= self.block_at + self.block.len() as u64;
            if !is_here || wanted > self.block_bytes {
                self.read(offset, wanted)?;
            }
            let head = &self.block[(offset - self.block_at) as usize..];
            let head = &head[..head.len().min(bytes_max)];
            let is_all = self.block_at + self.block.len() as u64 >= self.index.state.bytes;
            match self.reader.packet(head) {
                Ok(info) => return Ok(Ok(info.clone())),
                Err(PacketFault::Short) if !is_all && wanted < bytes_max => wanted *= 4,
                Err(fault) => return Ok(Err(fault)),
            }
        }
    }

    fn read(&mut self, offset: u64, wanted: usize) -> io::Result<()> {
        self.block.resize(wanted, 0);
        self.block_at = offset;
        let mut filled = 0;
        while filled < wanted {
            match self.file.read_at(&mut self.block[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.block.truncate(filled);
        Ok(())
    }

    /// The next place from `offset` on where a packet can be read.
    fn search(&mut self, mut offset: u64, uuid: Option<[u8; 16]>) -> io::Result<Option<u64>> {
        let magic = MAGIC as u32;
        let patterns = [magic.to_le_bytes(), magic.to_be_bytes()];
        loop {
            // Nothing is in a hole, and there may be terabytes of it.
            offset = match seek(&self.file, SeekFrom::Data(offset)) {
                Ok(data) => data,
                Err(Errno::NXIO) => break,
                Err(_) => offset,
            };
            if offset >= self.index.state.bytes {
                break;
            }
            self.read(offset, BLOCK_BYTES)?;
            let block = self.block.clone();
            let places = (0..block.len().saturating_sub(3))
                .filter(|&at| patterns.iter().any(|pattern| block[at..].starts_with(pattern)));
            for at in places {
                let place = offset + at as u64;
                let found = self.packet(place, SEARCHED_HEAD_BYTES_MAX)?;
                if found.is_ok_and(|info| !is_other(&info, uuid)) {
                    return Ok(Some(place));
                }
            }
            if block.len() < 4 {
                break;
            }
            // A pattern may begin in the last three bytes.
            offset += block.len() as u64 - 3;
        }
        Ok(None)
    }

    fn find(&mut self, findings: &mut Findings, kind: Kind, offset: u64, what: String) {
        self.is_whole = false;
        findings.add(Finding {
            kind,
            file: self.path.to_owned(),
            count: 1,
            offset,
            what,
        });
    }
}

/// Both have a uuid, and not the same.
fn is_other(info: &PacketInfo, uuid: Option<[u8; 16]>) -> bool {
    info.uuid.is_some() && uuid.is_some() && info.uuid != uuid
}
