// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wanted events of traces in the order of time, each with its values, the CPU that it was on, and whoever it is of.

use piste_ctf::read::plan::EventPlan;
use piste_ctf::read::schema::Scope;
use piste_trace::select::{Selection, Threads, Who};
use piste_trace::{Findings, Trace};

use crate::fields::{Collector, Fields, Names};
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
}

impl Seen<'_> {
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.payload.number(self.names, name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&[u8]> {
        self.payload.text(self.names, name)
    }
}

/// Whoever writes events.
pub(crate) trait Writer {
    /// The next one.
    fn event(&mut self, event: &Seen<'_>) -> std::io::Result<()>;
}

/// The kernel's events, by what the metadata says of the tracer.
pub(crate) fn is_kernel(trace: &Trace) -> bool {
    trace.environment("domain") == Some("kernel")
}

/// Shows every wanted event to a writer.
pub(crate) fn read(traces: &[Trace], selection: &Selection, writer: &mut impl Writer) -> Result<Exported, ExportError> {
    let mut merge = selection.merge(traces).map_err(ExportError::Read)?;
    let mut matcher = (!selection.is_any()).then(|| selection.matcher(traces));
    let mut threads = Threads::new(traces);
    let kernel: Vec<bool> = traces.iter().map(is_kernel).collect();
    let (mut names, mut payload, mut contexts) = (Names::default(), Fields::default(), Fields::default());
    let mut streams: Vec<StreamState> = Vec::new();
    let (mut events, mut last_ns) = (0, 0);
    while let Some(merged) = merge.next() {
        let (cpu, who) = threads.see(&mut merge, &merged);
        if matcher
            .as_mut()
            .is_some_and(|matcher| !matcher.wants(&mut merge, &merged))
        {
            continue;
        }
        let trace = merge.trace_of(merged.stream);
        let stream = merge.stream(merged.stream);
        let event = merged.event;
        if streams.len() <= merged.stream {
            streams.resize_with(merged.stream + 1, StreamState::default);
        }
        let state = &mut streams[merged.stream];
        if state.name.is_empty() {
            let name = stream.index.path.file_name().unwrap_or_default();
            state.name = name.to_string_lossy().into_owned();
        }
        let gaps = stream.gap_count();
        let is_after_loss = gaps != std::mem::replace(&mut state.gaps, gaps);
        last_ns = stream.ns(&event).unwrap_or(last_ns);
        payload.clear();
        contexts.clear();
        // What cannot be read was found before; the rest is shown.
        let _ = stream.visit(&event, Scope::Payload, &mut Collector::new(&mut payload, &mut names));
        for scope in [Scope::PacketContext, Scope::EventContext, Scope::SpecificContext] {
            let _ = stream.visit(&event, scope, &mut Collector::new(&mut contexts, &mut names));
        }
        let seen = Seen {
            class: event.class,
            ns: last_ns,
            cpu,
            who,
            is_kernel: kernel[trace],
            is_after_loss,
            stream: merged.stream,
            stream_name: &streams[merged.stream].name,
            payload: &payload,
            contexts: &contexts,
            names: &names,
        };
        writer.event(&seen).map_err(ExportError::Write)?;
        events += 1;
    }
    let findings: Findings = std::mem::take(&mut merge.findings);
    Ok(Exported { events, findings })
}

#[derive(Default)]
struct StreamState {
    name: String,
    gaps: u64,
}
