// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the spans of programs took in a range, by name.
//!
//! They are counted in the timeline, like durations of single names (alike.rs). Which spans count is what `piste analyze periods` does with `--begin`
//! and `--end`: those that begin and end in the range. Percentiles have its accuracy, too.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use axum::extract::{Path, Query, State};
use piste_analysis::measure::Distribution;
use piste_analysis::report::Value;
use piste_timeline::{Class, Failure, LaneId, Piece, Subject};
use serde::{Deserialize, Serialize};

use crate::pages::{Asked, Json, Refusal, ns};
use crate::recordings::View;
use crate::walk::Walk;

/// Names in one answer. Durations of one take some kilobytes while they are counted.
const NAMES_MAX: usize = 1000;

#[derive(Deserialize)]
pub(crate) struct Range {
    begin: String,
    end: String,
}

/// Spans of a range.
#[derive(Default, Serialize)]
pub(crate) struct Spans {
    /// Those with the largest totals first.
    spans: Vec<Row>,
    /// So many further spans have other names.
    left_out: u64,
    /// Events may be missing in the range.
    has_losses: bool,
    /// There were too many to look at all.
    is_part: bool,
}

/// Spans of a name.
#[derive(Serialize)]
struct Row {
    name: String,
    /// That begin and end in the range.
    count: u64,
    /// Of those.
    #[serde(flatten)]
    times: Option<Times>,
    /// That were open where the range begins or ends.
    beyond: u64,
    /// Whose begin or end is missing in the trace.
    incomplete: u64,
    /// Threads that have any of these.
    threads: usize,
}

#[derive(Serialize)]
struct Times {
    total_ns: i64,
    p50_ns: Value,
    p99_ns: Value,
    max_ns: i64,
    /// The lane of the slowest, and when it began.
    slowest_lane: u32,
    slowest_begin_ns: String,
}

/// The same while they are counted.
#[derive(Default)]
struct Counted {
    times: Distribution,
    slowest: Option<(LaneId, Piece)>,
    beyond: u64,
    incomplete: u64,
    /// By their places among those that have spans.
    threads: HashSet<usize>,
}

/// `GET /api/N/spans?begin&end`
pub(crate) async fn spans(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(range): Query<Range>,
) -> Result<Json<Spans>, Refusal> {
    let range_ns = (ns(&range.begin)?, ns(&range.end)?);
    house
        .walk(number, move |view, walk| count(view, range_ns, walk))
        .await
        .map(Json)
}

fn count(view: &View, (begin_ns, end_ns): (i64, i64), walk: &mut Walk) -> Result<Spans, Failure> {
    let mut found = Spans::default();
    let mut counted: HashMap<u32, Counted> = HashMap::new();
    let mut threads = HashMap::new();
    let mut lanes = Vec::new();
    view.each_lane(&mut |lane, subject, _| {
        if let Subject::Spans(thread, _) = subject {
            let next = threads.len();
            lanes.push((lane, *threads.entry((thread.pid, thread.tid)).or_insert(next)));
        }
    })?;
    for (lane, thread) in lanes {
        // The last nanosecond of the range is in it.
        let goes_on = walk.each(view, lane, (begin_ns, end_ns.saturating_add(1)), |piece| {
            if piece.what == 0 {
                found.has_losses = true;
            } else {
                let is_full = counted.len() >= NAMES_MAX;
                match counted.entry(piece.what) {
                    Entry::Vacant(_) if is_full => found.left_out += 1,
                    entry => {
                        let own = entry.or_default();
                        own.add(lane, &piece, (begin_ns, end_ns));
                        own.threads.insert(thread);
                    }
                }
            }
        })?;
        if !goes_on {
            found.is_part = true;
            break;
        }
    }
    let names = view.names(counted.keys().copied())?;
    let rows = names.into_iter().filter_map(|(number, name)| {
        let own = counted.remove(&number)?;
        Some(own.row(name.text))
    });
    found.spans = rows.collect();
    let total_ns = |row: &Row| row.times.as_ref().map_or(-1, |times| times.total_ns);
    found
        .spans
        .sort_by(|one, other| total_ns(other).cmp(&total_ns(one)).then(one.name.cmp(&other.name)));
    Ok(found)
}

impl Counted {
    fn add(&mut self, lane: LaneId, piece: &Piece, (begin_ns, end_ns): (i64, i64)) {
        if piece.class == Class::Unknown {
            self.incomplete += 1;
            return;
        }
        if piece.begin_ns < begin_ns || piece.end_ns > end_ns {
            self.beyond += 1;
            return;
        }
        let ns = piece.duration_ns();
        self.times.add(i64::try_from(ns).unwrap_or(i64::MAX));
        if self.slowest.is_none_or(|(_, slowest)| slowest.duration_ns() < ns) {
            self.slowest = Some((lane, *piece));
        }
    }

    fn row(self, name: String) -> Row {
        let Counted { times, slowest, .. } = self;
        Row {
            name,
            count: times.times.count,
            times: slowest.map(|(LaneId(lane), piece)| Times {
                total_ns: times.times.total_ns,
                p50_ns: times.percentile(50.0),
                p99_ns: times.percentile(99.0),
                max_ns: times.times.max_ns,
                slowest_lane: lane,
                slowest_begin_ns: piece.begin_ns.to_string(),
            }),
            beyond: self.beyond,
            incomplete: self.incomplete,
            threads: self.threads.len(),
        }
    }
}
