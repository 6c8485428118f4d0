// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that a page of the kernel's ring is read into and that outlives the reader: a file in the run folder, mapped.
//!
//! ```text
//!   offset  bytes  meaning                                                     since version 1
//!        0      8  magic "PISTEKRB"; the maker writes it last
//!        8      4  version
//!       12      4  bytes of a sub-buffer
//!       16      8  session
//!       24      4  stream id of the channel
//!       28      4  CPU
//!       32      8  1 if the two words below are about the page, else 0
//!       40      8  step of the stream that writes the page
//!       48      8  sequence number of its packet there
//!       56      8  of a page that was made here: where the source of its records goes on
//!     4096    ...  the page, as the kernel wrote it
//! ```
//!
//! Words are the machine's. A file is used by one process at a time, which the lock on it sees to, and by the kernel in that process's
//! name; so nobody else changes the memory while a slice of it lives. The next process finds what was last written, whenever the one before it
//! was killed: `ring.rs` gives that a meaning.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, munmap};

use crate::tracefs::named;

const MAGIC: u64 = u64::from_ne_bytes(*b"PISTEKRB");
const VERSION: u32 = 1;
const IS_NOTED: usize = 32;
const STEP: usize = 40;
const PACKET: usize = 48;
const SUPPLY: usize = 56;
const PAGE: usize = 4096;
/// The least that any machine has; touching too often does no harm.
const MEMORY_PAGE_BYTES: usize = 4096;
/// How long a reader that was killed may take to be gone.
const LOCK_MAX: Duration = Duration::from_secs(5);

/// Whose ring it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RingKey {
    /// The session.
    pub session: u64,
    /// The channel in it.
    pub stream_id: u32,
    /// The CPU.
    pub cpu: u32,
}

/// Where a page goes: noted before it is written, so that the next reader can see whether it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// Which step of the stream, as its writer counts them.
    pub step: u64,
    /// Sequence number of the packet in its stream.
    pub packet: u64,
}

/// The file, locked and mapped.
#[derive(Debug)]
pub struct SharedBuffer {
    memory: NonNull<u8>,
    page_bytes: usize,
    key: RingKey,
    _lock: File,
}

// SAFETY: the mapping belongs to this value alone, and may be used from any thread.
unsafe impl Send for SharedBuffer {}

impl SharedBuffer {
    /// Opens the buffer of a ring with the page that may be in it, or makes a new one. One process at a time has it; waits shortly for one
    /// that is about to die.
    ///
    /// The run folder is best in memory (tmpfs): elsewhere the kernel writes the file to the disk now and then, for nothing.
    ///
    /// # Errors
    /// The file cannot be made, or somebody else holds it.
    pub fn open(path: &Path, key: RingKey, subbuf_bytes: u32) -> io::Result<Self> {
        Self::try_open(path, key, subbuf_bytes).map_err(|error| named(&error, path.display()))
    }

