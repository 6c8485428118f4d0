// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters of programs' events: the program evaluates them, and what passes is what the same filter selects when the trace is read.

use std::process::Stdio;

use fastrand::Rng;
use piste_support::{Event, Running, Trace, Workplace};
use serde_json::Value;

/// Sessions beside the one that records everything: each has a filter.
const FILTER_COUNT: usize = 60;

#[test]
fn what_passes_is_what_the_filter_selects_in_the_trace() {
    let place = Workplace::new();
    let program = place.program("shapes.c");
    let mut random = Rng::with_seed(16);
    let filters: Vec<String> = (0..FILTER_COUNT).map(|_| condition(&mut random, 3)).collect();
    let session = |name: &str, filter: &[&str]| {
        let trace = place.path(name);
        place.piste_succeeds(&["create", name, "-o", trace.to_str().expect("UTF-8")]);
        place.piste_succeeds(&["enable-channel", "-u", "any", "--block", "forever"]);
        place.piste_succeeds(&[&["enable-event", "-c", "any", "shapes:*"], filter].concat());
        place.piste_succeeds(&["start"]);
    };
    session("everything", &[]);
    for (number, filter) in filters.iter().enumerate() {
        session(&number.to_string(), &[&format!("--filter={filter}")]);
    }
    place.run(&program, &["7", "500"]).expect_success();
    place.piste_succeeds(&["destroy", "--all"]);

    let everything = place.path("everything");
    assert_eq!(Trace::at(&everything).event_count(), 4 * 500);
    let (mut none, mut all) = (0, 0);
    for (number, filter) in filters.iter().enumerate() {
        let expected = read(&place, "everything", &[&format!("--filter={filter}")]);
        let recorded = read(&place, &number.to_string(), &[]);
        assert!(
            recorded == expected,
            "{filter}: {} events recorded, {} expected",
            recorded.len(),
            expected.len()
        );
        none += usize::from(expected.is_empty());
        all += usize::from(expected.len() == 4 * 500);
    }
    println!("{FILTER_COUNT} filters, {none} let nothing pass, {all} everything");
    assert!(none + all < FILTER_COUNT / 2, "the filters say little");
}

/// The events of a trace, their fields as text: in the order of their names and numbers, since two sessions share no order of time.
fn read(place: &Workplace, trace: &str, options: &[&str]) -> Vec<String> {
    let arguments = [&["view", "--format", "ndjson", trace], options].concat();
    let text = place.piste_succeeds(&arguments);
    let mut events: Vec<String> = text
        .lines()
        .map(|line| {
            let event: Value = line.parse().expect("a line of JSON");
            format!("{} {}", event["name"], event["payload"])
        })
        .collect();
    events.sort_unstable();
    events
}

fn condition(random: &mut Rng, depth: u32) -> String {
    let part = |random: &mut Rng| condition(random, depth.saturating_sub(1));
    match random.u32(0..if depth == 0 { 1 } else { 5 }) {
        1 => format!("({} && {})", part(random), part(random)),
        2 | 3 => format!("({} || {})", part(random), part(random)),
        4 => format!("!({})", part(random)),
        _ => test(random),
    }
}

fn one(random: &mut Rng, choices: &[&str]) -> String {
    choices[random.usize(0..choices.len())].to_owned()
}

fn integer(random: &mut Rng) -> String {
    let fields = [
        "i8", "u16", "i32", "u64", "i64", "fixed[0]", "fixed[3]", "fixed[4]", "bytes[0]", "bytes[1]", "kind", "number",
    ];
    one(random, &fields)
}

