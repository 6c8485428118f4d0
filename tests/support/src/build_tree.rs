// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the staged build and the sources are. `make build` stages to build/ of the repository; $PISTE_BUILD names another place.

use std::env;
use std::path::{Path, PathBuf};

/// The repository.
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository exists")
}

/// The staged build: bin, lib, include.
///
/// # Panics
/// It is missing, with a sentence that says how to make it.
pub fn build() -> PathBuf {
    let folder = env::var_os("PISTE_BUILD").map_or_else(|| repository().join("build"), PathBuf::from);
    assert!(
        folder.join("include/piste/tracepoint.h").is_file(),
        "{folder:?} has no staged build; run `make build`, or set PISTE_BUILD"
    );
    folder.canonicalize().expect("the build tree exists")
}

/// A staged program: `piste`, `pisted`.
///
/// # Panics
/// It is missing.
pub fn binary(name: &str) -> PathBuf {
    let path = build().join("bin").join(name);
    assert!(path.is_file(), "{path:?} is missing; run `make build`");
    path
}

/// The folder of the test programs.
pub fn programs() -> PathBuf {
    repository().join("tests/programs")
}

/// A program that was built long ago (tests/kept/README.md).
pub fn kept_program(name: &str) -> PathBuf {
    repository().join("tests/kept").join(name)
}
