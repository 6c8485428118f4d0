// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls as strace(1) prints them, from the events of a trace.
//!
//! ```text
//!   events --fields--> Fields --arguments--> "/etc/passwd", O_RDONLY|O_CLOEXEC --printer--> lines
//!                                                                              \--summary--> the table of -c
//! ```
//!
//! A line begins when a call does, and ends when the call has returned. If an event of another thread comes in between, the line is broken off and
//! resumed later, as strace does it. Nothing here reads files or waits. Whoever prints knows what descriptors stand for (descriptors.rs).

mod arguments;
mod descriptors;
mod fields;
mod operations;
mod printer;
mod summary;

pub use descriptors::{AT_FDCWD, Descriptors, Undecoded};
pub use fields::{Collector, Fields, Value};
pub use printer::{Event, Options, Printer, TimeFormat};
pub use summary::{Order, Summary};
