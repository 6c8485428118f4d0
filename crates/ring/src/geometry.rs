// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape of a channel's memory, checked once, and every size and offset that follows from it.
//!
//! The picture is in `include/piste/abi/ring.h`. `channel.rs` makes memory of this shape.

use std::num::NonZeroU32;

use piste_abi as abi;

/// Names a channel's memory: unique for the life of the daemon's sessions, never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key(pub NonZeroU32);

impl Key {
    /// `None` when `number` is 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The number as messages and the channel header carry it.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// What happens to an event when its ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossMode {
    /// The newest event is discarded and counted.
    Discard,
    /// The oldest sub-buffer is overwritten, and its records counted.
    Overwrite,
    /// The call waits for space, at most `block_timeout_us`, then discards and counts.
    Block,
}

/// The clock that the program reads for each record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockSource {
    /// CLOCK_MONOTONIC, in nanoseconds.
    Monotonic,
    /// x86's invariant time stamp counter, in cycles.
    Tsc,
}

/// What is asked of a channel's memory; [`Geometry::new`] says whether it can be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Rings in the channel: the CPUs that the machine can have.
    pub ring_count: u32,
    /// Bytes of a sub-buffer; a power of two.
    pub subbuf_bytes: u32,
    /// Sub-buffers of a ring; a power of two.
    pub subbuf_count: u32,
    /// What happens when a ring is full.
    pub loss: LossMode,
    /// How long a program waits for space in [`LossMode::Block`]; `u32::MAX` waits without limit.
    pub block_timeout_us: u32,
    /// The clock of the records.
    pub clock: ClockSource,
}

/// A [`Shape`] within the limits, with the sizes and offsets that follow from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    shape: Shape,
}

/// Why a channel cannot have the shape that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GeometryError {
    /// `ring_count` is out of range.
    #[error("a channel has 1 to {max} rings, not {0}", max = abi::PISTE_RING_COUNT_MAX)]
    RingCount(u32),
    /// `subbuf_bytes` is out of range or no power of two.
    #[error(
        "a sub-buffer has {min} to {max} bytes, a power of two, not {0}",
        min = abi::PISTE_SUBBUF_BYTES_MIN,
        max = abi::PISTE_SUBBUF_BYTES_MAX
    )]
    SubbufBytes(u32),
    /// `subbuf_count` is out of range or no power of two.
    #[error(
        "a ring has {min} to {max} sub-buffers, a power of two, not {0}",
        min = abi::PISTE_SUBBUF_COUNT_MIN,
        max = abi::PISTE_SUBBUF_COUNT_MAX
    )]
    SubbufCount(u32),
    /// `subbuf_bytes * subbuf_count` is too much for one ring.
    #[error("a ring has at most {max} bytes, not {0}: take smaller or fewer sub-buffers", max = Geometry::RING_BYTES_MAX)]
    RingBytes(u64),
    /// All rings together do not fit in the address space that a program lends to a channel.
    #[error(
        "a channel has at most {max} bytes, not {0}: take smaller or fewer sub-buffers",
        max = Geometry::TOTAL_BYTES_MAX
    )]
    TotalBytes(u64),
}

impl Geometry {
    /// Bytes of one ring's sub-buffers: its marks and data start within the 32 bits of the channel header's offsets.
    pub const RING_BYTES_MAX: u64 = 16 << 30;
    /// Bytes of the whole memory: an eighth of the 128 TiB of address space that a program has.
    pub const TOTAL_BYTES_MAX: u64 = 16 << 40;

    /// Checks `shape` against the limits of the contract.
    /// # Errors
    /// A sentence for the person who asked for the channel.
    pub fn new(shape: Shape) -> Result<Self, GeometryError> {
        let Shape {
            ring_count,
            subbuf_bytes,
            subbuf_count,
            ..
        } = shape;
        if !(1..=abi::PISTE_RING_COUNT_MAX).contains(&ring_count) {
            return Err(GeometryError::RingCount(ring_count));
        }
        let bytes_allowed = abi::PISTE_SUBBUF_BYTES_MIN..=abi::PISTE_SUBBUF_BYTES_MAX;
        if !bytes_allowed.contains(&subbuf_bytes) || !subbuf_bytes.is_power_of_two() {
            return Err(GeometryError::SubbufBytes(subbuf_bytes));
        }
        let count_allowed = abi::PISTE_SUBBUF_COUNT_MIN..=abi::PISTE_SUBBUF_COUNT_MAX;
        if !count_allowed.contains(&subbuf_count) || !subbuf_count.is_power_of_two() {
            return Err(GeometryError::SubbufCount(subbuf_count));
        }
        let geometry = Self { shape };
        if geometry.ring_bytes() > Self::RING_BYTES_MAX {
            return Err(GeometryError::RingBytes(geometry.ring_bytes()));
        }
        if geometry.total_bytes() > Self::TOTAL_BYTES_MAX {
            return Err(GeometryError::TotalBytes(geometry.total_bytes()));
        }
        Ok(geometry)
    }

    /// Of a ring that `model/tiny_ring.rs` makes: its sizes are those of the ring itself.
    #[cfg(loom)]
    pub(crate) fn of_model(loss: LossMode) -> Self {
        let clock = ClockSource::Monotonic;
        let shape = Shape {
            ring_count: 1,
            subbuf_bytes: 0,
            subbuf_count: 0,
            loss,
            block_timeout_us: 0,
            clock,
        };
        Self { shape }
    }

    /// The shape that was asked for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Rings in the channel.
    pub fn ring_count(&self) -> u32 {
        self.shape.ring_count
    }

    /// Bytes of a sub-buffer.
    pub fn subbuf_bytes(&self) -> u32 {
        self.shape.subbuf_bytes
    }

    /// Sub-buffers of a ring.
    pub fn subbuf_count(&self) -> u32 {
        self.shape.subbuf_count
    }

    /// What happens when a ring is full.
    pub fn loss(&self) -> LossMode {
        self.shape.loss
    }

    /// Bytes of a ring's sub-buffers together.
    pub fn ring_bytes(&self) -> u64 {
        u64::from(self.shape.subbuf_bytes) * u64::from(self.shape.subbuf_count)
    }

    /// Bytes of the whole memory.
    pub fn total_bytes(&self) -> u64 {
        self.ring_offset_bytes() + u64::from(self.shape.ring_count) * self.ring_stride_bytes()
    }

    /// Where ring 0 starts.
    pub(crate) fn ring_offset_bytes(&self) -> u64 {
        size_of::<abi::piste_channel_header>() as u64
    }

    /// From the start of a ring to that of the next; a power of two, so that a program finds a ring with a shift.
    pub(crate) fn ring_stride_bytes(&self) -> u64 {
        (self.marks_offset_bytes() + self.ring_bytes() / u64::from(abi::PISTE_UNIT_BYTES)).next_power_of_two()
    }

    /// Where the description of a ring's first sub-buffer starts, from the start of the ring.
    pub(crate) fn subbufs_offset_bytes(&self) -> u64 {
        u64::from(abi::PISTE_RING_DATA_OFFSET_BYTES) + self.ring_bytes()
    }

    /// Where a ring's marks start, from the start of the ring.
    pub(crate) fn marks_offset_bytes(&self) -> u64 {
        self.subbufs_offset_bytes() + size_of::<abi::piste_subbuf>() as u64 * u64::from(self.shape.subbuf_count)
    }
}
