// SPDX-License-Identifier: MIT OR Apache-2.0
//! A timeline: what every CPU, thread, interrupt, device and program did over time, in a file that answers at any zoom.
//!
//! ```text
//!   the model, spans --Recorder (recorder.rs, programs.rs)--> pieces in lanes --Writer (file.rs)--> a tree for each lane (tree.rs)
//!                                                                                                     --Timeline--> columns, pieces
//! ```
//!
//! One pass over a trace makes it. Memory grows with the number of lanes, not of pieces. An answer costs what its columns cost.

mod file;
mod going;
mod lane;
mod piece;
mod programs;
mod recorder;
mod tree;
mod varint;

use std::io;

pub use file::{Directory, Timeline, Writer};
pub use going::SoFar;
pub use lane::{Label, LaneId, ProgramThread, Subject, Thread};
pub use piece::{Class, Longest, Piece, Summary};
pub use recorder::Recorder;

/// The file is not what a timeline looks like: make it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the timeline is damaged")]
pub struct Damaged;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The file cannot be read.
    #[error("cannot read the timeline: {0}")]
    Unreadable(#[from] io::Error),
    /// Make it anew.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}