    fn try_open(path: &Path, key: RingKey, subbuf_bytes: u32) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        lock(&file)?;
        let page_bytes = subbuf_bytes as usize;
        let bytes = PAGE + page_bytes;
        let head = head(key, subbuf_bytes);
        if file.metadata()?.len() != bytes as u64 || !begins_with(&file, &head)? {
            file.set_len(0)?;
            // Room now, so that no later write finds the disk full.
            match fallocate(&file, FallocateFlags::empty(), 0, bytes as u64) {
                Err(Errno::OPNOTSUPP) => file.write_all(&vec![0; bytes])?,
                result => result?,
            }
        }
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let memory = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(
                ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED | MapFlags::POPULATE,
                &file,
                0,
            )?
        };
        // SAFETY: the bytes that were just mapped. That it may fail is no matter: each page is touched before it is needed.
        let _ = unsafe { mlock(memory, bytes) };
        let mut buffer = Self {
            memory: NonNull::new(memory.cast()).expect("the kernel maps nothing at 0"),
            page_bytes,
            key,
            _lock: file,
        };
        buffer.write_head(&head);
        Ok(buffer)
    }

    /// Whose ring it is.
    pub fn key(&self) -> RingKey {
        self.key
    }

    /// The page.
    pub(crate) fn page(&self) -> &[u8] {
        // SAFETY: `PAGE + page_bytes` bytes are mapped as long as `self` lives, and nobody else writes to them (opening comment).
        unsafe { slice::from_raw_parts(self.memory.as_ptr().add(PAGE), self.page_bytes) }
    }

    /// The page, to be filled.
    pub(crate) fn page_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `page`, and `self` is borrowed for it alone.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().add(PAGE), self.page_bytes) }
    }

    /// Makes sure that the kernel finds every byte of the page there: a fault while it copies could be cut short by a signal. Destroys
    /// what was in the page.
    pub(crate) fn touch(&mut self) {
        for memory_page in self.page_mut().chunks_mut(MEMORY_PAGE_BYTES) {
            // SAFETY: a reference to the first byte of a chunk, which is never empty. Volatile, since what is written is never read.
            unsafe { ptr::write_volatile(&mut memory_page[0], 0) };
        }
    }

    pub(crate) fn position(&self) -> Option<Position> {
        let load = |offset| self.word(offset).load(Ordering::Acquire);
        (load(IS_NOTED) == 1).then(|| Position {
            step: load(STEP),
            packet: load(PACKET),
        })
    }

    /// Whenever this is cut off, the position is whole or is none.
    pub(crate) fn set_position(&mut self, position: Option<Position>) {
        // Release: the compiler keeps the order; a process that is killed has done the stores before the one that it came to.
        let store = |offset, value| self.word(offset).store(value, Ordering::Release);
        store(IS_NOTED, 0);
        if let Some(position) = position {
            store(STEP, position.step);
            store(PACKET, position.packet);
            store(IS_NOTED, 1);
        }
    }

    /// Where the source of the page's records goes on.
    pub(crate) fn supply_position(&self) -> u64 {
        self.word(SUPPLY).load(Ordering::Acquire)
    }

    pub(crate) fn set_supply_position(&self, position: u64) {
        self.word(SUPPLY).store(position, Ordering::Release);
    }

    /// Lets `commit` make a page of what was written to the buffer so far, which a process that is killed meanwhile has written before.
    pub(crate) fn commit(&mut self, commit: impl FnOnce(&mut [u8])) {
        compiler_fence(Ordering::Release);
        commit(self.page_mut());
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= PAGE);
        // SAFETY: aligned, since mappings are, and within the mapping; both asserted. These bytes are used by this function alone once
        // the file is open.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(offset).cast()) }
    }

    fn write_head(&mut self, head: &[u8; IS_NOTED]) {
        for (index, word) in head.chunks_exact(8).enumerate().rev() {
            let word = u64::from_ne_bytes(word.try_into().expect("chunks of eight bytes"));
            self.word(8 * index).store(word, Ordering::Release);
        }
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // SAFETY: mapped by `try_open` with this length; no slice of it outlives `self`.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), PAGE + self.page_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The words that say whose the file is.
fn head(key: RingKey, subbuf_bytes: u32) -> [u8; IS_NOTED] {
    let mut head = [0; IS_NOTED];
    head[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    head[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    head[12..16].copy_from_slice(&subbuf_bytes.to_ne_bytes());
    head[16..24].copy_from_slice(&key.session.to_ne_bytes());
    head[24..28].copy_from_slice(&key.stream_id.to_ne_bytes());
    head[28..32].copy_from_slice(&key.cpu.to_ne_bytes());
    head
}

fn begins_with(file: &File, head: &[u8; IS_NOTED]) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut found = [0; IS_NOTED];
    file.read_exact_at(&mut found, 0)?;
    Ok(found == *head)
}

fn lock(file: &File) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_MAX => thread::sleep(Duration::from_millis(5)),
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "another process is reading this ring; find it with `fuser` on the file",
                ));
            }
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: RingKey = RingKey {
        session: 1,
        stream_id: 2,
        cpu: 3,
    };

    #[test]
    fn the_next_process_finds_page_and_position() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("3");
        let position = Position { step: 4, packet: 5 };
        let mut buffer = SharedBuffer::open(&path, KEY, 8192).unwrap();
        assert_eq!((buffer.page().len(), buffer.position()), (8192, None));
        assert!(buffer.page().iter().all(|byte| *byte == 0));
        buffer.page_mut()[8191] = 7;
        buffer.set_position(Some(position));
        drop(buffer);

        let mut buffer = SharedBuffer::open(&path, KEY, 8192).unwrap();
        assert_eq!((buffer.page()[8191], buffer.position()), (7, Some(position)));
        buffer.set_position(None);
        buffer.touch();
        drop(buffer);
        assert_eq!(SharedBuffer::open(&path, KEY, 8192).unwrap().position(), None);
    }

    #[test]
    fn a_file_of_another_ring_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("3");
        for (key, bytes) in [
            (KEY, 4096),
            (RingKey { cpu: 4, ..KEY }, 4096),
            (KEY, 65536),
            (KEY, 4096),
        ] {
            let mut buffer = SharedBuffer::open(&path, key, bytes).unwrap();
            assert!(buffer.page().iter().all(|byte| *byte == 0), "{key:?} {bytes}");
            assert_eq!(buffer.position(), None);
            buffer.page_mut().fill(1);
            buffer.set_position(Some(Position { step: 0, packet: 0 }));
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("3");
        for bytes in [0, 1, 31, 4096, 4096 + 4095] {
            drop(SharedBuffer::open(&path, KEY, 4096).unwrap());
            OpenOptions::new()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(bytes)
                .unwrap();
            assert_eq!(SharedBuffer::open(&path, KEY, 4096).unwrap().page().len(), 4096);
        }
    }
}
