// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of one CPU, into which the program writes: a BPF ring buffer, mapped.
//!
//! ```text
//!   descriptor  offset 0             a page: u64, up to where records were read. Only it can be written
//!               offset of a page     a page: u64, up to where records were reserved; then the records, mapped twice in a row
//!
//!   a record    u32 = length, bit 30: discarded, bit 31: not finished | u32 for the kernel | the record, padded to eight bytes
//! ```
//!
//! (Documentation/bpf/ringbuf.rst of the kernel.)

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

const HEAD_BYTES: usize = 8;
const DISCARDED: u32 = 1 << 30;
const UNFINISHED: u32 = 1 << 31;
/// The program puts the time in front of each record.
const STAMP_BYTES: usize = 8;

/// The records of a CPU.
#[derive(Debug)]
pub struct Ring {
    descriptor: OwnedFd,
    consumer: NonNull<u8>,
    producer: NonNull<u8>,
    /// Of the records, once.
    data_bytes: usize,
    /// Up to where records were taken.
    taken: u64,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The record ([`piste_syscalls::copies::record`]).
    pub record: &'a [u8],
}

/// What is in front of a record.
struct Head {
    /// Where the record is in the mapping.
    from: usize,
    bytes: usize,
    /// It was not discarded.
    is_record: bool,
    /// The position behind it.
    end: u64,
}

// SAFETY: the mappings belong to this value alone, and may be used from any thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `data_bytes`. One reader at a time.
    ///
    /// # Errors
    /// It cannot be mapped.
    pub fn open(descriptor: OwnedFd, data_bytes: usize) -> io::Result<Ring> {
        let page = page_size();
        let map = |bytes, access, offset| {
            // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
            let memory = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, &descriptor, offset) };
            memory.map(|memory| NonNull::new(memory.cast()).expect("no mapping is at zero"))
        };
        let consumer: NonNull<u8> = map(page, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        let producer = match map(page + 2 * data_bytes, ProtFlags::READ, page as u64) {
            Ok(producer) => producer,
            Err(error) => {
                unmap(consumer, page);
                return Err(error.into());
            }
        };
        let mut ring = Ring {
            descriptor,
            consumer,
            producer,
            data_bytes,
            taken: 0,
        };
        ring.taken = ring.consumed().load(Ordering::Acquire);
        Ok(ring)
    }

    /// The next record, or none so far.
    pub fn take_next(&mut self) -> Option<Sample<'_>> {
        loop {
            let head = self.head_at(self.taken)?;
            self.taken = head.end;
            if head.is_record {
                // SAFETY: the kernel reserves no record that is longer than the ring, so it ends in the second copy of the records at the latest.
                // It writes there again only when the record is released, which needs this value.
                let all = unsafe { slice::from_raw_parts(self.producer.add(head.from).as_ptr(), head.bytes) };
                let (time_ns, record) = all.split_first_chunk::<STAMP_BYTES>()?;
                let time_ns = u64::from_ne_bytes(*time_ns);
                return Some(Sample { time_ns, record });
            }
        }
    }

    /// How many records there are that were not taken.
    pub fn left(&self) -> u64 {
        let (mut position, mut count) = (self.taken, 0);
        while let Some(head) = self.head_at(position) {
            position = head.end;
            count += u64::from(head.is_record);
        }
        count
    }

    /// What lies at a position where a record may begin; `None` if none is finished there.
    fn head_at(&self, position: u64) -> Option<Head> {
        if position >= self.produced().load(Ordering::Acquire) {
            return None;
        }
        let at = page_size() + position as usize % self.data_bytes;
        // SAFETY: `at` is in the first copy of the records, and a head is aligned to eight bytes.
        let word = unsafe { self.producer.add(at).cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
        if word & UNFINISHED != 0 {
            return None;
        }
        let bytes = (word & !DISCARDED) as usize;
        Some(Head {
            from: at + HEAD_BYTES,
            bytes,
            is_record: word & DISCARDED == 0 && bytes >= STAMP_BYTES,
            end: position + (HEAD_BYTES + bytes).next_multiple_of(HEAD_BYTES) as u64,
        })
    }

    /// Up to where records were taken.
    pub fn position(&self) -> u64 {
        self.taken
    }

    /// Gives the room up to a [position](Ring::position) back: what is before it is never read again.
    pub fn release(&mut self, position: u64) {
        self.taken = self.taken.max(position);
        self.consumed().store(position, Ordering::Release);
    }

    /// Takes the records from a position on again.
    pub fn rewind(&mut self, position: u64) {
        self.taken = position;
    }

    /// Bytes of records that were not released, with their heads.
    pub fn filled_bytes(&self) -> u64 {
        let produced = self.produced().load(Ordering::Acquire);
        produced.saturating_sub(self.consumed().load(Ordering::Relaxed))
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped as long as this value lives, and the kernel only reads the number.
        unsafe { self.consumer.cast().as_ref() }
    }

    fn produced(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped as long as this value lives; it is only read here.
        unsafe { self.producer.cast().as_ref() }
    }
}

impl AsFd for Ring {
    /// Readable when there is a record; whoever waits is woken when there are many.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        unmap(self.consumer, page_size());
        unmap(self.producer, page_size() + 2 * self.data_bytes);
    }
}

fn unmap(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: the mapping is this value's, which ends.
    let unmapped = unsafe { munmap(memory.as_ptr().cast(), bytes) };
    debug_assert!(unmapped.is_ok());
}
