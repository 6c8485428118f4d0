// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trace events in JSON, as chrome://tracing began it: slices that nest, instants, counters, and the names of processes and threads.
//!
//! Programs' events and system calls are on the tracks of their threads; a process "CPUs" has a track for each CPU, with the threads
//! that run there (runs.rs), interrupts within them, and the kernel's other events.

use std::collections::HashMap;
use std::io::{self, Write};

use piste_analysis::spans::Stacks;
use piste_modelling::Symbols;
use piste_trace::phases::{Phase, Phases};
use piste_trace::select::Selection;
use piste_trace::{Span, Trace};

use crate::fields::{Child, Children, Fields, Value};
use crate::reader::{Seen, Switched, Writer, read};
use crate::runs::{Change, Holder};
use crate::{ExportError, Exported};

/// Writes the wanted events of traces, the kernel's of which come first, as trace events in JSON.
///
/// # Errors
/// A stream file that was there cannot be opened any more, or the output cannot be written.
pub fn chrome<'t>(
    traces: &'t [Trace],
    selection: &Selection,
    symbols: Option<&Symbols<'t>>,
    out: &mut dyn Write,
) -> Result<Exported, ExportError> {
    let mut chrome = Chrome {
        out,
        line: Vec::new(),
        phases: Phases::new(traces),
        stacks: Stacks::default(),
        known: HashMap::new(),
        base_ns: Span::of(traces).map(|span| span.begin_ns.max(selection.span.begin_ns)),
        last_ns: 0,
    };
    chrome.head(traces).map_err(ExportError::Write)?;
    read(traces, selection, symbols, &mut chrome)
}

/// Process and thread, by which viewers tell tracks apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Track {
    pid: i64,
    tid: i64,
}

/// The process of the CPUs' tracks. No process has the number, and threads 0 are those of CPUs that are idle.
const CPUS: i64 = 0;
/// What a CPU has where nobody knows which thread it has.
const UNKNOWN: &str = "unknown";
/// That of streams whose events are of no known thread.
const STREAMS: i64 = -1;

struct Chrome<'t, 'o> {
    out: &'o mut dyn Write,
    line: Vec<u8>,
    phases: Phases<'t>,
    stacks: Stacks<Track, ()>,
    /// What tracks are called, as far as it was said.
    known: HashMap<Track, Vec<u8>>,
    /// Times are counted from here: as numbers of JSON they would lose their nanoseconds.
    base_ns: Option<i64>,
    last_ns: i64,
}

/// What an event does to a track.
enum Does<'a> {
    /// Begins a slice of that name.
    Begin(&'a str),
    End,
    Instant,
    Counter(String, i64),
}

impl Chrome<'_, '_> {
    fn head(&mut self, traces: &[Trace]) -> io::Result<()> {
        self.line
            .extend_from_slice(b"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tracer\":\"Piste\"");
        if let Some(base_ns) = self.base_ns {
            write!(self.line, ",\"begin_ns\":\"{base_ns}\"")?;
        }
        for key in ["hostname", "kernel_release"] {
            if let Some(value) = traces.iter().find_map(|trace| trace.environment(key)) {
                write!(self.line, ",\"{key}\":")?;
                text(&mut self.line, value.as_bytes());
            }
        }
        self.line.extend_from_slice(b"},\"traceEvents\":[\n");
        write!(
            self.line,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{CPUS},\"tid\":0,\"args\":{{\"name\":\"CPUs\"}}}}"
        )?;
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }

    /// `{"ph":"B","name":"work","pid":1,"tid":2,"ts":3.004`
    fn begin_event(&mut self, does: &Does<'_>, category: &str, track: Track, ns: i64) -> io::Result<()> {
        let line = &mut self.line;
        line.extend_from_slice(b",\n{\"ph\":\"");
        let (phase, name) = match does {
            Does::Begin(name) => ("B", Some(*name)),
            Does::End => ("E", None),
            Does::Instant => ("i", None),
            Does::Counter(name, _) => ("C", Some(&**name)),
        };
        write!(line, "{phase}\"")?;
        if let Some(name) = name {
            line.extend_from_slice(b",\"name\":");
            text(line, name.as_bytes());
        }
        if !category.is_empty() {
            line.extend_from_slice(b",\"cat\":");
            text(line, category.as_bytes());
        }
        let base_ns = *self.base_ns.get_or_insert(ns);
        let relative = i128::from(ns) - i128::from(base_ns);
        let (sign, size) = (if relative < 0 { "-" } else { "" }, relative.unsigned_abs());
        let Track { pid, tid } = track;
        write!(
            line,
            ",\"pid\":{pid},\"tid\":{tid},\"ts\":{sign}{}.{:03}",
            size / 1000,
            size % 1000
        )
    }

