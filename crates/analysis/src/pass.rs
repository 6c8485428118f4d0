// SPDX-License-Identifier: MIT OR Apache-2.0
//! One pass over a trace: its events become facts, the model takes them, and whoever wants listens: analyses, detectors of insights, tables.

use crate::analysis::Analysis;
use crate::facts::{Batch, Fact, FactMaker, FactReader, Incoming};
use crate::model::{
    At, Call, Circumstances, Delay, FileCall, Gaps, Interruption, Listen, Occurrence, Request, Slice, System, ThreadId,
    WaitBegin,
};
use crate::names::Names;
use crate::report::Report;
use crate::survey::Survey;

/// A pass at work.
pub struct Pass<L> {
    facts: FactReader,
    maker: FactMaker,
    /// The event that was read last, where they come one by one.
    batch: Batch,
    wants_user_stacks: bool,
    /// The system as far as the trace has been read.
    pub system: System,
    /// Who listens.
    pub listener: L,
}

impl<L: Listen> Pass<L> {
    /// Before the first event.
    pub fn new(circumstances: Circumstances, listener: L) -> Pass<L> {
        Pass {
            facts: FactReader::default(),
            maker: FactMaker::default(),
            batch: Batch::default(),
            wants_user_stacks: listener.wants_user_stacks(),
            system: System::new(circumstances),
            listener,
        }
    }

    /// The next event of the trace.
    #[inline]
    pub fn event(&mut self, mut incoming: Incoming<'_, '_>) {
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        self.facts.read(&mut incoming, self.wants_user_stacks, &mut batch);
        self.batch(&mut batch);
        self.batch = batch;
    }

    /// The next events of the trace, which one [`FactReader`] has read, from the first one on. Not beside [`Pass::event`].
    #[inline]
    pub fn batch(&mut self, batch: &mut Batch) {
        self.maker.learn(batch);
        for number in 0..batch.len() {
            let Some(fact) = self.maker.fact(batch, number, &mut self.system.names) else {
                continue;
            };
            let at = batch.at(number);
            let begin = self.wants_user_stacks.then(|| WaitBegin::of(&fact, at.cpu)).flatten();
            self.system.apply(&fact, at, &mut self.listener);
            if let Some(begin) = begin {
                self.system.may_wait(begin, batch.stack(number));
            }
        }
    }

    /// The traces were opened again: what was remembered of their streams and classes is of those of before.
    pub fn reopen(&mut self) {
        self.facts = FactReader::default();
        self.maker = FactMaker::default();
    }

    /// The trace is over at that time.
    pub fn finish(&mut self, end_ns: i64) {
        self.system.finish(end_ns, &mut self.listener);
    }
}

/// A look at the first events of a trace.
#[derive(Default)]
pub struct Looker {
    facts: FactReader,
    names: Names,
    /// What was seen.
    pub survey: Survey,
}

impl Looker {
    /// The next event of the trace.
    pub fn event(&mut self, mut incoming: Incoming<'_, '_>, gaps: &Gaps) {
        let at = At {
            ns: incoming.ns,
            cpu: self.facts.cpu(&mut incoming),
            tid: self.facts.tid(&mut incoming),
        };
        if let Some(fact) = self.facts.fact(&mut incoming, &mut self.names) {
            self.survey.look(&fact, &at, gaps);
        }
    }
}

/// Several that listen to one pass.
pub struct Listeners<T: ?Sized>(pub Vec<Box<T>>);

impl Listeners<dyn Analysis> {
    /// What analyses have found out, in their order. The trace is over.
    pub fn reports(&mut self, system: &System) -> Vec<Report> {
        self.0.iter_mut().map(|analysis| analysis.report(system)).collect()
    }
}

impl<T: ?Sized + Listen> Listen for Listeners<T> {
    fn looks_ahead(&self) -> bool {
        self.0.iter().any(|one| one.looks_ahead())
    }

    fn wants_user_stacks(&self) -> bool {
        self.0.iter().any(|one| one.wants_user_stacks())
    }

    #[inline]
    fn wants_files(&self) -> bool {
        self.0.iter().any(|one| one.wants_files())
    }

