// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzzer's entry point with filters that are put together at random, so that `cargo test` finds the plain mistakes.

use fastrand::Rng;
use piste_filter::{Filter, fuzzing};

const PIECES: [&str; 44] = [
    "a",
    "b",
    "exists",
    "exists(",
    "name",
    "$tid",
    "$comm",
    "$pid",
    "$ctx",
    ".x",
    "[3]",
    "`odd name`",
    "0",
    "1",
    "0x1f",
    "052",
    "-",
    "1.5ms",
    "4K",
    "\"x*\"",
    "'a[b-z]?'",
    "\"\\n\\\"\"",
    "\"",
    "\\",
    "==",
    "!=",
    "<",
    ">=",
    "&",
    "=~",
    "!~",
    "~",
    "&&",
    "||",
    "!",
    "(",
    ")",
    " ",
    "\t",
    "é",
    "#",
    "true",
    "$",
    "'[!]x]'",
];

#[test]
fn texts_at_random_are_filters_or_are_refused_where_they_are_wrong() {
    let mut random = Rng::with_seed(1);
    let mut filters = 0;
    for _ in 0..100_000 {
        let count = random.usize(1..12);
        let text: String = (0..count).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
        fuzzing::text(text.as_bytes());
        filters += usize::from(Filter::parse(&text).is_ok());
    }
    assert!(filters > 100, "only {filters} of them were filters");
}
