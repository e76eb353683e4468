//! Numbers as COBOL programs have them in fixed-width records.
//!
//! Source: Enterprise COBOL for z/OS, Language Reference, "USAGE clause" and "SIGN clause", and Programming Guide, "Formats for numeric
//! data" (6.4, 2026-11): `PACKED-DECIMAL` has two digits a byte and the sign in the last half byte (C, D, or F without a sign); `DISPLAY`
//! has one digit a byte, with the sign over the last or first digit or in a byte of its own; `BINARY` is big endian in 2, 4 or 8 bytes,
//! by the number of digits.

use super::decimal::{Decimal, Digits};

/// The most digits of packed and zoned numbers, with `ARITH(EXTEND)`.
pub(super) const DISPLAY_DIGITS_MAX: u8 = 31;
/// The most digits of binary numbers.
pub(super) const BINARY_DIGITS_MAX: u8 = 18;

/// Digits with a positive sign over them, as the characters of EBCDIC with the zone C.
const POSITIVE: [char; 10] = ['{', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I'];
/// Digits with a negative sign over them: the zone D.
const NEGATIVE: [char; 10] = ['}', 'J', 'K', 'L', 'M', 'N', 'O', 'P', 'Q', 'R'];

/// Where a zoned number has its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZonedSign {
    /// Nowhere: there are no negative numbers.
    Unsigned,
    /// Over the last digit.
    Trailing,
    /// Over the first digit.
    Leading,
    /// A character after the digits.
    TrailingSeparate,
    /// A character before the digits.
    LeadingSeparate,
}

/// The storage of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// `COMP-3`.
    Packed {
        /// Whether there are negative numbers.
        is_signed: bool,
    },
    /// `COMP`.
    Binary {
        /// Whether there are negative numbers.
        is_signed: bool,
    },
    /// `DISPLAY`.
    Zoned(ZonedSign),
}

/// What stands in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Characters, which the encoding of the record writes.
    Text(String),
    /// Bytes, whatever the encoding is.
    Bytes(Vec<u8>),
}

impl Storage {
    /// Returns the number of bytes, which is that of the characters of a zoned number.
    pub(super) fn width(self, digits: Digits) -> usize {
        let count = usize::from(digits.precision);
        match self {
            Storage::Packed { .. } => count / 2 + 1,
            Storage::Binary { .. } if count <= 4 => 2,
            Storage::Binary { .. } if count <= 9 => 4,
            Storage::Binary { .. } => 8,
            Storage::Zoned(ZonedSign::TrailingSeparate | ZonedSign::LeadingSeparate) => count + 1,
            Storage::Zoned(_) => count,
        }
    }

    /// Returns whether a negative number can be stored.
    pub(super) fn is_signed(self) -> bool {
        match self {
            Storage::Packed { is_signed } | Storage::Binary { is_signed } => is_signed,
            Storage::Zoned(sign) => sign != ZonedSign::Unsigned,
        }
    }

    /// Returns a number, which fits the digits, as it is stored.
    pub(super) fn store(self, number: Decimal, digits: Digits) -> Stored {
        let is_negative = number.unscaled < 0;
        let padded = number.padded(digits.precision);
        match self {
            Storage::Packed { is_signed } => {
                let sign = match (is_signed, is_negative) {
                    (false, _) => 0x0f,
                    (true, false) => 0x0c,
                    (true, true) => 0x0d,
                };
                Stored::Bytes(packed(&padded, sign))
            }
            Storage::Binary { .. } => {
                let bytes = number.unscaled.to_be_bytes();
                Stored::Bytes(bytes[bytes.len() - self.width(digits)..].to_vec())
            }
            Storage::Zoned(sign) => Stored::Text(zoned(padded, sign, is_negative)),
        }
    }
}

