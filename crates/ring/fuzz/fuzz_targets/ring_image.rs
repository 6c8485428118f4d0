// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo +nightly fuzz run ring_image` in `crates/ring`. What it does is `piste_ring::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| piste_ring::fuzzing::ring_image(bytes));
