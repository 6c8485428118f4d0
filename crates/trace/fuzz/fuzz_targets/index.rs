// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tools/fuzz trace index`. What it does is `piste_trace::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| piste_trace::fuzzing::index(bytes));
