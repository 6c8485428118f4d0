// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a report tells, read from traces: in one pass over the kernel's through the model, and one that counts events.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use piste_analysis::analyses::{ALL, RECORDED_FOR_INSIGHTS};
use piste_analysis::analysis::{Description, Options};
use piste_analysis::insights::{Insight, detectors};
use piste_analysis::pass::Listeners;
use piste_analysis::report::{Column, Table, Unit, Value, column};
use piste_modelling::{GroundError, missing};
use piste_reason::reason;
use piste_terminal::progress::Progress;
use piste_timeline::{Failure as TimelineFailure, Recorder, Sources, Timeline};
use piste_trace::blind::find_unrecorded;
use piste_trace::count::{StreamCounts, count};
use piste_trace::progress::{Way, bytes_of, bytes_read};
use piste_trace::select::Selection;
use piste_trace::{Findings, Span, Trace};

use super::spans::SpanSums;
use crate::arguments::Report;
use crate::failure::Failure;
use crate::info::tracer;
use crate::insights::command;
use crate::moment::around;
use crate::summary::quoted;
use crate::unwritten::Unwritten;

/// Analyses, what people look for in them, and the tables that answer it.
const CHAPTERS: [(&str, &str, &[&str]); 6] = [
    ("cputop", "CPU time", &["threads", "cpus"]),
    ("syscallstats", "System calls", &["syscalls"]),
    ("schedstats", "Waits for a CPU", &["threads"]),
    ("blocked", "What threads waited for", &["waits", "causes"]),
    ("iotop", "I/O", &["processes", "files", "devices"]),
    ("irqstats", "Interrupts", &["interrupts"]),
];

const EVENTS: [Column; 3] = [
    column("name", "NAME", Unit::Text),
    column("count", "COUNT", Unit::Count).with_bar(),
    column("share_percent", "%", Unit::Percent),
];

/// What a report tells.
pub(super) struct Account {
    pub(super) recorded: Recorded,
    /// Times are shown from here.
    pub(super) origin_ns: i64,
    /// From when to when the report is.
    pub(super) part_ns: (i64, i64),
    /// That is not all of the trace.
    pub(super) is_part: bool,
    /// The kernel was recorded.
    pub(super) has_kernel: bool,
    /// Programs were.
    pub(super) has_programs: bool,
    /// The most important first, each with the command that looks closer.
    pub(super) insights: Vec<(Insight, String)>,
    pub(super) chapters: Vec<Chapter>,
    /// What the trace does not show.
    pub(super) notes: Vec<String>,
    pub(super) timeline: Timeline,
    /// The trace as it was named, and commands that look further.
    pub(super) named: String,
    pub(super) commands: Vec<String>,
}

/// What was recorded.
pub(super) struct Recorded {
    pub(super) host: Option<String>,
    /// `Linux 6.18.1`
    pub(super) system: Option<String>,
    pub(super) tracers: Vec<String>,
    pub(super) events: u64,
    pub(super) bytes: u64,
}

/// Tables under a heading.
pub(super) struct Chapter {
    pub(super) heading: &'static str,
    pub(super) tables: Vec<Table>,
    pub(super) notes: Vec<String>,
    pub(super) command: String,
}

/// Traces that a report is of, and which part of them.
pub(super) struct Subject<'t> {
    pub(super) kernel: &'t [Trace],
    pub(super) programs: &'t [Trace],
    pub(super) part: Span,
    /// What the tracer could not write.
    pub(super) unwritten: Option<Unwritten>,
}

/// Those from whose begin on commands count times.
pub(super) fn timed<'t>(kernel: &'t [Trace], programs: &'t [Trace]) -> &'t [Trace] {
    if kernel.is_empty() { programs } else { kernel }
}

