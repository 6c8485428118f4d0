// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wanted events of traces in the order of time, each with its values, the CPU that it was on, and whoever it is of.

use piste_ctf::read::plan::EventPlan;
use piste_ctf::read::schema::Scope;
use piste_modelling::{Symbols, is_of_kernel};
use piste_trace::blind::tells_of_cpu;
use piste_trace::index::StreamIndex;
use piste_trace::select::{Selection, Threads, Who};
use piste_trace::symbols::visit;
use piste_trace::{Findings, Merge, Span, Trace};

use crate::fields::{Collector, Fields, Names};
use crate::runs::{Change, Holder, Runs, SWITCH, ground, span_read};
use crate::{ExportError, Exported};

/// An event, for those who write it.
pub(crate) struct Seen<'a> {
    pub(crate) class: &'a EventPlan,
    /// Nanoseconds since the clock's origin, mostly 1970. Events without a time have that of the event before.
    pub(crate) ns: i64,
    pub(crate) cpu: Option<u64>,
    pub(crate) who: Who,
    /// The kernel's own, not a program's.
    pub(crate) is_kernel: bool,
    /// Something was lost in its stream since the event before.
    pub(crate) is_after_loss: bool,
    /// The stream, and its name.
    pub(crate) stream: usize,
    pub(crate) stream_name: &'a str,
    pub(crate) payload: &'a Fields,
    /// Of the event and of its packet.
    pub(crate) contexts: &'a Fields,
    pub(crate) names: &'a Names,
    /// Of a switch, where it is known which threads run.
    pub(crate) switched: Option<Switched<'a>>,
}

/// What a switch leads to, as far as the model knows.
pub(crate) struct Switched<'a> {
    /// Who has the CPU from now on.
    pub(crate) to: Holder<'a>,
    /// It was another one before.
    pub(crate) is_change: bool,
}

impl Seen<'_> {
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.payload.number(self.names, name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&[u8]> {
        self.payload.text(self.names, name)
    }

    /// What the slice of a function is called: the code of a function has no name of its own in the trace.
    pub(crate) fn function(&self, slice: &str) -> Option<String> {
        let address = self.number("addr").filter(|_| slice.ends_with("func"))?;
        Some(match self.payload.symbol(self.names, "addr") {
            Some(symbol) => String::from_utf8_lossy(symbol).into_owned(),
            None => format!("{:#x}", address.cast_unsigned()),
        })
    }
}

