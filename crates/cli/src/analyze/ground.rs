// SPDX-License-Identifier: MIT OR Apache-2.0
//! What analyses stand on: the events of some traces, and where they are missing.

use std::io;

use piste_analysis::facts::Incoming;
use piste_analysis::model::{Circumstances, Gap, Gaps, Listen, System};
use piste_analysis::pass::{Looker, Pass};
use piste_analysis::survey::EVENTS_ENOUGH;
use piste_ctf::read::schema::EnvironmentValue;
use piste_trace::blind::blind;
use piste_trace::{Findings, Merge, Span, Trace};

use crate::failure::Failure;

/// So many events take some milliseconds.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 14;

/// Some traces, looked at beforehand.
pub(crate) struct Ground<'t> {
    traces: &'t [Trace],
    /// What is to be told of.
    span: Span,
    whole: Span,
    circumstances: Circumstances,
    /// Sentences about what cannot be known.
    pub(crate) notes: Vec<String>,
}

impl<'t> Ground<'t> {
    /// Looks at the first events, and at what is known to be missing.
    pub(crate) fn new(traces: &'t [Trace], span: Span, findings: &Findings) -> Result<Ground<'t>, Failure> {
        let whole = Span::of(traces).unwrap_or(Span::ALL);
        let mut gaps = gaps(traces, whole, findings);
        let known_gaps = Gaps::new(&gaps);
        let mut looker = Looker::default();
        let mut merge = Merge::new(traces, Span::ALL).map_err(unreadable)?;
        let mut first_ns = None;
        for _ in 0..EVENTS_ENOUGH {
            let Some(ns) = next(&mut merge, |incoming| looker.event(incoming, &known_gaps)) else {
                break;
            };
            first_ns.get_or_insert(ns);
        }
        let survey = looker.survey;
        let begin_ns = if whole == Span::ALL {
            first_ns.unwrap_or(0)
        } else {
            whole.begin_ns
        };
        let mut notes = Vec::new();
        let is_partial = survey.is_partial() || traces.iter().any(has_selected_threads);
        if is_partial {
            notes.push(
                "only some threads were recorded: what others did, and when a CPU was idle, is unknown; `piste record -a` records all"
                    .to_owned(),
            );
        }
        if !gaps.is_empty() {
            notes.push("events are missing here: what threads did there is unknown, see `piste stats`".to_owned());
        }
        for cpu in survey.unseen_cpus(is_partial) {
            notes.push(format!(
                "there is no event of CPU {cpu}: what threads did there is unknown"
            ));
            gaps.push(Gap {
                cpu: Some(cpu),
                begin_ns,
                end_ns: i64::MAX,
            });
        }
        // Without switches only each event itself tells on which thread it happened.
        let is_partial = is_partial || !survey.has_switches();
        let circumstances = Circumstances {
            begin_ns,
            tell_from_ns: span.begin_ns,
            tell_until_ns: span.end_ns,
            gaps: Gaps::new(&gaps),
            is_partial,
            has_wakeups: survey.has_wakeups,
            has_waking: survey.has_waking,
        };
        Ok(Ground {
            traces,
            span,
            whole,
            circumstances,
            notes,
        })
    }

    /// Reads everything up to the end: the system at the end, and who has listened.
    pub(crate) fn run<L: Listen>(&self, listener: L, findings: &mut Findings) -> Result<(System, L), Failure> {
        let pass = self.run_while(listener, findings, || true)?;
        Ok(pass.expect("nobody has ended it"))
    }

    /// The same; `None` when `goes_on`, which is asked now and then, says that it has taken too long.
    pub(crate) fn run_while<L: Listen>(
        &self,
        listener: L,
        findings: &mut Findings,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<(System, L)>, Failure> {
        let span = span_read(self.span, &listener);
        let mut merge = Merge::new(self.traces, span).map_err(unreadable)?;
        let mut pass = Pass::new(self.circumstances.clone(), listener);
        let mut last_ns = self.circumstances.begin_ns;
        let mut events = 0_u64;
        while let Some(ns) = next(&mut merge, |incoming| pass.event(incoming)) {
            last_ns = ns;
            events += 1;
            if events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && !goes_on() {
                return Ok(None);
            }
        }
        findings.extend(std::mem::take(&mut merge.findings));
        let end_ns = if self.whole == Span::ALL {
            last_ns
        } else {
            self.whole.end_ns
        };
        pass.finish(end_ns.min(self.span.end_ns).max(last_ns));
        Ok(Some((pass.system, pass.listener)))
    }
}

/// What has to be read to tell of a part of time. What threads did before matters: it begins with the trace.
pub(crate) fn span_read(told: Span, listener: &impl Listen) -> Span {
    Span {
        begin_ns: i64::MIN,
        end_ns: if listener.looks_ahead() { i64::MAX } else { told.end_ns },
    }
}

/// Piste says so in the environment.
fn has_selected_threads(trace: &Trace) -> bool {
    let said = ("piste_selected_threads".to_owned(), EnvironmentValue::Integer(1));
    trace.schema().environment.contains(&said)
}

fn gaps(traces: &[Trace], whole: Span, findings: &Findings) -> Vec<Gap> {
    let parts = traces.iter().flat_map(|trace| blind(trace, whole, findings));
    let gap = |part: piste_trace::blind::Blind| Gap {
        cpu: part.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        begin_ns: part.begin_ns,
        end_ns: part.end_ns,
    };
    parts.map(gap).collect()
}

/// Hands on the next event of all: its time.
#[inline]
fn next<'t>(merge: &mut Merge<'t>, take: impl FnOnce(Incoming<'_, 't>)) -> Option<i64> {
    let merged = merge.next()?;
    let stream = merge.stream(merged.stream);
    let ns = stream.ns(&merged.event).unwrap_or(0);
    let (reader, window, base_bytes, _) = stream.parts();
    take(Incoming {
        event: merged.event,
        reader,
        window,
        base_bytes,
        stream: merged.stream,
        ns,
    });
    Some(ns)
}

pub(super) fn unreadable(error: io::Error) -> Failure {
    Failure::new(format!("cannot read the trace: {error}"))
}
