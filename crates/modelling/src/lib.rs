// SPDX-License-Identifier: MIT OR Apache-2.0
//! What analyses stand on: the events of some traces, given to the model, and where they are missing; and names for the addresses in events.

mod ahead;
mod c_library;
mod growing;
mod kernel_names;
mod live;
mod lost;
mod mappings;
mod memory;
mod needs;
mod perf_maps;
mod processes;
mod programs;
mod space;
mod symbols;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;

use piste_analysis::analysis::Need;
use piste_analysis::facts::Incoming;
use piste_analysis::model::{Circumstances, Gap, Gaps, Listen, System};
use piste_analysis::pass::{Looker, Pass};
use piste_analysis::survey::EVENTS_ENOUGH;
use piste_reason::reason;
use piste_trace::blind::{Blind, blind, recorded_span, unrecorded};
use piste_trace::merge::Merged;
use piste_trace::part::Part;
use piste_trace::repeated::repeated;
use piste_trace::{Findings, Merge, Span, Trace};

use self::memory::Recorded;

pub use self::growing::Growing;
pub use self::kernel_names::KernelNames;
pub use self::live::{Live, hold_back};
pub use self::lost::{StreamGap, StreamGaps};
pub use self::mappings::files_with_names;
pub use self::needs::{class_names, expect_one_kernel, is_of_kernel, kernel_traces, missing};
pub use self::programs::{ProgramReader, Programs, read_programs};
pub use self::symbols::{Network, Symbols};

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    /// A stream file that was there cannot be opened any more.
    #[error("cannot read the trace: {}", reason(.0))]
    Unreadable(#[from] io::Error),
    /// Programs' traces only.
    #[error(
        "this trace contains nothing of the kernel; `piste stats`, `piste view` and `piste analyze periods` show what programs recorded, and `piste record -o DIR -- CMD` records a command with the kernel"
    )]
    NoKernel,
    /// Of more than one.
    #[error("these are traces of several machines ({hosts}); choose those of one machine")]
    SeveralMachines {
        /// Their names.
        hosts: String,
    },
    /// Whatever happened, happened nobody knows where.
    #[error(
        "cannot analyze this trace: it does not show on which CPU its events happened (no packet, context or field has `cpu_id`)"
    )]
    NoCpus,
    /// Events are missing without which there is no answer.
    #[error("{name} needs {what}, and this trace has none ({any_of}); record them with {record}")]
    Lacking {
        /// What needs them.
        name: String,
        /// What they tell.
        what: &'static str,
        /// Their names.
        any_of: String,
        /// The command that gets them.
        record: String,
    },
}

/// So many events take some milliseconds.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 14;

/// Some traces, looked at beforehand.
pub struct Ground<'t> {
    traces: &'t [Trace],
    /// What is to be told of.
    span: Span,
    whole: Span,
    circumstances: Circumstances,
    part: Part,
    /// Other threads than the recorded ones have come and gone.
    has_others: bool,
    /// CPUs without events.
    unseen: Vec<u32>,
    /// Names of devices by their numbers.
    devices: BTreeMap<u32, Box<[u8]>>,
    /// Processes and names of threads by their numbers.
    threads: BTreeMap<i32, (i32, Box<[u8]>)>,
    /// Sentences about CPUs whose events begin late or end early.
    cut: Vec<String>,
    /// A sentence where events come more than once.
    told_again: Option<String>,
    /// What was where in the memory of processes, where that is recorded.
    memory: Option<Arc<Recorded>>,
    /// Another thread reads events ahead of the model.
    reads_ahead: bool,
}

/// A sentence where some events are in more than one of the traces.
pub fn told_again(traces: &[Trace]) -> Option<String> {
    let is_so = !repeated(traces).is_empty();
    let note = "some events are in more than one of these traces and are counted for each; read only one of the traces (see `piste stats`)";
    is_so.then(|| note.to_owned())
}