impl Account {
    /// Reads everything.
    pub(super) fn read(arguments: &Report, subject: &Subject<'_>, findings: &mut Findings) -> Result<Account, Failure> {
        let Subject {
            kernel, programs, part, ..
        } = *subject;
        let progress = progress(subject, arguments.progress.wanted);
        let counts = counted(subject, findings)?;
        find_unrecorded(kernel, findings);

        let sources = Sources::new(kernel, programs, part)?;
        let (mut answered, mut notes) = (Vec::new(), Vec::new());
        if sources.ground().is_some() {
            notes.extend(missing("insights", RECORDED_FOR_INSIGHTS, kernel)?);
            for (name, heading, tables) in CHAPTERS {
                let description = ALL
                    .into_iter()
                    .find(|known| known.name == name)
                    .expect("it is one of them");
                match missing(name, description.needs, kernel) {
                    Ok(lacking) => {
                        notes.extend(lacking);
                        answered.push((description, heading, tables));
                    }
                    Err(lacking @ GroundError::Lacking { .. }) => notes.push(lacking.to_string()),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let begin = |description: &Description| (description.begin)(&Options::default());
        let analyses = Listeners(answered.iter().map(|(description, ..)| begin(description)).collect());
        let file = tempfile::tempfile().map_err(unkept)?;
        let recorder = Recorder::new(file.try_clone().map_err(unkept)?).map_err(unkept)?;
        let listeners = ((recorder, SpanSums::new(part)), (detectors(), analyses));
        // What is wrong in the files was found when events were counted.
        let read = sources.read(listeners, &mut Findings::default(), || true)?;
        let (system, ((recorder, spans), (mut detectors, mut analyses))) = read.expect("nobody has ended it");
        drop(progress);
        let span_ns = sources.span_ns(system.as_ref());
        recorder.finish(system.as_ref(), span_ns, &[]).map_err(unkept)?;

        let commands = Commands { arguments, subject };
        let mut insights = Vec::new();
        let mut chapters = Vec::new();
        if let (Some(system), Some(ground)) = (&system, sources.ground()) {
            insights = detectors.insights(system);
            if let Some(unwritten) = &subject.unwritten {
                unwritten.explain(&mut insights, system);
            }
            notes.extend(ground.notes(Some(system), RECORDED_FOR_INSIGHTS));
            for ((description, heading, tables), report) in answered.into_iter().zip(analyses.reports(system)) {
                let place = |table: &Table| tables.iter().position(|name| *name == table.name);
                let notes = report.all_notes().cloned().collect();
                let mut chosen = report.tables;
                chosen.retain(|table| place(table).is_some());
                chosen.sort_by_key(place);
                let command = commands.of_part(&format!("analyze {}", description.name), commands.span());
                chapters.push(Chapter {
                    heading,
                    tables: chosen,
                    notes,
                    command,
                });
            }
        }
        let spans = spans.table();
        chapters.push(Chapter {
            heading: "Spans of programs",
            notes: spans.notes.clone(),
            tables: vec![spans],
            command: commands.of_all("query") + " 'SELECT * FROM spans ORDER BY duration_ns DESC LIMIT 20'",
        });
        chapters.push(Chapter {
            heading: "Events",
            tables: vec![by_event(&counts)],
            notes: Vec::new(),
            command: commands.of_part("stats", Span::of(kernel.iter().chain(programs))),
        });
        for chapter in &mut chapters {
            chapter.tables.retain(|table| !table.rows.is_empty());
        }
        chapters.retain(|chapter| !chapter.tables.is_empty());
        let closer = |insight: &Insight| command(&insight.closer, &arguments.paths, commands.span());
        let insights = insights.into_iter().map(|insight| {
            let command = closer(&insight);
            (insight, command)
        });
        Ok(Account {
            recorded: Recorded::of(subject, &counts),
            origin_ns: commands.span().map_or(span_ns.0, |span| span.begin_ns),
            part_ns: part_ns(part, span_ns, &counts),
            is_part: arguments.range.is_given(),
            has_kernel: system.is_some(),
            has_programs: programs.iter().any(has_streams),
            insights: insights.collect(),
            chapters,
            notes: once(notes),
            timeline: Timeline::open(file).map_err(unkept)?,
            named: commands.paths(),
            commands: ["web", "view"].map(|verb| commands.of_all(verb)).to_vec(),
        })
    }
}

/// Commands about the trace, as people write them.
struct Commands<'c> {
    arguments: &'c Report,
    subject: &'c Subject<'c>,
}

impl Commands<'_> {
    /// From its begin on, commands count times.
    fn span(&self) -> Option<Span> {
        Span::of(timed(self.subject.kernel, self.subject.programs))
    }

    fn paths(&self) -> String {
        let paths = self.arguments.paths.iter();
        let paths: Vec<String> = paths.map(|path| quoted(&path.to_string_lossy()).into_owned()).collect();
        paths.join(" ")
    }

    fn of_all(&self, verb: &str) -> String {
        format!("piste {verb} {}", self.paths())
    }

    /// About the part that is told. `span` is from when to when the traces are that the command reads.
    fn of_part(&self, verb: &str, span: Option<Span>) -> String {
        let command = self.of_all(verb);
        let Some(span) = span.filter(|_| self.arguments.range.is_given()) else {
            return command;
        };
        let Span { begin_ns, end_ns } = self.subject.part;
        let [begin, end] = around((begin_ns.max(span.begin_ns), end_ns.min(span.end_ns)), Some(span));
        format!("{command} --begin {begin} --end {end}")
    }
}

/// Everything is read twice: events are counted, and the model follows them.
fn progress(subject: &Subject<'_>, is_wanted: bool) -> Progress {
    let Subject {
        kernel, programs, part, ..
    } = *subject;
    let from_begin = Span {
        begin_ns: i64::MIN,
        ..part
    };
    let counted_bytes = bytes_of(kernel, part) + bytes_of(programs, part);
    let total_bytes = counted_bytes + bytes_of(kernel, from_begin) + bytes_of(programs, Span::ALL);
    let begun_bytes = bytes_read();
    let way = move || Way {
        done_bytes: bytes_read() - begun_bytes,
        total_bytes,
    };
    Progress::on_the_way("reading", way, is_wanted)
}

/// Counts the events of the part that is told.
fn counted(subject: &Subject<'_>, findings: &mut Findings) -> Result<StreamCounts, Failure> {
    let mut total = StreamCounts::default();
    for traces in [subject.kernel, subject.programs] {
        let streams = match subject.part {
            Span::ALL => {
                let threads = available_parallelism().map_or(1, NonZeroUsize::get);
                count(traces, threads, findings)
            }
            span => {
                let selection = Selection {
                    span,
                    ..Selection::default()
                };
                let counts = selection.count(traces, false, findings);
                let failed = |error| Failure::new(format!("cannot read the trace: {}", reason(&error)));
                counts.map_err(failed)?.streams
            }
        };
        streams.into_iter().flatten().for_each(|counts| total.add(counts));
    }
    Ok(total)
}

/// The most frequent first.
fn by_event(counts: &StreamCounts) -> Table {
    let mut table = Table::new("by_event", "Events by name", &EVENTS);
    for (name, count) in &counts.by_event {
        let share = Value::share(count.cast_signed(), counts.events.cast_signed());
        table.row([name.as_str().into(), (*count).into(), share]);
    }
    table.sort_by("count");
    table
}

/// From when to when the report is. Where packets have no times, those of the events are all there is.
fn part_ns(part: Span, span_ns: (i64, i64), counts: &StreamCounts) -> (i64, i64) {
    let (begin_ns, end_ns) = (span_ns.0.max(part.begin_ns), span_ns.1.min(part.end_ns));
    let begin_ns = match begin_ns {
        i64::MIN => counts.begin_ns.unwrap_or(0),
        known => known,
    };
    let end_ns = match end_ns {
        i64::MAX => counts.end_ns.unwrap_or(begin_ns),
        known => known,
    };
    (begin_ns, end_ns.max(begin_ns))
}

impl Recorded {
    fn of(subject: &Subject<'_>, counts: &StreamCounts) -> Recorded {
        let all = || subject.kernel.iter().chain(subject.programs);
        let said = |key: &str| all().find_map(|trace| trace.environment(key)).map(str::to_owned);
        let system = [said("sysname"), said("kernel_release")];
        let system: Vec<String> = system.into_iter().flatten().collect();
        let streams = all().flat_map(|trace| &trace.streams);
        Recorded {
            host: said("hostname"),
            system: (!system.is_empty()).then(|| system.join(" ")),
            tracers: once(all().filter(|trace| has_streams(trace)).filter_map(tracer).collect()),
            events: counts.events,
            bytes: streams.map(|stream| stream.state.bytes).sum(),
        }
    }
}

/// Something was recorded: the traces of programs of a recording may have nothing.
fn has_streams(trace: &Trace) -> bool {
    trace.streams.iter().any(|stream| !stream.packets.is_empty())
}

/// Each text once, where it is first.
fn once(texts: Vec<String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let is_fresh = |text: &String| known.insert(text.clone());
    texts.into_iter().filter(is_fresh).collect()
}

fn unkept(error: impl Into<TimelineFailure>) -> Failure {
    let why = match error.into() {
        TimelineFailure::Unreadable(error) => reason(&error),
        damaged @ TimelineFailure::Damaged(_) => damaged.to_string(),
    };
    let folder = std::env::temp_dir();
    let folder = folder.display();
    Failure::new(format!(
        "cannot store the timeline in a temporary file in {folder}: {why}; set TMPDIR to another folder"
    ))
}
