// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tools/fuzz ctf metadata`. What it does is `piste_ctf::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| piste_ctf::fuzzing::reading::metadata(bytes));