    #[inline]
    fn fact(&mut self, system: &System, fact: &Fact<'_>, cpu: Option<u32>, ns: i64) {
        self.0.iter_mut().for_each(|to| to.fact(system, fact, cpu, ns));
    }

    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        self.0.iter_mut().for_each(|to| to.slice(system, slice));
    }

    #[inline]
    fn call(&mut self, system: &System, call: &Call) {
        self.0.iter_mut().for_each(|to| to.call(system, call));
    }

    fn file_call(&mut self, system: &System, call: &FileCall) {
        self.0.iter_mut().for_each(|to| to.file_call(system, call));
    }

    fn request(&mut self, system: &System, request: &Request) {
        self.0.iter_mut().for_each(|to| to.request(system, request));
    }

    fn occurrence(&mut self, system: &System, occurrence: &Occurrence) {
        self.0.iter_mut().for_each(|to| to.occurrence(system, occurrence));
    }

    fn interruption(&mut self, system: &System, interruption: &Interruption) {
        self.0.iter_mut().for_each(|to| to.interruption(system, interruption));
    }

    fn delay(&mut self, system: &System, delay: &Delay) {
        self.0.iter_mut().for_each(|to| to.delay(system, delay));
    }

    fn born(&mut self, system: &System, thread: ThreadId, parent: Option<ThreadId>, ns: i64) {
        self.0.iter_mut().for_each(|to| to.born(system, thread, parent, ns));
    }

    fn executed(&mut self, system: &System, thread: ThreadId, file: &[u8], ns: i64) {
        self.0.iter_mut().for_each(|to| to.executed(system, thread, file, ns));
    }

    fn died(&mut self, system: &System, thread: ThreadId, ns: i64) {
        self.0.iter_mut().for_each(|to| to.died(system, thread, ns));
    }
}

/// Two that listen to one pass, each in turn.
impl<One: Listen, Other: Listen> Listen for (One, Other) {
    fn looks_ahead(&self) -> bool {
        self.0.looks_ahead() || self.1.looks_ahead()
    }

    fn wants_user_stacks(&self) -> bool {
        self.0.wants_user_stacks() || self.1.wants_user_stacks()
    }

    #[inline]
    fn wants_files(&self) -> bool {
        self.0.wants_files() || self.1.wants_files()
    }

    #[inline]
    fn fact(&mut self, system: &System, fact: &Fact<'_>, cpu: Option<u32>, ns: i64) {
        self.0.fact(system, fact, cpu, ns);
        self.1.fact(system, fact, cpu, ns);
    }

    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        self.0.slice(system, slice);
        self.1.slice(system, slice);
    }

    #[inline]
    fn call(&mut self, system: &System, call: &Call) {
        self.0.call(system, call);
        self.1.call(system, call);
    }

    fn file_call(&mut self, system: &System, call: &FileCall) {
        self.0.file_call(system, call);
        self.1.file_call(system, call);
    }

    fn request(&mut self, system: &System, request: &Request) {
        self.0.request(system, request);
        self.1.request(system, request);
    }

    fn occurrence(&mut self, system: &System, occurrence: &Occurrence) {
        self.0.occurrence(system, occurrence);
        self.1.occurrence(system, occurrence);
    }

    fn interruption(&mut self, system: &System, interruption: &Interruption) {
        self.0.interruption(system, interruption);
        self.1.interruption(system, interruption);
    }

    fn delay(&mut self, system: &System, delay: &Delay) {
        self.0.delay(system, delay);
        self.1.delay(system, delay);
    }

    fn born(&mut self, system: &System, thread: ThreadId, parent: Option<ThreadId>, ns: i64) {
        self.0.born(system, thread, parent, ns);
        self.1.born(system, thread, parent, ns);
    }

    fn executed(&mut self, system: &System, thread: ThreadId, file: &[u8], ns: i64) {
        self.0.executed(system, thread, file, ns);
        self.1.executed(system, thread, file, ns);
    }

    fn died(&mut self, system: &System, thread: ThreadId, ns: i64) {
        self.0.died(system, thread, ns);
        self.1.died(system, thread, ns);
    }
}
