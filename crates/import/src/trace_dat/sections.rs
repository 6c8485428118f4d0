// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections of a file of version 7: each begins with what it is and how long it is, and may be compressed as a whole. Those with pages are
//! compressed in chunks: `pages.rs`.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::unpack::Compression;
use crate::bytes::{Bytes, Unread};

/// The begin of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) id: u16,
    pub(crate) is_compressed: bool,
    /// Of what follows, as it is in the file.
    bytes: u64,
    offset: u64,
}

/// Formats of all events of a kernel have some ten megabytes.
pub(crate) const SECTION_BYTES_MAX: u64 = 128 << 20;
const HEADER_BYTES: u64 = 16;
const COMPRESSED: u16 = 1;

/// A file from a place on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePart<'f> {
    pub(crate) file: &'f File,
    pub(crate) offset: u64,
}

impl Read for FilePart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = read_at(self.file, buffer, self.offset)?;
        self.offset = self.offset.saturating_add(read as u64);
        Ok(read)
    }
}

/// Reads what is in the file from `offset` on: nothing behind any place that a file can have.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    match i64::try_from(offset) {
        Ok(_) => file.read_at(buffer, offset),
        Err(_) => Ok(0),
    }
}

impl Section {
    /// The section that begins at `offset`. `what` is what is expected there.
    pub(crate) fn at(file: &File, offset: u64, what: &'static str) -> Result<Section, Unread> {
        let mut header = Bytes::new(FilePart { file, offset }, what);
        let (id, flags, _name) = (header.u16()?, header.u16()?, header.u32()?);
        Ok(Section {
            id,
            is_compressed: flags & COMPRESSED != 0,
            bytes: header.u64()?,
            offset: offset.saturating_add(HEADER_BYTES),
        })
    }

    /// What it holds.
    pub(crate) fn read(&self, file: &File, compression: Compression, what: &'static str) -> Result<Vec<u8>, Unread> {
        let offset = self.offset;
        let mut bytes = Bytes::new(FilePart { file, offset }, what);
        if !self.is_compressed {
            return bytes.bytes(self.bytes, SECTION_BYTES_MAX);
        }
        let (packed_bytes, unpacked_bytes) = (bytes.u32()?, bytes.u32()?);
        if u64::from(unpacked_bytes) > SECTION_BYTES_MAX {
            return Err(format!(
                "{what} claims to have {unpacked_bytes} bytes; at most {SECTION_BYTES_MAX} are supported"
            )
            .into());
        }
        let packed = bytes.bytes(packed_bytes.into(), SECTION_BYTES_MAX)?;
        let unpacked = compression.unpack(&packed, unpacked_bytes as usize);
        unpacked.map_err(|_| format!("the compressed data of {what} is damaged").into())
    }
}
