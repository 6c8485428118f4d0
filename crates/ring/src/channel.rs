// SPDX-License-Identifier: MIT OR Apache-2.0
//! A channel's memory: made by the daemon, mapped by the consumer, and the two words of it that concern all rings.
//!
//! The daemon keeps the descriptor, so that what a program committed outlives the program and the consumer. Readers of the rings
//! are made here and explained in `reader.rs`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use piste_abi::{self as abi, ConsumedWord, FromZeros, IntoBytes, PositionWord};
use piste_reason::reason;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};

use crate::atomic::{Acquire, Relaxed, Release};
use crate::geometry::{ClockSource, Geometry, Key, LossMode};
use crate::mapping::Mapping;
use crate::reader::Reader;
use crate::window;

pub(crate) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes the memory of a channel: a memfd of the right size that can neither shrink nor grow, with its channel header. `name` is
/// shown in `/proc/PID/maps`. Recording is off. Untouched rings take no memory.
/// # Errors
/// What the system says, for example that there are too many open files.
/// # Panics
/// If there are more contexts than the header has room for.
pub fn create(name: &str, geometry: &Geometry, key: Key, contexts: &Contexts) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, geometry.total_bytes())?;
    let header = header(geometry, key, contexts);
    let written = rustix::io::pwrite(&fd, header.as_bytes(), 0)?;
    assert_eq!(written, header.as_bytes().len(), "a memfd takes a page at once");
    fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

/// What each record of a channel carries between its header and its fields.
#[derive(Clone, Debug, Default)]
pub struct Contexts {
    /// `PISTE_CONTEXT_*` bits.
    pub bits: u32,
    /// What follows those, in this order; at most `PISTE_MORE_COUNT_MAX`.
    pub more: Vec<abi::piste_context>,
}

fn header(geometry: &Geometry, key: Key, contexts: &Contexts) -> abi::piste_channel_header {
    let shape = geometry.shape();
    let mut header = abi::piste_channel_header {
        magic: abi::PISTE_CHANNEL_MAGIC,
        version_major: abi::PISTE_ABI_MAJOR as u16,
        version_minor: abi::PISTE_ABI_MINOR as u16,
        struct_bytes: size_of::<abi::piste_channel_header>() as u32,
        key: key.get(),
        loss_mode: match shape.loss {
            LossMode::Discard => abi::PISTE_LOSS_DISCARD,
            LossMode::Overwrite => abi::PISTE_LOSS_OVERWRITE,
            LossMode::Block => abi::PISTE_LOSS_BLOCK,
        },
        clock: match shape.clock {
            ClockSource::Monotonic => abi::PISTE_CLOCK_MONOTONIC,
            ClockSource::Tsc => abi::PISTE_CLOCK_TSC,
        },
        contexts: contexts.bits,
        more_count: contexts.more.len() as u32,
        ring_count: shape.ring_count,
        subbuf_bytes: shape.subbuf_bytes,
        subbuf_count: shape.subbuf_count,
        marks_offset_bytes: geometry.marks_offset_bytes(),
        ring_offset_bytes: geometry.ring_offset_bytes(),
        ring_stride_bytes: geometry.ring_stride_bytes(),
        total_bytes: geometry.total_bytes(),
        block_timeout_us: shape.block_timeout_us,
        ..abi::piste_channel_header::new_zeroed()
    };
    header.more[..contexts.more.len()].copy_from_slice(&contexts.more);
    header
}

/// Why a descriptor is not the memory of the channel that it should be.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file has another size than the geometry says.
    #[error("the channel's memory has {found} bytes where its geometry says {expected}: it belongs to another channel")]
    Size {
        /// Bytes of the file.
        found: u64,
        /// Bytes that the geometry asks for.
        expected: u64,
    },
    /// The file could be cut while we read it.
    #[error("the channel's memory is not sealed against shrinking: pass the descriptor that `create` made")]
    NotSealed,
    /// The system refused to look at the file or to map it.
    #[error("the channel's memory cannot be mapped: {}", reason(&io::Error::from(*.0)))]
    System(#[from] rustix::io::Errno),
}

/// The memory of one channel of one program, mapped. Threads may share it; each ring has at most one [`Reader`] at a time.
pub struct ChannelMemory {
    mapping: Arc<Mapping>,
    key: Key,
}

impl ChannelMemory {
    /// Maps the memory that [`create`] made with the same `geometry` and `key`. The descriptor may be closed afterwards.
    /// # Errors
    /// [`OpenError`] when the file has another size, can shrink, or cannot be mapped.
    pub fn open(fd: impl AsFd, geometry: Geometry, key: Key) -> Result<Self, OpenError> {
        let fd = fd.as_fd();
        let (found, expected) = (fstat(fd)?.st_size as u64, geometry.total_bytes());
        if found != expected {
            return Err(OpenError::Size { found, expected });
        }
        // A file that knows no seals has none.
        if !fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(OpenError::NotSealed);
        }
        Ok(Self {
            mapping: Arc::new(Mapping::new(fd, geometry)?),
            key,
        })
    }

    /// The shape of the memory.
    pub fn geometry(&self) -> &Geometry {
        self.mapping.geometry()
    }

    /// Lets the program record, or stops it, which every thread sees at its next event. A thread that has begun one may still write
    /// into the sub-buffer that is open; after [`Reader::end_current`] it cannot.
    pub fn set_recording(&self, recording: bool) {
        if recording {
            // ORDER ring.active (release): pairs with runtime/record.c. Nothing is read because of it.
            self.mapping.active_key().store(self.key.get(), Release);
        } else {
            let rings = self.touched().map(|ring_index| self.mapping.ring(ring_index));
            window::stop(self.mapping.active_key(), rings);
        }
    }

    /// The rings that the program ever wrote to. Reading any other one would give it memory.
    pub fn touched(&self) -> impl Iterator<Item = u32> + '_ {
        let ring_count = self.geometry().ring_count();
        // Thousands of ring sets are looked at a thousand times a second: no word more than there are rings for, no bit that is not set.
        let words = &self.mapping.channel().touched[..ring_count.div_ceil(64) as usize];
        let rings = words.iter().zip((0u32..).step_by(64)).flat_map(|(word, first)| {
            // Acquire: the ring may be looked at as soon as its bit is seen; it was zero bytes before.
            let bits = word.load(Acquire);
            let rest = std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)));
            rest.take_while(|&bits| bits != 0)
                .map(move |bits| first + bits.trailing_zeros())
        });
        rings.take_while(move |&ring_index| ring_index < ring_count)
    }

    /// The reader of ring `ring_index`, which goes on with sub-buffer `next_sequence`: 0, or one more than the last packet on disk.
    /// It takes over from a reader that died: the sub-buffers before count as delivered, and its claim is dropped.
    /// # Panics
    /// When the channel has no such ring.
    pub fn reader(&self, ring_index: u32, next_sequence: u64) -> Reader {
        Reader::new(self.mapping.clone(), ring_index, next_sequence)
    }

    /// The number of the first sub-buffer of a ring that no reader, alive or dead, has given back to the program, by what the program's memory
    /// says: those before it were taken, or overwritten.
    ///
    /// # Panics
    /// When there is no such ring.
    pub fn first_kept(&self, ring_index: u32) -> u64 {
        let ring = self.mapping.ring(ring_index);
        // Relaxed: both are checked before anything is read.
        let consumed = ConsumedWord(ring.header.consumed.load(Relaxed)).sequence();
        let position = ring.split(PositionWord(ring.header.position.load(Relaxed))).sequence;
        consumed.min(position)
    }
}
