// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the other pieces of a name took: system calls, spans, waits in a call, interrupts.
//!
//! They are counted in the timeline, not by `piste query`: a pass over the pieces of a lane reads a few bytes for each, and 10 million take less than
//! a second, while a query reads all events of the trace. Where there are too many, the answer says that it is of a part.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use piste_timeline::{Failure, LaneId, Piece, Subject};
use serde::{Deserialize, Serialize};

use crate::pages::{Asked, Json, Refusal, ns, piece_at};
use crate::recordings::View;
use crate::walk::Walk;

/// Bars for durations from one power of two to the next: 2^n.
const BARS_BITS: u32 = 2;
/// Named of each bar.
const SLOWEST_MAX: usize = 5;

/// Where to look for them.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Among {
    /// In the lane of the piece.
    Lane,
    /// In all lanes of its kind.
    Kind,
}

#[derive(Deserialize)]
pub(crate) struct Wanted {
    lane: u32,
    at: String,
    among: Among,
}

/// Durations of pieces that have the same name and class.
#[derive(Default, Serialize)]
pub(crate) struct Alike {
    count: u64,
    /// Of them, those that took less time than the one that was asked about.
    shorter: u64,
    total_ns: u64,
    /// Lanes in which they are.
    lanes: u64,
    /// Those with something in them, the shortest durations first.
    bars: Vec<Bar>,
    /// There were too many to look at all.
    is_part: bool,
}

#[derive(Serialize)]
struct Bar {
    /// Durations from here on,
    from_ns: u64,
    /// up to here.
    to_ns: u64,
    count: u64,
    /// The longest first.
    slowest: Vec<Slow>,
}

#[derive(Serialize)]
struct Slow {
    lane: u32,
    begin_ns: String,
    duration_ns: u64,
}

/// `GET /api/N/alike?lane&at&among`
pub(crate) async fn alike(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Alike>, Refusal> {
    let (lane, at_ns) = (LaneId(wanted.lane), ns(&wanted.at)?);
    let found = house
        .walk(number, move |view, walk| {
            let Some(piece) = piece_at(view, lane, at_ns)? else {
                return Ok(None);
            };
            let lanes = lanes(view, lane, &piece, wanted.among)?;
            Ok(Some(count(view, &piece, &lanes, walk)?))
        })
        .await?;
    let nothing = || {
        Refusal(
            StatusCode::NOT_FOUND,
            "there is no piece at the selected time".to_owned(),
        )
    };
    found.map(Json).ok_or_else(nothing)
}

/// The lanes to look in, that of the piece first.
fn lanes(view: &View, lane: LaneId, piece: &Piece, among: Among) -> Result<Vec<LaneId>, Failure> {
    let mut lanes = vec![lane];
    if among == Among::Kind {
        let kind = |subject: &Subject| std::mem::discriminant(subject);
        let own = view.with_labels(|_, subjects| subjects.get(lane.0 as usize).map(kind))?;
        view.each_lane(&mut |other, subject, whole| {
            if other != lane && Some(kind(subject)) == own && whole.of(piece.class) > 0 {
                lanes.push(other);
            }
        })?;
    }
    Ok(lanes)
}

fn count(view: &View, piece: &Piece, lanes: &[LaneId], walk: &mut Walk) -> Result<Alike, Failure> {
    let mut alike = Alike::default();
    let mut bars: Vec<Option<Bar>> = Vec::new();
    for lane in lanes {
        let count_before = alike.count;
        let goes_on = walk.each(view, *lane, (i64::MIN, i64::MAX), |other| {
            let ns = other.duration_ns();
            // Events take no time.
            if (other.class, other.what) == (piece.class, piece.what) && ns > 0 {
                alike.count += 1;
                alike.shorter += u64::from(ns < piece.duration_ns());
                alike.total_ns = alike.total_ns.saturating_add(ns);
                let place = bar_of(ns);
                if bars.len() <= place {
                    bars.resize_with(place + 1, || None);
                }
                bars[place].get_or_insert_with(|| Bar::new(place)).add(*lane, &other);
            }
        })?;
        alike.lanes += u64::from(alike.count > count_before);
        if !goes_on {
            alike.is_part = true;
            break;
        }
    }
    alike.bars = bars.into_iter().flatten().collect();
    Ok(alike)
}

/// The bar for a duration: its highest bits.
fn bar_of(ns: u64) -> usize {
    let power = ns.ilog2();
    if power < BARS_BITS {
        return ns as usize;
    }
    let below = (ns >> (power - BARS_BITS)) - (1 << BARS_BITS);
    (((power - BARS_BITS + 1) << BARS_BITS) as usize) + below as usize
}

/// The shortest duration of a bar.
fn begin_of(place: usize) -> u64 {
    let (power, below) = (place >> BARS_BITS, place as u64 & ((1 << BARS_BITS) - 1));
    match power {
        0 => below,
        _ => (below + (1 << BARS_BITS)) << (power - 1),
    }
}

impl Bar {
    fn new(place: usize) -> Bar {
        Bar {
            from_ns: begin_of(place),
            to_ns: begin_of(place + 1),
            count: 0,
            slowest: Vec::new(),
        }
    }

    fn add(&mut self, LaneId(lane): LaneId, piece: &Piece) {
        self.count += 1;
        let ns = piece.duration_ns();
        let place = self.slowest.partition_point(|slow| slow.duration_ns >= ns);
        if place == SLOWEST_MAX {
            return;
        }
        self.slowest.truncate(SLOWEST_MAX - 1);
        let slow = Slow {
            lane,
            begin_ns: piece.begin_ns.to_string(),
            duration_ns: ns,
        };
        self.slowest.insert(place, slow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_lies_in_its_bar() {
        let powers = (0..63).flat_map(|power| [1 << power, (1 << power) + 1, (2 << power) - 1, (3_u64 << power) / 2]);
        for ns in (1..5000).chain(powers) {
            let bar = Bar::new(bar_of(ns));
            assert!((bar.from_ns..bar.to_ns).contains(&ns), "{ns}");
            assert!((bar.to_ns - bar.from_ns) * 4 <= bar.from_ns.max(4), "{ns}");
        }
    }

    #[test]
    fn a_bar_names_its_slowest() {
        let mut bar = Bar::new(bar_of(1000));
        for ns in [1001, 1009, 1003, 1007, 1005, 1011, 1002] {
            let piece = Piece {
                begin_ns: 7,
                end_ns: 7 + ns,
                class: piste_timeline::Class::Other,
                what: 1,
                by: 0,
                value: 0,
            };
            bar.add(LaneId(3), &piece);
        }
        let slowest: Vec<u64> = bar.slowest.iter().map(|slow| slow.duration_ns).collect();
        assert_eq!((bar.count, slowest), (7, vec![1011, 1009, 1007, 1005, 1003]));
    }
}
