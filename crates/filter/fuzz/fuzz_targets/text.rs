// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tools/fuzz filter text`. What it does is `piste_filter::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| piste_filter::fuzzing::text(bytes));
