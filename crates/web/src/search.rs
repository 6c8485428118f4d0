// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds pieces of the timeline by their names: system calls, spans, events of programs, threads on CPUs, interrupts, requests to devices.
//!
//! The names are in the timeline's labels, so only pieces of lanes that can have a matching label are read, one leaf at a time. The answer has a
//! count for each column and the first and the last match: a page marks the columns, and moves from match to match with further searches in
//! single columns.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use piste_timeline::{Failure, Label, LaneId, Piece, Subject};
use serde::{Deserialize, Serialize};

use crate::pages::{Asked, Json, Refusal, ns};
use crate::recordings::{Name, View};
use crate::walk::Walk;

const TEXT_BYTES_MAX: usize = 1000;
const COLUMNS_MAX: usize = 4096;

#[derive(Deserialize)]
pub(crate) struct Wanted {
    /// A name matches if it contains all of these words, in upper or lower case.
    text: String,
    begin: String,
    end: String,
    columns: usize,
    /// Of pieces that begin at `begin`, only those of lanes after this one.
    after_lane: Option<u32>,
    /// Also pieces that begin at `end`, of lanes before this one.
    before_lane: Option<u32>,
}

/// What was found. A piece is found where it begins.
#[derive(Serialize)]
pub(crate) struct Found {
    count: u64,
    /// There was too much to read: there may be more.
    is_cut: bool,
    /// For each column, how many.
    columns: Vec<u64>,
    first: Option<Place>,
    last: Option<Place>,
}

/// Where a piece is.
#[derive(Serialize)]
struct Place {
    begin_ns: String,
    lane: u32,
}

/// `GET /api/N/search?text&begin&end&columns&after_lane&before_lane`
pub(crate) async fn search(
    State(house): Asked,
    Path(number): Path<usize>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Found>, Refusal> {
    let wrong = |why: &str| Refusal(StatusCode::BAD_REQUEST, why.to_owned());
    if wanted.text.len() > TEXT_BYTES_MAX {
        return Err(wrong("the text to search for is too long"));
    }
    let words: Vec<String> = wanted
        .text
        .to_lowercase()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    if words.is_empty() {
        return Err(wrong("enter a word to search for"));
    }
    if !(1..=COLUMNS_MAX).contains(&wanted.columns) {
        return Err(wrong("too many columns"));
    }
    let range = Range {
        from: (
            ns(&wanted.begin)?,
            wanted.after_lane.map_or(0, |lane| lane.saturating_add(1)),
        ),
        until: (ns(&wanted.end)?, wanted.before_lane.unwrap_or(0)),
        columns: wanted.columns,
    };
    let find = move |view: &View, walk: &mut Walk| find(view, &words, &range, walk);
    house.walk(number, find).await.map(Json)
}

/// A piece's place: when it begins, and its lane.
type Key = (i64, u32);

/// Where to search.
struct Range {
    from: Key,
    /// Not this one.
    until: Key,
    columns: usize,
}

impl Range {
    /// The column in which a time lies.
    fn column(&self, ns: i64) -> usize {
        let width = (i128::from(self.until.0) - i128::from(self.from.0)).max(1);
        let column = (i128::from(ns) - i128::from(self.from.0)) * self.columns as i128 / width;
        (column as usize).min(self.columns - 1)
    }
}

/// What a label is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Thread,
    Text,
}

/// A lane that can have a match.
struct Candidate {
    lane: LaneId,
    /// Labels that match here: on a CPU, an interrupt is not found, because it has a lane of its own.
    of: Of,
    /// Every piece matches, whatever its label is.
    is_all: bool,
}

/// Of each label that matches, what it is of; and the lanes that can have them.
fn candidates(labels: &[Label], subjects: &[Subject], words: &[String]) -> (Vec<Option<Of>>, Vec<Candidate>) {
    let is_meant = |name: &str| {
        let name = name.to_lowercase();
        words.iter().all(|word| name.contains(word))
    };
    let of = |label: &Label| match label {
        Label::Thread(_) => Of::Thread,
        Label::Text(_) => Of::Text,
    };
    let is_label_meant = |label: &&Label| Name::of(label, subjects).is_some_and(|name| is_meant(&name.text));
    let meant: Vec<Option<Of>> = labels
        .iter()
        .map(|label| Some(label).filter(is_label_meant).map(of))
        .collect();
    let [has_threads, has_texts] = [Of::Thread, Of::Text].map(|of| meant.contains(&Some(of)));
    let candidate = |(lane, subject): (u32, &Subject)| {
        let (of, is_all) = match subject {
            Subject::Cpu(_) => (Of::Thread, false),
            Subject::Calls(_) | Subject::Spans(..) | Subject::Events(_) => (Of::Text, false),
            Subject::Device(name) => (Of::Text, is_meant(name)),
            // Its pieces have no names.
            Subject::Interrupt(name) if is_meant(name) => (Of::Text, true),
            Subject::Interrupt(_) => return None,
            // Its system calls have a lane of their own; numbers have no names.
            Subject::Thread(_) | Subject::Counter(_) => return None,
        };
        let candidate = Candidate {
            lane: LaneId(lane),
            of,
            is_all,
        };
        let has_labels = if of == Of::Thread { has_threads } else { has_texts };
        (is_all || has_labels).then_some(candidate)
    };
    let lanes = (0..).zip(subjects).filter_map(candidate).collect();
    (meant, lanes)
}

