//! Reads whole numbers.

use std::str::FromStr;

/// Reads a number of digits alone: parsing would accept a sign.
pub(crate) fn whole<T: FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}
