// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata of few lines that describes very much.

use std::fmt::Write;

use piste_ctf::read::metadata;

/// Types of which each contains the one before, `members` being its body.
fn chain(length: u32, members: &str) -> Vec<u8> {
    let mut text = String::from("/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n");
    text += "typealias integer { size = 8; } := t0;\n";
    for number in 0..length {
        let members = members.replace('T', &format!("t{number}"));
        writeln!(text, "typealias struct {{ {members} }} := t{};", number + 1).expect("a String takes all text");
    }
    write!(text, "event {{ name = e; fields := struct {{ t{length} a; }}; }};").expect("a String takes all text");
    text.into_bytes()
}

#[test]
fn types_within_types_end() {
    let error = metadata::parse(&chain(100_000, "T a;")).expect_err("a stack has an end");
    let expected = "line 202, column 11: types are nested more than 200 deep, including the types that names stand for";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn types_that_contain_another_twice_end() {
    let error = metadata::parse(&chain(60, "T a; T b;")).expect_err("nobody could walk over them");
    let expected =
        "line 18, column 11: this type contains more than 100000 types, including the types that names stand for";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_scope_of_large_types_ends() {
    let mut text = String::from_utf8(chain(15, "T a; T b;")).expect("it is text");
    let members: String = (0..10_000).map(|number| format!("t15 m{number}; ")).collect();
    write!(text, "stream {{ packet.context := struct {{ {members} }}; }};").expect("a String takes all text");
    let error = metadata::parse(text.as_bytes()).expect_err("nobody could walk over them");
    assert!(error.to_string().contains("more than 100000 types"), "{error}");
}