fn test(random: &mut Rng) -> String {
    let order = |random: &mut Rng| one(random, &["==", "!=", "<", "<=", ">", ">="]);
    let constants = [
        "0",
        "1",
        "-1",
        "5",
        "127",
        "-128",
        "255",
        "300",
        "65535",
        "0x7fffffff",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
    ];
    let floats = ["f32", "f64", "list[0]", "list[2]"];
    let float_constants = ["0.0", "1.5", "-1.5", "5.0", "1e300"];
    let texts = ["name", "$payload.name", "note", "end"];
    let text_constants = ["''", "'a'", "'ada'", "'tea'", "'a*b'", "'ä'", "'shapes'"];
    let patterns = [
        "'*'",
        "'a*'",
        "'*a*'",
        "'?'",
        "'*tea'",
        "'[ab]*'",
        "'[!a]?*'",
        r"'a\*b'",
        "'*a?a*'",
        "'shapes:*'",
    ];
    let (left, sign) = (integer(random), order(random));
    let operator = |random: &mut Rng| one(random, &["&", "|", "^", "<<", ">>"]);
    match random.u32(0..11) {
        9 => format!(
            "({left} {} {}) {sign} {}",
            operator(random),
            one(random, &["0", "1", "3", "63", "64", "-1", "0x8000000000000000", "i8"]),
            one(random, &constants)
        ),
        10 => format!(
            "(~{left} {} {}) {sign} (i64 {} {})",
            operator(random),
            integer(random),
            operator(random),
            one(random, &["0", "2", "~0", "u64"])
        ),
        0 => format!("{left} {sign} {}", integer(random)),
        1 => format!("{} {sign} {}", one(random, &floats), one(random, &float_constants)),
        2 => format!("{} {sign} {}", one(random, &floats), one(random, &constants)),
        3 => format!("{} {sign} {}", one(random, &texts), one(random, &text_constants)),
        4 => format!(
            "{} {} {}",
            one(random, &texts),
            one(random, &["=~", "!~"]),
            one(random, &patterns)
        ),
        5 => format!(
            "({left} & {}) {sign} {}",
            one(random, &constants),
            one(random, &constants)
        ),
        6 => format!("{left} & {}", one(random, &["1", "4", "0x80", "'COFFEE'"])),
        7 => {
            let kinds = [
                "kind == 'TEA'",
                "kind != 'COFFEE'",
                "kind =~ '*TEA'",
                "kind !~ 'G*'",
                "exists(list[1])",
                "exists(i8)",
            ];
            one(random, &kinds)
        }
        _ => format!("{} {sign} {left}", one(random, &constants)),
    }
}

