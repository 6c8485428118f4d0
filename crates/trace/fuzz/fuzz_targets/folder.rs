// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tools/fuzz trace folder`. What it does is `piste_trace::fuzzing`.

#![no_main]

use std::sync::OnceLock;

use tempfile::TempDir;

/// In memory where there is such a folder.
fn place() -> &'static TempDir {
    static PLACE: OnceLock<TempDir> = OnceLock::new();
    PLACE.get_or_init(|| {
        tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .expect("a temporary folder")
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| piste_trace::fuzzing::folder(place().path(), bytes));
