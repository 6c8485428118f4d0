// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of field, in C and in C++, as babeltrace2 shows it. The values are those of programs/every_field.h.

use std::path::Path;

use piste_support::Workplace;

#[test]
fn every_field_of_a_c_program_is_read_right() {
    check("every_field.c");
}

#[test]
fn every_field_of_a_cpp_program_is_read_right() {
    check("every_field.cc");
}

#[test]
fn the_contexts_are_the_thread_and_its_cpu() {
    let place = Workplace::new();
    let program = place.program("count.c");
    let recording = place.record(&["-u", "count:*"], program, &["3", "10"]);
    recording.expect_whole();
    let events = recording.trace().events();
    assert_eq!(events.len(), 30);
    let mut threads: Vec<(u64, &str)> = events
        .iter()
        .map(|event| (event.number("thread"), event.context("vtid")))
        .collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 3, "one id for each thread: {threads:?}");
    for event in &events {
        assert_ne!(
            event.context("vtid"),
            event.context("vpid"),
            "a second thread has an id of its own"
        );
        let cpu = Path::new("/sys/devices/system/cpu").join(format!("cpu{}", event.context("cpu_id")));
        assert!(cpu.exists(), "{event:?}");
    }
}

#[test]
fn contexts_can_be_left_out() {
    let place = Workplace::new();
    let program = place.program("count.c");
    let recording = place.record(&["-u", "count:*", "--no-default-contexts"], program, &["1", "10"]);
    recording.expect_whole();
    for event in recording.trace().events() {
        let names: Vec<&str> = event.contexts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["ring_index", "vpid", "pid", "uid"],
            "what the packet says stays"
        );
    }
}

fn check(source: &str) {
    let place = Workplace::new();
    let program = place.program(source);
    let options = ["-u", "field:*,level:*,piste:*", "--no-default-contexts"];
    let recording = place.record(&options, program, &[]);
    recording.expect_whole();
    let events = recording.trace().events();
    let seen: Vec<String> = events
        .iter()
        .map(|event| format!("{} {}", event.name, event.fields))
        .collect();
    for (line, (seen, expected)) in seen.iter().zip(expected()).enumerate() {
        assert_eq!(*seen, expected, "event {line}");
    }
    assert_eq!(seen.len(), expected().len());
    for event in &events {
        assert_eq!(event.level, level_of(&event.name), "level of {}", event.name);
    }
    assert_eq!(recording.events(), seen.len() as u64);
}

