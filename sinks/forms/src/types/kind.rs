//! The type of a column: how it is configured, what it takes, and what it writes.

use jiff::Timestamp;
use jiff::civil::Date;

use super::decimal::{Decimal, Digits};
use super::mainframe::{BINARY_DIGITS_MAX, DISPLAY_DIGITS_MAX, Storage, Stored, ZonedSign};
use super::value::Value;
use crate::dates::{DateFormat, Zone};

/// What is allowed in `type`.
const ALLOWED: &str = "`text`, `int`, `decimal(P,S)`, `date`, `timestamp`, `bool`, `packed-decimal(P,S)`, `zoned-decimal(P,S)` or `binary(P,S)`";
/// Characters of a day.
const DAY_LENGTH: usize = "2026-11-30".len();
/// Digits of milliseconds since 1970, from 2001 to 2286.
const MILLISECONDS_LENGTH: usize = 13;

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A whole number of 64 bits.
    Int,
    /// An exact number.
    Decimal {
        /// How many digits it has.
        digits: Digits,
        /// Whether it is written without its point.
        is_implied: bool,
    },
    /// A day.
    Date(Option<DateFormat>),
    /// A moment.
    Timestamp(Option<DateFormat>),
    /// True or false, with the words that are written.
    Bool {
        /// For true.
        yes: String,
        /// For false.
        no: String,
    },
    /// An exact number as COBOL programs have it.
    Stored {
        /// How many digits it has.
        digits: Digits,
        /// How it is stored.
        storage: Storage,
    },
}

/// The members of a column that make its type.
#[derive(Clone, Copy, Debug, Default)]
pub struct TypeWords<'w> {
    /// `type`.
    pub kind: Option<&'w str>,
    /// `format`.
    pub format: Option<&'w str>,
    /// `sign`.
    pub sign: Option<&'w str>,
}

