// SPDX-License-Identifier: MIT OR Apache-2.0
//! A traced program in Rust, for tests: what the writing side does, without the C library.
//!
//! [`Program`] maps the memory that a daemon made, as a traced program does. Under loom, which explores the orderings themselves,
//! there is a `TinyRing` in ordinary memory instead.

#[cfg(not(loom))]
mod program;
mod writer;

#[cfg(loom)]
pub use crate::mapping::TinyRing;
#[cfg(not(loom))]
pub use program::Program;
pub use writer::{Outcome, Reservation, Writer};
