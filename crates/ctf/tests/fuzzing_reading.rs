// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzzers' entry points for the reader, with the traces of the other tests, whole and damaged.
//!
//! `SEEDS=FOLDER cargo test -p piste-ctf --test fuzzing_reading` writes the traces into a folder, for a fuzzer to begin with.

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "ctf2/case.rs"]
mod case;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "conformance/notation.rs"]
mod notation;
mod writer;

use std::path::{Path, PathBuf};
use std::{env, fs};

use fastrand::Rng;
use piste_ctf::fuzzing::reading::{self, SEPARATOR};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Names, and traces in the form that the fuzzers take.
fn traces() -> Vec<(String, Vec<u8>)> {
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut traces = Vec::new();
    for path in files("conformance/cases") {
        if path.extension().is_some_and(|extension| extension == "trace") {
            let text = fs::read_to_string(&path).expect("a description");
            let folder = path.parent().and_then(Path::parent).expect("it is in one");
            let trace = notation::Trace::parse(&text, folder).unwrap_or_else(|what| panic!("{path:?}: {what}"));
            let mut bytes = trace.metadata;
            for (_, stream) in trace.streams {
                bytes.extend_from_slice(SEPARATOR);
                bytes.extend(stream);
            }
            traces.push((format!("ctf1-{}", name(&path)), bytes));
        }
    }
    for path in files("ctf2/cases") {
        let case = case::Case::read(&path);
        traces.push((
            format!("ctf2-{}", name(&path)),
            [&case.ctf2, SEPARATOR, &case.stream].concat(),
        ));
    }
    for language in ["ctf1-", "ctf2-"] {
        let count = traces.iter().filter(|(name, _)| name.starts_with(language)).count();
        assert!(count > 50, "only {count} traces {language}*");
    }
    traces
}

#[test]
fn traces_are_read_alike_in_every_way() {
    let seeds = env::var_os("SEEDS").map(PathBuf::from);
    for (name, trace) in traces() {
        reading::trace(&trace);
        reading::metadata(reading::split(&trace).next().unwrap_or_default());
        if let Some(seeds) = &seeds {
            fs::write(seeds.join(name), trace).expect("a seed is written");
        }
    }
}

#[test]
fn damaged_traces_are_read_alike_in_every_way() {
    let mut random = Rng::with_seed(1);
    for (_, trace) in traces() {
        for _ in 0..40 {
            let mut damaged = trace.clone();
            for _ in 0..=random.usize(..3) {
                let at = random.usize(..damaged.len());
                damaged[at] = [random.u8(..), 0, 0xff, b'1', damaged[at] ^ 1][random.usize(..5)];
            }
            damaged.truncate(damaged.len() - [0, random.usize(..damaged.len())][random.usize(..2)]);
            reading::trace(&damaged);
            reading::metadata(reading::split(&damaged).next().unwrap_or_default());
        }
    }
}
