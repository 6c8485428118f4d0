// SPDX-License-Identifier: MIT OR Apache-2.0
//! A timeline: what every CPU, thread, interrupt, device and program did over time, in a file that answers at any zoom.
//!
//! ```text
//!   traces --Sources (sources.rs)--> the model, spans --Recorder (recorder.rs, counters.rs, programs.rs)--> pieces in lanes
//!                                    --Writer (file.rs)--> a tree for each lane (tree.rs) --Timeline--> columns, pieces
//! ```
//!
//! One pass over a trace makes it. Memory grows with the number of lanes, not of pieces. An answer costs what its columns cost.

mod counters;
mod file;
mod going;
mod lane;
mod piece;
mod programs;
mod recorder;
mod sources;
mod tree;
mod varint;

use std::io;

use piste_reason::reason;

pub use file::{Directory, Timeline, Writer};
pub use going::SoFar;
pub use lane::{Counter, Created, Label, LaneId, ProgramThread, Subject, Thread};
pub use piece::{Class, Longest, Piece, Summary, Values};
pub use recorder::Recorder;
pub use sources::Sources;

/// The file is not what a timeline looks like: make it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the timeline is damaged")]
pub struct Damaged;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The file cannot be read.
    #[error("cannot read the timeline: {}", reason(.0))]
    Unreadable(#[from] io::Error),
    /// Make it anew.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_that_cannot_be_read_has_the_systems_error_in_plain_words() {
        let failure = Failure::from(io::Error::from_raw_os_error(5));
        assert_eq!(failure.to_string(), "cannot read the timeline: input/output error");
    }
}
