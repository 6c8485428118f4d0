// SPDX-License-Identifier: MIT OR Apache-2.0
//! The next wait that a thread ended: the arrows of wake-ups, forwards.
//!
//! The timeline says of each wait who ended it, not of each thread whom it woke. So the lanes of all threads are looked at in parts of time that become
//! longer, from the selected time on. A thread wakes others only while it has a CPU: all other time is passed over.

use axum::extract::{Path, Query, State};
use piste_timeline::{Class, Failure, LaneId, Piece, Subject};
use serde::Serialize;

use crate::pages::{Asked, Json, Named, Place, Refusal, named, ns};
use crate::recordings::View;
use crate::walk::Walk;

/// The first part of time.
const PART_NS: i64 = 1 << 14;
/// The next one is longer by this factor.
const LONGER: i64 = 4;
/// A lane costs as much as so many pieces.
const LANE_COST: u64 = 300;

/// What a thread woke.
#[derive(Serialize)]
pub(crate) struct Wakes {
    wait: Option<Wait>,
    /// The search ended before the trace did.
    until_ns: Option<String>,
}

#[derive(Serialize)]
struct Wait {
    /// Of the thread that waited.
    lane: u32,
    #[serde(flatten)]
    piece: Named,
}

/// `GET /api/N/wakes?lane&at`
pub(crate) async fn wakes(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(place): Query<Place>,
) -> Result<Json<Wakes>, Refusal> {
    let (lane, at_ns) = (LaneId(place.lane), ns(&place.at)?);
    let find = move |view: &View, walk: &mut Walk| {
        let Found { wait, until_ns } = next_wait(view, lane, at_ns, walk)?;
        let wait = match wait {
            None => None,
            Some((LaneId(lane), piece)) => named(view, Some(piece))?.map(|piece| Wait { lane, piece }),
        };
        let until_ns = until_ns.map(|ns| ns.to_string());
        Ok(Wakes { wait, until_ns })
    };
    house.walk(number, find).await.map(Json)
}

/// The lane of the thread that waited, with the wait; or else where the search ended, if that is not the trace's end.
#[derive(Default)]
struct Found {
    wait: Option<(LaneId, Piece)>,
    until_ns: Option<i64>,
}

/// The first wait that ends at a time or later, and that this thread ended.
fn next_wait(view: &View, lane: LaneId, at_ns: i64, walk: &mut Walk) -> Result<Found, Failure> {
    let Some(label) = view.label_of_thread(lane)? else {
        return Ok(Found::default());
    };
    let mut others: Vec<Other> = Vec::new();
    view.each_lane(&mut |other, subject, whole| {
        let waited_ns = whole.of(Class::Blocked).saturating_add(whole.of(Class::Stopped));
        let can_wait = other != lane && matches!(subject, Subject::Thread(_)) && waited_ns > 0;
        let span_ns = whole.span_ns.filter(|_| can_wait);
        others.extend(span_ns.map(|span_ns| Other { lane: other, span_ns }));
    })?;
    let mut search = Search {
        view,
        label,
        others,
        walk,
    };
    let (mut begin_ns, mut part_ns) = (at_ns.saturating_sub(1), PART_NS);
    while let Some(runs_ns) = runs_from(view, lane, begin_ns)? {
        begin_ns = begin_ns.max(runs_ns.saturating_sub(1));
        let end_ns = begin_ns.saturating_add(part_ns);
        let first = search.first((begin_ns, end_ns))?;
        // If the search ended early, another one may be the first.
        if !search.walk.goes_on() {
            return Ok(Found {
                wait: None,
                until_ns: Some(begin_ns),
            });
        }
        if first.is_some() {
            return Ok(Found {
                wait: first,
                until_ns: None,
            });
        }
        (begin_ns, part_ns) = (end_ns, part_ns.saturating_mul(LONGER));
    }
    Ok(Found::default())
}

/// A thread that may have been woken.
struct Other {
    lane: LaneId,
    span_ns: (i64, i64),
}

struct Search<'v> {
    view: &'v View,
    /// Of the thread that ended the wait.
    label: u32,
    others: Vec<Other>,
    walk: &'v mut Walk,
}

impl Search<'_> {
    /// The first of the waits that end behind one time and not behind another. Ends with the walk.
    fn first(&mut self, (begin_ns, end_ns): (i64, i64)) -> Result<Option<(LaneId, Piece)>, Failure> {
        let label = self.label;
        let mut first: Option<(LaneId, Piece)> = None;
        for other in &self.others {
            if other.span_ns.0 >= end_ns || other.span_ns.1 <= begin_ns {
                continue;
            }
            self.walk.spend(LANE_COST);
            let goes_on = self.walk.each(self.view, other.lane, (begin_ns, end_ns), |piece| {
                let is_meant = piece.by == label && is_wait(&piece) && piece.end_ns <= end_ns;
                if is_meant && first.is_none_or(|(_, first)| piece.end_ns < first.end_ns) {
                    first = Some((other.lane, piece));
                }
            })?;
            if !goes_on {
                break;
            }
        }
        Ok(first)
    }
}

fn is_wait(piece: &Piece) -> bool {
    matches!(piece.class, Class::Blocked | Class::Stopped)
}

/// From when on a thread has a CPU, or may have one, at a time or later.
fn runs_from(view: &View, lane: LaneId, ns: i64) -> Result<Option<i64>, Failure> {
    let mut found = None;
    view.each(lane, (ns, i64::MAX), &mut |piece| {
        let has_no_cpu = is_wait(&piece) || piece.class == Class::Runnable;
        found = (!has_no_cpu).then_some(piece.begin_ns.max(ns));
        has_no_cpu
    })?;
    Ok(found)
}
