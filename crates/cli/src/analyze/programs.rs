// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze heap` and `flame`: what programs tell of themselves, in traces of any domain, and who called. Events before the part of
//! time that is asked about are read, too: they say what was loaded and what lived.

use std::io::{self, BufWriter, Write};

use piste_analysis::analysis::Options;
use piste_analysis::facts::{Fact, FactReader, Incoming};
use piste_analysis::names::Names;
use piste_analysis::programs::images::Images;
use piste_analysis::programs::paths::FOLDED_DEPTH;
use piste_analysis::programs::{ALL, Description, Event, Outcome, ProgramAnalysis};
use piste_modelling::{GroundError, StreamGaps, told_again};
use piste_patterns::matches;
use piste_terminal::progress::Progress;
use piste_trace::merge::Merged;
use piste_trace::select::{Matcher, Selection, Threads};
use piste_trace::{Findings, Merge, Span, Trace};

use super::code::Resolver;
use super::{Question, missing};
use crate::failure::{Failure, USAGE};

/// The one with a name.
pub(super) fn find(name: &str) -> Option<&'static Description> {
    ALL.iter().find(|known| known.name == name).copied()
}

/// Writes costs by call path to stdout, as text for programs that draw flames: of the table that is asked for, else of the only one. Returns
/// notes.
pub(super) fn folded(
    description: &Description,
    question: &Question<'_>,
    table: Option<&str>,
    findings: &mut Findings,
) -> Result<Vec<String>, Failure> {
    let (mut outcome, _) = outcome(description, question, findings)?;
    let names: Vec<&str> = outcome.paths.iter().map(|(name, _)| *name).collect();
    let wanted = match (table, &names[..]) {
        (Some(wanted), _) => wanted,
        (None, [only]) => only,
        (None, []) => return Ok(outcome.report.notes),
        (None, several) => {
            let several = several.join(", ");
            let sentence = format!("--folded prints only one of {several}; choose one with --table");
            return Err(Failure::with_status(sentence, USAGE));
        }
    };
    let paths = outcome
        .paths
        .iter()
        .find(|(name, _)| *name == wanted)
        .map(|(_, paths)| paths);
    let sentence = || format!("there are no call paths {wanted:?}; use one of {}", names.join(", "));
    let paths = paths.ok_or_else(|| Failure::with_status(sentence(), USAGE))?;
    let mut stdout = BufWriter::new(io::stdout().lock());
    let cut = paths.folded(|path, own| writeln!(stdout, "{path} {own}"))?;
    stdout.flush()?;
    if cut > 0 {
        outcome.report.notes.push(format!(
            "{cut} call paths are deeper than {FOLDED_DEPTH} functions; their costs are added to the function at that depth"
        ));
    }
    Ok(outcome.report.notes)
}

/// What one has found out, and of which part of time.
pub(crate) fn outcome(
    description: &Description,
    question: &Question<'_>,
    findings: &mut Findings,
) -> Result<(Outcome, (i64, i64)), Failure> {
    let Question {
        traces, span, options, ..
    } = question;
    let (traces, span) = (*traces, *span);
    if !options.who.cgroups.is_empty() {
        let sentence = format!(
            "{} does not know control groups; use it without --cgroup",
            description.name
        );
        return Err(Failure::with_status(sentence, USAGE));
    }
    let mut notes = missing(description.name, description.needs, traces)?;
    notes.extend(told_again(traces));
    let read = Span {
        begin_ns: i64::MIN,
        ..span
    };
    let progress = Progress::of("analyzing", traces, read, question.shows_progress);
    let mut merge = Merge::new(traces, read).map_err(GroundError::from)?;
    let mut teller = Teller::new(options, traces, span);
    let mut analysis = (description.begin)(options);
    let mut gaps = StreamGaps::new(traces);
    for gap in gaps.known()? {
        let note = gap.tell(span, |lost| analysis.lose(lost));
        notes.extend(note.filter(|note| !notes.contains(note)));
    }
    let mut told: Option<(i64, i64)> = None;
    let mut resolver = Resolver::new(traces);
    while let Some(merged) = merge.next() {
        for gap in merge.blind.drain(..).filter_map(|blind| gaps.of(blind)) {
            gap.tell(span, |lost| analysis.lose(lost));
        }
        let Some(ns) = merge.stream(merged.stream).ns(&merged.event) else {
            continue;
        };
        if ns >= span.begin_ns {
            told = Some((told.map_or(ns, |(first, _)| first), ns));
        }
        teller.tell(&mut merge, &merged, ns, (analysis.as_mut(), &mut resolver));
    }
    for gap in merge.blind.drain(..).filter_map(|blind| gaps.of(blind)) {
        gap.tell(span, |lost| analysis.lose(lost));
    }
    drop(progress);
    findings.extend(std::mem::take(&mut merge.findings));
    let mut outcome = analysis.report(&teller.images, &mut resolver).map_err(Failure::new)?;
    notes.append(&mut outcome.report.notes);
    notes.extend(resolver.notes());
    outcome.report.notes = notes;
    Ok((outcome, told.unwrap_or_default()))
}

