// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own mapping of a channel's memory, for writers and for scribbling.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::atomic::{Relaxed, Release};
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::model::Writer;

/// A traced program that attached a channel.
#[derive(Clone)]
pub struct Program {
    memory: Arc<Mapping>,
}

impl Program {
    /// Maps `fd`, which [`crate::create`] made with the same geometry.
    /// # Errors
    /// What the system says.
    pub fn attach(fd: impl AsFd, geometry: Geometry) -> std::io::Result<Self> {
        Ok(Self {
            memory: Arc::new(Mapping::new(fd.as_fd(), geometry)?),
        })
    }

    /// A thread that writes to ring `ring_index`, on CPU `cpu`.
    pub fn writer(&self, ring_index: u32, cpu: u32) -> Writer {
        Writer::new(self.memory.clone(), ring_index, cpu)
    }

    /// The channel's key while the session records, else 0.
    pub fn active_key(&self) -> u32 {
        self.memory.active_key().load(Relaxed)
    }

    /// What a program must not do: stores `value` in the 64-bit word at `word_index` (modulo the size) of the memory.
    pub fn scribble(&self, word_index: usize, value: u64) {
        let words = self.memory.words();
        words[word_index % words.len()].store(value, Release);
    }
}
