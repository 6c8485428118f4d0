// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters at random, against a model: what a filter lets through is what a slow evaluation of the same tree says.

use std::path::Path;

use fastrand::Rng;
use piste_trace::select::{Filter, Selection};

use crate::notation;
use crate::random::one_of;
use crate::selection::times;
use crate::test_trace::TestTrace;

/// Events with a time, a number and a text; those of `f` have no text.
const METADATA: &str = "
--- metadata
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 8; align = 8; signed = true; } := int8_t;
stream { event.header := struct { integer { size = 8; align = 8; map = clock.c.value; } time; int8_t id; }; };
event { id = 0; name = e; fields := struct { int8_t a; int8_t b; string s; }; };
event { id = 1; name = f; fields := struct { int8_t a; }; };
--- stream s
";

const TEXTS: [&str; 5] = ["", "a", "ab", "ba", "a*"];
const NAMES: [&str; 2] = ["e", "f"];

struct Event {
    time: i64,
    a: i64,
    /// Absent in `f`.
    rest: Option<(i64, &'static str)>,
}

#[derive(Clone, Copy)]
enum Number {
    A,
    B,
    Time,
    Constant(i64),
}

enum Model {
    And(Box<Model>, Box<Model>),
    Or(Box<Model>, Box<Model>),
    Not(Box<Model>),
    Numbers(Number, &'static str, Number),
    Text(&'static str, &'static str),
    Like(bool, &'static str),
    Name(&'static str),
    Exists(&'static str),
}

impl Number {
    fn any(random: &mut Rng) -> Number {
        match random.usize(..5) {
            0 => Number::A,
            1 => Number::B,
            2 => Number::Time,
            _ => Number::Constant(random.usize(..9) as i64 - 4),
        }
    }

    fn text(self) -> String {
        match self {
            Number::A => "a".into(),
            Number::B => "$payload.b".into(),
            Number::Time => "$time".into(),
            Number::Constant(number) => number.to_string(),
        }
    }

    fn of(self, event: &Event) -> Option<i64> {
        match self {
            Number::A => Some(event.a),
            Number::B => event.rest.map(|(b, _)| b),
            Number::Time => Some(event.time),
            Number::Constant(number) => Some(number),
        }
    }
}

impl Model {
    fn any(random: &mut Rng, depth: u32) -> Model {
        let choice = random.usize(..if depth == 0 { 5 } else { 9 });
        let mut inner = || Box::new(Model::any(random, depth.saturating_sub(1)));
        match choice {
            5 | 6 => Model::And(inner(), inner()),
            7 => Model::Or(inner(), inner()),
            8 => Model::Not(inner()),
            0 | 1 => {
                let comparison = one_of(&["==", "!=", "<", "<=", ">", ">=", "&"], random);
                Model::Numbers(Number::any(random), comparison, Number::any(random))
            }
            2 => Model::Text(one_of(&["==", "!=", "<", ">="], random), one_of(&TEXTS, random)),
            3 => Model::Like(
                random.usize(..2) == 0,
                one_of(&["*", "a*", "*a", "b", "a*b*", ""], random),
            ),
            _ if random.usize(..2) == 0 => Model::Name(one_of(&NAMES, random)),
            _ => Model::Exists(one_of(&["a", "b", "s"], random)),
        }
    }

    /// With more parentheses and spaces than are needed, now and then.
    fn text(&self, random: &mut Rng) -> String {
        let both = |left: &Model, sign: &str, right: &Model, random: &mut Rng| {
            let (left, right) = (left.text(random), right.text(random));
            format!("({left}){}{sign}({right})", one_of(&["", " ", "\t"], random))
        };
        match self {
            Model::And(left, right) => both(left, "&&", right, random),
            Model::Or(left, right) => both(left, "||", right, random),
            Model::Not(inner) => format!("!{}({})", one_of(&["", " "], random), inner.text(random)),
            Model::Numbers(left, comparison, right) => format!("{} {comparison} {}", left.text(), right.text()),
            Model::Text(comparison, text) => format!("s {comparison} \"{text}\""),
            Model::Like(true, pattern) => format!("s =~ '{pattern}'"),
            Model::Like(false, pattern) => format!("s !~ '{pattern}'"),
            Model::Name(name) => format!("{} == \"{name}\"", one_of(&["name", "$name"], random)),
            Model::Exists(field) => format!("exists( {field})"),
        }
    }

    fn holds(&self, event: &Event) -> bool {
        let text = event.rest.map(|(_, text)| text);
        match self {
            Model::And(left, right) => left.holds(event) && right.holds(event),
            Model::Or(left, right) => left.holds(event) || right.holds(event),
            Model::Not(inner) => !inner.holds(event),
            Model::Numbers(left, comparison, right) => {
                let (Some(left), Some(right)) = (left.of(event), right.of(event)) else {
                    return false;
                };
                match *comparison {
                    "&" => left & right != 0,
                    comparison => compare(&left, comparison, &right),
                }
            }
            Model::Text(comparison, wanted) => text.is_some_and(|text| compare(&text, comparison, wanted)),
            Model::Like(is_like, pattern) => text.is_some_and(|text| like(pattern, text) == *is_like),
            Model::Name(name) => *name == NAMES[usize::from(text.is_none())],
            Model::Exists(field) => *field == "a" || text.is_some(),
        }
    }
}

fn compare<T: PartialOrd>(left: &T, comparison: &str, right: &T) -> bool {
    match comparison {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    }
}

/// By every way to split the text at a `*`.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_at_checked(1) {
        None => text.is_empty(),
        Some(("*", rest)) => (0..=text.len()).any(|at| like(rest, &text[at..])),
        Some((letter, rest)) => text.strip_prefix(letter).is_some_and(|text| like(rest, text)),
    }
}

#[test]
fn filters_let_through_what_a_model_says() {
    let mut random = Rng::with_seed(1);
    let events: Vec<Event> = (1..=60)
        .map(|time| Event {
            time,
            a: random.usize(..9) as i64 - 4,
            rest: (random.usize(..3) > 0).then(|| (random.usize(..9) as i64 - 4, one_of(&TEXTS, &mut random))),
        })
        .collect();
    let mut text = METADATA.to_owned();
    for Event { time, a, rest } in &events {
        text += &match rest {
            Some((b, s)) => format!("u8:{time} u8:0 i8:{a} i8:{b} \"{s}\\0\"\n"),
            None => format!("u8:{time} u8:1 i8:{a}\n"),
        };
    }
    let place = TestTrace::of(&notation::Trace::parse(&text, Path::new("")).expect("a trace"));
    let mut chosen = [0_u32; 3];
    for _ in 0..3000 {
        let model = Model::any(&mut random, 4);
        let text = model.text(&mut random);
        let selection = Selection {
            filter: Some(Filter::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))),
            ..Selection::default()
        };
        let expected: Vec<i64> = events
            .iter()
            .filter(|event| model.holds(event))
            .map(|event| event.time)
            .collect();
        assert_eq!(times(&place, &selection), expected, "{text}");
        chosen[usize::from(!expected.is_empty()) + usize::from(expected.len() == events.len())] += 1;
    }
    // They are of every kind: nothing, something, everything.
    assert!(chosen.iter().all(|&count| count > 100), "{chosen:?}");
}
