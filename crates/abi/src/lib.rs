// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contract between a traced program and pisted, in Rust.
//!
//! [`generated`] holds the structs and constants of `include/piste/abi/*.h`; `tests/generated.rs` makes it and fails when it
//! lags behind the headers. [`words`] takes apart the 64-bit words in which a ring packs several numbers.
//!
//! The structs are plain data: bytes become a struct and back with zerocopy's traits ([`FromBytes`], [`IntoBytes`]), whose
//! derives refuse a struct with hidden padding at compile time. Whoever reads one from a program checks each value before
//! using it. Shared memory is `crates/ring`'s affair, messages are the daemon's.

#![no_std]
#![forbid(unsafe_code)]

#[allow(missing_docs, non_camel_case_types, clippy::all)]
#[rustfmt::skip]
pub mod generated;
// Left out while `generated` is made anew: the names it needs may not be there yet.
#[cfg(not(piste_regenerate))]
pub mod words;

pub use generated::*;
#[cfg(not(piste_regenerate))]
pub use words::{ConsumedWord, EndedWord, HEAD, PositionWord, tag_of_lap};
pub use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};
