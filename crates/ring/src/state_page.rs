// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wakes the programs that wait for a pisted on the state page (include/piste/abi/protocol.h).
//!
//! A wait is named by a place in memory, so the page is mapped here for the moment of the wake. It is never loaded from: the
//! file may be cut at any time.

#![allow(unsafe_code)]

use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU32;

use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

const PAGE_BYTES: usize = 4096;

/// Wakes all that wait on the first word of `file`, and says how many.
/// # Errors
/// What the system says when the file cannot be mapped or has no first word.
pub fn wake_state_page(file: impl AsFd) -> io::Result<usize> {
    // SAFETY: a null hint lets the kernel choose a free range, so nothing that exists is replaced.
    let page = unsafe { mmap(null_mut(), PAGE_BYTES, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
    // SAFETY: `page` is the aligned start of a mapping that stays until `munmap` below. The reference only names the place: the
    // kernel looks it up and returns an error for a file that was cut, and nobody loads through it.
    let word = unsafe { &*page.cast::<AtomicU32>() };
    let woken = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    // SAFETY: the range is the mapping made above, and `word` is not used any more.
    unsafe { munmap(page, PAGE_BYTES)? };
    woken
}
