// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command says where no pisted is needed: help, and what it refuses before it asks one. The texts are in
//! `tests/commands/`; `TRYCMD=overwrite cargo test -p piste --test commands` writes them anew.

/// trycmd finds files by a pattern, and is content with none.
#[test]
fn the_texts_are_there() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands");
    let entries = std::fs::read_dir(folder).expect("a folder of texts");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.ends_with(".trycmd"))
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["help.trycmd", "reading.trycmd", "refused.trycmd", "usage.trycmd"]
    );
}

#[test]
fn help_and_refusals_read_as_written_down() {
    trycmd::TestCases::new()
        .env("PISTE_RUNDIR", "run")
        .case("tests/commands/*.trycmd");
}
