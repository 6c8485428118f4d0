// SPDX-License-Identifier: MIT OR Apache-2.0
//! A board of bells (include/piste/abi/ring.h), which programs ring when the consumer is to look at their rings.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use piste_abi::PISTE_BOARD_BYTES;
use rustix::fs::{MemfdFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::atomic::{Acquire, AtomicU32, Relaxed};
use crate::channel::SEALS;

/// Bells on a board.
pub const BELL_COUNT: usize = PISTE_BOARD_BYTES as usize / size_of::<u32>();

/// A mapped board. Invariant B: `start` is the page-aligned start of `PISTE_BOARD_BYTES` readable bytes, backed by a file that is sealed
/// against shrinking, mapped until `self` is dropped.
pub struct Board {
    start: NonNull<c_void>,
    /// The bells' values at the last look.
    seen: Box<[u32]>,
}

// SAFETY: the mapping belongs to no thread, and is read as atomics only.
unsafe impl Send for Board {}

/// Makes the memory of a board.
/// # Errors
/// What the system says, for example that there are too many open files.
pub fn create_board() -> io::Result<OwnedFd> {
    let fd = memfd_create("piste:bells", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, PISTE_BOARD_BYTES.into())?;
    fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

impl Board {
    /// Maps the memory that [`create_board`] made. The descriptor may be closed afterwards.
    /// # Errors
    /// It is no such memory, or cannot be mapped.
    pub fn open(fd: impl AsFd) -> io::Result<Board> {
        let fd = fd.as_fd();
        let is_sealed = fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SEALS));
        if !is_sealed || fstat(fd)?.st_size != i64::from(PISTE_BOARD_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (bytes, flags) = (PISTE_BOARD_BYTES as usize, MapFlags::SHARED);
        // SAFETY: a null hint lets the kernel choose a free range, so nothing that exists is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, flags, fd, 0)? };
        Ok(Board {
            start: NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?,
            seen: vec![0; BELL_COUNT].into(),
        })
    }

    /// Calls `rung` with each of the first `count` bells that was rung since the last look.
    pub fn look(&mut self, count: usize, mut rung: impl FnMut(usize)) {
        let start = self.start.cast::<AtomicU32>().as_ptr();
        // SAFETY: the range is mapped while `self` is borrowed, and aligned (B). Any bytes are a value of atomics, and a concurrent write
        // by anybody is an atomic access.
        let bells = unsafe { std::slice::from_raw_parts(start, BELL_COUNT) };
        for (index, (bell, seen)) in bells.iter().zip(&mut self.seen).enumerate().take(count) {
            // Relaxed: most are silent, and those that are not are read again below.
            if bell.load(Relaxed) != *seen {
                // ORDER ring.bell (acquire): pairs with runtime/ring.c. What the program did before it rang is seen by the look at its rings.
                *seen = bell.load(Acquire);
                rung(index);
            }
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the range is this board's own (B), and no reference from `look` outlives it. An error could only say that it is not
        // mapped, and nothing is left to do.
        let _ = unsafe { munmap(self.start.as_ptr(), PISTE_BOARD_BYTES as usize) };
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::pwrite;

    use super::*;

    fn rung(board: &mut Board, count: usize) -> Vec<usize> {
        let mut rung = Vec::new();
        board.look(count, |index| rung.push(index));
        rung
    }

    #[test]
    fn bells_that_changed_since_the_last_look_are_told_once() {
        let fd = create_board().unwrap();
        let mut board = Board::open(&fd).unwrap();
        assert_eq!(rung(&mut board, BELL_COUNT), []);
        for (index, value) in [(3u64, 7u32), (4095, 1)] {
            pwrite(&fd, &value.to_ne_bytes(), 4 * index).unwrap();
        }
        assert_eq!(rung(&mut board, 100), [3]);
        assert_eq!(rung(&mut board, BELL_COUNT), [4095]);
        assert_eq!(rung(&mut board, BELL_COUNT), []);
        pwrite(&fd, &8u32.to_ne_bytes(), 12).unwrap();
        assert_eq!(rung(&mut board, BELL_COUNT), [3]);
    }

    #[test]
    fn memory_that_could_shrink_is_no_board() {
        let fd = memfd_create("board", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, PISTE_BOARD_BYTES.into()).unwrap();
        assert!(Board::open(&fd).is_err());
        fcntl_add_seals(&fd, SEALS).unwrap();
        assert!(Board::open(&fd).is_ok());
    }
}