/// Programs reject most events by the first comparison of an integer, without asking for the rest of the filter.
#[test]
fn comparisons_of_integers_are_exact_at_the_limits_of_every_kind() {
    const ROUND_COUNT: u64 = 150;
    let place = Workplace::new();
    let trace = place.path("trace");
    let mut running = Running::start(place.command(place.program("integers.c")).stdin(Stdio::piped()));
    place.piste_succeeds(&["create", "all", "-o", trace.to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-event", "integers:all"]);
    place.piste_succeeds(&["start"]);
    let mut random = Rng::with_seed(64);
    let mut expected = Vec::new();
    for round in 0..ROUND_COUNT {
        let (filter, which) = comparison(&mut random);
        place.piste_succeeds(&["enable-event", "integers:all", "--filter", &filter]);
        assert_eq!(running.ask(&round.to_string()), "done");
        expected.extend(which.into_iter().map(|which| (round, which, filter.clone())));
    }
    running.finish().expect_success();
    place.piste_succeeds(&["destroy"]);
    let events = Trace::at(&trace).events();
    let recorded: Vec<_> = events
        .iter()
        .map(|event| (event.number("round"), event.number("which")))
        .collect();
    for (event, (round, which, filter)) in recorded.iter().zip(&expected) {
        assert_eq!(event, &(*round, *which), "{filter}");
    }
    assert_eq!(recorded.len(), expected.len());
    assert!((ROUND_COUNT..4 * ROUND_COUNT).contains(&(recorded.len() as u64)));
}

/// A filter of the events of integers.c, and which of them pass.
fn comparison(random: &mut Rng) -> (String, Vec<u64>) {
    let bits = 8 << random.u32(0..4);
    let is_signed = random.bool();
    let (least, greatest) = match is_signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let values = match is_signed {
        true => [least, -1, 0, 1, greatest],
        false => [0, 1, greatest / 2, greatest - 1, greatest],
    };
    let near = values[random.usize(0..values.len())] + random.i128(-1..=1);
    let other = near.clamp(i128::from(i64::MIN), i128::from(u64::MAX));
    let (sign, is_true): (&str, fn(&i128, &i128) -> bool) = [
        ("==", PartialEq::eq as _),
        ("!=", PartialEq::ne as _),
        ("<", PartialOrd::lt as _),
        ("<=", PartialOrd::le as _),
        (">", PartialOrd::gt as _),
        (">=", PartialOrd::ge as _),
    ][random.usize(0..6)];
    let kind = if is_signed { 'i' } else { 'u' };
    let more = ["", " && which >= 0", " && which <= 1", " || which == 2"][random.usize(0..4)];
    let passes = |which: u64| {
        let first = is_true(&values[which as usize], &other);
        match more {
            " && which <= 1" => first && which <= 1,
            " || which == 2" => first || which == 2,
            _ => first,
        }
    };
    let filter = format!("{kind}{bits} {sign} {other}{more}");
    (filter, (0..5).filter(|which| passes(*which)).collect())
}

#[test]
fn a_filter_is_set_changed_and_taken_away_while_a_session_records() {
    let place = Workplace::new();
    let trace = place.path("trace");
    place.piste_succeeds(&["create", "all", "-o", trace.to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-event", "held_up:tick", "--filter", "number < 10"]);
    place.piste_succeeds(&["start"]);
    let program = place.program("held_up.c");
    let mut running = Running::start(place.command(program).stdin(Stdio::piped()));
    // The program counts its events from 0.
    for change in [
        &["enable-event", "held_up:tick", "--filter", "number >= 150"][..],
        &["enable-event", "held_up:tick"],
        &["enable-event", "held_up:*", "--filter", "number == 333"],
        &["disable-event", "held_up:tick"],
        &["disable-event", "held_up:*"],
    ] {
        assert_eq!(running.ask("record 100"), "done");
        let told = place.piste_succeeds(change);
        if let Some(filter) = change.get(3) {
            assert!(told.contains(&format!(", where {filter}")), "{told}");
        }
    }
    assert_eq!(running.ask("record 100"), "done");
    let status = place.piste_json(&["status"]);
    let rules = &status["channels"][0]["rules"];
    assert_eq!(rules[1]["filter"], "number == 333", "{status:#}");
    running.finish().expect_success();
    place.piste_succeeds(&["destroy"]);
    let events = Trace::at(&trace).events();
    let numbers: Vec<u64> = events.iter().map(|event| event.number("number")).collect();
    // The rule without a filter records all of the fourth hundred, the other one nothing of the fifth.
    let expected: Vec<u64> = (0..10).chain(150..400).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn what_a_filter_cannot_mean_is_said() {
    let place = Workplace::new();
    let program = place.program("shapes.c");
    place.piste_succeeds(&["create", "all"]);
    let failed = place.piste(&["enable-event", "shapes:*", "--filter", "i32 = 5"]);
    failed.expect_status(1);
    assert!(failed.stderr.contains("`=` is not a comparison"), "{failed}");
    assert!(failed.stderr.contains("    ^"), "{failed}");
    let failed = place.piste(&[
        "record",
        "--no-kernel",
        "-u",
        "shapes:*",
        "--filter",
        "$time > 5",
        "--",
        "true",
    ]);
    failed.expect_status(125);
    assert!(
        failed.stderr.contains("filter by $time when you read the trace"),
        "{failed}"
    );
    let failed = place.piste(&["record", "--no-kernel", "--filter", "i32 > 5", "--", "true"]);
    failed.expect_status(125);
    assert!(failed.stderr.contains("after the -u PATTERN"), "{failed}");
    // A name that no event has looks like a condition that is never fulfilled.
    let recording = place.record(&["-u", "shapes:*", "--filter", "numbr == 5"], &program, &["1", "100"]);
    assert_eq!(recording.events(), 0);
    let told = "no event that shapes:* matches has the field numbr of the filter `numbr == 5`; did you mean number?";
    assert!(recording.finished.stderr.contains(told), "{}", recording.finished);
    // What a program knows of itself.
    let itself = "$comm == 'shapes' && $tid == vtid && $cpu == cpu_id && $pid != 0 && uid >= 0 && kind != 0";
    let recording = place.record(&["-u", "shapes:*", "--filter", itself], &program, &["1", "100"]);
    assert!((1..100).contains(&recording.events()), "{}", recording.finished);
    // A field that some events have is none of those.
    let recording = place.record(&["-u", "shapes:*", "--filter", "i8 == 5"], &program, &["1", "100"]);
    assert!(
        !recording.finished.stderr.contains("did you mean"),
        "{}",
        recording.finished
    );
}

#[test]
fn fields_that_only_filters_see_are_not_recorded() {
    let place = Workplace::new();
    let program = place.program("nowrite.c");
    let filter =
        "(latency_ns < -90 && share > 46.5 && number != 99) || (customer == 'bob' && item == 'tea' && number > 95)";
    let recording = place.record(&["-u", "nowrite:*", "--filter", filter], &program, &["100"]);
    recording.expect_whole();
    let mut fixed: Vec<u64> = Vec::new();
    let mut texts: Vec<u64> = Vec::new();
    for event in recording.trace().events() {
        let numbers = if event.name == "nowrite:fixed" {
            &mut fixed
        } else {
            &mut texts
        };
        numbers.push(event.number("number"));
        for field in ["latency_ns", "share", "customer"] {
            assert_eq!(event.field(field), None, "{field}");
        }
    }
    assert_eq!((fixed, texts), (vec![94, 95, 96, 97, 98], vec![96, 99]));
    // Without a filter, too.
    let recording = place.record(&["-u", "nowrite:*"], &program, &["100"]);
    assert_eq!(recording.events(), 200);
    assert!(
        recording
            .trace()
            .events()
            .iter()
            .all(|event| event.field("share").is_none())
    );
}

#[test]
fn a_string_that_cannot_be_read_does_not_end_the_program() {
    let place = Workplace::new();
    let program = place.program("unreadable.c");
    let events = |filter: &[&str], name: &str| -> Vec<(u64, String)> {
        let options = [&["-u", "unreadable:*"], filter].concat();
        let recording = place.record(&options, &program, &[]);
        recording.expect_whole();
        assert_eq!(recording.finished.stdout, "still here\n", "{filter:?}");
        let trace = recording.trace();
        let named = trace.events().into_iter().filter(|event| event.name == name);
        let shown = |event: &Event| event.field("text").unwrap_or_default().to_owned();
        named.map(|event| (event.number("number"), shown(&event))).collect()
    };
    let numbers = |events: &[(u64, String)]| events.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    let all = events(&[], "unreadable:text");
    assert_eq!(numbers(&all), Vec::from_iter(0..10));
    let long = format!("{}last", "a".repeat(all[7].1.len() - 4));
    assert!(long.len() > 4096);
    let unreadable = "(unreadable)";
    let expected = [
        "literal", "(null)", unreadable, unreadable, unreadable, unreadable, "last", &long, "heap", unreadable,
    ];
    assert_eq!(Vec::from_iter(all.iter().map(|(_, text)| text.as_str())), expected);
    for (filter, expected) in [
        ("text =~ \"l*\"", &[0, 6][..]),
        ("text =~ \"*last\" || text == \"heap\"", &[6, 7, 8]),
        ("text == \"(unreadable)\" && number < 5", &[2, 3, 4]),
        ("number >= 5", &[5, 6, 7, 8, 9]),
    ] {
        for name in ["unreadable:text", "unreadable:nowrite"] {
            assert_eq!(
                numbers(&events(&["--filter", filter], name)),
                expected,
                "{name}: {filter}"
            );
        }
    }
}

/// Fields that do not fit into the memory that a call has for filters; from threads and signal handlers.
#[test]
fn large_events_are_filtered_in_threads_and_signal_handlers() {
    let place = Workplace::new();
    let program = place.program("large.c");
    let options = ["--block", "forever", "-u", "large:*", "--filter", "number % 1 == 0"];
    let failed = place.piste(&[&["record", "--no-kernel"], &options[..], &["--", "true"]].concat());
    failed.expect_status(125);
    let options = [
        "--block",
        "forever",
        "-u",
        "large:*",
        "--filter",
        "(number & 7) == 3 && end == 'the end'",
    ];
    let recording = place.record(&options, &program, &["4", "2000"]);
    recording.expect_whole();
    let told: u64 = recording
        .finished
        .stdout
        .trim()
        .parse()
        .expect("how many events have such a number");
    assert_eq!(recording.events(), told);
}
