// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that a stream is written to: its packets, and an index of them where the source has one.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use piste_ctf::index::{Entry, file_header};
use piste_ctf::read::packet::PacketInfo;

use super::CopyError;
use crate::privacy;

/// The file, which is made when there is something to write.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    /// Absent between packets when it is not kept open.
    file: Option<BufWriter<File>>,
    keeps_open: bool,
    pub(super) bytes: u64,
    /// Where its index goes, if it has one.
    index: Option<PathBuf>,
    entries: Vec<Entry>,
}

impl Output {
    pub(super) fn new(path: PathBuf, index: Option<PathBuf>, keeps_open: bool) -> Output {
        Output {
            path,
            file: None,
            keeps_open,
            bytes: 0,
            index,
            entries: Vec::new(),
        }
    }

    /// A packet comes.
    pub(super) fn begin(&mut self, info: &PacketInfo, bytes: u64) {
        if self.index.is_none() {
            return;
        }
        self.entries.push(Entry {
            offset_bytes: self.bytes,
            packet_bits: 8 * bytes,
            content_bits: info.content_bits.unwrap_or(8 * bytes),
            timestamp_begin: info.begin.unwrap_or(0),
            timestamp_end: info.end.unwrap_or(0),
            events_discarded: info.discarded_events.unwrap_or(0),
            stream_id: info.stream_class_id,
            stream_instance_id: info.stream_id.unwrap_or(0),
            packet_seq_num: info.sequence_number.unwrap_or(0),
        });
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        self.try_write(bytes).map_err(|error| self.unwritable(error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                // Nobody else may have made it meanwhile, the first time.
                let is_new = self.bytes == 0;
                let file = privacy::file().append(true).create_new(is_new).open(&self.path)?;
                none.insert(BufWriter::new(file))
            }
        };
        file.write_all(bytes)?;
        if !self.keeps_open {
            file.flush()?;
            self.file = None;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), CopyError> {
        if self.bytes == 0 {
            return Ok(());
        }
        if let Some(mut file) = self.file.take() {
            file.flush().map_err(|error| self.unwritable(error))?;
        }
        if let Some(path) = self.index.take() {
            let entries = self.entries.iter().flat_map(Entry::encode);
            let bytes: Vec<u8> = file_header().into_iter().chain(entries).collect();
            privacy::write(&path, &bytes).map_err(|error| CopyError::Unwritable { path, error })?;
        }
        Ok(())
    }

    fn unwritable(&self, error: io::Error) -> CopyError {
        CopyError::Unwritable {
            path: self.path.clone(),
            error,
        }
    }
}