/// Whoever writes events.
pub(crate) trait Writer {
    /// The next one.
    fn event(&mut self, event: &Seen<'_>) -> std::io::Result<()>;
    /// From a time on, a CPU has another thread, and no switch that is wanted says so. Before the next event; not before what came of that CPU.
    fn change(&mut self, change: &Change, to: Holder<'_>) -> std::io::Result<()>;
    /// All is over; who has CPUs has them up to that time, where that is known.
    fn end(&mut self, until_ns: Option<i64>) -> std::io::Result<()>;
}

/// Shows every wanted event to a writer.
pub(crate) fn read<'t>(
    traces: &'t [Trace],
    selection: &Selection,
    symbols: Option<&Symbols<'t>>,
    writer: &mut impl Writer,
) -> Result<Exported, ExportError> {
    let ground = ground(traces, selection)?;
    let mut runs = ground.as_ref().map(|ground| Runs::new(ground, selection));
    let mut merge = match &runs {
        Some(_) => Merge::new(traces, span_read(selection)),
        None => selection.merge(traces),
    }
    .map_err(ExportError::Read)?;
    let is_all_wanted = selection.is_any() && (runs.is_none() || selection.span == Span::ALL);
    let mut matcher = (!is_all_wanted).then(|| selection.matcher(traces));
    let mut threads = Threads::new(traces);
    let kernel: Vec<bool> = traces.iter().map(is_of_kernel).collect();
    let mut symbols = symbols.map(Symbols::of_events);
    let (mut names, mut payload, mut contexts) = (Names::default(), Fields::default(), Fields::default());
    let mut streams: Vec<StreamState> = Vec::new();
    let (mut events, mut last_ns, mut changes) = (0, 0, Vec::new());
    while let Some(merged) = merge.next() {
        let (mut cpu, mut who) = threads.see(&mut merge, &merged);
        let trace = merge.trace_of(merged.stream);
        let is_kernel = kernel[trace];
        while streams.len() <= merged.stream {
            let place = streams.len();
            let trace = &traces[merge.trace_of(place)];
            streams.push(StreamState::new(trace, merge.stream(place).index));
        }
        if streams[merged.stream].is_of_no_cpu {
            (cpu, who) = (None, Who::default());
        }
        if let Some(runs) = runs.as_mut().filter(|_| is_kernel) {
            runs.event(&mut merge, &merged, cpu);
            runs.take_changes(&mut changes);
        }
        let is_wanted = matcher
            .as_mut()
            .is_none_or(|matcher| matcher.wants(&mut merge, &merged));
        let is_switch = is_kernel && is_wanted && &*merged.event.class.name == SWITCH;
        let now_ns = merge.stream(merged.stream).ns(&merged.event);
        let by_switch = changes.pop_if(|change| is_switch && Some(change.cpu) == cpu && Some(change.ns) == now_ns);
        if let Some(runs) = &runs {
            write_changes(&mut changes, runs, writer)?;
        }
        if !is_wanted {
            continue;
        }
        let stream = merge.stream(merged.stream);
        let event = merged.event;
        let state = &mut streams[merged.stream];
        let gaps = stream.gap_count();
        let is_after_loss = gaps != std::mem::replace(&mut state.gaps, gaps);
        last_ns = stream.ns(&event).unwrap_or(last_ns);
        payload.clear();
        contexts.clear();
        let mut of_event = match &mut symbols {
            Some(symbols) => symbols.of(trace, stream, &event),
            None => None,
        };
        let mut collect = |scope, fields: &mut Fields| {
            let mut collector = Collector::new(fields, &mut names);
            // What cannot be read was found before; the rest is shown.
            let _ = visit(stream, &event, scope, &mut collector, of_event.as_mut());
        };
        collect(Scope::Payload, &mut payload);
        for scope in [Scope::PacketContext, Scope::EventContext, Scope::SpecificContext] {
            collect(scope, &mut contexts);
        }
        let switched = runs.as_ref().zip(cpu).filter(|_| is_switch);
        let seen = Seen {
            class: event.class,
            ns: last_ns,
            cpu,
            who,
            is_kernel,
            is_after_loss,
            stream: merged.stream,
            stream_name: &streams[merged.stream].name,
            payload: &payload,
            contexts: &contexts,
            names: &names,
            switched: switched.map(|(runs, cpu)| Switched {
                to: runs.holder_of(cpu),
                is_change: by_switch.is_some(),
            }),
        };
        writer.event(&seen).map_err(ExportError::Write)?;
        events += 1;
    }
    let mut until_ns = None;
    if let Some(runs) = &mut runs {
        until_ns = Some(runs.end(&mut merge));
        runs.take_changes(&mut changes);
        write_changes(&mut changes, runs, writer)?;
    }
    writer.end(until_ns).map_err(ExportError::Write)?;
    let findings: Findings = std::mem::take(&mut merge.findings);
    Ok(Exported { events, findings })
}

fn write_changes(changes: &mut Vec<Change>, runs: &Runs<'_, '_>, writer: &mut impl Writer) -> Result<(), ExportError> {
    let mut written = changes
        .drain(..)
        .map(|change| writer.change(&change, runs.holder(&change)));
    written.try_for_each(|written| written.map_err(ExportError::Write))
}

struct StreamState {
    name: String,
    /// The CPU of its packets, and whoever that CPU had, are those that wrote them.
    is_of_no_cpu: bool,
    gaps: u64,
}

impl StreamState {
    fn new(trace: &Trace, stream: &StreamIndex) -> StreamState {
        let name = stream.path.file_name().unwrap_or_default();
        StreamState {
            name: name.to_string_lossy().into_owned(),
            is_of_no_cpu: !tells_of_cpu(trace, stream),
            gaps: 0,
        }
    }
}
