// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which thread runs on each CPU, from the model that the analyses use: an export shows what they report.
//!
//! The model hands out slices when they have ended. Here they become changes: from when on a CPU has which thread, in time order for each
//! CPU, and not before what was already written of that CPU. So they can be written at once, and memory does not grow with the trace.

use piste_analysis::model::{Listen, Slice, State, System, ThreadId};
use piste_ctf::read::schema::Schema;
use piste_modelling::{Ground, GroundError, Run, expect_one_kernel, is_of_kernel};
use piste_trace::merge::Merged;
use piste_trace::select::{Comm, Selection, Who};
use piste_trace::{Merge, Span, Trace};

use crate::ExportError;

/// The event that makes a thread's time on a CPU exact. Selections without it want no such times.
pub(crate) const SWITCH: &str = "sched_switch";

/// Numbers from here on are damage.
const CPUS_MAX: u32 = 1 << 14;

/// Who has a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder<'a> {
    Thread(Runner<'a>),
    /// Nobody knows, although all threads were recorded.
    Unknown,
    /// None of the threads that were recorded and are wanted.
    Other,
}

/// A thread that runs; 0 is a CPU's idle thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runner<'a> {
    pub(crate) tid: i64,
    pub(crate) name: &'a str,
    /// As traces have it.
    pub(crate) priority: Option<i64>,
}

/// From a time on, a CPU has another thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) cpu: u64,
    pub(crate) ns: i64,
    to: Option<ThreadId>,
}

/// Follows the threads that run.
pub(crate) struct Runs<'g, 't> {
    run: Run<'g, 't, Running>,
    selection: &'g Selection,
    /// Where nobody knows who has a CPU, it may be a wanted thread.
    tells_unknown: bool,
    cpus: Vec<Option<Cpu>>,
    /// CPUs other than that of the event of which something was told.
    others: Vec<u32>,
    /// What was found out and is not written yet.
    changes: Vec<Change>,
}

/// A CPU, as far as changes tell.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// The thread that runs, and until when that has been told so far.
    shown: Option<(ThreadId, i64)>,
    /// The same thread, unless it is not wanted; absent before the first change.
    written: Option<Option<ThreadId>>,
    /// What is earlier cannot be written any more.
    written_ns: i64,
}

/// Times of threads on CPUs that the model has told.
#[derive(Default)]
struct Running(Vec<Stint>);

/// A thread had a CPU.
#[derive(Clone, Copy)]
struct Stint {
    thread: ThreadId,
    cpu: u32,
    begin_ns: i64,
    end_ns: i64,
}

impl Listen for Running {
    #[inline]
    fn slice(&mut self, _: &System, slice: &Slice) {
        if let State::Running { cpu, .. } = slice.state {
            self.0.push(Stint {
                thread: slice.thread,
                cpu,
                begin_ns: slice.begin_ns,
                end_ns: slice.end_ns,
            });
        }
    }
}

/// What the model needs to know of traces, the kernel's of which come first. Absent when it is not asked, or cannot tell.
pub(crate) fn ground<'t>(traces: &'t [Trace], selection: &Selection) -> Result<Option<Ground<'t>>, ExportError> {
    debug_assert!(traces.is_sorted_by_key(|trace| !is_of_kernel(trace)));
    let kernel = &traces[..traces.iter().take_while(|trace| is_of_kernel(trace)).count()];
    let may_tell = kernel.iter().any(|trace| has_switches(trace.schema()));
    if !selection.names(SWITCH) || !may_tell || expect_one_kernel(kernel).is_err() {
        return Ok(None);
    }
    match Ground::new(kernel, selection.span) {
        Ok(ground) => Ok(Some(ground)),
        Err(GroundError::Unreadable(error)) => Err(ExportError::Read(error)),
        Err(_) => Ok(None),
    }
}

/// What has to be read when the model is asked: what threads did before matters.
pub(crate) fn span_read(selection: &Selection) -> Span {
    piste_modelling::span_read(selection.span, &Running::default())
}

fn has_switches(schema: &Schema) -> bool {
    let mut classes = schema.streams.values().flat_map(|stream| stream.events.values());
    classes.any(|class| class.name == SWITCH)
}

impl<'g, 't> Runs<'g, 't> {
    pub(crate) fn new(ground: &'g Ground<'t>, selection: &'g Selection) -> Runs<'g, 't> {
        let Selection { pids, tids, comms, .. } = selection;
        let all_wanted = pids.is_empty() && tids.is_empty() && comms.is_empty();
        Runs {
            run: ground.begin(Running::default()),
            selection,
            tells_unknown: all_wanted && !ground.is_partial(),
            cpus: Vec::new(),
            others: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// An event of the kernel, before it is written.
    pub(crate) fn event(&mut self, merge: &mut Merge<'t>, merged: &Merged<'t>, cpu: Option<u64>) {
        self.run.event(merge, merged);
        let now_ns = self.run.system().now_ns();
        if now_ns < self.selection.span.begin_ns {
            return;
        }
        let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
        self.take_stints(cpu);
        while let Some(other) = self.others.pop() {
            self.settle(other);
        }
        if let Some(cpu) = cpu {
            self.settle(cpu);
            if let Some(known) = self.cpus.get_mut(cpu as usize).and_then(Option::as_mut) {
                known.written_ns = known.written_ns.max(now_ns);
            }
        }
    }

    /// The traces are over. Up to the time that is returned, what was written last goes on.
    pub(crate) fn end(&mut self, merge: &mut Merge<'t>) -> i64 {
        self.run.end(merge);
        self.take_stints(None);
        self.others.clear();
        let (_, end_ns) = self.run.system().told();
        for number in 0..self.cpus.len() as u32 {
            if let Some(mut cpu) = self.cpus[number as usize]
                && let Some((_, until_ns)) = cpu.shown
                && until_ns < end_ns
            {
                self.hand_over(number, &mut cpu, until_ns, None);
            }
        }
        end_ns
    }

    /// Exchanges what was found out since it was last asked for, in time order for each CPU, for a list that is done with.
    pub(crate) fn take_changes(&mut self, done: &mut Vec<Change>) {
        done.clear();
        std::mem::swap(&mut self.changes, done);
    }

    /// Who has a CPU after a change.
    pub(crate) fn holder(&self, change: &Change) -> Holder<'_> {
        self.describe(change.to)
    }

    /// Who has a CPU since its latest event.
    pub(crate) fn holder_of(&self, cpu: u64) -> Holder<'_> {
        let known = usize::try_from(cpu).ok().and_then(|cpu| self.cpus.get(cpu));
        let written = known.and_then(|cpu| cpu.as_ref()?.written);
        self.describe(written.flatten())
    }

