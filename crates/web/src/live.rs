// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording that goes on: its timeline grows with it and lasts as long as the server. The finished trace gets one of its own.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::{env, io};

use piste_control::interface::SessionState;
use piste_following::{Followed, Follower};
use piste_modelling::{Live, ProgramReader, StreamGaps, expect_one_kernel, hold_back, is_of_kernel};
use piste_trace::blind::recorded_span;
use piste_trace::{Span, Trace};

use crate::recordings::{Growing, Problem, Recording, Shared};

/// Between two looks at the files.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two flushes.
const FLUSH_PAUSE: Duration = Duration::from_millis(300);

/// Of so much that was recorded and not read yet, it is said how much is read, every so many events.
const BEHIND_NS: i64 = 5_000_000_000;
const TOLD_EVERY: u64 = 1 << 14;

/// The session that is writing a trace.
pub(crate) fn running(path: &Path) -> Option<Followed> {
    Followed::find(path).filter(|followed| {
        let session = followed.session();
        session.is_some_and(|session| session.state == SessionState::active && !session.snapshot)
    })
}

/// Follows it to its end, or until it is given up.
pub(crate) fn follow(followed: Followed, recording: &Recording, goes_on: impl Fn() -> bool) -> Result<(), Problem> {
    let growing = Arc::new(tempfile::tempfile().and_then(Growing::live).map_err(unwritten)?);
    let mut listener = Shared(growing.clone());
    let listener = RefCell::new(&mut listener);
    let mut programs = ProgramReader::new(&listener);
    let mut live: Option<Live<Shared>> = None;
    let mut begin_ns: Option<i64> = None;
    let mut events: u64 = 0;
    let mut follower = Follower::new(vec![followed], FLUSH_PAUSE).holding_back(hold_back);
    while goes_on() {
        // While pisted cannot be reached, nobody knows. Recording goes on.
        let is_over = follower.have_ended().unwrap_or(false);
        let news = follower.look(is_over)?;
        growing.is_out_of_order(follower.disorder().filter(|_| !is_over));
        if let Some(news) = news {
            let round = &news.round;
            let (of_kernel, of_programs): (Vec<Trace>, Vec<Trace>) = news.traces.into_iter().partition(is_of_kernel);
            if !of_kernel.is_empty() {
                expect_one_kernel(&of_kernel)?;
            }
            if let Some(live) = &mut live {
                live.reopen(&of_kernel);
            }
            let mut merge = round.merge(&of_kernel, Span::ALL)?;
            while let Some(merged) = merge.next() {
                let live = match &mut live {
                    Some(live) => live,
                    none => none.insert(Live::begin(&of_kernel, |_| Shared(growing.clone()))?),
                };
                live.event(&mut merge, &merged);
                events += 1;
                if events.is_multiple_of(TOLD_EVERY) {
                    growing.expect_written().map_err(unwritten)?;
                    let (begin_ns, now_ns) = live.parts().0.told();
                    let (done_ns, left_ns) = (now_ns - begin_ns, round.until_ns - now_ns);
                    if left_ns > BEHIND_NS {
                        growing.catches_up(done_ns as f64 / (done_ns + left_ns) as f64);
                    }
                }
            }
            let known = StreamGaps::new(&of_programs).so_far();
            let merge = round.merge(&of_programs, Span::ALL)?;
            if programs.part(&of_programs, known, merge, &goes_on).is_none() {
                return Ok(());
            }
            growing.expect_written().map_err(unwritten)?;
            let system = live.as_mut().map(|live| live.parts().0);
            let begins_ns = [
                system.map(|system| system.told().0),
                recorded_span(&of_programs).map(|span| span.begin_ns),
            ];
            begin_ns = begin_ns.or(begins_ns.into_iter().flatten().min());
            if let Some(begin_ns) = begin_ns {
                let span = Span {
                    begin_ns,
                    end_ns: round.until_ns.max(begin_ns),
                };
                growing.with(|recorder| {
                    recorder.goes_on(system, (span.begin_ns, span.end_ns));
                    programs.open(|open| {
                        let comm = open.whose.as_ref().map_or(&[][..], |comm| comm.as_bytes());
                        recorder.span_goes_on(open, comm, span.end_ns);
                    });
                });
                growing.reaches(span, system.is_some());
                recording.show(&growing);
            }
        }
        if is_over {
            growing.ends();
            return match begin_ns {
                Some(_) => Ok(()),
                None => Err(Problem::Unopened(
                    "the session ended before it recorded an event".to_owned(),
                )),
            };
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The timeline lies where temporary files do.
fn unwritten(error: io::Error) -> Problem {
    Problem::UnwrittenLive {
        folder: env::temp_dir(),
        error,
    }
}
