// SPDX-License-Identifier: MIT OR Apache-2.0
//! One small trace for each feature of CTF 1.8, and for each way to be damaged.
//!
//! `cases/NAME.trace` describes a trace (notation.rs says how), `cases/NAME.text` is what is read from it: events, what is said of losses
//! (`WARNING:`), and what is wrong (`fault:`, `error:`). The events and the losses are also what babeltrace2 prints, byte for byte, where it
//! is installed, unless the trace says `#! not babeltrace2: REASON`.
//!
//! `UPDATE=1 cargo test -p piste-ctf --test conformance` writes the texts anew.

mod nested;
mod notation;
#[path = "../reading/mod.rs"]
mod reading;
mod written;

use std::path::{Path, PathBuf};
use std::{env, fs};

use notation::Trace;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

#[test]
fn traces_are_read_as_described() {
    let mut differ = Vec::new();
    for (name, trace) in traces() {
        let (place, _temporary) = build(&trace);
        let read = hide(&reading::read(&place), &place);
        let path = folder().join("cases").join(format!("{name}.text"));
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, &read).expect("the text is written");
        }
        let expected =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}; UPDATE=1 writes it"));
        if read != expected {
            differ.push(format!("{name}: expected\n{expected}read\n{read}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn babeltrace2_prints_the_same() {
    if !reading::has_babeltrace2() {
        eprintln!("skipped: no babeltrace2 here (Debian: babeltrace2)");
        return;
    }
    let mut differ = Vec::new();
    for (name, trace) in traces() {
        if trace.not_babeltrace2 {
            continue;
        }
        let (place, _temporary) = build(&trace);
        let (ours, theirs) = (reading::read(&place), reading::babeltrace2(&place));
        if ours != theirs {
            let (ours, theirs) = (hide(&ours, &place), hide(&theirs, &place));
            let only = |these: &str, those: &str| -> String {
                let lines = these.lines().filter(|line| !those.lines().any(|other| other == *line));
                lines.map(|line| format!("  {line}\n")).collect()
            };
            let (more, less) = (only(&theirs, &ours), only(&ours, &theirs));
            differ.push(format!(
                "{name}: only babeltrace2 says\n{more}and only this reader\n{less}"
            ));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// All of them, or those whose names contain `$CASE`.
fn traces() -> Vec<(String, Trace)> {
    let wanted = env::var("CASE").unwrap_or_default();
    let entries = fs::read_dir(folder().join("cases")).expect("there are cases");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut traces: Vec<(String, Trace)> = paths
        .filter(|path| is_description(path))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a description");
            let trace = Trace::parse(&text, &folder()).unwrap_or_else(|what| panic!("{name}: {what}"));
            (name, trace)
        })
        .filter(|(name, _)| name.contains(&wanted))
        .collect();
    assert!(!traces.is_empty(), "no case has {wanted:?} in its name ($CASE)");
    assert!(!wanted.is_empty() || traces.len() > 200, "only {} cases", traces.len());
    traces.sort_by(|(left, _), (right, _)| left.cmp(right));
    traces
}

/// The other files there are the texts of descriptions.
fn is_description(path: &Path) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("trace") => true,
        Some("text") if path.with_extension("trace").is_file() => false,
        _ => panic!("{path:?} is no NAME.trace, nor the NAME.text of one"),
    }
}

/// Writes a trace into a folder of the name `trace`.
fn build(trace: &Trace) -> (PathBuf, tempfile::TempDir) {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let place = temporary.path().join("trace");
    fs::create_dir(&place).expect("a folder is made");
    fs::write(place.join("metadata"), &trace.metadata).expect("metadata is written");
    for (name, bytes) in &trace.streams {
        fs::write(place.join(name), bytes).expect("a stream is written");
    }
    (place, temporary)
}

/// Where the folder was is of no interest.
fn hide(text: &str, place: &Path) -> String {
    text.replace(&*place.to_string_lossy(), "/trace")
}
