// SPDX-License-Identifier: MIT OR Apache-2.0
//! Analyses of what programs tell of themselves, and of who called.
//!
//! - [`images`]: which program a process is, and which code lies where in it, as time goes by
//! - [`code`]: places in code, and their names
//! - [`paths`]: costs by call path
//! - [`heap`], [`flame`]: the analyses
//!
//! The state model has no part in it: who an event is of is known beforehand, by its reader.

pub mod code;
mod flame;
mod heap;
pub mod images;
pub mod paths;
#[cfg(test)]
#[path = "../../tests/unit/programs/script.rs"]
mod script;

use crate::analysis::{Need, Options};
use crate::facts::{Caller, ProgramFact, Switch};
use crate::process_gaps::Lost;
use crate::programs::code::Resolve;
use crate::programs::images::{ImageId, Images};
use crate::programs::paths::Paths;
use crate::report::Report;

/// All of them, in the order in which they are listed.
pub const ALL: [&Description; 2] = [&heap::HEAP, &flame::FLAME];

/// An analysis of programs that can be chosen.
pub struct Description {
    /// One word.
    pub name: &'static str,
    /// The question that it answers, in a line.
    pub about: &'static str,
    /// The names of the tables that it may have.
    pub tables: &'static [&'static str],
    /// What it needs of a trace.
    pub needs: &'static [Need],
    /// Begins it.
    pub begin: fn(&Options) -> Box<dyn ProgramAnalysis>,
}

/// An analysis of programs at work. It is told of events in the order of time, also of those before the part of time that is asked about.
pub trait ProgramAnalysis {
    /// A program tells of itself.
    fn fact(&mut self, _fact: &ProgramFact<'_>, _event: &Event<'_>, _images: &Images, _resolve: &mut dyn Resolve) {}
    /// A thread leaves its CPU to another one. It is the event's; [`Event::comm`] is its name.
    fn switch(&mut self, _switch: &Switch<'_>, _event: &Event<'_>, _images: &Images) {}
    /// Any other event.
    fn called(&mut self, _event: &Event<'_>, _images: &Images) {}
    /// Events are missing, later than the last one of their stream that was told. Whether that makes anything uncertain.
    fn lose(&mut self, lost: &Lost<'_>) -> bool;
    /// What it has found out.
    ///
    /// # Errors
    /// Why there is nothing to say.
    fn report(&mut self, images: &Images, resolve: &mut dyn Resolve) -> Result<Outcome, String>;
}

/// What an analysis of programs has found out.
#[derive(Default)]
pub struct Outcome {
    /// As tables.
    pub report: Report,
    /// Costs by call path, each with the name of its table.
    pub paths: Vec<(&'static str, Paths)>,
}

impl Outcome {
    /// Its tables for a comparison with another one: instead of paths, which are others when a function is called by one more, the functions in
    /// them.
    pub fn into_comparable(self) -> Report {
        let Outcome { mut report, paths } = self;
        report
            .tables
            .retain(|table| paths.iter().all(|(name, _)| *name != table.name));
        // `functions` are those of `calls`.
        let others = paths.iter().filter(|(name, _)| *name != "calls");
        report
            .tables
            .extend(others.map(|(name, paths)| flame::by_function(name, paths)));
        report
    }
}

/// An event, and who it is of.
#[derive(Clone, Copy, Debug)]
pub struct Event<'e> {
    /// Its class.
    pub name: &'e str,
    /// When it was.
    pub ns: i64,
    /// The process, when that is known.
    pub pid: Option<i64>,
    /// The thread, when that is known.
    pub tid: Option<i64>,
    /// The thread's name; empty when it is not known.
    pub comm: &'e [u8],
    /// The program that the process is.
    pub image: ImageId,
    /// Who called, as far as that is said.
    pub caller: Option<Caller<'e>>,
    /// It is asked about: of the part of time, the processes, threads and CPUs that are meant.
    pub is_meant: bool,
    /// Where the part of time begins.
    pub asked_from_ns: i64,
}
