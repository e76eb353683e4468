//! Pictures: what an item may hold, one letter for each character or digit.

const EXPECTED: &str = "expected `X` and `A`, or `9` with `S` and `V`";

/// What an item holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picture {
    /// Characters.
    Text { bytes: usize },
    /// A number, of whose digits the last `scale` stand behind the decimal point.
    Number {
        is_signed: bool,
        digits: usize,
        scale: usize,
    },
}

impl Picture {
    /// Returns whether this is a number that may be negative.
    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Picture::Number { is_signed, .. } if is_signed)
    }

    /// Returns what a picture says. A number that is too large for this machine becomes the largest one, which is refused later.
    pub(crate) fn read(text: &str) -> Result<Picture, String> {
        let mut rest = text;
        let (mut letters, mut digits, mut scale) = (0_usize, 0_usize, 0_usize);
        let (mut is_signed, mut has_point) = (false, false);
        while let Some(symbol) = rest.chars().next() {
            let is_first = rest.len() == text.len();
            let (count, after) = count(&rest[symbol.len_utf8()..])?;
            rest = after;
            match (symbol.to_ascii_uppercase(), count) {
                ('X' | 'A', count) => letters = letters.saturating_add(count.unwrap_or(1)),
                ('9', count) => {
                    digits = digits.saturating_add(count.unwrap_or(1));
                    if has_point {
                        scale = scale.saturating_add(count.unwrap_or(1));
                    }
                }
                ('S', None) if is_first => is_signed = true,
                ('S', _) => return Err("`S` stands elsewhere, expected it first".to_owned()),
                ('V', None) if !has_point => has_point = true,
                ('V', _) => return Err("`V` stands again, expected it once".to_owned()),
                _ => return Err(format!("`{symbol}` is not supported, {EXPECTED}")),
            }
        }
        match letters {
            0 if digits == 0 => Err(format!("no character, {EXPECTED}")),
            0 => Ok(Picture::Number {
                is_signed,
                digits,
                scale,
            }),
            // A picture with letters is one of characters, the nines in it included.
            _ if is_signed || has_point => Err(format!("text and number, {EXPECTED}")),
            _ => Ok(Picture::Text {
                bytes: letters.saturating_add(digits),
            }),
        }
    }
}

/// Returns the number in parentheses that a text begins with, if any, and what follows it.
fn count(text: &str) -> Result<(Option<usize>, &str), String> {
    let Some(inside) = text.strip_prefix('(') else {
        return Ok((None, text));
    };
    let inside = inside.split_once(')');
    let read = inside.and_then(|(number, after)| Some((whole(number)?, after)));
    match read {
        Some((number, after)) if number > 0 => Ok((Some(number), after)),
        _ => Err("wrong count, expected a number from 1 on in parentheses".to_owned()),
    }
}

/// Returns the whole number that a text is, and for one too large the largest that there is; `None` if it is not a number.
pub(crate) fn whole(text: &str) -> Option<usize> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> (bool, usize, usize) {
        match Picture::read(text) {
            Ok(Picture::Number {
                is_signed,
                digits,
                scale,
            }) => (is_signed, digits, scale),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn bytes(text: &str) -> usize {
        match Picture::read(text) {
            Ok(Picture::Text { bytes }) => bytes,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_number_has_its_digits_and_those_behind_the_point() {
        assert_eq!(number("99"), (false, 2, 0));
        assert_eq!(number("9(5)"), (false, 5, 0));
        assert_eq!(number("S9(5)V99"), (true, 7, 2));
        assert_eq!(number("9(3)V9(2)"), (false, 5, 2));
        assert_eq!(number("V99"), (false, 2, 2));
        assert_eq!(number("SV9(02)9"), (true, 3, 3));
        assert_eq!(number("s99(3)9v"), (true, 5, 0));
    }

    #[test]
    fn text_has_its_length() {
        assert_eq!(bytes("X"), 1);
        assert_eq!(bytes("xXx"), 3);
        assert_eq!(bytes("X(20)"), 20);
        assert_eq!(bytes("A(20)X9(2)"), 23);
    }

    #[test]
    fn numbers_do_not_overflow() {
        let large = "9".repeat(40);
        assert_eq!(bytes(&format!("X({large})X({large})")), usize::MAX);
        let digits = format!("9({large})V9({large})");
        assert_eq!(number(&digits), (false, usize::MAX, usize::MAX));
    }

    #[test]
    fn other_pictures_are_refused_with_what_is_wrong() {
        let unsupported = |symbol| {
            format!("`{symbol}` is not supported, expected `X` and `A`, or `9` with `S` and `V`")
        };
        for (text, symbol) in [
            ("ZZ9", "Z"),
            ("**9", "*"),
            ("9,9", ","),
            ("9.9", "."),
            ("+9", "+"),
            ("9-", "-"),
            ("$9", "$"),
            ("9CR", "C"),
            ("9DB", "D"),
            ("9B9", "B"),
            ("90", "0"),
            ("9/9", "/"),
            ("9P", "P"),
            ("N(3)", "N"),
            ("G(3)", "G"),
            ("é", "é"),
            ("9)", ")"),
        ] {
            assert_eq!(Picture::read(text), Err(unsupported(symbol)), "{text}");
        }
        for text in ["", "S", "V", "SV"] {
            let reason = "no character, expected `X` and `A`, or `9` with `S` and `V`";
            assert_eq!(Picture::read(text), Err(reason.to_owned()), "{text}");
        }
        for text in ["9(", "9(0)", "9()", "9(a)", "9(-1)", "9(2"] {
            let reason = "wrong count, expected a number from 1 on in parentheses";
            assert_eq!(Picture::read(text), Err(reason.to_owned()), "{text}");
        }
        for text in ["9S", "SS9", "S(2)9"] {
            let reason = "`S` stands elsewhere, expected it first";
            assert_eq!(Picture::read(text), Err(reason.to_owned()), "{text}");
        }
        for text in ["9V9V", "V(2)9"] {
            let reason = "`V` stands again, expected it once";
            assert_eq!(Picture::read(text), Err(reason.to_owned()), "{text}");
        }
        let reason = "text and number, expected `X` and `A`, or `9` with `S` and `V`";
        assert_eq!(Picture::read("SX"), Err(reason.to_owned()));
        assert_eq!(Picture::read("9V9X"), Err(reason.to_owned()));
    }
}
