// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a trace to the answer: what every thread of a system did at every instant, and analyses of it.
//!
//! ```text
//!   events --facts--> what they say --model--> slices of threads, system calls, interrupts --analyses--> reports
//! ```
//!
//! - [`facts`]: what an event says, whoever's trace it is
//! - [`survey`]: what has to be known of a trace before
//! - [`model`]: the state of the system; hands out what has ended
//! - [`cause`]: what a thread waited for
//! - [`analysis`], [`analyses`]: what an analysis is, and all there are
//! - [`diff`]: what two reports of one analysis differ in
//! - [`insights`]: what stands out, without being asked for
//! - [`memory`]: what lies at the addresses that events have
//! - [`measure`], [`report`]: how long things took, and tables of it
//! - [`tables`]: everything that the model finds out, a row for each thing
//! - [`top`]: what the system does, an interval at a time
//! - [`periods`]: between events that somebody chose
//! - [`spans`]: what programs say that they begin and end
//! - [`process_gaps`]: where events are missing for what does without the model
//! - [`programs`]: what programs tell of themselves: heaps, functions, call paths
//! - [`pass`]: all of it over one trace
//!
//! No I/O: who reads the trace hands in its events in the order of their times. One pass; memory grows with the number of threads, not of
//! events; an analysis that keeps more says so.

pub mod analyses;
pub mod analysis;
pub mod cause;
pub mod diff;
pub(crate) mod durations;
pub mod facts;
pub mod insights;
pub mod measure;
pub mod memory;
pub mod model;
pub mod names;
pub mod pass;
pub mod periods;
pub mod process_gaps;
pub mod programs;
pub mod report;
pub mod spans;
pub mod survey;
pub mod tables;
pub mod top;
pub(crate) mod waiting;
pub mod within;

/// The guide's example of an analysis compiles.
#[cfg(doctest)]
#[allow(rustdoc::invalid_codeblock_attributes)]
#[doc = include_str!("../../../docs/guide/9-analyses.md")]
struct Guide;
