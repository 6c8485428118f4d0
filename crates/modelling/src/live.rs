// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of what threads do while it is recorded: the traces are opened again for each part, and read from their beginning to what was
//! written last ([`crate::Growing`] follows only descriptors).

use std::collections::HashSet;

use piste_analysis::model::{Circumstances, Gap, Gaps, Listen, System};
use piste_analysis::pass::Pass;
use piste_trace::blind::recorded_span;
use piste_trace::merge::Merged;
use piste_trace::{Merge, Span, Trace};

use crate::growing::missing;
use crate::needs::{class_names, is_of_kernel, records_wakeups};
use crate::{Ground, GroundError, gap, hand_on};

/// In so much time, something of each kind happens on every machine.
const ENOUGH_NS: i64 = 1_000_000_000;

/// A model of the parts that were read so far.
pub struct Live<L> {
    pass: Pass<L>,
    gaps: HashSet<Gap>,
    is_partial: bool,
}

/// Takes out a kernel's traces that have only just begun. Their metadata name a class of events when the first event comes, so that nobody knows yet
/// whether they will tell, say, which threads have the CPUs.
pub fn hold_back(traces: &mut Vec<Trace>) {
    let is_enough = |span: Span| span.end_ns.saturating_sub(span.begin_ns) >= ENOUGH_NS;
    let kernel = traces.iter().filter(|trace| is_of_kernel(trace));
    if !recorded_span(kernel).is_some_and(is_enough) {
        traces.retain(|trace| !is_of_kernel(trace));
    }
}

impl<L: Listen> Live<L> {
    /// Before the first event of traces that grow no more, or are not held back ([`hold_back`]). The listener is made for the time at which
    /// the model begins.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more, or the traces do not show on which CPU something happened.
    pub fn begin(traces: &[Trace], listener: impl FnOnce(i64) -> L) -> Result<Live<L>, GroundError> {
        let mut ground = Ground::new(traces, Span::ALL)?;
        let wakeups = records_wakeups(traces);
        // The first events may be without any of these.
        let has_switches = class_names(traces).any(|class| class == "sched_switch") && !ground.part.on_threads;
        ground.circumstances = Circumstances {
            // Those that are known now include what is not written yet.
            gaps: Gaps::new(&[]),
            has_switches,
            is_partial: ground.has_others || !has_switches,
            has_wakeups: wakeups.is_some(),
            has_waking: wakeups.is_some_and(|has_waking| has_waking),
            ..ground.circumstances
        };
        let listener = listener(ground.begin_ns());
        let is_partial = ground.is_partial();
        let pass = ground.begin(listener).pass;
        let mut live = Live {
            pass,
            gaps: HashSet::new(),
            is_partial,
        };
        live.reopen(traces);
        Ok(live)
    }

    /// The traces were opened again, for the next part.
    pub fn reopen(&mut self, traces: &[Trace]) {
        self.pass.reopen();
        for blind in traces.iter().flat_map(missing) {
            self.lose(gap(blind));
        }
    }

    /// The next event, which `merge` has just given. One that comes later than it happened counts as happening now.
    pub fn event<'t>(&mut self, merge: &mut Merge<'t>, merged: &Merged<'t>) {
        for blind in std::mem::take(&mut merge.blind) {
            self.lose(gap(blind));
        }
        let pass = &mut self.pass;
        hand_on(merge, merged, Span::ALL, |incoming| pass.event(incoming));
    }

    /// The system so far, and who listens, who may ask it.
    pub fn parts(&mut self) -> (&System, &mut L) {
        (&self.pass.system, &mut self.pass.listener)
    }

    /// Only some threads are recorded.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    fn lose(&mut self, gap: Gap) {
        if self.gaps.insert(gap) {
            self.pass.system.add_gap(gap);
        }
    }
}
