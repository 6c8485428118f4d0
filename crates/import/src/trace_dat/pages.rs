// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a CPU, as the kernel handed them out: one behind the other, or in chunks that are compressed.
//!
//! ```text
//!   count of chunks u32 | for each: compressed bytes u32, bytes u32, data
//! ```

use std::fs::File;
use std::io;

use super::options::CpuPart;
use super::sections::read_at;
use super::unpack::Compression;

/// Walks over the pages of a CPU.
#[derive(Debug)]
pub(crate) struct Pages<'f> {
    file: &'f File,
    page_bytes: usize,
    compression: Option<Compression>,
    /// Where the next page or chunk is in the file.
    offset: u64,
    end: u64,
    /// Chunks that follow.
    chunks_left: u32,
    /// What a chunk was, and how far it was handed out.
    chunk: Vec<u8>,
    chunk_from: usize,
    /// Bytes of the file, since they were last asked for.
    read_bytes: u64,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    /// A page; it is shorter where the file ends within it.
    Page(Vec<u8>),
    /// So many bytes of pages cannot be read: a sentence says why.
    Damaged(String),
}

/// trace-cmd puts some ten pages into a chunk.
const CHUNK_BYTES_MAX: u32 = 16 << 20;

impl<'f> Pages<'f> {
    pub(crate) fn new(file: &'f File, part: &CpuPart, page_bytes: u32, compression: Option<Compression>) -> Pages<'f> {
        // The size of compressed data is told without the count of chunks.
        let count_bytes = if compression.is_some() && part.bytes > 0 { 4 } else { 0 };
        Pages {
            file,
            page_bytes: page_bytes as usize,
            compression,
            offset: part.offset,
            end: part.offset.saturating_add(part.bytes).saturating_add(count_bytes),
            chunks_left: u32::MAX,
            chunk: Vec::new(),
            chunk_from: 0,
            read_bytes: 0,
        }
    }

    /// Bytes of the file that were read since this was last asked.
    pub(crate) fn take_read_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.read_bytes)
    }

    /// The next page, or what is wrong there; `None` at the end.
    ///
    /// # Errors
    /// The system does not let the file be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Next>> {
        let Some(compression) = self.compression else {
            return self.next_plain();
        };
        if self.chunk_from >= self.chunk.len() {
            match self.next_chunk(compression)? {
                None => return Ok(None),
                Some(Err(what)) => return Ok(Some(Next::Damaged(what))),
                Some(Ok(chunk)) => (self.chunk, self.chunk_from) = (chunk, 0),
            }
        }
        let end = self.chunk.len().min(self.chunk_from + self.page_bytes);
        let page = self.chunk[self.chunk_from..end].to_vec();
        self.chunk_from = end;
        Ok(Some(Next::Page(page)))
    }

    fn next_plain(&mut self) -> io::Result<Option<Next>> {
        let wanted = (self.end - self.offset.min(self.end)).min(self.page_bytes as u64) as usize;
        if wanted == 0 {
            return Ok(None);
        }
        let page = self.read(wanted)?;
        if page.len() < wanted {
            self.offset = self.end;
            return Ok(Some(Next::Damaged(CUT.to_owned())));
        }
        Ok(Some(Next::Page(page)))
    }

    /// `None` at the end. After a chunk that is damaged comes the next one.
    fn next_chunk(&mut self, compression: Compression) -> io::Result<Option<Result<Vec<u8>, String>>> {
        let give_up = |pages: &mut Self, what: &str| {
            (pages.chunks_left, pages.offset) = (0, pages.end);
            Ok(Some(Err(what.to_owned())))
        };
        if self.offset >= self.end || self.chunks_left == 0 {
            return Ok(None);
        }
        if self.chunks_left == u32::MAX {
            let Some([count]) = self.words()? else {
                return give_up(self, CUT);
            };
            self.chunks_left = count;
            if count == 0 {
                return Ok(None);
            }
        }
        self.chunks_left -= 1;
        let Some([packed_bytes, bytes]) = self.words()? else {
            return give_up(self, CUT);
        };
        // An empty chunk would let a file of nothing but chunks go on for long.
        if bytes == 0 || bytes > CHUNK_BYTES_MAX || u64::from(packed_bytes) > self.end - self.offset.min(self.end) {
            return give_up(self, "the size of its compressed data is impossible");
        }
        let packed = self.read(packed_bytes as usize)?;
        if packed.len() < packed_bytes as usize {
            return give_up(self, CUT);
        }
        Ok(Some(compression.unpack(&packed, bytes as usize)))
    }

    fn words<const COUNT: usize>(&mut self) -> io::Result<Option<[u32; COUNT]>> {
        let bytes = self.read(4 * COUNT)?;
        let (words, _) = bytes.as_chunks::<4>();
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        Ok((words.len() == COUNT).then(|| std::array::from_fn(|_| words.next().unwrap_or(0))))
    }

    /// So many bytes; fewer at the end of the file.
    fn read(&mut self, count: usize) -> io::Result<Vec<u8>> {
        const STEP: usize = 1 << 20;
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let from = bytes.len();
            bytes.resize(count.min(from + STEP), 0);
            let read = read_at(self.file, &mut bytes[from..], self.offset)?;
            bytes.truncate(from + read);
            self.offset += read as u64;
            self.read_bytes += read as u64;
            if read == 0 {
                break;
            }
        }
        Ok(bytes)
    }
}

const CUT: &str = "the file ends before its data does";
