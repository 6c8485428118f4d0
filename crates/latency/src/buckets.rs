// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buckets for values of any size. Values below 512 have a bucket each; above, each power of two is divided into 256 buckets, so a bucket is
//! at most 1/256 wider than its smallest value. The index is a shift and an addition.

/// Buckets of a power of two, as bits.
const PART_BITS: u32 = 8;

/// How many buckets there are.
pub(crate) const COUNT: usize = ((u64::BITS - PART_BITS + 1) as usize) << PART_BITS;

/// The bucket of a value.
pub(crate) fn index(value: u64) -> usize {
    let bits = u64::BITS - (value | 1 << PART_BITS).leading_zeros();
    let shift = bits - PART_BITS - 1;
    ((shift as usize) << PART_BITS) + (value >> shift) as usize
}

/// The smallest and the largest value of a bucket.
pub(crate) fn bounds(index: usize) -> (u64, u64) {
    let shift = (index >> PART_BITS).saturating_sub(1);
    let low = ((index - (shift << PART_BITS)) as u64) << shift;
    (low, low + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_from_zero_to_the_largest_value() {
        let mut expected = 0;
        for bucket in 0..COUNT {
            let (low, high) = bounds(bucket);
            assert_eq!(low, expected, "{bucket}");
            assert!(high - low <= low / 256, "{bucket}: {low} to {high}");
            assert_eq!((index(low), index(high)), (bucket, bucket));
            expected = high.wrapping_add(1);
        }
        assert_eq!(expected, 0, "the last one ends with u64::MAX");
    }
}
