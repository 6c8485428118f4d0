// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which events are wanted: of a part of time, by name, by CPU, by who they are of, by their fields. One selection means the same to whoever reads: viewing, counting,
//! trimming, exporting.
//!
//! ```no_run
//! use piste_trace::select::Selection;
//! use piste_trace::{Findings, open};
//!
//! let traces = open("trace".as_ref(), &mut Findings::default())?;
//! let selection = Selection { events: vec!["sched_*".into()], ..Selection::default() };
//! let mut merge = selection.merge(&traces)?;
//! let mut matcher = selection.matcher(&traces);
//! while let Some(merged) = merge.next() {
//!     if matcher.wants(&mut merge, &merged) {
//!         println!("{}", merged.event.class.name);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod absent;
mod condition;
mod count;
mod cpu;
mod matcher;
pub(crate) mod per_class;
mod pick;
pub(crate) mod values;
mod who;

use std::io;

pub use absent::absent;
pub use count::{ProcessCount, SelectedCounts};
pub use cpu::Cpus;
pub use matcher::Matcher;
pub use piste_filter::{Filter, FilterError};
pub use who::{Comm, Threads, Who};

use piste_filter::Term;

use crate::folder::Trace;
use crate::merge::{Merge, Span};

/// Which events are wanted: those that everything here allows. What is empty allows all.
#[derive(Clone, Debug)]
pub struct Selection {
    /// A part of time.
    pub span: Span,
    /// Patterns of names, of which one is to fit.
    pub events: Vec<String>,
    /// A condition.
    pub filter: Option<Filter>,
    /// Processes, of which it is to be of one.
    pub pids: Vec<i64>,
    /// Threads, of which it is to be of one.
    pub tids: Vec<i64>,
    /// Patterns of threads' names, of which one is to fit.
    pub comms: Vec<String>,
    /// CPUs, of which it is to be on one.
    pub cpus: Vec<u64>,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection {
            span: Span::ALL,
            events: Vec::new(),
            filter: None,
            pids: Vec::new(),
            tids: Vec::new(),
            comms: Vec::new(),
            cpus: Vec::new(),
        }
    }
}

impl Selection {
    /// Every event is wanted, in whatever part of time.
    pub fn is_any(&self) -> bool {
        self.events.is_empty() && self.filter.is_none() && self.cpus.is_empty() && !self.asks_who()
    }

    fn asks_who(&self) -> bool {
        let has_lists = !self.pids.is_empty() || !self.tids.is_empty() || !self.comms.is_empty();
        has_lists || [Term::Pid, Term::Tid, Term::Comm].iter().any(|term| self.asks(term))
    }

    /// Of two events of one name at one time, one may be wanted and the other not.
    pub(crate) fn looks_into_events(&self) -> bool {
        let mut looks = false;
        if let Some(filter) = &self.filter {
            let is_inside = |term: &Term| {
                use Term::{Comm, Cpu, Field, Pid, Tid};
                matches!(term, Cpu | Pid | Tid | Comm | Field(_))
            };
            filter.expression().terms(&mut |term| looks |= is_inside(term));
        }
        looks
    }

    /// Events of that name may be wanted.
    pub fn names(&self, event: &str) -> bool {
        self.events.is_empty()
            || self
                .events
                .iter()
                .any(|pattern| piste_patterns::matches(pattern, event))
    }

    /// What is of that process and thread may be wanted.
    pub fn is_of(&self, who: &Who) -> bool {
        let Selection { pids, tids, comms, .. } = self;
        let is_like = |comm: Comm| {
            let name = comm.as_bytes();
            comms
                .iter()
                .any(|pattern| piste_patterns::matches_bytes(pattern.as_bytes(), name))
        };
        (pids.is_empty() || who.pid.is_some_and(|pid| pids.contains(&pid)))
            && (tids.is_empty() || who.tid.is_some_and(|tid| tids.contains(&tid)))
            && (comms.is_empty() || who.comm.is_some_and(is_like))
    }

    fn asks(&self, wanted: &Term) -> bool {
        let mut is_asked = false;
        if let Some(filter) = &self.filter {
            filter.expression().terms(&mut |term| is_asked |= term == wanted);
        }
        is_asked
    }

    /// The events that have to be looked at, in the order of time: for [`Matcher::wants`], which takes every one of them. Those before the
    /// span are among them when they tell who later ones are of.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn merge<'t>(&self, traces: &'t [Trace]) -> io::Result<Merge<'t>> {
        match self.asks_who() {
            true => self.merge_with_history(traces),
            false => Merge::new(traces, self.span),
        }
    }

    /// The same for those who ask who events are of.
    pub(crate) fn merge_with_history<'t>(&self, traces: &'t [Trace]) -> io::Result<Merge<'t>> {
        let mut span = self.span;
        if Threads::need_history(traces) {
            span.begin_ns = i64::MIN;
        }
        Merge::new(traces, span)
    }

    /// What tells the wanted ones.
    pub fn matcher<'t>(&self, traces: &'t [Trace]) -> Matcher<'t> {
        Matcher::new(self, traces)
    }
}
