// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reading side of the ring: the only Rust that touches memory shared with a traced program.
//!
//! A channel of a program is one memfd with a ring for each CPU that the program may run on; its layout and its invariants R1
//! to R6 are in `include/piste/abi/ring.h`. [`create`] makes that memory, [`ChannelMemory`] maps it, and a [`Reader`] takes the
//! packets of one ring out of it, in order, each once. What the records in a packet say is `crates/ctf`'s affair, where
//! packets go the consumer's.
//!
//! The program is never trusted. Whatever it writes, at whatever time, a call here returns soon, stays within the mapping
//! (which cannot shrink: it is sealed) and at worst reports a [`Corruption`] of that ring.
//!
//! Reading order: `geometry.rs` (sizes and offsets), `layout.rs` (the shared words), `reader.rs` (the heart), then `salvage.rs`
//! and `snapshot.rs`. `mapping.rs` is the one file with unsafe code.

#![deny(unsafe_code)]

mod atomic;
mod channel;
mod corruption;
mod geometry;
mod layout;
mod mapping;
mod reader;
mod salvage;
mod snapshot;

pub use channel::{ChannelMemory, OpenError, create};
pub use corruption::Corruption;
pub use geometry::{ClockSource, Geometry, GeometryError, Key, LossMode, Shape};
pub use reader::{Losses, Next, Packet, Reader};
pub use salvage::{Finality, Salvage};
pub use snapshot::Snapshot;
