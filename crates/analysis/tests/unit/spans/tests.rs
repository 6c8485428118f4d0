// SPDX-License-Identifier: MIT OR Apache-2.0

use fastrand::Rng;

use super::gaps::tests::span_gaps;
use super::*;
use crate::process_gaps::Lost;

/// Lines `TIME begin|end NAME TID` to `begin end name depth tid`, `-` for what is not known; the process has the number of its thread.
/// Streams of class 1 hold spans of some names and lack what is lost.
fn rows(lost: &[Lost<'_>], open_max: usize, lines: &[impl AsRef<str>]) -> Vec<String> {
    let mut gaps = span_gaps(&[(1, "a"), (1, "b"), (1, "c"), (2, "elsewhere")]);
    lost.iter().for_each(|lost| gaps.lose(1, lost));
    let mut rows = Vec::new();
    let known = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    let mut spans = Spans::new(vec![gaps], open_max, |span: Span<'_, ()>| {
        let [begin, end] = [span.begun.map(|begun| begun.ns), span.end_ns].map(known);
        let depth = known(span.begun.and_then(|begun| begun.depth));
        rows.push(format!("{begin} {end} {} {depth} {}", span.name, known(span.track.tid)));
    });
    for line in lines {
        let words: Vec<&str> = line.as_ref().split(' ').collect();
        let number = |word: &str| word.parse::<i64>().expect("a number");
        let track = Track {
            trace: 0,
            pid: Some(number(words[3])),
            tid: Some(number(words[3])),
            stream: None,
        };
        match words[1] {
            "begin" => spans.begin(track, words[2], number(words[0]), ()),
            _ => spans.end(track, words[2], number(words[0]), ()),
        }
    }
    spans.finish();
    assert_eq!(spans.open, 0);
    rows
}

#[track_caller]
fn check(lost: &[Lost<'_>], lines: &[&str], expected: &[&str]) {
    assert_eq!(rows(lost, OPEN_MAX, lines), expected);
}

fn lost(pid: Option<i64>, begin_ns: i64, end_ns: i64) -> Lost<'static> {
    Lost {
        classes: &[],
        pid,
        begin_ns,
        end_ns,
    }
}

#[test]
fn spans_nest_on_their_threads() {
    check(
        &[],
        &[
            "1 begin a 7",
            "2 begin b 7",
            "3 begin a 8",
            "4 end b 7",
            "5 end a 7",
            "6 end a 8",
        ],
        &["2 4 b 1 7", "1 5 a 0 7", "3 6 a 0 8"],
    );
}

#[test]
fn what_has_no_partner_has_a_row() {
    check(
        &[],
        &["1 end a 7", "2 begin a 7", "3 begin b 7", "4 end a 7", "5 begin c 7"],
        &["- 1 a - 7", "3 - b 1 7", "2 4 a 0 7", "5 - c 0 7"],
    );
}

#[test]
fn a_gap_tears_what_it_lies_in() {
    check(
        &[lost(None, 3, 4)],
        &[
            "1 begin a 7",
            "2 end a 7",
            "2 begin a 7",
            "5 end a 7",
            "6 begin a 7",
            "7 end a 7",
        ],
        &["1 2 a 0 7", "2 - a 0 7", "- 5 a - 7", "6 7 a - 7"],
    );
}

#[test]
fn a_process_loses_spans_of_its_own_only() {
    check(
        &[lost(Some(7), 3, 4)],
        &[
            "1 begin a 7",
            "2 begin a 8",
            "5 begin b 7",
            "6 begin b 8",
            "7 end b 7",
            "8 end b 8",
            "9 end a 7",
            "10 end a 8",
        ],
        // Whether the other one is still open, the trace does not tell.
        &["5 7 b - 7", "6 8 b 1 8", "1 - a 0 7", "- 9 a - 7", "2 10 a 0 8"],
    );
}

#[test]
fn what_other_streams_lose_tears_nothing() {
    check(
        &[lost(None, 3, 4)],
        &["1 begin elsewhere 7", "5 end elsewhere 7"],
        &["1 5 elsewhere 0 7"],
    );
}

#[test]
fn when_too_many_are_open_the_outermost_is_given_up() {
    let lines = [
        "1 begin a 7",
        "2 begin a 7",
        "3 begin b 7",
        "4 begin b 8",
        "5 end b 8",
        "6 end b 7",
        "7 begin c 7",
        // Of the one that was given up: what is open began within.
        "8 end a 7",
        "9 end a 7",
    ];
    let expected = [
        "1 - a 0 7",
        "4 - b 0 8",
        "- 5 b - 8",
        "3 6 b 2 7",
        "7 - c - 7",
        "2 8 a 1 7",
        "- 9 a - 7",
    ];
    assert_eq!(rows(&[], 2, &lines), expected);
}

#[test]
fn whatever_is_given_up_no_end_takes_another_begin() {
    let mut random = Rng::with_seed(1);
    for _ in 0..1000 {
        let begins_of_ten = 3 + random.u64(..5);
        let mut lines = Vec::new();
        for ns in 0..50 {
            let what = if random.u64(..10) < begins_of_ten {
                "begin"
            } else {
                "end"
            };
            let name = ["a", "b", "c"][random.u64(..3) as usize];
            lines.push(format!("{ns} {what} {name} {}", random.u64(..2)));
        }
        let pair = |line: &String| {
            let words: Vec<&str> = line.split(' ').collect();
            let is_pair = !words[..2].contains(&"-");
            is_pair.then(|| [0, 1, 2, 4].map(|place| words[place].to_owned()))
        };
        let all = rows(&[], OPEN_MAX, &lines);
        let all_pairs: Vec<_> = all.iter().filter_map(pair).collect();
        for line in rows(&[], random.u64(..5) as usize, &lines) {
            if let Some(pair) = pair(&line) {
                assert!(all_pairs.contains(&pair), "{line} is not among {all:?}");
                let is_depth_known = !line.split(' ').any(|word| word == "-");
                assert!(!is_depth_known || all.contains(&line), "{line} is not among {all:?}");
            }
        }
    }
}