impl<'t> Ground<'t> {
    /// Looks at the first events, and at what is known to be missing.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn new(traces: &'t [Trace], span: Span) -> Result<Ground<'t>, GroundError> {
        let whole = recorded_span(traces).unwrap_or(Span::ALL);
        let mut gaps = Gaps::new(&traces.iter().flat_map(blind).map(gap).collect::<Vec<_>>());
        let mut cut = Vec::new();
        for part in unrecorded(traces, whole) {
            if part.is_told() {
                gaps.add(gap(part.blind));
            } else {
                gaps.add_untold(gap(part.blind));
            }
            cut.extend(part.sentence(whole));
        }
        let mut known_gaps = gaps.clone();
        let mut looker = Looker::default();
        let mut merge = Merge::new(traces, Span::ALL)?;
        let mut first_ns = None;
        for _ in 0..EVENTS_ENOUGH {
            let Some(merged) = merge.next() else { break };
            merge.blind.drain(..).for_each(|blind| known_gaps.add(gap(blind)));
            let ns = hand_on(&mut merge, &merged, whole, |incoming| {
                looker.event(incoming, &known_gaps)
            });
            first_ns.get_or_insert(ns);
        }
        let survey = looker.survey;
        if survey.lacks_cpus() {
            return Err(GroundError::NoCpus);
        }
        // The first packets of some tracers begin when their buffers were made, long before anything was recorded.
        let begin_ns = first_ns.unwrap_or(whole.begin_ns.max(0));
        let part = Part::of_any(traces);
        // Piste says it. In traces of others only contradictions tell; in its own there are some wherever its hidden threads had a CPU.
        let is_said = part != Part::default() || traces.iter().any(|trace| says(trace, "piste_version"));
        let has_others = part.about_threads || part.on_threads || !is_said && survey.is_partial();
        let unseen: Vec<u32> = survey.unseen_cpus(has_others).collect();
        for cpu in &unseen {
            gaps.add(Gap {
                cpu: Some(*cpu),
                begin_ns,
                end_ns: i64::MAX,
            });
        }
        if part.of_events {
            gaps.add_untold(Gap::EVERYWHERE);
        }
        if part.of_cpus {
            gaps.add_untold(Gap {
                cpu: Some(u32::MAX),
                ..Gap::EVERYWHERE
            });
        }
        // A kernel that is to record some threads tells all switches to them, other tracers do not.
        let has_arrivals = !has_others || part.about_threads && !part.on_threads;
        let untold = survey.idle_ends_untold(has_others);
        let idle_ends_untold = untold.filter(|_| has_arrivals).collect();
        // Without switches only each event itself tells on which thread it happened.
        let has_switches = survey.has_switches() && !part.on_threads;
        let is_partial = has_others || !has_switches;
        let half_calls = needs::HalfCalls::of(traces);
        cut.extend(half_calls.notes());
        let circumstances = Circumstances {
            begin_ns,
            tell_from_ns: span.begin_ns,
            tell_until_ns: span.end_ns,
            gaps,
            is_partial,
            has_switches,
            has_wakeups: survey.has_wakeups,
            has_waking: survey.has_waking,
            has_interrupts: needs::has_interrupts(traces),
            has_arrivals,
            idle_ends_untold,
            half_calls: half_calls.names(),
            hidden: is_said.then_some("pisted"),
        };
        Ok(Ground {
            traces,
            span,
            whole,
            circumstances,
            part,
            has_others,
            unseen,
            devices: survey.devices,
            threads: survey.threads,
            cut,
            told_again: told_again(traces),
            memory: Recorded::of(traces).map(Arc::new),
            reads_ahead: thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1),
        })
    }

    /// Whether another thread reads events ahead of the model; at first, where there are several CPUs. Answers are the same.
    pub fn read_ahead(&mut self, is_wanted: bool) {
        self.reads_ahead = is_wanted;
    }

    /// Only some threads were recorded, or nothing tells which threads have the CPUs.
    pub fn is_partial(&self) -> bool {
        self.circumstances.is_partial
    }

    /// When the model begins: at the first event, in nanoseconds.
    pub fn begin_ns(&self) -> i64 {
        self.circumstances.begin_ns
    }

    /// Sentences about what cannot be known, for an answer that needs these events; of more, once the system is what it is at the end, and the
    /// answer has asked it for all names.
    pub fn notes(&self, system: Option<&System>, needs: &[Need]) -> Vec<String> {
        let mut notes = Vec::from_iter(self.told_again.clone());
        let part = [
            (
                self.has_others && !self.part.on_threads,
                "only some threads were recorded: what other threads did, and when a CPU was idle, is unknown; `piste record -a` records all threads",
            ),
            (
                self.part.on_threads,
                "this trace contains only events of some threads: when the threads had a CPU is unknown",
            ),
            (
                self.part.of_cpus,
                "this trace contains only events of some CPUs: what threads did on other CPUs is unknown",
            ),
            (
                self.part.of_events,
                "this trace contains only events that were selected by a filter: what threads did in between is unknown",
            ),
        ];
        let said = part.into_iter().filter(|(is_so, _)| *is_so);
        notes.extend(said.map(|(_, note)| note.to_owned()));
        let circumstances = system.map_or(&self.circumstances, System::circumstances);
        if circumstances.gaps.all().len() > self.unseen.len() {
            notes.push(
                "events are missing from this trace, so it does not show what threads did at those times (see `piste stats`)".to_owned(),
            );
        }
        notes.extend(self.cut.iter().cloned());
        let untold: Vec<String> = system
            .filter(|_| needs::have_switches(needs))
            .map(|system| system.idle_ends_missed().iter().map(u32::to_string).collect())
            .unwrap_or_default();
        if !untold.is_empty() {
            notes.push(format!(
                "switches from idle to a thread were not recorded on CPU {}, so a thread is known to be running there only from its first \
                 event on; Linux 6.18 no longer reports these switches on a CPU that was offline once",
                untold.join(", ")
            ));
        }
        let unseen = self.unseen.iter();
        notes.extend(
            unseen.map(|cpu| format!("there are no events of CPU {cpu}, so what threads did there is unknown")),
        );
        notes.extend(self.memory.iter().flat_map(|memory| memory.notes()).cloned());
        notes
    }

    /// Reads everything up to the end: the system at the end, and who has listened.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn run<L: Listen>(&self, listener: L, findings: &mut Findings) -> Result<(System, L), GroundError> {
        let pass = self.run_while(listener, findings, || true)?;
        Ok(pass.expect("nobody has ended it"))
    }

    /// The same; `None` when `goes_on`, which is asked now and then, says that it is enough.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn run_while<L: Listen>(
        &self,
        listener: L,
        findings: &mut Findings,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<(System, L)>, GroundError> {
        let span = span_read(self.span, &listener);
        let mut merge = Merge::new(self.traces, span)?;
        let mut run = self.begin(listener);
        if self.reads_ahead {
            let Some(found) = run.ahead(merge, goes_on) else {
                return Ok(None);
            };
            run.finish();
            findings.extend(found);
            let Pass { system, listener, .. } = run.pass;
            return Ok(Some((system, listener)));
        }
        let mut events = 0_u64;
        while let Some(merged) = merge.next() {
            run.event(&mut merge, &merged);
            events += 1;
            if events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && !goes_on() {
                return Ok(None);
            }
        }
        run.end(&mut merge);
        let Pass { system, listener, .. } = run.pass;
        findings.extend(std::mem::take(&mut merge.findings));
        Ok(Some((system, listener)))
    }

    /// The model before the first event, for callers that read the events themselves.
    pub fn begin<L: Listen>(&self, listener: L) -> Run<'_, 't, L> {
        let mut pass = Pass::new(self.circumstances.clone(), listener);
        for (device, name) in &self.devices {
            pass.system.name_device(*device, name);
        }
        for (tid, (pid, name)) in &self.threads {
            pass.system.foretell(*tid, *pid, name);
        }
        if let Some(memory) = &self.memory {
            let memory = Arc::clone(memory);
            pass.system.set_memory(memory);
        }
        Run {
            ground: self,
            pass,
            last_ns: self.circumstances.begin_ns,
        }
    }
}