    fn describe(&self, thread: Option<ThreadId>) -> Holder<'_> {
        let system = self.run.system();
        match thread {
            Some(id) => Holder::Thread(Runner {
                tid: system.thread(id).tid.into(),
                name: system.name_of(id),
                priority: system.thread(id).priority().map(i64::from),
            }),
            None if self.tells_unknown => Holder::Unknown,
            None => Holder::Other,
        }
    }

    /// Takes what the model has told. CPUs other than `cpu` are noted in `others`.
    fn take_stints(&mut self, cpu: Option<u32>) {
        if self.run.listener().0.is_empty() {
            return;
        }
        let mut stints = std::mem::take(&mut self.run.listener().0);
        for stint in stints.drain(..) {
            let Some(mut known) = self.cpu(stint.cpu) else { continue };
            if Some(stint.cpu) != cpu && !self.others.contains(&stint.cpu) {
                self.others.push(stint.cpu);
            }
            let Stint {
                thread,
                begin_ns,
                end_ns,
                ..
            } = stint;
            match &mut known.shown {
                Some((shown, until_ns)) if *shown == thread && begin_ns <= *until_ns => {
                    *until_ns = end_ns.max(*until_ns);
                }
                _ if end_ns > known.written_ns => {
                    self.hand_over(stint.cpu, &mut known, begin_ns, Some(thread));
                    known.shown = Some((thread, end_ns));
                }
                // Something else was written of that time.
                _ => {}
            }
            self.cpus[stint.cpu as usize] = Some(known);
        }
        self.run.listener().0 = stints;
    }

    /// After an event, a CPU has the thread that the model says.
    fn settle(&mut self, cpu: u32) {
        let Some(mut known) = self.cpu(cpu) else { return };
        match (known.shown, self.run.system().running_on(cpu)) {
            (Some((shown, until_ns)), Some((now, since_ns))) if shown == now && since_ns <= until_ns => return,
            (_, Some((now, since_ns))) => {
                let begin_ns = since_ns.max(known.written_ns);
                self.hand_over(cpu, &mut known, begin_ns, Some(now));
                known.shown = Some((now, begin_ns));
            }
            (Some((_, until_ns)), None) => {
                self.hand_over(cpu, &mut known, until_ns, None);
                known.shown = None;
            }
            (None, None) if known.written.is_some() => return,
            (None, None) => {
                let begin_ns = known.written_ns;
                self.hand_over(cpu, &mut known, begin_ns, None);
            }
        }
        self.cpus[cpu as usize] = Some(known);
    }

    /// A CPU has a thread from a time on, or nobody knows which. In between, nobody knew.
    fn hand_over(&mut self, number: u32, cpu: &mut Cpu, ns: i64, to: Option<ThreadId>) {
        let ns = ns.max(cpu.written_ns);
        let known_until_ns = cpu
            .shown
            .map_or(cpu.written_ns, |(_, until_ns)| until_ns.max(cpu.written_ns));
        let is_told = cpu.shown.is_some() || cpu.written.is_none();
        if is_told && known_until_ns < ns {
            self.write(number, cpu, known_until_ns, None);
        }
        let to = to.filter(|id| self.is_wanted(*id));
        self.write(number, cpu, ns, to);
    }

    fn write(&mut self, number: u32, cpu: &mut Cpu, ns: i64, to: Option<ThreadId>) {
        cpu.written_ns = ns;
        if cpu.written != Some(to) {
            cpu.written = Some(to);
            let cpu = number.into();
            self.changes.push(Change { cpu, ns, to });
        }
    }

    fn is_wanted(&self, id: ThreadId) -> bool {
        let system = self.run.system();
        let thread = system.thread(id);
        self.selection.is_of(&Who {
            pid: Some(thread.process().pid.into()),
            tid: Some(thread.tid.into()),
            comm: Some(Comm::new(system.name_of(id).as_bytes())),
        })
    }

    /// The CPU, unless it is not wanted.
    fn cpu(&mut self, number: u32) -> Option<Cpu> {
        let place = number as usize;
        if let Some(Some(known)) = self.cpus.get(place) {
            return Some(*known);
        }
        let wanted = &self.selection.cpus;
        if number >= CPUS_MAX || !wanted.is_empty() && !wanted.contains(&number.into()) {
            return None;
        }
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, None);
        }
        let (begin_ns, _) = self.run.system().told();
        let new = Cpu {
            shown: None,
            written: None,
            written_ns: begin_ns,
        };
        self.cpus[place] = Some(new);
        Some(new)
    }
}
