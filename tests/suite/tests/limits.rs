// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and values at their limits and past them: recorded whole, or discarded and counted.

use std::fs;

use piste_support::Workplace;

/// The longest name: 127 characters.
fn long_name() -> String {
    "n23456789_".repeat(12) + "n234567"
}

#[test]
fn names_of_127_characters_are_kept_whole() {
    let place = Workplace::new();
    let recording = place.record(&["-u", "n2*"], place.program("limits.c"), &["names"]);
    recording.expect_whole();
    let name = long_name();
    assert_eq!(name.len(), 127);
    let events = recording.trace().events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].name, format!("{name}:{name}"));
    assert_eq!(
        events[0].fields,
        format!(r#"{{ {name} = 42, state = ( "{name}" : container = 1 ) }}"#)
    );
}

#[test]
fn strings_larger_than_a_sub_buffer_are_discarded_and_counted() {
    const SUBBUF_BYTES: usize = 65536;
    // Packet header; the event's largest header, contexts and number.
    let largest_text = SUBBUF_BYTES - 96 - (13 + 6 + 4);
    let place = Workplace::new();
    let options = ["-u", "limits:*", "--subbuf-size", "64K"];
    let recording = place.record(
        &options,
        place.program("limits.c"),
        &["strings", &largest_text.to_string()],
    );
    recording.finished.expect_success();
    assert_eq!(recording.finished.stdout, "6\n");
    assert_eq!(recording.losses("discarded_too_large"), 2, "{}", recording.summary());
    assert_eq!((recording.events(), recording.discarded()), (4, 2));
    let (events, discarded) = recording.trace().events_and_loss();
    assert_eq!(discarded, 2);
    let texts: Vec<(u64, usize)> = events
        .iter()
        .map(|event| (event.number("number"), event.fields.matches('x').count() - 1))
        .collect();
    // One x is that of the field's name. The text of NULL is "(null)".
    assert_eq!(texts, [(1, largest_text - 1), (3, 0), (4, 99), (5, 0)]);
    assert!(
        events[3].fields.ends_with(r#"text = "(null)" }"#),
        "{}",
        events[3].fields
    );
}

#[test]
fn sequences_larger_than_a_sub_buffer_are_discarded_and_counted() {
    let place = Workplace::new();
    let recording = place.record(&["-u", "limits:*"], place.program("limits.c"), &["sequences"]);
    recording.finished.expect_success();
    assert_eq!(recording.losses("discarded_too_large"), 2, "{}", recording.summary());
    let (events, discarded) = recording.trace().events_and_loss();
    assert_eq!(discarded, 2);
    let numbers: Vec<u64> = events.iter().map(|event| event.number("number")).collect();
    assert_eq!(numbers, [0, 3, 4]);
    let lengths: Vec<u64> = events.iter().map(|event| event.number("_numbers_length")).collect();
    assert_eq!(lengths, [4, 0, 2]);
}

#[test]
fn formatted_texts_larger_than_a_sub_buffer_are_discarded_and_counted() {
    let place = Workplace::new();
    let recording = place.record(&["-u", "piste:*"], place.program("limits.c"), &["prints"]);
    recording.finished.expect_success();
    assert_eq!(recording.losses("discarded_too_large"), 1, "{}", recording.summary());
    let (events, discarded) = recording.trace().events_and_loss();
    assert_eq!(discarded, 1);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].fields, r#"{ text = "short" }"#);
}

#[test]
fn an_8_mib_string_is_recorded_whole_where_the_sub_buffers_are_large_enough() {
    const TEXT_BYTES: usize = (8 << 20) - 1;
    let place = Workplace::new();
    let options = ["-u", "limits:*", "--subbuf-size", "16M", "--num-subbuf", "2"];
    let recording = place.record(&options, place.program("limits.c"), &["strings", "1000"]);
    recording.expect_whole();
    assert_eq!(recording.events(), 6);
    // babeltrace2 takes minutes for a string of this size, so the bytes are looked at: the text with its zero behind.
    let trace = recording.trace();
    let found = trace.streams().iter().any(|stream| {
        let bytes = fs::read(trace.path().join("user").join(stream)).expect("the stream can be read");
        bytes
            .split(|&byte| byte == 0)
            .any(|text| text.len() == TEXT_BYTES && text.iter().all(|&byte| byte == b'x'))
    });
    assert!(found, "{}", recording.summary());
}