/// Returns two digits a byte; the sign is the last half byte. An even number of digits has a zero in front.
fn packed(digits: &str, sign: u8) -> Vec<u8> {
    let zero = digits.len().is_multiple_of(2).then_some(0);
    let digits = digits.bytes().map(|digit| digit - b'0');
    let halves = Vec::from_iter(zero.into_iter().chain(digits).chain([sign]));
    Vec::from_iter(halves.chunks(2).map(|pair| pair[0] << 4 | pair[1]))
}

fn zoned(digits: String, sign: ZonedSign, is_negative: bool) -> String {
    let over = |digit: u8| match is_negative {
        true => NEGATIVE[usize::from(digit - b'0')],
        false => POSITIVE[usize::from(digit - b'0')],
    };
    let separate = if is_negative { '-' } else { '+' };
    let bytes = digits.as_bytes();
    match (sign, bytes) {
        (ZonedSign::TrailingSeparate, _) => format!("{digits}{separate}"),
        (ZonedSign::LeadingSeparate, _) => format!("{separate}{digits}"),
        (ZonedSign::Trailing, [.., last]) => {
            format!("{}{}", &digits[..digits.len() - 1], over(*last))
        }
        (ZonedSign::Leading, [first, ..]) => format!("{}{}", over(*first), &digits[1..]),
        (ZonedSign::Unsigned, _) | (_, []) => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(storage: Storage, digits: &str, text: &str) -> String {
        let digits: Digits = digits.parse().unwrap();
        let number = Decimal::read(text, digits).unwrap();
        let stored = storage.store(number, digits);
        let length = match &stored {
            Stored::Text(text) => text.len(),
            Stored::Bytes(bytes) => bytes.len(),
        };
        assert_eq!(length, storage.width(digits), "{text}");
        match stored {
            Stored::Text(text) => text,
            Stored::Bytes(bytes) => hex::encode(bytes),
        }
    }

    #[test]
    fn packed_numbers_have_their_sign_in_the_last_half_byte() {
        let signed = Storage::Packed { is_signed: true };
        let unsigned = Storage::Packed { is_signed: false };
        assert_eq!(stored(signed, "5,2", "123.45"), "12345c");
        assert_eq!(stored(signed, "5,2", "-1.5"), "00150d");
        assert_eq!(stored(signed, "4", "1234"), "01234c");
        assert_eq!(stored(signed, "1", "0"), "0c");
        assert_eq!(stored(unsigned, "4,1", "99.9"), "00999f");
        let largest = "9".repeat(31);
        assert_eq!(stored(signed, "31", &largest), format!("{largest}c"));
    }

    #[test]
    fn binary_numbers_are_big_endian_in_as_many_bytes_as_their_digits_need() {
        let binary = Storage::Binary { is_signed: true };
        assert_eq!(stored(binary, "4", "9999"), "270f");
        assert_eq!(stored(binary, "4", "-1"), "ffff");
        assert_eq!(stored(binary, "9,2", "-12.34"), "fffffb2e");
        assert_eq!(stored(binary, "5", "1"), "00000001");
        let largest = "9".repeat(18);
        assert_eq!(stored(binary, "18", &largest), "0de0b6b3a763ffff");
        assert_eq!(stored(binary, "10", "-1"), "f".repeat(16));
    }

    #[test]
    fn zoned_numbers_have_their_sign_over_a_digit_or_beside_them() {
        let zoned = |sign, text| stored(Storage::Zoned(sign), "5,2", text);
        assert_eq!(zoned(ZonedSign::Unsigned, "1.23"), "00123");
        assert_eq!(zoned(ZonedSign::Trailing, "1.23"), "0012C");
        assert_eq!(zoned(ZonedSign::Trailing, "-1.20"), "0012}");
        assert_eq!(zoned(ZonedSign::Trailing, "0"), "0000{");
        assert_eq!(zoned(ZonedSign::Leading, "-912.34"), "R1234");
        assert_eq!(zoned(ZonedSign::TrailingSeparate, "-1"), "00100-");
        assert_eq!(zoned(ZonedSign::LeadingSeparate, "1"), "+00100");
    }
}
