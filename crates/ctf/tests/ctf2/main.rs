// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conformance with CTF 2, one small trace for each feature, valid and damaged: cases/NAME.txt, in the notation of case.rs. Where CTF 1.8 can
//! say the same, the case says it in both languages, and both decode to the same values.

mod case;
mod show;
mod written;

use case::Case;
use piste_ctf::read::metadata;
use piste_ctf::read::plan::Plan;
use piste_ctf::write;

/// All cases, by name.
fn cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ctf2/cases");
    let mut cases: Vec<Case> = std::fs::read_dir(folder)
        .expect("the cases are there")
        .map(|entry| Case::read(&entry.expect("an entry").path()))
        .collect();
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(cases.len() > 50, "only {} cases", cases.len());
    cases
}

/// What a reader makes of the case: its events, or why there are none.
fn seen(metadata: &[u8], stream: &[u8]) -> String {
    let schema = match metadata::parse(metadata) {
        Ok(schema) => schema,
        Err(error) => return format!("refused: {error}\n"),
    };
    match Plan::new(schema) {
        Ok(plan) => show::stream(&plan, stream),
        Err(error) => format!("no plan: {error}\n"),
    }
}

#[test]
fn every_case_is_read_as_expected() {
    let mut wrong = String::new();
    for case in cases() {
        let mut check = |language: &str, found: &str| {
            if found != case.expected {
                wrong += &format!(
                    "== {} in {language}\n-- expected\n{}-- found\n{found}",
                    case.name, case.expected
                );
            }
        };
        check("CTF 2", &seen(&case.ctf2, &case.stream));
        if let Some(ctf1) = &case.ctf1 {
            check("CTF 1.8", &seen(ctf1, &case.stream));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whatever is cut off or changed, reading ends, and without a panic; so does writing what was read.
#[test]
fn damage_anywhere_is_no_panic() {
    for case in cases() {
        for cut in 0..case.ctf2.len() {
            let _ = metadata::parse(&case.ctf2[..cut]);
        }
        for place in (0..case.ctf2.len()).step_by(5) {
            let mut changed = case.ctf2.clone();
            changed[place] ^= 1 << (place % 8);
            let Ok(schema) = metadata::parse(&changed) else {
                continue;
            };
            let (_, _) = (write::tsdl(&schema), write::json(&schema));
            seen(&changed, &case.stream);
        }
        let Ok(plan) = metadata::parse(&case.ctf2).map(Plan::new) else {
            continue;
        };
        let Ok(plan) = plan else { continue };
        for cut in 0..case.stream.len() {
            show::stream(&plan, &case.stream[..cut]);
            let mut changed = case.stream.clone();
            changed[cut] ^= 0xff;
            show::stream(&plan, &changed);
        }
    }
}

fn with_aliases(aliases: &[String]) -> Vec<u8> {
    let last = aliases.len() - 1;
    let mut fragments = vec![r#"{"type": "preamble", "version": 2}"#.to_owned()];
    fragments.extend(aliases.iter().enumerate().map(|(number, class)| {
        format!(r#"{{"type": "field-class-alias", "name": "{number}", "field-class": {class}}}"#)
    }));
    fragments.push(r#"{"type": "data-stream-class"}"#.into());
    fragments.push(format!(
        r#"{{"type": "event-record-class", "payload-field-class": "{last}"}}"#
    ));
    fragments
        .iter()
        .flat_map(|fragment| format!("\u{1e}{fragment}\n").into_bytes())
        .collect()
}

#[test]
fn aliases_that_contain_one_another_many_times_are_no_plan() {
    let mut aliases = vec![r#"{"type": "structure"}"#.to_owned()];
    for before in 0..60 {
        aliases.push(format!(
            r#"{{"type": "structure", "member-classes": [{{"name": "a", "field-class": "{before}"}}, {{"name": "b", "field-class": "{before}"}}]}}"#
        ));
    }
    let expected = "no plan: all scopes: they have 2305843009213693951 types, including nested types; at most 4000000 are supported\n";
    assert_eq!(seen(&with_aliases(&aliases), &[]), expected);
}

#[test]
fn aliases_within_one_another_end() {
    let mut aliases = vec![r#"{"type": "null-terminated-string"}"#.to_owned()];
    for before in 0..100 {
        aliases.push(format!(
            r#"{{"type": "static-length-array", "length": 1, "element-field-class": "{before}"}}"#
        ));
    }
    let expected =
        "refused: fragment 102, field-class: field classes are nested more than 100 deep, including aliases\n";
    assert_eq!(seen(&with_aliases(&aliases), &[]), expected);
}

#[test]
fn arrays_without_end_end() {
    let element = r#"{"type": "structure"}"#;
    let array =
        |of: &str| format!(r#"{{"type": "static-length-array", "length": 4294967296, "element-field-class": {of}}}"#);
    let aliases = [format!(
        r#"{{"type": "structure", "member-classes": [{{"name": "n", "field-class": {{"type": "variable-length-unsigned-integer"}}}}, {{"name": "a", "field-class": {}}}]}}"#,
        array(&array(element))
    )];
    let found = seen(&with_aliases(&aliases), &[1]);
    assert!(found.starts_with("event") || found.starts_with("fault"), "{found}");
}
