// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands out in a trace, without being asked for. A detector is a file here and a line in [`detectors`]; it looks for one thing, with
//! thresholds that say why they are what they are, and tells when it was, how much, and which analysis looks closer.
//!
//! Memory: a detector keeps sums for threads, processes or kinds of things, never single occurrences but the longest.

mod competition;
mod convoys;
mod deadlines;
mod faults;
mod interrupts;
mod inversions;
mod losses;
#[cfg(test)]
#[path = "../../tests/unit/insights/made.rs"]
mod made;
mod occurrences;
mod slow_calls;
mod slow_files;
mod slow_requests;
mod stalls;
mod streaks;
mod throttled;
mod uninterruptible;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::analyses::named;
use crate::model::{FileId, Listen, ProcessId, System};
use crate::pass::Listeners;
use crate::report::{Column, Value};

/// How many of one detector are told: the rest is more of the same.
const OF_ONE_KIND: usize = 3;

/// Looks for one thing.
pub trait Detector: Listen {
    /// What it has found. The trace is over.
    fn find(&mut self, system: &System) -> Vec<Insight>;
}

/// All of them.
pub fn detectors() -> Listeners<dyn Detector> {
    Listeners(vec![
        Box::new(losses::Losses),
        Box::<deadlines::Deadlines>::default(),
        Box::<inversions::Inversions>::default(),
        Box::<interrupts::Interrupts>::default(),
        Box::<streaks::Streaks>::default(),
        Box::<uninterruptible::Uninterruptible>::default(),
        Box::<throttled::Throttled>::default(),
        Box::<competition::Competition>::default(),
        Box::<convoys::Convoys>::default(),
        Box::<stalls::Stalls>::default(),
        Box::<slow_calls::SlowCalls>::default(),
        Box::<slow_files::SlowFiles>::default(),
        Box::<slow_requests::SlowRequests>::default(),
        Box::<faults::Faults>::default(),
    ])
}

/// How much an insight matters, whatever its numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something is wrong, or nothing else here can be trusted.
    Serious,
    /// Time was lost that need not have been.
    Notable,
    /// Good to know.
    Information,
}

impl Level {
    /// For people and programs.
    pub fn text(self) -> &'static str {
        match self {
            Level::Serious => "serious",
            Level::Notable => "notable",
            Level::Information => "information",
        }
    }
}

/// Something that stands out.
#[derive(Clone, Debug)]
pub struct Insight {
    /// Which detector found it: one word or two.
    pub kind: &'static str,
    /// How much it matters.
    pub level: Level,
    /// What it is: a sentence without its full stop, and without numbers that the evidence has.
    pub what: String,
    /// From the first that shows it to the last, in nanoseconds from the clock's origin.
    pub span_ns: (i64, i64),
    /// When the longest of them was; absent if they are not told apart.
    pub longest_ns: Option<(i64, i64)>,
    /// How much time it took from whom it happened to. Ranks those of a level.
    pub cost_ns: i64,
    /// What was measured.
    pub evidence: Vec<(Column, Value)>,
    /// What looks closer.
    pub closer: Closer,
}

/// `piste analyze NAME TRACE OPTIONS --begin TIME --end TIME`
#[derive(Clone, Debug)]
pub struct Closer {
    /// Name of the analysis.
    pub analysis: &'static str,
    /// Its options.
    pub options: Vec<String>,
    /// Only this part of time, in nanoseconds from the clock's origin.
    pub span_ns: Option<(i64, i64)>,
}

impl Closer {
    /// Of the whole trace.
    pub fn new(analysis: &'static str) -> Closer {
        Closer {
            analysis,
            options: Vec::new(),
            span_ns: None,
        }
    }

    fn with(mut self, option: &str, value: impl ToString) -> Closer {
        self.options.extend([option.to_owned(), value.to_string()]);
        self
    }

    /// Only this part of time.
    fn during(self, span_ns: (i64, i64)) -> Closer {
        Closer {
            span_ns: Some(span_ns),
            ..self
        }
    }
}

impl Listeners<dyn Detector> {
    /// What all have found, the most important first. The trace is over.
    pub fn insights(&mut self, system: &System) -> Vec<Insight> {
        let mut all = Vec::new();
        for detector in &mut self.0 {
            let mut own = detector.find(system);
            own.sort_by_key(|insight| (insight.level, -insight.cost_ns));
            own.truncate(OF_ONE_KIND);
            all.append(&mut own);
        }
        // What is missing comes first, as everything else is told without it.
        let is_other = |insight: &Insight| insight.kind != "losses";
        all.sort_by_key(|insight| (insight.level, is_other(insight), -insight.cost_ns));
        all
    }
}

impl Serialize for Insight {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("kind", self.kind)?;
        map.serialize_entry("level", self.level.text())?;
        map.serialize_entry("what", &self.what)?;
        map.serialize_entry("begin_ns", &self.span_ns.0.to_string())?;
        map.serialize_entry("end_ns", &self.span_ns.1.to_string())?;
        map.serialize_entry("cost_ns", &self.cost_ns)?;
        for (column, value) in &self.evidence {
            map.serialize_entry(column.key, value)?;
        }
        map.end()
    }
}

/// A process by the name of its first thread.
fn process_named(system: &System, process: ProcessId) -> String {
    system
        .leader(process)
        .map_or_else(|| format!("({process})"), |leader| named(system, leader))
}

/// What is said before a file's name, and the name; nothing if it has none.
fn file_named(system: &System, file: Option<FileId>, before: &str) -> String {
    let name = file.map_or("", |file| system.names.text(system.file(file).name));
    match name {
        "" => String::new(),
        name => format!("{before}{name}"),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/insights/tests.rs"]
mod tests;
