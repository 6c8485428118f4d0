// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every format of the running kernel. Needs tracefs, hence mostly root.

mod real;

use std::fs;

use fastrand::Rng;
use piste_kernel::format::{EventFormat, FieldFormat, FieldKind};

/// The text of every format of the running kernel, with its group; `None`, and says why, where tracefs cannot be read.
fn texts() -> Option<Vec<(String, String)>> {
    let tracefs = real::tracefs()?;
    let mut texts = Vec::new();
    for group in fs::read_dir(tracefs.path("events"))
        .expect("a folder of events")
        .flatten()
    {
        let system = group.file_name().into_string().expect("a name");
        for event in fs::read_dir(group.path()).into_iter().flatten().flatten() {
            // Events of others' probes come and go.
            if let Ok(text) = fs::read_to_string(event.path().join("format")) {
                texts.push((system.clone(), text));
            }
        }
    }
    Some(texts)
}

fn formats(texts: &[(String, String)]) -> Vec<EventFormat> {
    let parsed = texts.iter().map(|(system, text)| {
        EventFormat::parse(system, text).unwrap_or_else(|error| panic!("{system}: {error}\n{text}"))
    });
    parsed.collect()
}

#[test]
fn every_format_is_understood_and_no_type_is_unknown() {
    let Some(texts) = texts() else { return };
    let formats = formats(&texts);
    assert!(formats.len() > 500, "{} formats", formats.len());
    let mut unknown = Vec::new();
    for format in &formats {
        assert_eq!(format.common.len(), 4, "{}", format.name);
        for field in format.fields.iter().chain(&format.common) {
            check(format, field);
        }
        for field in format.unknown_fields() {
            unknown.push(format!(
                "{}:{} {} {}",
                format.system, format.name, field.type_text, field.name
            ));
        }
    }
    // Others' kernels may have such; that they are kept as bytes is tested with made-up formats.
    assert_eq!(unknown, <[String; 0]>::default(), "fields of unknown types");
}

/// A field's bytes are those of its kind.
fn check(format: &EventFormat, field: &FieldFormat) {
    let bytes = match &field.kind {
        FieldKind::Integer { element, .. } => element.bytes(),
        FieldKind::Array { element, count, .. } => element.bytes() * count,
        FieldKind::Dynamic { .. } => 4,
        FieldKind::Tail { .. } => 0,
        FieldKind::Text | FieldKind::Bytes => field.bytes,
    };
    assert_eq!(bytes, field.bytes, "{}:{} {field:?}", format.system, format.name);
    assert!(!field.name.is_empty() && !field.type_text.is_empty(), "{field:?}");
}

#[test]
fn names_and_bases_come_from_the_print_formats() {
    let Some(texts) = texts() else { return };
    let formats = formats(&texts);
    let named = |is_flags: bool| {
        let fields = formats.iter().flat_map(|format| &format.fields);
        let names = fields.filter_map(|field| field.names.as_ref());
        names.filter(|names| names.is_flags == is_flags).count()
    };
    assert!(named(false) > 50, "{} fields are named", named(false));
    assert!(named(true) > 50, "{} fields are flags", named(true));
    let softirq = formats
        .iter()
        .find(|format| format.name == "softirq_entry")
        .expect("every kernel has it");
    let names = softirq
        .field("vec")
        .and_then(|vec| vec.names.as_ref())
        .expect("its numbers have names");
    assert_eq!((names.labels[1].value, names.labels[1].name.as_str()), (1, "TIMER"));
}

#[test]
fn no_damage_to_a_format_is_fatal() {
    let Some(texts) = texts() else { return };
    let mut random = Rng::with_seed(1);
    let mut understood = 0;
    for round in 0..3000 {
        let (system, text) = &texts[random.usize(..texts.len())];
        let mut bytes = text.clone().into_bytes();
        for _ in 0..1 + random.usize(..8) {
            let at = random.usize(..bytes.len());
            match random.usize(..5) {
                0 => bytes[at] = b"()[]{}\"\\;:,*%\n\t 0-_"[random.usize(..19)],
                1 => bytes[at] = random.u8(..),
                2 => bytes.truncate(at.max(1)),
                3 => drop(bytes.drain(at..bytes.len().min(at + random.usize(..40)))),
                _ => {
                    let part: Vec<u8> = bytes[at..bytes.len().min(at + random.usize(..60))].to_vec();
                    let to = random.usize(..bytes.len());
                    bytes.splice(to..to, part);
                }
            }
            bytes.push(b'\n');
        }
        let damaged = String::from_utf8_lossy(&bytes);
        understood += u32::from(EventFormat::parse(system, &damaged).is_ok());
        assert!(round < 100 || understood > 0, "most damage leaves a format");
    }
}
