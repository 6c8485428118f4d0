// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choices as if by chance.

use fastrand::Rng;

pub fn one_of<T: Copy>(these: &[T], random: &mut Rng) -> T {
    these[random.usize(..these.len())]
}
