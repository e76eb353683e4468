//! How the value of an item is written, and in how many bytes.

use crate::limits::{BINARY_DIGITS_MAX, DECIMAL_DIGITS_MAX, TEXT_BYTES_MAX};
use crate::picture::Picture;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// A digit in each byte, or text.
    Display,
    /// Two digits in each byte.
    Packed,
    /// Two, four or eight bytes.
    Binary,
}

impl Usage {
    fn name(self) -> &'static str {
        match self {
            Usage::Display => "DISPLAY",
            Usage::Packed => "PACKED-DECIMAL",
            Usage::Binary => "BINARY",
        }
    }
}

/// Where the sign of a number with [`Usage::Display`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// In the byte of the last digit.
    Trailing,
    /// In the byte of the first digit.
    Leading,
    /// In a byte behind the digits.
    TrailingSeparate,
    /// In a byte before the digits.
    LeadingSeparate,
}

impl Sign {
    /// Returns the sign in a byte of its own, on the same side.
    pub(crate) fn separate(self) -> Sign {
        match self {
            Sign::Trailing | Sign::TrailingSeparate => Sign::TrailingSeparate,
            Sign::Leading | Sign::LeadingSeparate => Sign::LeadingSeparate,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Sign::Trailing | Sign::Leading => 0,
            Sign::TrailingSeparate | Sign::LeadingSeparate => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sign::Trailing => "trailing",
            Sign::Leading => "leading",
            Sign::TrailingSeparate => "trailing-separate",
            Sign::LeadingSeparate => "leading-separate",
        }
    }
}

/// What is written for an item without items below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The type of a number; `None` for text.
    pub(crate) kind: Option<String>,
    /// How the sign of a number is written; `None` for text.
    pub(crate) sign: Option<&'static str>,
    /// The number of bytes.
    pub(crate) bytes: usize,
    /// Whether text stands at the right.
    pub(crate) is_right: bool,
}

impl Field {
    /// Returns what is written for a picture, or why it cannot be. A sign is used only for numbers that have one and a digit in
    /// each byte, because that of a group is also that of its other items.
    pub(crate) fn new(picture: Picture, usage: Usage, sign: Sign) -> Result<Field, String> {
        let (is_signed, digits, scale) = match (picture, usage) {
            (Picture::Text { bytes }, Usage::Display) => return Field::text(bytes),
            (Picture::Text { .. }, Usage::Packed | Usage::Binary) => {
                let usage = usage.name();
                return Err(format!(
                    "not a number, expected a picture of `9` with `USAGE {usage}`"
                ));
            }
            (
                Picture::Number {
                    is_signed,
                    digits,
                    scale,
                },
                _,
            ) => (is_signed, digits, scale),
        };
        let digits_max = match usage {
            Usage::Display | Usage::Packed => DECIMAL_DIGITS_MAX,
            Usage::Binary => BINARY_DIGITS_MAX,
        };
        if digits > digits_max {
            let usage = usage.name();
            return Err(format!(
                "too many digits, expected at most {digits_max} with `USAGE {usage}`"
            ));
        }
        let sign_name = match (usage, is_signed) {
            (_, false) => "unsigned",
            (Usage::Display, true) => sign.name(),
            (Usage::Packed | Usage::Binary, true) => "signed",
        };
        let (kind, bytes) = match usage {
            Usage::Display if is_signed => ("zoned-decimal", digits + sign.bytes()),
            Usage::Display => ("zoned-decimal", digits),
            Usage::Packed => ("packed-decimal", digits / 2 + 1),
            Usage::Binary => ("binary", binary_bytes(digits)),
        };
        Ok(Field {
            kind: Some(format!("{kind}({digits},{scale})")),
            sign: Some(sign_name),
            bytes,
            is_right: false,
        })
    }

    fn text(bytes: usize) -> Result<Field, String> {
        if bytes > TEXT_BYTES_MAX {
            return Err(format!("too long, expected at most {TEXT_BYTES_MAX} bytes"));
        }
        Ok(Field {
            kind: None,
            sign: None,
            bytes,
            is_right: false,
        })
    }
}

fn binary_bytes(digits: usize) -> usize {
    match digits {
        ..=4 => 2,
        5..=9 => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(picture: &str, usage: Usage, sign: Sign) -> (String, &'static str, usize) {
        let picture = Picture::read(picture).unwrap();
        let field = Field::new(picture, usage, sign).unwrap();
        (field.kind.unwrap(), field.sign.unwrap(), field.bytes)
    }

    fn error(picture: &str, usage: Usage) -> String {
        let picture = Picture::read(picture).unwrap();
        Field::new(picture, usage, Sign::Trailing).unwrap_err()
    }

    #[test]
    fn a_zoned_decimal_has_a_byte_for_each_digit_and_one_for_a_separate_sign() {
        let zoned = |picture, sign| field(picture, Usage::Display, sign);
        let kind = || "zoned-decimal(5,2)".to_owned();
        for (sign, name, bytes) in [
            (Sign::Trailing, "trailing", 5),
            (Sign::Leading, "leading", 5),
            (Sign::TrailingSeparate, "trailing-separate", 6),
            (Sign::LeadingSeparate, "leading-separate", 6),
        ] {
            assert_eq!(zoned("S9(3)V99", sign), (kind(), name, bytes));
            assert_eq!(zoned("9(3)V99", sign), (kind(), "unsigned", 5));
        }
    }

    #[test]
    fn a_packed_decimal_has_a_byte_for_two_digits_and_half_of_one_for_the_sign() {
        for (digits, bytes) in [(1, 1), (2, 2), (3, 2), (7, 4), (8, 5), (31, 16)] {
            let (kind, sign, length) = field(
                &format!("S9({digits})"),
                Usage::Packed,
                Sign::LeadingSeparate,
            );
            assert_eq!(kind, format!("packed-decimal({digits},0)"));
            assert_eq!((sign, length), ("signed", bytes), "{digits}");
        }
        assert_eq!(field("9V9", Usage::Packed, Sign::Trailing).1, "unsigned");
    }

    #[test]
    fn a_binary_number_has_two_four_or_eight_bytes() {
        for (digits, bytes) in [(1, 2), (4, 2), (5, 4), (9, 4), (10, 8), (18, 8)] {
            let picture = format!("9({digits})");
            let field = field(&picture, Usage::Binary, Sign::Trailing);
            let kind = format!("binary({digits},0)");
            assert_eq!(field, (kind, "unsigned", bytes));
        }
        let signed = field("S9V9", Usage::Binary, Sign::TrailingSeparate);
        assert_eq!(signed, ("binary(2,1)".to_owned(), "signed", 2));
    }

    #[test]
    fn what_is_too_large_is_refused() {
        for usage in [Usage::Display, Usage::Packed] {
            assert_eq!(
                error("9(30)V99", usage),
                format!(
                    "too many digits, expected at most 31 with `USAGE {}`",
                    usage.name()
                )
            );
        }
        assert_eq!(
            error("9(19)", Usage::Binary),
            "too many digits, expected at most 18 with `USAGE BINARY`"
        );
        assert_eq!(
            error("X(10001)", Usage::Display),
            "too long, expected at most 10000 bytes"
        );
    }

    #[test]
    fn text_is_not_packed() {
        assert_eq!(
            error("X(5)", Usage::Packed),
            "not a number, expected a picture of `9` with `USAGE PACKED-DECIMAL`"
        );
    }
}
