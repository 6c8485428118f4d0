// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzzers' entry points, with bytes that are random and with packets that are damaged.

mod writer;

use fastrand::Rng;
use piste_ctf::fuzzing;
use writer::{Writer, contexts, counted};

#[test]
fn random_bytes_are_data() {
    for seed in 0..20_000 {
        let mut random = Rng::with_seed(seed);
        let mut bytes: Vec<u8> = (0..random.usize(..600)).map(|_| random.u8(..)).collect();
        // Small numbers are ids and counts more often.
        for byte in &mut bytes {
            *byte &= [0xff, 0x07, 0x00, 0x1f][random.usize(..4)];
        }
        fuzzing::packet(&bytes);
    }
}

#[test]
fn damaged_packets_are_data() {
    let mut w = Writer::new(&contexts(), 1000);
    for ticks in 1000..1010 {
        w.compact(0, ticks, b"")
            .compact(1, ticks, &[1; 4])
            .compact(1, ticks, &[1; 4])
            .compact(2, ticks, b"ada\0");
        w.compact(3, ticks, &[&counted(b"ada")[..], b"1lovelace\0"].concat());
        w.extended(300, ticks, &[&counted(b"")[..], b"xx"].concat());
        w.compact(4, ticks, &[&b"a\0b\0"[..], &1u32.to_le_bytes(), &[7; 8]].concat());
    }
    let bytes = [&[1, 60][..], &w.packet].concat();
    fuzzing::packet(&bytes);
    for seed in 0..20_000 {
        let mut random = Rng::with_seed(seed);
        let mut damaged = bytes.clone();
        for _ in 0..=random.usize(..4) {
            let at = random.usize(..damaged.len());
            damaged[at] = [random.u8(..), 0, 0xff, 31][random.usize(..4)];
        }
        damaged.truncate(damaged.len() - [0, random.usize(..damaged.len())][random.usize(..2)]);
        fuzzing::packet(&damaged);
    }
}