fn expected() -> Vec<String> {
    let mut lines: Vec<String> = EXPECTED
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    let numbered = |range: std::ops::RangeInclusive<u32>| -> String {
        range
            .map(|number| format!("a{number} = {number}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    lines.push(format!("field:thirty_two {{ {} }}", numbered(1..=32)));
    lines.push(format!(
        r#"field:forty {{ a1 = "first", {}, a40 = "last" }}"#,
        numbered(2..=39)
    ));
    for (name, _) in LEVELS {
        lines.push(match name {
            "debug_process" => "level:debug_process { id = 1 }".into(),
            "debug_module" => r#"level:debug_module { id = 2, name = "two" }"#.into(),
            other => format!("level:{other} {{ }}"),
        });
    }
    lines.push(r#"piste:printf { text = "plain" }"#.into());
    lines.push(r#"piste:printf { text = "-1 two 3.00" }"#.into());
    lines.push(format!(r#"piste:printf {{ text = "{}|" }}"#, "x".repeat(511)));
    lines.push(format!(r#"piste:printf {{ text = "{}|" }}"#, "x".repeat(2000)));
    lines.push(r#"piste:log_EMERG { text = "level 0" }"#.into());
    lines.push(r#"piste:log_INFO { text = "level 6" }"#.into());
    lines.push(r#"piste:log_DEBUG { text = "level 14" }"#.into());
    lines
}

const EXPECTED: &str = r#"
field:nothing { }
field:fixed_signed { i8 = -128, i16 = -32768, i32 = -2147483648, i64 = -9223372036854775808 }
field:fixed_signed { i8 = 127, i16 = 32767, i32 = 2147483647, i64 = 9223372036854775807 }
field:fixed_signed { i8 = -1, i16 = -1, i32 = -1, i64 = -1 }
field:fixed_unsigned { u8 = 0, u16 = 0, u32 = 0, u64 = 0 }
field:fixed_unsigned { u8 = 255, u16 = 65535, u32 = 4294967295, u64 = 18446744073709551615 }
field:plain_signed { c = -128, s = -32768, i = -2147483648, l = -9223372036854775808, ll = -9223372036854775808 }
field:plain_signed { c = 127, s = 32767, i = 2147483647, l = 9223372036854775807, ll = 9223372036854775807 }
field:plain_unsigned { c = 255, s = 65535, i = 4294967295, l = 18446744073709551615, ll = 18446744073709551615 }
field:other_integers { yes = 1, no = 0, letter = 65, size = 18446744073709551615, port = 65535, colour = 4 }
field:hexadecimal { u8 = 0xAB, i16 = 0xFFFE, u64 = 0xFFFFFFFFFFFFFFFF }
field:labels { state = ( "OPEN" : container = 0 ) }
field:labels { state = ( "CLOSED" : container = 7 ) }
field:labels { state = ( "LOWEST" : container = -2147483648 ) }
field:labels { state = ( "HIGHEST" : container = 2147483647 ) }
field:labels { state = ( <unknown> : container = -3 ) }
field:floats { f = 1.5, d = -0.1 }
field:floats { f = 3.40282e+38, d = 1.79769e+308 }
field:floats { f = 0, d = 4.94066e-324 }
field:pointers { p = 0x7FFF12345678, i = 0x1000, unknown = 0x0 }
field:strings { s = "plain", t = "text that may change" }
field:strings { s = "", t = "(null)" }
field:strings { s = "Björk € 🎵", t = "that may change" }
field:strings { s = "quote \" backslash \\ newline \n tab \t", t = "text that may change" }
field:texts { _text_length = 5, text = "plain" }
field:texts { _text_length = 3, text = "cut" }
field:texts { _text_length = 9, text = "two\nlines" }
field:texts { _text_length = 11, text = "zero" }
field:empty_texts { _text_length = 0, text = "" }
field:empty_texts { _text_length = 0, text = "" }
field:arrays { bytes = [ [0] = 0, [1] = 1, [2] = 254, [3] = 255 ], wide = [ [0] = -9223372036854775808, [1] = 9223372036854775807 ], real = [ [0] = 0.5, [1] = -2.25 ], letters = [ [0] = 104, [1] = 105 ] }
field:sequences { _numbers_length = 3, numbers = [ [0] = 1, [1] = 2, [2] = 4294967295 ], _reals_length = 1, reals = [ [0] = 3.5 ] }
field:sequences { _numbers_length = 0, numbers = [ ], _reals_length = 0, reals = [ ] }
field:mixed { before = "before", middle = -7, _text_length = 5, text = "te", after = "after", _numbers_length = 2, numbers = [ [0] = 10, [1] = 20 ], last = 255 }
"#;

/// The names of our levels' events, and of the levels in babeltrace2.
const LEVELS: [(&str, &str); 15] = [
    ("emerg", "EMERG (0)"),
    ("alert", "ALERT (1)"),
    ("crit", "CRIT (2)"),
    ("err", "ERR (3)"),
    ("warning", "WARNING (4)"),
    ("notice", "NOTICE (5)"),
    ("info", "INFO (6)"),
    ("debug_system", "DEBUG_SYSTEM (7)"),
    ("debug_program", "DEBUG_PROGRAM (8)"),
    ("debug_process", "DEBUG_PROCESS (9)"),
    ("debug_module", "DEBUG_MODULE (10)"),
    ("debug_unit", "DEBUG_UNIT (11)"),
    ("debug_function", "DEBUG_FUNCTION (12)"),
    ("debug_line", "DEBUG_LINE (13)"),
    ("debug", "DEBUG (14)"),
];

fn level_of(event: &str) -> &'static str {
    let (provider, name) = event.split_once(':').expect("a name with a provider");
    let level = match provider {
        "level" => name.to_owned(),
        "piste" => name.strip_prefix("log_").unwrap_or("debug_line").to_lowercase(),
        _ => "debug_line".to_owned(),
    };
    let found = LEVELS.iter().find(|(known, _)| *known == level);
    found.unwrap_or_else(|| panic!("no level {level}")).1
}
