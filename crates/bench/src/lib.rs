// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an event costs with each tracer that this machine has, with one method for all: the survey of Gebai and Dagenais (2018) as a program.
//!
//! A tracer that is measured is a *peer*: a small file in `peers` that finds it, prepares it, checks that it recorded something, and removes
//! everything afterwards. What is measured is a program in C (`measured`), which is compiled here and then measures on request, so that
//! the rounds of all peers take turns.
//!
//! - [`Plan`], [`run`]: what is measured; the order of it all
//! - [`Report`]: the figures, as they are kept in files; `summary`: how they come from what the programs said
//! - [`compare`]: which differences between two reports are significant; `statistics`: intervals
//! - [`overhead`]: what recording adds to a job, in runs with and without it
//! - [`peers`]: what can be measured; `workshop`: the compiler, and the folder for everything that is made
//! - [`recording`]: recordings of a loop that is elsewhere, in crates/latency
//! - `pisted`, `sessiond`: daemons of Piste and LTTng
//! - `program`: a measured program that runs; `processes`: other programs; `instance`: tracefs; `claim`: what belongs to a run that lives
//! - `machine`: what is measured on, and whether it is slowed down
//!
//! The code that shows the results (crates/cli) knows nothing of tracers.

mod claim;
pub mod compare;
mod error;
mod instance;
mod machine;
pub mod overhead;
pub mod peers;
mod pisted;
mod processes;
mod program;
pub mod recording;
pub mod report;
mod run;
mod sessiond;
mod statistics;
mod summary;
mod workshop;

pub use error::{Absence, Error};
pub use report::Report;
pub use run::{Plan, Scale, Step, is_known, run};