    fn write(&mut self, does: &Does<'_>, track: Track, event: &Seen<'_>) -> io::Result<()> {
        let category = match event.is_kernel {
            true => "kernel",
            false => event.class.name.split_once(':').map_or("", |(provider, _)| provider),
        };
        self.begin_event(does, category, track, event.ns)?;
        let line = &mut self.line;
        match does {
            Does::Counter(_, value) => write!(line, ",\"args\":{{\"value\":{value}}}}}")?,
            does => {
                if matches!(does, Does::Instant) {
                    line.extend_from_slice(b",\"name\":");
                    text(line, event.class.name.as_bytes());
                    // Of its thread.
                    line.extend_from_slice(b",\"s\":\"t\"");
                }
                line.extend_from_slice(b",\"args\":{");
                members(line, event.payload.top(), event.payload, event);
                if !event.contexts.is_empty() {
                    if !event.payload.is_empty() {
                        line.push(b',');
                    }
                    line.extend_from_slice(b"\"context\":{");
                    members(line, event.contexts.top(), event.contexts, event);
                    line.push(b'}');
                }
                line.extend_from_slice(b"}}");
            }
        }
        Ok(())
    }

    /// Whatever is on a track ends.
    fn end_all(&mut self, track: Track, ns: i64) -> io::Result<()> {
        let open = self.stacks.end_all(track).len();
        (0..open).try_for_each(|_| self.end_one(track, ns))
    }

    fn end_one(&mut self, track: Track, ns: i64) -> io::Result<()> {
        self.begin_event(&Does::End, "", track, ns)?;
        self.line.push(b'}');
        Ok(())
    }

    /// A switch, which is shown by what begins or ends with it.
    fn switch(&mut self, track: Track, event: &Seen<'_>) -> io::Result<()> {
        let Some(Switched { to, is_change: true }) = &event.switched else {
            return self.write(&Does::Instant, track, event);
        };
        if let Holder::Thread(runner) = to
            && runner.tid != 0
        {
            self.end_all(track, event.ns)?;
            self.write(&Does::Begin(runner.name), track, event)?;
            self.stacks.begin(track, runner.name, ());
            return Ok(());
        }
        let open = self.stacks.end_all(track).len();
        match open {
            0 => self.write(&Does::Instant, track, event)?,
            open => {
                (1..open).try_for_each(|_| self.end_one(track, event.ns))?;
                self.write(&Does::End, track, event)?;
            }
        }
        self.hold(track, *to, event.ns)
    }

    /// A CPU has this thread from now on, which no event on the track says.
    fn hold(&mut self, track: Track, holder: Holder<'_>, ns: i64) -> io::Result<()> {
        let (name, tid) = match holder {
            Holder::Thread(runner) if runner.tid != 0 => match runner.name {
                "" => (&*runner.tid.to_string(), Some(runner.tid)),
                name => (name, Some(runner.tid)),
            },
            Holder::Unknown => (UNKNOWN, None),
            Holder::Thread(_) | Holder::Other => return Ok(()),
        };
        self.begin_event(&Does::Begin(name), "kernel", track, ns)?;
        match tid {
            Some(tid) => write!(self.line, ",\"args\":{{\"tid\":{tid}}}}}")?,
            None => self.line.push(b'}'),
        }
        self.stacks.begin(track, name, ());
        Ok(())
    }

    fn cpu_track(&mut self, cpu: u64) -> io::Result<Track> {
        let tid = i64::try_from(cpu).unwrap_or(0);
        let track = Track { pid: CPUS, tid };
        self.name(track, b"CPUs".to_vec(), format!("CPU {cpu}").into_bytes())?;
        Ok(track)
    }

    /// The track of an event; its name is written before it is used.
    fn track(&mut self, event: &Seen<'_>) -> io::Result<Track> {
        let is_call = event.class.name.starts_with("syscall_");
        let (track, process, thread) = match (event.is_kernel && !is_call, event.cpu, event.who.tid) {
            (true, Some(cpu), _) => return self.cpu_track(cpu),
            (_, _, Some(tid)) => {
                // A thread of which the process is unknown is shown as one of its own.
                let pid = event.who.pid.unwrap_or(tid);
                let comm = event.who.comm.map(|comm| comm.as_bytes().to_vec()).unwrap_or_default();
                // A process is called like its first thread.
                let process = if pid == tid { comm.clone() } else { Vec::new() };
                (Track { pid, tid }, process, comm)
            }
            _ => {
                let track = Track {
                    pid: STREAMS,
                    tid: event.stream as i64,
                };
                (track, b"streams".to_vec(), event.stream_name.into())
            }
        };
        self.name(track, process, thread)?;
        Ok(track)
    }
}

