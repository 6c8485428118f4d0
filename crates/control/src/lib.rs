// SPDX-License-Identifier: MIT OR Apache-2.0
//! How pisted is controlled: the interface, where its socket is, and a client.
//!
//! - [`interface`]: types, client and server trait, generated from `dev.piste.Control.varlink`, which is the documentation;
//! - [`places`]: the run folder and what is in it;
//! - [`client`]: connects, and starts pisted when none runs;
//! - [`error`]: what can go wrong, as sentences;
//! - [`level`]: event levels as names and as the numbers of the contract.
//!
//! The server is `crates/daemon`.
//!
//! ```no_run
//! use piste_control::{Client, Places};
//! use piste_control::interface::VarlinkClientInterface;
//!
//! let mut client = Client::connect_or_start(&Places::for_commands()?)?;
//! for session in client.calls().list_sessions().call().map_err(piste_control::Error::from)?.sessions {
//!     println!("{}", session.name);
//! }
//! # Ok::<(), piste_control::Error>(())
//! ```

pub mod client;
pub mod contexts;
pub mod error;
pub mod interface;
pub mod level;
pub mod places;
mod tracked;

pub use client::{Client, daemon_beside};
pub use error::Error;
pub use places::Places;

/// How the finding begins that says why a trace cannot be written.
pub const CANNOT_WRITE: &str = "cannot write the trace";

/// The finding that files of a trace are gone, with what they had.
pub const FILES_GONE: &str =
    "files of the trace were removed, moved or truncated while it was recorded, and their events are missing";

/// The finding that rings in the kernel are gone, with what they had.
pub const RINGS_GONE: &str = "the kernel's rings were removed while no pisted was running, and an unknown number of events is missing; one is \
                              counted for each CPU";

/// The finding that the metadata was gone, with which nothing is lost.
pub const METADATA_GONE: &str = "the metadata of the trace was removed while it was recorded, and was written again";

/// The same of an index.
pub const INDEX_GONE: &str =
    "index files of the trace were removed or truncated while it was recorded, and were written again";