fn find(view: &View, words: &[String], range: &Range, walk: &mut Walk) -> Result<Found, Failure> {
    let (meant, lanes) = view.with_labels(|labels, subjects| candidates(labels, subjects, words))?;
    let mut columns = vec![0; range.columns];
    let mut count = 0;
    let (mut first, mut last): (Option<Key>, Option<Key>) = (None, None);
    let mut is_whole = true;
    for Candidate { lane, of, is_all } in lanes {
        let is_meant = |what: u32| {
            let place = what.checked_sub(1);
            place.and_then(|place| meant.get(place as usize)) == Some(&Some(of))
        };
        let take = |piece: Piece| {
            let key = (piece.begin_ns, lane.0);
            if (is_all || is_meant(piece.what)) && range.from <= key && key < range.until {
                count += 1;
                columns[range.column(key.0)] += 1;
                first = Some(first.map_or(key, |first| first.min(key)));
                last = last.max(Some(key));
            }
        };
        is_whole = walk.each(view, lane, (range.from.0, range.until.0.saturating_add(1)), take)?;
        if !is_whole {
            break;
        }
    }
    let is_cut = !is_whole;
    let place = |(begin_ns, lane): Key| Place {
        begin_ns: begin_ns.to_string(),
        lane,
    };
    Ok(Found {
        count,
        is_cut,
        columns,
        first: first.map(place),
        last: last.map(place),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use piste_timeline::{Class, Directory, Thread, Timeline, Writer};

    use super::*;
    use crate::walk::Asker;

    /// A CPU with a thread of the name `eth0` and an interrupt of that name, the interrupt's lane, and system calls, one each 10 ns.
    fn view() -> View {
        let mut writer = Writer::new(tempfile::tempfile().expect("a file")).expect("it is written");
        let lanes: Vec<LaneId> = (0..4).map(|_| writer.lane()).collect();
        let mut put = |lane: usize, begin_ns: i64, what: u32| {
            let piece = Piece {
                begin_ns,
                end_ns: begin_ns + 5,
                class: Class::Other,
                what,
                by: 0,
                value: 0,
            };
            writer.put(lanes[lane], &piece).expect("it is written");
        };
        for number in 0..1000 {
            put(0, 10 * number, 1 + (number % 2) as u32);
            put(2, 10 * number, 0);
            put(3, 10 * number, 3 + (number % 2) as u32);
        }
        let thread = Thread {
            tid: 7,
            pid: None,
            name: "eth0".to_owned(),
            is_kernel: true,
            process: 0,
            uid: None,
            cgroup: String::new(),
            parent_pid: None,
            created: None,
        };
        let directory = Directory {
            span_ns: (0, 10_000),
            origin: Vec::new(),
            labels: vec![
                Label::Thread(lanes[1]),
                Label::Text("eth0".to_owned()),
                Label::Text("openat".to_owned()),
                Label::Text("Close".to_owned()),
            ],
            subjects: vec![
                Subject::Cpu(0),
                Subject::Thread(thread),
                Subject::Interrupt("eth0".to_owned()),
                Subject::Calls(lanes[1]),
            ],
        };
        let file = writer.finish(&directory).expect("it is written");
        View::Whole(Arc::new(Timeline::open(file).expect("a timeline")))
    }

    fn found(text: &str, from: Key, until: Key) -> Found {
        let asker = Asker::default();
        found_on(&mut asker.walk(), text, from, until)
    }

    fn found_on(walk: &mut Walk, text: &str, from: Key, until: Key) -> Found {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let columns = 4;
        find(&view(), &words, &Range { from, until, columns }, walk).expect("an answer")
    }

    #[test]
    fn pieces_are_counted_where_they_begin() {
        let key = |place: Option<Place>| place.map(|place| (place.begin_ns, place.lane));
        let calls = found("close", (0, 0), (10_000, 0));
        assert_eq!(
            (calls.count, &*calls.columns, calls.is_cut),
            (500, &[125; 4][..], false)
        );
        assert_eq!(key(calls.first), Some(("10".to_owned(), 3)));
        assert_eq!(key(calls.last), Some(("9990".to_owned(), 3)));
        // From one match to the next one: in the same lane, or at the same time in a later one.
        assert_eq!(
            key(found("close", (10, 4), (10_000, 0)).first),
            Some(("30".to_owned(), 3))
        );
        assert_eq!(
            key(found("close", (10, 3), (10_000, 0)).first),
            Some(("10".to_owned(), 3))
        );
        assert_eq!(key(found("close", (0, 0), (30, 3)).last), Some(("10".to_owned(), 3)));
        assert_eq!(found("close openat", (0, 0), (10_000, 0)).count, 0);
    }

    #[test]
    fn an_interrupt_is_found_in_its_own_lane_only() {
        // The thread half of the time on the CPU, and the interrupt.
        let all = found("eth0", (0, 0), (10_000, 0));
        assert_eq!(all.count, 500 + 1000);
        // Only the thread has a number.
        assert_eq!(found("eth0 (7)", (0, 0), (10_000, 0)).count, 500);
    }

    #[test]
    fn a_search_that_nobody_waits_for_ends() {
        let asker = Asker::default();
        let mut walk = asker.walk();
        let all = found_on(&mut walk, "close", (0, 0), (10_000, 0));
        assert_eq!((all.count, all.is_cut), (500, false));
        drop(asker);
        let cut = found_on(&mut walk, "close", (0, 0), (10_000, 0));
        assert_eq!((cut.count, cut.is_cut), (0, true));
    }
}
