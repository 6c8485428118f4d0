// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a thread that polls is woken by another one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Rung by any thread, heard by the one that polls it for reading.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// One that is silent.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes who polls it, now or the next time.
    pub fn ring(&self) {
        // It fails only when 2^64 - 2 rings were not heard.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// It was heard: what it was rung for is looked at after this.
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
