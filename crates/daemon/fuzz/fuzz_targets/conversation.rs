// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo +nightly fuzz run conversation` in `crates/daemon`. What it does is `piste_daemon::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| piste_daemon::fuzzing::conversation(bytes));
