// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the memory of ring sets, and says which shapes are possible. Nothing here looks into it.

use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;

use piste_abi::piste_channel_header;
use piste_ring::{ClockSource, Geometry, GeometryError, Key, LossMode, Shape};

use crate::contexts::Contexts;
use crate::link::{self, Clock, Loss, RingSetKey};

/// Makes the memory of a ring set. With `recording`, programs record as soon as they have it.
///
/// # Errors
/// The system's, when there is no memory or no descriptor left.
pub fn make(
    name: &str,
    geometry: &link::Geometry,
    contexts: &Contexts,
    key: RingSetKey,
    recording: bool,
) -> io::Result<OwnedFd> {
    let geometry = geometry
        .memory()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let key = Key::new(key).ok_or(io::ErrorKind::InvalidInput)?;
    let memory = piste_ring::create(name, &geometry, key, &contexts.told())?;
    if recording {
        // Nobody has the memory yet. Later it is the consumer who starts and stops; without this, what a program records
        // before the consumer has seen its ring set would be missing.
        let offset_bytes = offset_of!(piste_channel_header, active_key) as u64;
        rustix::io::pwrite(&memory, &key.get().to_ne_bytes(), offset_bytes)?;
    }
    Ok(memory)
}

impl link::Geometry {
    /// The geometry as the ring's crate has it.
    ///
    /// # Errors
    /// Why there is no such memory.
    pub fn memory(&self) -> Result<Geometry, GeometryError> {
        Geometry::new(Shape {
            ring_count: self.ring_count,
            subbuf_bytes: self.subbuf_bytes,
            subbuf_count: self.subbuf_count,
            loss: match self.loss {
                Loss::Discard => LossMode::Discard,
                Loss::Overwrite => LossMode::Overwrite,
                Loss::Block => LossMode::Block,
            },
            block_timeout_us: self.block_timeout_us,
            clock: match self.clock {
                Clock::Monotonic => ClockSource::Monotonic,
                Clock::Tsc => ClockSource::Tsc,
            },
        })
    }
}
