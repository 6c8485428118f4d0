// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces in forms that other tools read. docs/reference/export.md says what becomes what.
//!
//! ```text
//!   reader    traces -> events in the order of time, with whoever they are of
//!   runs      which thread has each CPU, from the model of piste-analysis
//!   fields    an event's contexts and fields, as plain values
//!   perfetto  events -> a trace of Perfetto      protobuf: its wire format
//!   chrome    events -> trace events in JSON
//!   json      events -> one JSON document
//! ```
//!
//! Everything is written while it is read: memory does not grow with the trace.

mod chrome;
mod fields;
mod json;
mod perfetto;
mod places;
mod protobuf;
mod reader;
mod runs;

use std::io;

use piste_reason::reason;
use piste_trace::Findings;

pub use chrome::chrome;
pub use json::json;
pub use perfetto::perfetto;

/// What was written.
#[derive(Debug, Default)]
pub struct Exported {
    /// Events.
    pub events: u64,
    /// What was not as it should be in the traces.
    pub findings: Findings,
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A stream file that was there cannot be opened any more.
    #[error("cannot read the trace: {}", reason(.0))]
    Read(io::Error),
    /// The output.
    #[error("cannot write the export: {}", reason(.0))]
    Write(io::Error),
}