impl Chrome<'_, '_> {
    /// Says what a track is called, where that is known and was not said. Programs that are executed change it.
    fn name(&mut self, track: Track, process: Vec<u8>, thread: Vec<u8>) -> io::Result<()> {
        if thread.is_empty() || self.known.get(&track) == Some(&thread) {
            return Ok(());
        }
        for (what, name) in [("process_name", &process), ("thread_name", &thread)] {
            if name.is_empty() {
                continue;
            }
            let Track { pid, tid } = track;
            write!(
                self.line,
                ",\n{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":"
            )?;
            text(&mut self.line, name);
            self.line.extend_from_slice(b"}}");
        }
        self.known.insert(track, thread);
        Ok(())
    }
}

impl Writer for Chrome<'_, '_> {
    fn event(&mut self, event: &Seen<'_>) -> io::Result<()> {
        self.last_ns = self.last_ns.max(event.ns);
        let track = self.track(event)?;
        let name = &*event.class.name;
        if event.is_kernel && name == "sched_switch" {
            self.switch(track, event)?;
            return self.flush();
        }
        if event.is_kernel
            && name.ends_with("cpu_frequency")
            && let (Some(cpu), Some(state)) = (event.number("cpu_id"), event.number("state"))
        {
            self.write(&Does::Counter(format!("CPU {cpu} kHz"), state), track, event)?;
            return self.flush();
        }
        match self.phases.of(event.class).clone() {
            Phase::Begin(name) => {
                let function = event.function(&name);
                self.write(&Does::Begin(function.as_deref().unwrap_or(&name)), track, event)?;
                self.stacks.begin(track, &name, ());
            }
            Phase::End(name) => {
                let count = self.stacks.end(track, &name).len();
                match count {
                    0 => self.write(&Does::Instant, track, event)?,
                    count => {
                        (1..count).try_for_each(|_| self.end_one(track, event.ns))?;
                        self.write(&Does::End, track, event)?;
                    }
                }
            }
            Phase::Instant => self.write(&Does::Instant, track, event)?,
        }
        self.flush()
    }

    fn change(&mut self, change: &Change, to: Holder<'_>) -> io::Result<()> {
        self.last_ns = self.last_ns.max(change.ns);
        let track = self.cpu_track(change.cpu)?;
        self.end_all(track, change.ns)?;
        self.hold(track, to, change.ns)?;
        self.flush()
    }

    /// What is still open ends with the trace.
    fn end(&mut self, until_ns: Option<i64>) -> io::Result<()> {
        let end_ns = until_ns.map_or(self.last_ns, |until_ns| until_ns.max(self.last_ns));
        let mut open: Vec<(Track, usize)> = self.stacks.tracks().map(|(track, open)| (*track, open.len())).collect();
        open.sort();
        for (track, count) in open {
            (0..count).try_for_each(|_| self.end_one(track, end_ns))?;
        }
        self.line.extend_from_slice(b"\n]}\n");
        self.flush()
    }
}

/// `"a":1,"b":"text"`
fn members(out: &mut Vec<u8>, children: Children<'_>, fields: &Fields, event: &Seen<'_>) {
    for (index, child) in children.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if let Some(name) = child.name {
            text(out, event.names.text(name).as_bytes());
            out.push(b':');
        }
        value(out, &child, fields, event);
    }
}

fn value(out: &mut Vec<u8>, child: &Child<'_>, fields: &Fields, event: &Seen<'_>) {
    // JavaScript, which most readers are written in, has no larger whole numbers.
    const WHOLE_MAX: u64 = 1 << 53;
    // Writing to memory does not fail.
    let _ = match child.value {
        Value::Unsigned(value) if value > WHOLE_MAX => write!(out, "\"{value:#x}\""),
        Value::Signed(value) if value.unsigned_abs() > WHOLE_MAX => write!(out, "\"{value}\""),
        Value::Unsigned(value) => write!(out, "{value}"),
        Value::Signed(value) => write!(out, "{value}"),
        Value::Boolean(value) => write!(out, "{value}"),
        Value::Float(value) if value.is_finite() => write!(out, "{value:?}"),
        Value::Float(value) => write!(out, "\"{value}\""),
        Value::Text(begin, end) | Value::Address(_, begin, end) => {
            text(out, fields.bytes(begin, end));
            Ok(())
        }
        Value::Structure(_) => {
            out.push(b'{');
            members(out, child.children(), fields, event);
            write!(out, "}}")
        }
        Value::Array(_) => {
            out.push(b'[');
            members(out, child.children(), fields, event);
            write!(out, "]")
        }
        Value::Nothing => write!(out, "null"),
    };
}

/// A text in quotes; bytes that are no UTF-8 are replaced.
fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, &String::from_utf8_lossy(bytes));
}
