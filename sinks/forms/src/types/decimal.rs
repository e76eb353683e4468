//! Exact decimals with a fixed number of digits.

use std::fmt;
use std::str::FromStr;

/// The most digits: so many fit 128 bits.
const PRECISION_MAX: u8 = 38;

/// How many digits a number has at most, and how many of them stand after the point: `(9,2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    /// All digits.
    pub precision: u8,
    /// Those after the point.
    pub scale: u8,
}

impl FromStr for Digits {
    type Err = String;

    /// Reads `9,2`, or `9` for whole numbers.
    fn from_str(text: &str) -> Result<Digits, String> {
        let (precision, scale) = text.split_once(',').unwrap_or((text, "0"));
        let are_digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| Some(text).filter(are_digits)?.parse::<u8>().ok();
        let digits = number(precision).zip(number(scale));
        let digits = digits.filter(|(precision, scale)| {
            (1..=PRECISION_MAX).contains(precision) && scale <= precision
        });
        let (precision, scale) = digits.ok_or_else(|| {
            format!("expected digits such as `(9,2)`, from 1 to {PRECISION_MAX}, of which no more stand after the point")
        })?;
        Ok(Digits { precision, scale })
    }
}

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.precision, self.scale)
    }
}

/// A number with a fixed number of digits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The number without its point.
    pub unscaled: i128,
    /// Digits after the point.
    pub scale: u8,
}

impl Decimal {
    /// Reads an optional sign, and digits with at most one point; [`None`] for anything else, and for a number that has more digits
    /// than it may. Zeros at either end do not count.
    pub fn read(text: &str, digits: Digits) -> Option<Decimal> {
        let (is_negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = match unsigned.split_once('.') {
            // A point has digits on both sides.
            Some((_, "")) | Some(("", _)) => return None,
            Some(both) => both,
            None => (unsigned, ""),
        };
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) {
            return None;
        }
        let (whole, fraction) = (
            whole.trim_start_matches('0'),
            fraction.trim_end_matches('0'),
        );
        let scale = usize::from(digits.scale);
        let whole_max = usize::from(digits.precision) - scale;
        if whole.len() > whole_max || fraction.len() > scale {
            return None;
        }
        let zeros = std::iter::repeat_n(b'0', scale - fraction.len());
        let all = whole.bytes().chain(fraction.bytes()).chain(zeros);
        let unscaled = all.fold(0_i128, |number, digit| {
            number * 10 + i128::from(digit - b'0')
        });
        Some(Decimal {
            unscaled: if is_negative { -unscaled } else { unscaled },
            scale: digits.scale,
        })
    }

    /// Returns the digits without sign and point, with zeros in front, of a number that has at most `count` of them.
    pub(super) fn padded(self, count: u8) -> String {
        format!("{:0>1$}", self.unscaled.unsigned_abs(), usize::from(count))
    }

    /// Returns the number without its point.
    pub(super) fn implied(self) -> String {
        let sign = if self.unscaled < 0 { "-" } else { "" };
        // At least one digit for each of the scale, so that the point can be put back.
        format!("{sign}{}", self.padded(self.scale.max(1)))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.padded(self.scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - usize::from(self.scale));
        let sign = if self.unscaled < 0 { "-" } else { "" };
        match fraction {
            "" => write!(f, "{sign}{whole}"),
            fraction => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, digits: &str) -> Option<String> {
        Decimal::read(text, digits.parse().unwrap()).map(|decimal| decimal.to_string())
    }

    #[test]
    fn a_number_has_the_decimals_of_its_column_and_no_digit_is_lost() {
        for (text, digits, expected) in [
            ("12.5", "9,2", "12.50"),
            ("-0.010", "9,2", "-0.01"),
            ("+7", "1", "7"),
            ("007.00", "1", "7"),
            ("-0", "3,1", "0.0"),
            ("0.99", "2,2", "0.99"),
        ] {
            assert_eq!(read(text, digits).as_deref(), Some(expected), "{text}");
        }
        let largest = "9".repeat(38);
        assert_eq!(read(&largest, "38").as_deref(), Some(&*largest));
    }

    #[test]
    fn what_does_not_fit_is_no_number() {
        for (text, digits) in [
            ("1.005", "9,2"),
            ("100", "4,2"),
            ("10", "1"),
            ("1", "2,2"),
            ("", "9"),
            ("-", "9"),
            ("1e3", "9"),
            (".5", "9,2"),
            ("5.", "9,2"),
            ("1,5", "9,2"),
            (" 1", "9"),
            ("--1", "9"),
            ("٣", "9"),
            ("1.2.3", "9,2"),
        ] {
            assert_eq!(read(text, digits), None, "{text}");
        }
    }

    #[test]
    fn wrong_digits_are_refused_with_what_is_allowed() {
        for wrong in ["", "0", "39", "2,3", "9,", "a", "-1", "+9", "9, 2", "9,2,1"] {
            let error = wrong.parse::<Digits>().unwrap_err();
            assert!(error.contains("from 1 to 38"), "{wrong}: {error}");
        }
        assert_eq!("9,2".parse::<Digits>().unwrap().to_string(), "(9,2)");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(unscaled in -999_999_999_i128..=999_999_999, scale in 0_u8..=9) {
            let decimal = Decimal { unscaled, scale };
            let digits = Digits { precision: 9, scale };
            prop_assert_eq!(Decimal::read(&decimal.to_string(), digits), Some(decimal));
        }
    }
}
