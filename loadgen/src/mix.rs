//! Pseudo-random numbers that follow from a key, the same on every machine.

/// Mixes 64 bits without collisions, by the finaliser of splitmix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Maps 64 random bits to `0..end`.
pub(crate) fn below(bits: u64, end: u64) -> u64 {
    product(bits, end)
}

/// Maps 64 random bits to `0..end`, the lower numbers more often. With a skew of 0, all numbers are as likely. With a
/// skew of `k`, a number below `x × end` is drawn with the probability `x` to the power of `1 / (k + 1)`.
pub(crate) fn skewed_below(bits: u64, end: u64, skew: u32) -> u64 {
    below((0..skew).fold(bits, |power, _| product(power, bits)), end)
}

/// Multiplies two numbers, as if one of them were a fraction with 64 bits behind the point.
fn product(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
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
        assert!((70..130).contains(&drawn_first(0)), "{}", drawn_first(0));
        assert!((900..1_100).contains(&drawn_first(1)), "{}", drawn_first(1));
        assert!(
            (3_000..3_300).contains(&drawn_first(3)),
            "{}",
            drawn_first(3)
        );
    }

    #[test]
    fn every_draw_is_below_the_end() {
        for skew in [0, 1, 8] {
            assert_eq!(skewed_below(u64::MAX, 7, skew), 6);
            assert_eq!(skewed_below(0, 7, skew), 0);
        }
    }
}