/// A model at work. It takes the events of its ground's traces in time order, from their beginning ([`span_read`]).
pub struct Run<'g, 't, L> {
    ground: &'g Ground<'t>,
    pass: Pass<L>,
    last_ns: i64,
}

impl<'t, L: Listen> Run<'_, 't, L> {
    /// The next event, which `merge` has just given. The merge may also read other traces; their events are not for the model.
    #[inline]
    pub fn event(&mut self, merge: &mut Merge<'t>, merged: &Merged<'t>) {
        if !merge.blind.is_empty() {
            self.lose(merge);
        }
        let pass = &mut self.pass;
        self.last_ns = hand_on(merge, merged, self.ground.whole, |incoming| pass.event(incoming));
    }

    /// The system so far.
    #[inline]
    pub fn system(&self) -> &System {
        &self.pass.system
    }

    /// Who listens.
    #[inline]
    pub fn listener(&mut self) -> &mut L {
        &mut self.pass.listener
    }

    /// The system so far, and who listens, who may ask it.
    pub fn parts(&mut self) -> (&System, &mut L) {
        (&self.pass.system, &mut self.pass.listener)
    }

    /// The system as far as it was read, and who has listened.
    pub fn into_parts(self) -> (System, L) {
        (self.pass.system, self.pass.listener)
    }

    /// The traces are over.
    pub fn end(&mut self, merge: &mut Merge<'t>) {
        self.lose(merge);
        self.finish();
    }

    fn finish(&mut self) {
        let Ground { whole, span, .. } = self.ground;
        let end_ns = if *whole == Span::ALL {
            self.last_ns
        } else {
            whole.end_ns
        };
        self.pass.finish(end_ns.min(span.end_ns).max(self.last_ns));
    }

    /// Events could not be read. Those of other traces are not missed.
    #[cold]
    fn lose(&mut self, merge: &mut Merge<'t>) {
        let is_own = |blind: &Blind<'_>| {
            let mut streams = self.ground.traces.iter().flat_map(|trace| &trace.streams);
            streams.any(|stream| std::ptr::eq(stream, blind.stream))
        };
        let own: Vec<Blind<'_>> = merge.blind.drain(..).filter(is_own).collect();
        own.into_iter().for_each(|blind| self.pass.system.add_gap(gap(blind)));
    }
}

