// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps by places in memory, for each field of each event: an address needs no hashing that withstands those who choose it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What is known of places in memory.
pub(crate) type ByPlace<T> = HashMap<usize, T, BuildHasherDefault<PlaceHasher>>;

/// Spreads the bits of an address.
#[derive(Default)]
pub(crate) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("an address is one number");
    }

    fn write_usize(&mut self, place: usize) {
        // The golden ratio; tables look at the highest and the lowest bits.
        let spread = (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}
