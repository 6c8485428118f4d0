// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces as they lie in folders, of any tracer that writes CTF: finding them, an index of their packets, their events in the order of time.
//!
//! ```text
//!   folder   paths -> traces: metadata, stream files
//!   index    stream file -> where its packets are, kept beside the trace
//!   stream   packets -> events of one stream
//!   growth   what has come to traces that still grow
//!   repeated packets that are in more than one trace
//!   merge    events of many streams, of many traces, in the order of time
//!   select   which of them are wanted
//!   lines    events as lines of text
//!   symbols  names of addresses in events
//!   objects  events as JSON, with their values as piste_ctf's json_value has them
//!   rows     events with some of their values, as CSV, JSON or text
//!   phases   what begins and ends something
//!   blind    where events are missing
//!   process  whose they are
//!   count    how many events there are
//!   copy     traces written once more, with fewer events or other metadata
//!   durable  what was written, on the disk before it has its name
//!   progress how much of the files was read
//!   type_name types of fields, in words
//!   loss     what the tracers say that they lost, in sentences
//! ```
//!
//! A trace may be damaged, cut or still growing. What can be read is read; what cannot is a [`Finding`] with its place.
//!
//! Files are read, not mapped: a file that is cut while it is mapped ends the process that looks at it, and tables of pages cost nearly as much
//! as copying.

pub mod blind;
pub mod copy;
pub mod count;
pub mod durable;
mod file_reader;
pub mod finding;
pub mod folder;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod growth;
pub mod index;
pub mod lines;
pub mod loss;
pub mod merge;
pub mod objects;
pub mod part;
pub mod phases;
pub mod privacy;
pub mod process;
pub mod progress;
mod regular;
pub mod repeated;
pub mod rows;
pub mod select;
pub mod stream;
pub mod symbols;
pub mod type_name;

pub use finding::{Finding, Findings, Kind};
pub use folder::{OpenError, Trace, folders, open, open_all};
pub use lines::Lines;
pub use merge::{Merge, Span};
pub use stream::{Stream, StreamFile};
