// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest piece of some lanes: where a row of a table is worst, in the timeline.

use std::collections::HashSet;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use piste_timeline::{Class, Failure, LaneId, Piece};
use serde::{Deserialize, Serialize};

use crate::pages::{Asked, Json, Refusal, class_name};
use crate::recordings::{Name, View};
use crate::walk::Walk;

/// As many as a page is told of.
const LANES_MAX: usize = 20_000;

#[derive(Deserialize)]
pub(crate) struct Wanted {
    lanes: Vec<u32>,
    /// Only pieces of these classes; none: of all but the unknown.
    #[serde(default)]
    classes: Vec<String>,
    /// Only pieces with this name.
    name: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Longest {
    piece: Option<Place>,
    /// There were too many to look at all.
    is_part: bool,
}

#[derive(Serialize)]
struct Place {
    lane: u32,
    begin_ns: String,
    end_ns: String,
}

/// `POST /api/N/longest`
pub(crate) async fn longest(
    State(house): Asked,
    Path(number): Path<usize>,
    body: Bytes,
) -> Result<Json<Longest>, Refusal> {
    let wrong = |why: String| Refusal(StatusCode::BAD_REQUEST, why);
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
    if wanted.lanes.len() > LANES_MAX {
        return Err(wrong("too many lanes".to_owned()));
    }
    let class = |name: &String| {
        let found = Class::ALL.into_iter().find(|class| class_name(*class) == *name);
        found.ok_or_else(|| wrong(format!("there is no class {name}")))
    };
    let classes = wanted
        .classes
        .iter()
        .map(class)
        .collect::<Result<Vec<Class>, Refusal>>()?;
    let find = move |view: &View, walk: &mut Walk| find(view, &wanted, &classes, walk);
    house.walk(number, find).await.map(Json)
}

fn find(view: &View, wanted: &Wanted, classes: &[Class], walk: &mut Walk) -> Result<Longest, Failure> {
    let labels: Option<HashSet<u32>> = match &wanted.name {
        None => None,
        Some(wanted) => Some(view.with_labels(|labels, subjects| {
            let is_meant = |label| Name::of(label, subjects).is_some_and(|name| name.text == *wanted);
            let numbered = (1..).zip(labels);
            numbered
                .filter(|(_, label)| is_meant(label))
                .map(|(number, _)| number)
                .collect()
        })?),
    };
    let is_meant = |piece: &Piece| {
        let is_class_meant = match classes {
            [] => piece.class != Class::Unknown,
            classes => classes.contains(&piece.class),
        };
        is_class_meant && labels.as_ref().is_none_or(|labels| labels.contains(&piece.what))
    };
    let mut longest: Option<(LaneId, Piece)> = None;
    let mut is_whole = true;
    for lane in wanted.lanes.iter().copied().map(LaneId) {
        is_whole = walk.each(view, lane, (i64::MIN, i64::MAX), |piece| {
            // Of several, the first.
            let is_longer = longest.is_none_or(|(_, longest)| piece.duration_ns() > longest.duration_ns());
            if is_longer && is_meant(&piece) {
                longest = Some((lane, piece));
            }
        })?;
        if !is_whole {
            break;
        }
    }
    let place = |(LaneId(lane), piece): (LaneId, Piece)| Place {
        lane,
        begin_ns: piece.begin_ns.to_string(),
        end_ns: piece.end_ns.to_string(),
    };
    Ok(Longest {
        piece: longest.map(place),
        is_part: !is_whole,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use piste_timeline::{Directory, Label, Subject, Timeline, Writer};

    use super::*;
    use crate::walk::Asker;

    /// Two lanes of system calls: in each, calls `read` and `write` in turns, and at the end a time that is unknown.
    fn view() -> View {
        let mut writer = Writer::new(tempfile::tempfile().expect("a file")).expect("it is written");
        let lanes = [writer.lane(), writer.lane()];
        for (lane, longer) in [(lanes[0], 7), (lanes[1], 5)] {
            let mut put = |begin_ns: i64, end_ns: i64, class: Class, what: u32| {
                let piece = Piece {
                    begin_ns,
                    end_ns,
                    class,
                    what,
                    by: 0,
                    value: 0,
                };
                writer.put(lane, &piece).expect("it is written");
            };
            for number in 0..100 {
                let length = if number == 41 { 5 + longer } else { number % 2 + 1 };
                put(
                    100 * number,
                    100 * number + length,
                    Class::Other,
                    1 + (number % 2) as u32,
                );
            }
            put(10_000, 20_000, Class::Unknown, 2);
        }
        let directory = Directory {
            span_ns: (0, 20_000),
            origin: Vec::new(),
            labels: ["read", "write"].map(|name| Label::Text(name.to_owned())).to_vec(),
            subjects: lanes.map(Subject::Calls).to_vec(),
        };
        let file = writer.finish(&directory).expect("it is written");
        View::Whole(Arc::new(Timeline::open(file).expect("a timeline")))
    }

    fn found(lanes: &[u32], classes: &[Class], name: Option<&str>, is_waited_for: bool) -> (Option<(u32, i64)>, bool) {
        let wanted = Wanted {
            lanes: lanes.to_vec(),
            classes: Vec::new(),
            name: name.map(str::to_owned),
        };
        let asker = Asker::default();
        let mut walk = asker.walk();
        let _asker = Some(asker).filter(|_| is_waited_for);
        let Longest { piece, is_part } = find(&view(), &wanted, classes, &mut walk).expect("an answer");
        let place = piece.map(|place| (place.lane, place.begin_ns.parse().expect("a number")));
        (place, is_part)
    }

    #[test]
    fn the_longest_is_that_of_the_lanes_the_class_and_the_name() {
        assert_eq!(found(&[1, 0], &[], Some("write"), true), (Some((0, 4100)), false));
        assert_eq!(found(&[1], &[], Some("write"), true), (Some((1, 4100)), false));
        // Of several, the first.
        assert_eq!(found(&[1, 0], &[], Some("read"), true), (Some((1, 0)), false));
        assert_eq!(found(&[0], &[Class::Unknown], None, true), (Some((0, 10_000)), false));
        assert_eq!(found(&[0], &[Class::Blocked], None, true), (None, false));
        assert_eq!(found(&[0], &[], Some("rea"), true), (None, false));
        assert_eq!(found(&[7], &[], None, true), (None, false));
    }

    #[test]
    fn a_search_that_nobody_waits_for_ends() {
        assert_eq!(found(&[0, 1], &[], None, false), (Some((0, 0)), true));
    }
}
