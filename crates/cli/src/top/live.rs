// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows a running session. pisted is asked to write what waits in its rings, as for `piste view --follow`.

use std::time::Duration;

use piste_analysis::model::System;
use piste_analysis::top::{NEEDS, Recorded, Top};
use piste_following::{Followed, Follower};
use piste_modelling::{Live, class_names, hold_back, kernel_traces, missing};
use piste_reason::reason;
use piste_trace::Span;

use super::losses::Losses;
use super::{Flow, Progress, Scene, Viewer};
use crate::arguments;
use crate::failure::Failure;
use crate::screen::printable;

/// Between two looks at the files.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two flushes: several in an interval, so that the end of one is shown soon.
const FLUSH_PAUSE: Duration = Duration::from_millis(300);
const EVENTS_BETWEEN_PAUSES: u64 = 1 << 14;
const INTERVAL_NS: i64 = 1_000_000_000;

/// Follows the session until it stops or the viewer has seen enough.
pub(super) fn follow(source: Followed, arguments: &arguments::Top, viewer: &mut dyn Viewer) -> Result<(), Failure> {
    let interval_ns = arguments.interval_ns.unwrap_or(INTERVAL_NS);
    let unreadable = |error| Failure::new(format!("cannot read the trace: {}", reason(&error)));
    let mut follower = Follower::new(vec![source], FLUSH_PAUSE).holding_back(hold_back);
    let mut live: Option<Live<Top>> = None;
    let mut next_ns = i64::MAX;
    let mut progress = Progress::CatchingUp;
    let (mut notes, mut disorder, mut losses) = (Vec::new(), None::<String>, Losses::default());
    let mut recorded = Recorded::of(std::iter::empty());
    loop {
        let ended = follower.have_ended();
        let is_over = ended.as_ref().is_ok_and(|ended| *ended);
        if progress != Progress::CatchingUp {
            progress = if ended.is_ok() {
                Progress::Following
            } else {
                Progress::Alone
            };
        }
        let news = follower.look(is_over);
        let why = follower.disorder().filter(|_| progress != Progress::Alone);
        if why != disorder.as_deref() {
            notes.retain(|note| Some(note) != disorder.as_ref());
            disorder = why.map(str::to_owned);
            notes.extend(disorder.clone());
        }
        if let Some(news) = news.map_err(|error| Failure::new(printable(&error.to_string())))? {
            let traces = &match kernel_traces(news.traces) {
                Ok(traces) => traces,
                // Its metadata may not be there yet.
                Err(error) if is_over => return Err(error.into()),
                Err(_) => Vec::new(),
            };
            let mut merge = news.round.merge(traces, Span::ALL).map_err(unreadable)?;
            losses = Losses::of(traces);
            if let Some(live) = &mut live {
                live.reopen(traces);
            }
            let mut events = 0_u64;
            while let Some(merged) = merge.next() {
                let ns = merge.stream(merged.stream).ns(&merged.event).unwrap_or(0);
                if live.is_none() {
                    live = Some(Live::begin(traces, |begin_ns| {
                        next_ns = begin_ns.saturating_add(interval_ns);
                        Top::new(begin_ns, false)
                    })?);
                    notes.extend(missing("top", NEEDS, traces)?);
                    recorded = Recorded::of(class_names(traces));
                }
                let Some(live) = &mut live else { continue };
                let is_partial = live.is_partial();
                events += 1;
                if ns > next_ns || events.is_multiple_of(EVENTS_BETWEEN_PAUSES) {
                    if is_partial && !notes.iter().any(|note| note == PARTIAL) {
                        notes.push(PARTIAL.to_owned());
                    }
                    while ns > next_ns {
                        let (system, top) = live.parts();
                        let interval = top.close(system, next_ns);
                        let scene = scene(system, recorded, &losses, &notes, progress);
                        if viewer.interval(interval, &scene)? == Flow::Stop {
                            return Ok(());
                        }
                        next_ns += interval_ns;
                    }
                    let scene = scene(live.parts().0, recorded, &losses, &notes, progress);
                    if viewer.pause(Some(&scene), Duration::ZERO)? == Flow::Stop {
                        return Ok(());
                    }
                }
                live.event(&mut merge, &merged);
            }
            // The first round has everything from before; a busy CPU always has more that waits for a slower one.
            if live.is_some() && progress == Progress::CatchingUp {
                progress = Progress::Following;
            }
        }
        let scene = live
            .as_mut()
            .map(|live| scene(live.parts().0, recorded, &losses, &notes, progress));
        if is_over {
            return match scene {
                Some(scene) => viewer.end(
                    None,
                    &Scene {
                        progress: Progress::Over,
                        ..scene
                    },
                ),
                None => Err(Failure::new(
                    "the session ended before it recorded an event of the kernel",
                )),
            };
        }
        if viewer.pause(scene.as_ref(), PAUSE)? == Flow::Stop {
            return Ok(());
        }
    }
}

const PARTIAL: &str = "only some threads are recorded: what other threads do, and when a CPU is idle, is unknown";

fn scene<'s>(
    system: &'s System,
    recorded: Recorded,
    losses: &'s Losses,
    notes: &'s [String],
    progress: Progress,
) -> Scene<'s> {
    Scene {
        system,
        recorded,
        losses,
        notes,
        progress,
    }
}
