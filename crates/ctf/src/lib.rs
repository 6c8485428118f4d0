// SPDX-License-Identifier: MIT OR Apache-2.0
//! CTF 1.8 as Piste writes it: bytes and text in, bytes and text out. No I/O.
//!
//! - [`description`]: what a trace holds, as plain data;
//! - [`metadata`]: the same as TSDL, the text that readers need;
//! - [`packet`], [`index`]: the header of each packet and its entry in the index file;
//! - [`layout`]: checks the records that a program wrote into a packet;
//! - [`recovery`]: takes the committed records out of a packet with holes.

pub mod description;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod index;
pub mod layout;
pub mod metadata;
pub mod packet;
pub mod recovery;

pub use description::*;
pub use layout::{Checked, Fault, Layouts, Wrong};
pub use recovery::Recovered;

/// A record's compact header has its id in the low bits of a word; CTF can say so only of little-endian words.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "piste records on little-endian machines only"
);
