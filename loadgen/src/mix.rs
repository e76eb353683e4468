//! Pseudo-random numbers that follow from a key, the same on every machine.

/// Mixes 64 bits without collisions, by the finaliser of splitmix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Maps 64 random bits to `0..end`: multiplies them with `end` as if they were a fraction with 64 bits behind the point.
pub(crate) fn below(bits: u64, end: u64) -> u64 {
    ((u128::from(bits) * u128::from(end)) >> 64) as u64
}

/// Returns the FNV-1a hash of some bytes.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Maps 64 random bits to `0..end`, the lower numbers more often. With a skew of 0, all numbers are as likely. With a
/// skew of `k`, a number below `x × end` is drawn with the probability `x` to the power of `1 / (k + 1)`.
pub(crate) fn skewed_below(bits: u64, end: u64, skew: u32) -> u64 {
    below((0..skew).fold(bits, |power, _| below(power, bits)), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_makes_low_numbers_frequent() {
        let drawn_first = |skew| {
            let draws = (0..10_000).map(|each| skewed_below(mix(each), 100, skew));
            draws.filter(|number| *number == 0).count()
        };
        // 1 %, and the square root and the fourth root of it.
        for (skew, expected) in [(0, 70..130), (1, 900..1_100), (3, 3_000..3_300)] {
            let drawn = drawn_first(skew);
            assert!(expected.contains(&drawn), "{skew}: {drawn}");
        }
    }

    #[test]
    fn every_draw_is_below_the_end() {
        for skew in [0, 1, 8] {
            assert_eq!(skewed_below(u64::MAX, 7, skew), 6);
            assert_eq!(skewed_below(0, 7, skew), 0);
        }
    }
}
