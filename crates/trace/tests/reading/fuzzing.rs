// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzzers' entry points, with the traces of the other tests, damaged.

use std::fs;

use piste_ctf::fuzzing::reading::SEPARATOR;
use piste_trace::fuzzing;

use crate::conformance::each;

#[test]
fn damaged_folders_are_data() {
    let place = tempfile::tempdir().expect("a temporary folder");
    each(|name, trace, _| {
        let mut bytes = fs::read(trace.folder.join("metadata")).expect("metadata");
        for entry in fs::read_dir(&trace.folder).expect("it is there") {
            let path = entry.expect("an entry").path();
            if !path.ends_with("metadata") {
                bytes.extend_from_slice(SEPARATOR);
                bytes.extend(fs::read(path).expect("a stream"));
            }
        }
        // One byte after the other is too many: each file is read by two threads.
        let step = 1 + bytes.len() / 7;
        for at in (name.len() % step..bytes.len()).step_by(step) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            fuzzing::folder(place.path(), &damaged);
            fuzzing::folder(place.path(), &bytes[..at]);
        }
    });
}

#[test]
fn random_indices_are_data() {
    for length in 0..200_u8 {
        let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(length) & 0x81).collect();
        fuzzing::index(&bytes);
    }
}
