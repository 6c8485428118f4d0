// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reading side of the ring: the only Rust that touches memory shared with a traced program.
//!
//! A channel of a program is one memfd with a ring for each CPU that the program may run on; its layout and its invariants R1
//! to R7 are in `include/piste/abi/ring.h`. [`create`] makes that memory, [`ChannelMemory`] maps it, and a [`Reader`] takes the
//! packets of one ring out of it, in order, each once. What the records in a packet say is `crates/ctf`'s affair, where
//! packets go the consumer's.
//!
//! The program is never trusted. Whatever it writes, at whatever time, a call here returns soon, stays within the mapping
//! (which cannot shrink: it is sealed) and at worst reports a [`Corruption`] of that ring.
//!
//! Reading order: `geometry.rs` (sizes and offsets), `layout.rs` (the shared words), `reader.rs` (the heart), then `consumed.rs`,
//! `salvage.rs`, `snapshot.rs` and `window.rs`. unsafe code is in `mapping.rs`, and in `board.rs` and `state_page.rs`, which are no part of the
//! ring.

#![deny(unsafe_code)]

mod atomic;
#[cfg(not(loom))]
mod board;
#[cfg(not(loom))]
mod channel;
mod consumed;
mod corruption;
#[cfg(all(feature = "model", not(loom)))]
pub mod fuzzing;
mod geometry;
mod layout;
#[cfg(not(loom))]
mod mapping;
#[cfg(loom)]
#[path = "model/tiny_ring.rs"]
mod mapping;
#[cfg(any(feature = "model", loom))]
pub mod model;
mod packet;
mod reader;
mod salvage;
mod snapshot;
#[cfg(not(loom))]
mod state_page;
#[cfg_attr(all(loom, not(feature = "model")), allow(dead_code))]
mod window;

#[cfg(not(loom))]
pub use board::{BELL_COUNT, Board, create_board};
#[cfg(not(loom))]
pub use channel::{ChannelMemory, Contexts, OpenError, create};
pub use corruption::Corruption;
pub use geometry::{ClockSource, Geometry, GeometryError, Key, LossMode, Shape};
pub use packet::{Losses, Next, Packet, Salvage};
pub use reader::Reader;
pub use snapshot::Snapshot;
#[cfg(not(loom))]
pub use state_page::wake_state_page;