impl ColumnType {
    /// Reads a type; [`None`] for text.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn read(words: TypeWords<'_>) -> Result<Option<ColumnType>, String> {
        let kind = words.kind.unwrap_or("text");
        let (name, digits) = match kind.split_once('(') {
            None => (kind, None),
            Some((name, rest)) => (name, rest.strip_suffix(')')),
        };
        let wrong = |problem: &str| format!("`type`: wrong value: got `{kind}`, {problem}");
        let of_digits = |max: u8| {
            let digits = digits.ok_or_else(|| wrong("expected digits such as `(9,2)`"))?;
            let digits: Digits = digits.parse().map_err(|error: String| wrong(&error))?;
            match digits.precision <= max {
                true => Ok(digits),
                false => Err(wrong(&format!("expected {max} digits at most"))),
            }
        };
        if digits.is_some() != kind.contains('(') {
            return Err(wrong(&format!("expected {ALLOWED}")));
        }
        let read = match (name, digits) {
            ("text", None) => None,
            ("int", None) => Some(ColumnType::Int),
            ("decimal", _) => Some(ColumnType::Decimal {
                digits: of_digits(u8::MAX)?,
                is_implied: match words.format {
                    None => false,
                    Some("implied") => true,
                    Some(other) => {
                        return Err(format(other, "`implied`, for digits without a point"));
                    }
                },
            }),
            ("date", None) => Some(ColumnType::Date(day_format(words.format)?)),
            ("timestamp", None) => Some(ColumnType::Timestamp(date_format(words.format)?)),
            ("bool", None) => Some(bool(words.format)?),
            ("packed-decimal", _) => Some(ColumnType::Stored {
                digits: of_digits(DISPLAY_DIGITS_MAX)?,
                storage: Storage::Packed {
                    is_signed: is_signed(words.sign)?,
                },
            }),
            ("binary", _) => Some(ColumnType::Stored {
                digits: of_digits(BINARY_DIGITS_MAX)?,
                storage: Storage::Binary {
                    is_signed: is_signed(words.sign)?,
                },
            }),
            ("zoned-decimal", _) => Some(ColumnType::Stored {
                digits: of_digits(DISPLAY_DIGITS_MAX)?,
                storage: Storage::Zoned(zoned_sign(words.sign)?),
            }),
            _ => return Err(wrong(&format!("expected {ALLOWED}"))),
        };
        let takes_format = !matches!(
            read,
            None | Some(ColumnType::Int | ColumnType::Stored { .. })
        );
        if words.format.is_some() && !takes_format {
            return Err(format!("`format`: type `{kind}` has none"));
        }
        if words.sign.is_some() && !matches!(read, Some(ColumnType::Stored { .. })) {
            return Err(format!(
                "`sign`: type `{kind}` has none: it is of `packed-decimal`, `zoned-decimal` and `binary`"
            ));
        }
        Ok(read)
    }

    /// Returns the name, as it is configured.
    pub fn name(&self) -> String {
        match self {
            ColumnType::Int => "int".to_owned(),
            ColumnType::Decimal { digits, .. } => format!("decimal{digits}"),
            ColumnType::Date(_) => "date".to_owned(),
            ColumnType::Timestamp(_) => "timestamp".to_owned(),
            ColumnType::Bool { .. } => "bool".to_owned(),
            ColumnType::Stored { digits, storage } => match storage {
                Storage::Packed { .. } => format!("packed-decimal{digits}"),
                Storage::Binary { .. } => format!("binary{digits}"),
                Storage::Zoned(_) => format!("zoned-decimal{digits}"),
            },
        }
    }

    /// Returns what a value must be, for a reject.
    pub(crate) fn expected(&self) -> String {
        match self {
            ColumnType::Int => "a whole number of 64 bits".to_owned(),
            ColumnType::Decimal { digits, .. } => of_digits(*digits, true),
            ColumnType::Stored { digits, storage } => of_digits(*digits, storage.is_signed()),
            ColumnType::Date(_) => "a day such as `2026-11-30`".to_owned(),
            ColumnType::Timestamp(_) => {
                "a time such as `2026-11-30T12:00:00.5Z`, to the microsecond, or 13 digits of milliseconds since 1970"
                    .to_owned()
            }
            ColumnType::Bool { .. } => "`true` or `false`".to_owned(),
        }
    }

    /// Returns the value of a text; [`None`] if it does not fit.
    pub(crate) fn value(&self, text: &str) -> Option<Value<'static>> {
        match self {
            ColumnType::Int => {
                let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
                let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|_| are_digits).map(Value::Int)
            }
            ColumnType::Decimal { digits, .. } => Decimal::read(text, *digits).map(Value::Decimal),
            ColumnType::Stored { digits, storage } => Decimal::read(text, *digits)
                .filter(|number| number.unscaled >= 0 || storage.is_signed())
                .map(Value::Decimal),
            ColumnType::Date(_) => text
                .parse::<Date>()
                .ok()
                // The parser takes other forms too, and ignores a time.
                .filter(|date| text.len() == DAY_LENGTH && date.to_string() == text)
                .filter(|date| date.year() > 0)
                .map(Value::Date),
            ColumnType::Timestamp(_) => timestamp(text).map(Value::Timestamp),
            ColumnType::Bool { .. } => text.parse().ok().map(Value::Bool),
        }
    }

    /// Returns what a record has for a value of this type; [`None`] if that is [the text](Value::into_text) of the value.
    pub(crate) fn stored(&self, value: &Value<'_>, zone: &Zone) -> Option<Stored> {
        let text = match (self, value) {
            (
                ColumnType::Decimal {
                    is_implied: true, ..
                },
                Value::Decimal(number),
            ) => number.implied(),
            (ColumnType::Date(Some(format)), Value::Date(date)) => format.of_day(*date),
            (ColumnType::Timestamp(Some(format)), Value::Timestamp(at)) => {
                format.of_moment(*at, zone)
            }
            (ColumnType::Bool { yes, .. }, Value::Bool(true)) => yes.clone(),
            (ColumnType::Bool { no, .. }, Value::Bool(false)) => no.clone(),
            (ColumnType::Stored { digits, storage }, Value::Decimal(number)) => {
                return Some(storage.store(*number, *digits));
            }
            _ => return None,
        };
        Some(Stored::Text(text))
    }

    /// Returns the width of a value in a fixed-width record, if the type has one.
    pub(crate) fn width(&self) -> Option<usize> {
        match self {
            ColumnType::Stored { digits, storage } => Some(storage.width(*digits)),
            _ => None,
        }
    }

    /// Returns the characters that the type writes itself, whatever the value is.
    pub(crate) fn literals(&self) -> String {
        match self {
            ColumnType::Bool { yes, no } => format!("{yes}{no}"),
            ColumnType::Date(Some(format)) | ColumnType::Timestamp(Some(format)) => {
                format.literals()
            }
            _ => String::new(),
        }
    }

    /// Returns how many characters the longest value has, if its format says so.
    pub(crate) fn length(&self) -> Option<usize> {
        match self {
            ColumnType::Bool { yes, no } => Some(yes.chars().count().max(no.chars().count())),
            ColumnType::Date(None) => Some(DAY_LENGTH),
            ColumnType::Date(Some(format)) | ColumnType::Timestamp(Some(format)) => {
                Some(format.length())
            }
            _ => None,
        }
    }

    /// Returns whether values are numbers.
    pub(crate) fn is_number(&self) -> bool {
        matches!(
            self,
            ColumnType::Int | ColumnType::Decimal { .. } | ColumnType::Stored { .. }
        )
    }

    /// Returns whether values are bytes, which no encoding writes.
    pub(crate) fn is_binary(&self) -> bool {
        let storage = match self {
            ColumnType::Stored { storage, .. } => storage,
            _ => return false,
        };
        !matches!(storage, Storage::Zoned(_))
    }
}

fn of_digits(digits: Digits, is_signed: bool) -> String {
    let Digits { precision, scale } = digits;
    let sign = if is_signed { "" } else { " without a minus" };
    format!(
        "a number{sign} with at most {} digits before the point and {scale} after it",
        precision - scale
    )
}