/// Tells an analysis of events.
struct Teller<'t> {
    facts: FactReader,
    /// Who called is read by another one, since one has one event at a time.
    callers: FactReader,
    names: Names,
    images: Images,
    threads: Threads<'t>,
    matcher: Matcher<'t>,
    comms: Vec<String>,
    span: Span,
}

impl<'t> Teller<'t> {
    fn new(options: &Options, traces: &'t [Trace], span: Span) -> Teller<'t> {
        let who = &options.who;
        let selection = Selection {
            span,
            pids: who.pids.clone(),
            tids: who.tids.clone(),
            cpus: who.cpus.clone(),
            ..Selection::default()
        };
        Teller {
            facts: FactReader::default(),
            callers: FactReader::default(),
            names: Names::default(),
            images: Images::default(),
            threads: Threads::new(traces),
            matcher: selection.matcher(traces),
            comms: who.comms.clone(),
            span,
        }
    }

    fn tell(
        &mut self,
        merge: &mut Merge<'t>,
        merged: &Merged<'t>,
        ns: i64,
        (to, resolver): (&mut dyn ProgramAnalysis, &mut Resolver),
    ) {
        let (_, who) = self.threads.see(merge, merged);
        let is_selected = self.matcher.wants(merge, merged);
        let mut incoming = incoming(merge, merged, ns);
        let name = &merged.event.class.name;
        let caller = self.callers.caller(&mut incoming);
        let fact = self.facts.fact(&mut incoming, &mut self.names);
        if let Some(Fact::Program(fact)) = &fact {
            self.images.apply(who.pid, fact);
        }
        let image = self.images.of_thread(who.pid, who.tid);
        let comm = who.comm.as_ref().map_or(&b""[..], |comm| comm.as_bytes());
        // A trace of a program says what it is called, one of the kernel what its threads are.
        let is_called = |name: &str| self.comms.iter().any(|pattern| matches(pattern, name));
        let is_meant_by_name = self.comms.is_empty()
            || is_called(&self.images.get(image).name)
            || is_called(&String::from_utf8_lossy(comm));
        let event = Event {
            name,
            ns,
            pid: who.pid,
            tid: who.tid,
            comm,
            image,
            caller,
            is_meant: is_selected && is_meant_by_name,
            asked_from_ns: self.span.begin_ns,
        };
        match fact {
            Some(Fact::Program(fact)) => to.fact(&fact, &event, &self.images, resolver),
            Some(Fact::Switch(switch)) => {
                let event = Event {
                    comm: switch.previous_name,
                    ..event
                };
                to.switch(&switch, &event, &self.images);
            }
            _ => to.called(&event, &self.images),
        }
    }
}

fn incoming<'m, 't>(merge: &'m mut Merge<'t>, merged: &Merged<'t>, ns: i64) -> Incoming<'m, 't> {
    let stream = merge.stream(merged.stream);
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
