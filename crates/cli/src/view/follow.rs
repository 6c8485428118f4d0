// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste view --follow`: goes on as traces grow, until pisted says that their session has stopped, or Ctrl-C.

use std::path::Path;
use std::thread;
use std::time::Duration;

use piste_following::{Followed, Follower};
use piste_trace::loss;
use piste_trace::repeated::find_repeated;
use piste_trace::rows::Column;

use super::output::Output;
use super::shower::Shower;
use super::{OUT_BYTES, going, show, tell_losses, unreadable, zone};
use crate::arguments::{View, ViewFormat};
use crate::failure::{Failure, INTERRUPTED};
use crate::screen::{printable, tell_sentence};
use crate::traces::tell_findings;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two flushes.
const FLUSH_PAUSE: Duration = Duration::from_millis(500);

/// `piste view --follow`
pub(super) fn follow(arguments: &View, format: ViewFormat) -> Result<(), Failure> {
    let sources: Vec<Followed> = arguments
        .paths
        .iter()
        .map(|path| find(path))
        .collect::<Result<_, _>>()?;
    let mut follower = Follower::new(sources, FLUSH_PAUSE);
    let mut output = Output::open(arguments, format);
    let mut shown_so_far = going(&arguments.clock);
    let mut left = arguments.count.unwrap_or(u64::MAX);
    let mut out = Vec::with_capacity(OUT_BYTES + (4 << 10));
    let mut columns = (!arguments.fields.is_empty()).then(|| arguments.fields.clone());
    let mut had_heading = false;
    let mut disorder = Disorder::default();
    loop {
        // While pisted cannot be reached, nobody knows.
        let is_ended = follower.have_ended().unwrap_or(false);
        let is_over = is_ended || output.is_interrupted();
        let news = follower.look(is_over);
        disorder.tell(follower.disorder());
        let Some(mut news) = news.map_err(|error| Failure::new(printable(&error.to_string())))? else {
            thread::sleep(PAUSE);
            continue;
        };
        find_repeated(&news.traces, &mut news.findings);
        let traces = &news.traces;
        let selection = arguments.selection.selection(traces, || zone(&arguments.clock))?;
        let mut found = None;
        if !traces.is_empty() {
            let columns = columns.get_or_insert_with(|| match format {
                // Later classes of events may have more; a table has no more columns than its heading.
                ViewFormat::Csv => Column::all(traces, &selection),
                _ => Vec::new(),
            });
            let merge = news.round.merge(traces, selection.span).map_err(unreadable)?;
            let mut shower = Shower::of(merge, traces, &selection, columns, format, shown_so_far);
            if !had_heading {
                shower.heading(&mut out);
                had_heading = true;
            }
            let shown = show(&mut shower, &mut output, &mut out, &mut left);
            if let Err(failure) = shown {
                return output.close(Err(failure));
            }
            found = Some(std::mem::take(&mut shower.merge().findings));
            shown_so_far = shower.into_going(|| going(&arguments.clock));
        }
        if is_over || left == 0 {
            out.clear();
            shown_so_far.printer.finish(&mut out);
            let shown = output.write(&out);
            output.close(shown)?;
            tell_losses(&loss::sentences(traces, &mut shown_so_far.times));
            found.into_iter().for_each(|found| news.findings.extend(found));
            tell_findings(&news.findings);
            return match is_ended || left == 0 {
                true => Ok(()),
                false => Err(Failure::with_status("interrupted", INTERRUPTED)),
            };
        }
        thread::sleep(PAUSE);
    }
}

/// A trace or a session.
pub(crate) fn find(path: &Path) -> Result<Followed, Failure> {
    Followed::find(path).ok_or_else(|| {
        let name = path.to_string_lossy();
        Failure::new(format!(
            "there is no trace and no session {} (see `piste list --sessions`)",
            printable(&name)
        ))
    })
}

/// What people were told of the order of events.
#[derive(Default)]
pub(crate) struct Disorder {
    told: Option<String>,
}

impl Disorder {
    /// Says why events may be out of the order of time from now on, once.
    pub(crate) fn tell(&mut self, why: Option<&str>) {
        if self.told.as_deref() != why {
            why.into_iter().for_each(|why| tell_sentence(&printable(why)));
            self.told = why.map(str::to_owned);
        }
    }
}
