// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written in either language is read as the same schema, and the streams of all cases as the same values.

use std::fs;
use std::process::Command;

use piste_ctf::read::metadata;
use piste_ctf::read::schema::Schema;
use piste_ctf::write;

use crate::case::Case;
use crate::{cases, seen};

/// Metadata of all cases that can be read, in both languages.
fn schemas() -> Vec<(Case, Vec<Schema>)> {
    let parsed = cases().into_iter().map(|case| {
        let both = [Some(&case.ctf2), case.ctf1.as_ref()].into_iter().flatten();
        let schemas = both.filter_map(|metadata| metadata::parse(metadata).ok()).collect();
        (case, schemas)
    });
    parsed.collect()
}

fn parse(text: &str) -> Schema {
    metadata::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn the_same_language_gives_the_same_schema() {
    for (case, schemas) in schemas() {
        for schema in schemas {
            let written = match schema.version {
                piste_ctf::read::schema::Version::Ctf1 => write::tsdl(&schema),
                piste_ctf::read::schema::Version::Ctf2 => write::json(&schema),
            };
            // What has no plan is not written either.
            let Ok(text) = written else { continue };
            assert_eq!(parse(&text), schema, "{}:\n{text}", case.name);
        }
    }
}

#[test]
fn the_other_language_gives_the_same_values() {
    let (mut refused, mut wrong) = (String::new(), String::new());
    for (case, schemas) in schemas() {
        if !case.expected.starts_with("no plan") {
            for schema in schemas {
                let json = write::json(&schema).expect("CTF 2 has everything");
                assert_eq!(
                    seen(json.as_bytes(), &case.stream),
                    case.expected,
                    "{}:\n{json}",
                    case.name
                );
                match write::tsdl(&schema) {
                    Err(error) => refused += &format!("{}: {error}\n", case.name),
                    Ok(text) => {
                        let found = seen(text.as_bytes(), &case.stream);
                        let expected = case.written_in_ctf1.as_ref().unwrap_or(&case.expected);
                        if found != *expected {
                            wrong += &format!("== {}\n-- expected\n{expected}-- found\n{found}", case.name);
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let expected = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ctf2/refused-in-ctf1.txt"));
    assert_eq!(refused, expected.expect("the text is there"));
}

/// There and back: whatever CTF 1.8 says is said again.
#[test]
fn there_and_back_is_the_same() {
    for (case, schemas) in schemas() {
        for schema in schemas {
            let Ok(json) = write::json(&schema) else { continue };
            let Ok(tsdl) = write::tsdl(&parse(&json)) else { continue };
            let again = write::json(&parse(&tsdl)).expect("it was CTF 1.8");
            assert_eq!(
                seen(again.as_bytes(), &case.stream),
                seen(tsdl.as_bytes(), &case.stream),
                "{}",
                case.name
            );
            let tsdl_again = write::tsdl(&parse(&again)).expect("it was CTF 1.8");
            assert_eq!(parse(&tsdl_again), parse(&tsdl), "{}", case.name);
        }
    }
}

/// What babeltrace2 prints of the TSDL that is written. Needs babeltrace2 (Debian: apt install babeltrace2).
#[test]
fn babeltrace2_reads_what_is_written_for_ctf_1() {
    for (case, schemas) in schemas() {
        for schema in schemas {
            let is_damaged = ["fault", "refused", "no p"]
                .iter()
                .any(|word| case.expected.contains(word));
            // Of floats it knows those of 32 and 64 bits.
            if is_damaged || case.name == "floats" {
                continue;
            }
            let Ok(text) = write::tsdl(&schema) else { continue };
            let folder = tempfile::tempdir().expect("a temporary folder");
            fs::write(folder.path().join("metadata"), &text).expect("metadata is written");
            fs::write(folder.path().join("stream"), &case.stream).expect("the stream is written");
            let output = Command::new("babeltrace2").arg(folder.path()).output();
            let output = output.expect("babeltrace2 is needed (Debian: apt install babeltrace2)");
            let complaints = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {complaints}\n{text}", case.name);
            let events = case
                .expected
                .lines()
                .filter(|line| !line.starts_with("packet:"))
                .count();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert_eq!(
                printed.lines().count(),
                events,
                "{}: {printed}{complaints}\n{text}",
                case.name
            );
        }
    }
}