fn timestamp(text: &str) -> Option<Timestamp> {
    let at = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits of another length may be a date, such as `20261130`, or seconds.
        true if text.len() == MILLISECONDS_LENGTH => {
            Timestamp::from_millisecond(text.parse().ok()?).ok()?
        }
        true => return None,
        // The parser takes other forms too, guesses what they leave out, and makes 59 seconds of 60.
        false if is_rfc_3339(text) => text.parse().ok()?,
        false => return None,
    };
    (at.subsec_nanosecond() % 1_000 == 0).then_some(at)
}

/// Returns whether a text has the form of `2026-11-30T12:00:00.5+01:00`, with seconds below 60 and a year above 0.
fn is_rfc_3339(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let has_form = |text: &str, form: &[u8]| {
        text.len() == form.len()
            && text.bytes().zip(form).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                other => byte == *other,
            })
    };
    let Some((at, rest)) = text.split_at_checked(FORM.len()) else {
        return false;
    };
    let (fraction, offset) = match rest.strip_prefix('.') {
        None => (None, rest),
        Some(rest) => {
            let end = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (fraction, offset) = rest.split_at(end);
            (Some(fraction), offset)
        }
    };
    let is_offset = match offset.as_bytes() {
        b"Z" => true,
        [b'+' | b'-', ..] => has_form(&offset[1..], b"00:00") && &offset[1..3] < "24",
        _ => false,
    };
    let is_in_range = || !at.ends_with("60") && !at.starts_with("0000");
    has_form(at, FORM)
        && is_in_range()
        && is_offset
        && fraction.is_none_or(|digits| !digits.is_empty())
}

fn format(got: &str, expected: &str) -> String {
    format!("`format`: wrong value: got `{got}`, expected {expected}")
}

fn date_format(text: Option<&str>) -> Result<Option<DateFormat>, String> {
    if let Some(text) = text.filter(|text| text.contains(char::is_control)) {
        return Err(format(
            &text.escape_debug().to_string(),
            "one without control characters",
        ));
    }
    let read = text.map(|text| {
        text.parse::<DateFormat>()
            .map_err(|error| format(text, &error))
    });
    read.transpose()
}

fn day_format(text: Option<&str>) -> Result<Option<DateFormat>, String> {
    let read = date_format(text)?;
    match read.as_ref().is_some_and(DateFormat::has_time) {
        true => Err(format(
            text.unwrap_or_default(),
            "a format without a time of day, such as `%d%m%Y`",
        )),
        false => Ok(read),
    }
}

fn bool(text: Option<&str>) -> Result<ColumnType, String> {
    let words = text.unwrap_or("true/false");
    match words.split_once('/') {
        Some((yes, no)) if yes != no && !no.contains('/') && !words.contains(char::is_control) => {
            Ok(ColumnType::Bool {
                yes: yes.to_owned(),
                no: no.to_owned(),
            })
        }
        _ => Err(format(
            words,
            "the words for true and for false, such as `Y/N` or `1/0`",
        )),
    }
}

fn wrong_sign(got: &str, allowed: &str) -> String {
    format!("`sign`: wrong value: got `{got}`, expected {allowed}")
}

fn is_signed(word: Option<&str>) -> Result<bool, String> {
    match word {
        None | Some("signed") => Ok(true),
        Some("unsigned") => Ok(false),
        Some(other) => Err(wrong_sign(other, "`signed` or `unsigned`")),
    }
}

fn zoned_sign(word: Option<&str>) -> Result<ZonedSign, String> {
    Ok(match word {
        None | Some("trailing") => ZonedSign::Trailing,
        Some("leading") => ZonedSign::Leading,
        Some("trailing-separate") => ZonedSign::TrailingSeparate,
        Some("leading-separate") => ZonedSign::LeadingSeparate,
        Some("unsigned") => ZonedSign::Unsigned,
        Some(other) => {
            let allowed =
                "`trailing`, `leading`, `trailing-separate`, `leading-separate` or `unsigned`";
            return Err(wrong_sign(other, allowed));
        }
    })
}

/// Returns whether a JSON text has a number with a point or an exponent of more digits than 64-bit floating point keeps. Such a number
/// may have been read as another one.
pub(crate) fn has_long_number(json: &str) -> bool {
    /// So many decimal digits survive the way to 64-bit floating point and back.
    const DIGITS_KEPT: usize = 15;
    let (mut is_string, mut is_escaped) = (false, false);
    let (mut digits, mut is_float) = (0, false);
    for byte in json.bytes() {
        if is_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => is_string = true,
            // Zeros in front do not count.
            b'0' if digits == 0 => {}
            b'0'..=b'9' => digits += 1,
            b'.' | b'e' | b'E' if digits > 0 || byte == b'.' => is_float = true,
            b'+' | b'-' => {}
            _ => {
                if is_float && digits > DIGITS_KEPT {
                    return true;
                }
                (digits, is_float) = (0, false);
            }
        }
    }
    is_float && digits > DIGITS_KEPT
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
