// SPDX-License-Identifier: MIT OR Apache-2.0
//! A channel's memory in our address space, and the only place that makes references to it.
//!
//! Everything is handed out as atomics: any bytes are a value of theirs, and a program that writes at the same time is a
//! concurrent atomic access, not a data race. What the words mean is `layout.rs`.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use piste_abi::PISTE_RING_DATA_OFFSET_BYTES;
use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::atomic::{AtomicU8, AtomicU32, AtomicU64};
use crate::geometry::Geometry;
use crate::layout::{ChannelWords, Ring, RingHeader, Subbuf, UNIT_BYTES};

/// A shared mapping of `geometry.total_bytes()` bytes. Invariant M: `start` is the page-aligned start of that many readable and
/// writable bytes, backed by a file that is sealed against shrinking, mapped until `self` is dropped.
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    geometry: Geometry,
}

// SAFETY: the mapping belongs to no thread, and `&Mapping` gives only atomics.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `fd`, whose size and seals the caller checked: `geometry.total_bytes()` bytes that cannot shrink.
    pub(crate) fn new(fd: BorrowedFd<'_>, geometry: Geometry) -> io::Result<Self> {
        let bytes = usize::try_from(geometry.total_bytes()).map_err(|_| io::Errno::NOMEM)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a null hint lets the kernel choose a free range, so nothing that exists is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0)? };
        Ok(Self {
            start: NonNull::new(start).ok_or(io::Errno::NOMEM)?,
            geometry,
        })
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn channel(&self) -> &ChannelWords {
        &self.slice(0, 1)[0]
    }

    pub(crate) fn active_key(&self) -> &AtomicU32 {
        &self.channel().active_key
    }

    /// # Panics
    /// When the channel has no ring `index`.
    pub(crate) fn ring(&self, index: u32) -> Ring<'_> {
        let geometry = &self.geometry;
        assert!(
            index < geometry.ring_count(),
            "ring {index} of {}",
            geometry.ring_count()
        );
        let start = geometry.ring_offset_bytes() + u64::from(index) * geometry.ring_stride_bytes();
        let units = geometry.ring_bytes() / UNIT_BYTES as u64;
        Ring {
            header: &self.slice::<RingHeader>(start, 1)[0],
            data: self.slice::<AtomicU64>(start + u64::from(PISTE_RING_DATA_OFFSET_BYTES), units),
            subbufs: self.slice::<Subbuf>(start + geometry.subbufs_offset_bytes(), geometry.subbuf_count().into()),
            marks: self.slice::<AtomicU8>(start + geometry.marks_offset_bytes(), units),
        }
    }

    /// `count` values from `offset_bytes` on.
    fn slice<T: Words>(&self, offset_bytes: u64, count: u64) -> &[T] {
        let bytes = count * size_of::<T>() as u64;
        assert!(
            offset_bytes.is_multiple_of(align_of::<T>() as u64) && offset_bytes + bytes <= self.geometry.total_bytes()
        );
        // SAFETY: the range lies within the mapping and is aligned for `T` (asserted; the mapping starts at a page), it stays
        // mapped while `self` is borrowed (M), and `T` is made of atomics (`Words`), so that any bytes are a value and a
        // concurrent write by anybody is an atomic access.
        unsafe {
            std::slice::from_raw_parts(
                self.start.cast::<T>().byte_add(offset_bytes as usize).as_ptr(),
                count as usize,
            )
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own (M), and no reference from `slice` outlives `self`. An error could only say
        // that the range is not mapped, and nothing is left to do.
        let _ = unsafe { munmap(self.start.as_ptr(), self.geometry.total_bytes() as usize) };
    }
}

#[cfg(feature = "model")]
impl Mapping {
    /// The whole memory.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.slice(0, self.geometry.total_bytes() / 8)
    }

    /// Says that ring `index` is written to.
    pub(crate) fn touch(&self, index: u32) {
        let word = &self.channel().touched[index as usize / 64];
        word.fetch_or(1 << (index % 64), crate::atomic::Release);
    }
}

/// Waits while `futex` is `seen`, at most `timeout_us` (`u32::MAX`: for ever). False when the time is over.
#[cfg(feature = "model")]
pub(crate) fn futex_wait(futex: &AtomicU32, seen: u32, timeout_us: u32) -> bool {
    let timeout = rustix::thread::futex::Timespec {
        tv_sec: i64::from(timeout_us / 1_000_000),
        tv_nsec: i64::from(timeout_us % 1_000_000) * 1000,
    };
    let timeout = (timeout_us != u32::MAX).then_some(&timeout);
    let waited = rustix::thread::futex::wait(futex, rustix::thread::futex::Flags::empty(), seen, timeout);
    waited != Err(io::Errno::TIMEDOUT)
}

/// The same marks, eight at once. For loads: a program stores them one by one, from its own mapping.
///
/// # Panics
/// When the marks do not start and end at a multiple of eight: a sub-buffer's do.
pub(crate) fn as_words(marks: &[AtomicU8]) -> &[AtomicU64] {
    // SAFETY: `AtomicU8` and `AtomicU64` are both of any bytes and shared mutable; `align_to` sees to size and alignment.
    let (before, words, behind) = unsafe { marks.align_to::<AtomicU64>() };
    assert!(
        before.is_empty() && behind.is_empty(),
        "marks of whole sub-buffers are words"
    );
    words
}

/// Wakes every thread, of any process, that waits on `futex`.
pub(crate) fn futex_wake_all(futex: &AtomicU32) {
    // A futex that cannot be woken has no waiters.
    let _ = rustix::thread::futex::wake(futex, rustix::thread::futex::Flags::empty(), i32::MAX as u32);
}

/// Types made of nothing but atomic integers, without padding.
///
/// # Safety
/// Every byte of the type belongs to an atomic integer.
unsafe trait Words {}
// SAFETY: an atomic integer.
unsafe impl Words for AtomicU8 {}
// SAFETY: an atomic integer.
unsafe impl Words for AtomicU64 {}
// SAFETY: all fields are atomic integers, and their sizes add up to that of the struct (asserted in layout.rs).
unsafe impl Words for ChannelWords {}
// SAFETY: as for `ChannelWords`.
unsafe impl Words for RingHeader {}
// SAFETY: as for `ChannelWords`.
unsafe impl Words for Subbuf {}