/// What has to be read to tell of a part of time. What threads did before matters: it begins with the trace.
pub fn span_read(told: Span, listener: &impl Listen) -> Span {
    Span {
        begin_ns: i64::MIN,
        end_ns: if listener.looks_ahead() { i64::MAX } else { told.end_ns },
    }
}

/// Piste says so in the environment.
fn says(trace: &Trace, name: &str) -> bool {
    trace.schema().environment.iter().any(|(key, _)| key == name)
}

fn gap(blind: Blind<'_>) -> Gap {
    Gap {
        cpu: blind.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        begin_ns: blind.begin_ns,
        end_ns: blind.end_ns,
    }
}

/// The event that was read last, as the model takes it. Its time is within the packets' unless the event is damaged.
#[inline]
fn incoming<'i, 't>(merge: &'i mut Merge<'t>, merged: &Merged<'t>, whole_end_ns: i64) -> Incoming<'i, 't> {
    let stream = merge.stream(merged.stream);
    let ns = stream.ns(&merged.event).unwrap_or(0).min(whole_end_ns);
    let (reader, window, base_bytes, _) = stream.parts();
    Incoming {
        event: merged.event,
        reader,
        window,
        base_bytes,
        stream: merged.stream,
        ns,
    }
}

/// Hands it on; returns its time.
#[inline]
fn hand_on<'t>(merge: &mut Merge<'t>, merged: &Merged<'t>, whole: Span, take: impl FnOnce(Incoming<'_, 't>)) -> i64 {
    let incoming = incoming(merge, merged, whole.end_ns);
    let ns = incoming.ns;
    take(incoming);
    ns
}
