// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the whole-suite tests stand on: they compile real programs against the staged build, record them with the built
//! `piste`, and read the trace with babeltrace2, which knows nothing of Piste.
//!
//! Each test has a [`Workplace`]: a temporary folder with a run folder of its own, so that tests run beside each other and beside
//! a pisted of the computer. Whatever a test started ends with its workplace, also when the test panics.
//!
//! The tests are in tests/, one file for each subject; the programs in ../programs.

pub mod build_tree;
pub mod comments;
pub mod compiler;
pub mod control_group;
pub mod counts;
pub mod debian;
pub mod disk;
pub mod kernel;
pub mod made_trace;
pub mod pages;
pub mod process;
pub mod recording;
pub mod report;
pub mod served;
pub mod strace;
pub mod trace;
pub mod users;
pub mod workplace;

pub use compiler::Compilation;
pub use debian::Debian;
pub use process::{Finished, Running};
pub use recording::Recording;
pub use trace::{Event, Trace};
pub use workplace::Workplace;
