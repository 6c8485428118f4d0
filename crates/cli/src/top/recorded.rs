// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a finished trace, one interval after the other.

use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use piste_analysis::top::{NEEDS, Recorded, Top};
use piste_modelling::{Ground, class_names, missing, span_read};
use piste_reason::reason;
use piste_trace::{Findings, Merge, Span};

use super::losses::Losses;
use super::{Flow, Progress, Scene, Viewer};
use crate::arguments;
use crate::failure::{Failure, USAGE};
use crate::quantity::duration;
use crate::traces::{kernel_part, open, tell_findings};

/// So many events take some milliseconds.
const EVENTS_BETWEEN_PAUSES: u64 = 1 << 14;
/// All are kept while they are shown on a terminal.
const INTERVALS_MAX: i64 = 10_000;
/// About so many, unless a length is given.
const INTERVALS_USUAL: i64 = 100;

/// Reads a trace. With `keeps_all`, the viewer keeps all intervals.
pub(super) fn read(
    path: PathBuf,
    arguments: &arguments::Top,
    keeps_all: bool,
    viewer: &mut dyn Viewer,
) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let traces = open(&[path], true, &mut findings)?;
    let traces = kernel_part(traces, &findings)?;
    let span = arguments.range.span(&traces, TimeZone::system)?;
    let mut notes = missing("top", NEEDS, &traces)?;
    let ground = Ground::new(&traces, span)?;
    notes.extend(ground.notes(None, NEEDS));
    let losses = Losses::of(&traces);
    let recorded = Recorded::of(class_names(&traces));
    let begin_ns = ground.begin_ns().max(span.begin_ns);
    let end_ns = Span::of(&traces).map_or(span.end_ns, |whole| whole.end_ns.min(span.end_ns));
    let interval_ns = arguments
        .interval_ns
        .unwrap_or_else(|| usual_interval(end_ns.saturating_sub(begin_ns)));
    if keeps_all && end_ns.saturating_sub(begin_ns) / interval_ns >= INTERVALS_MAX {
        let sentence = format!(
            "the trace has more than {INTERVALS_MAX} intervals of {}; use a longer --interval, or choose a part with --begin and --end",
            duration(interval_ns)
        );
        return Err(Failure::with_status(sentence, USAGE));
    }
    let top = Top::new(begin_ns, true);
    let unreadable = |error| Failure::new(format!("cannot read the trace: {}", reason(&error)));
    let mut merge = Merge::new(&traces, span_read(span, &top)).map_err(unreadable)?;
    let mut run = ground.begin(top);
    let mut next_ns = match viewer.wants_intervals() {
        true => begin_ns.saturating_add(interval_ns),
        false => i64::MAX,
    };
    let mut events = 0_u64;
    while let Some(merged) = merge.next() {
        let ns = merge.stream(merged.stream).ns(&merged.event).unwrap_or(0).min(end_ns);
        while ns > next_ns {
            let (system, top) = run.parts();
            let interval = top.close(system, next_ns);
            let scene = Scene {
                system,
                recorded,
                losses: &losses,
                notes: &notes,
                progress: Progress::CatchingUp,
            };
            if viewer.interval(interval, &scene)? == Flow::Stop {
                return Ok(());
            }
            next_ns += interval_ns;
        }
        run.event(&mut merge, &merged);
        events += 1;
        if events.is_multiple_of(EVENTS_BETWEEN_PAUSES) {
            let scene = Scene {
                system: run.system(),
                recorded,
                losses: &losses,
                notes: &notes,
                progress: Progress::CatchingUp,
            };
            if viewer.pause(Some(&scene), Duration::ZERO)? == Flow::Stop {
                return Ok(());
            }
        }
    }
    run.end(&mut merge);
    findings.extend(std::mem::take(&mut merge.findings));
    let (system, mut top) = run.into_parts();
    let last = top.close(&system, system.told().1);
    let scene = Scene {
        system: &system,
        recorded,
        losses: &losses,
        notes: &notes,
        progress: Progress::Over,
    };
    if last.duration_ns() > 0 && viewer.wants_intervals() && viewer.interval(last, &scene)? == Flow::Stop {
        return Ok(());
    }
    viewer.end(Some(top.whole(&system)), &scene)?;
    if !keeps_all {
        tell_findings(&findings);
    }
    Ok(())
}

/// 1, 2 or 5 of a unit, so that there are at most about a hundred.
fn usual_interval(duration_ns: i64) -> i64 {
    let mut power_ns = 1_000_000;
    loop {
        let fits = |ns: &i64| duration_ns / ns <= INTERVALS_USUAL;
        match [power_ns, 2 * power_ns, 5 * power_ns].into_iter().find(fits) {
            Some(ns) => return ns,
            None => power_ns *= 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_interval_is_about_a_hundredth() {
        for (duration_ms, interval_ms) in [(0, 1), (90, 1), (150, 2), (10_000, 100), (3_600_000, 50_000)] {
            assert_eq!(usual_interval(duration_ms * 1_000_000), interval_ms * 1_000_000);
        }
        assert!(usual_interval(i64::MAX) > 0);
    }
}
