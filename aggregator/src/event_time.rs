//! Finds when an event happened, in its body.

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use jmespath::{Rcvar, Variable};
use protocol::time::Timestamp;
use shared::expression::Expression;

use crate::event_id::{ExpressionError, evaluated};

/// Numbers from this one on are milliseconds since the epoch, and smaller ones seconds: as seconds it is the year 5138.
const MILLISECONDS_FROM: u64 = 100_000_000_000;

/// Returns the time that an expression finds in a JSON body: a text with date, time and offset (RFC 3339), or a whole number of
/// seconds or milliseconds since the epoch.
///
/// # Errors
/// [`ExpressionError`]. A retry fails too: the result depends on the body only.
pub fn find_time(expression: &Expression, body: &Rcvar) -> Result<Timestamp, ExpressionError> {
    let found = evaluated(expression, body)?;
    let time = match &*found {
        Variable::String(text) => from_text(text),
        Variable::Number(number) => number.as_u64().map(from_number),
        _ => None,
    };
    time.ok_or_else(|| ExpressionError::NoTime {
        expression: expression.as_str().to_owned(),
        found: match &*found {
            Variable::String(text) => format!("«{text}»"),
            Variable::Number(number) => format!("the number «{number}»"),
            Variable::Null => "nothing".to_owned(),
            other => format!("a value of the type {}", other.get_type()),
        },
    })
}

fn from_number(number: u64) -> Timestamp {
    Timestamp::from_ms(match number >= MILLISECONDS_FROM {
        true => number,
        false => number * 1_000,
    })
}

fn from_text(text: &str) -> Option<Timestamp> {
    let time = DateTime::from_str(text, Format::DateTimeWithOffset).ok()?;
    let ms = u64::try_from(time.to_millis().ok()?).ok()?;
    Some(Timestamp::from_ms(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(body: &str) -> Result<u64, ExpressionError> {
        let body = Rcvar::new(Variable::from_json(body).unwrap());
        find_time(&"at".parse().unwrap(), &body).map(Timestamp::as_ms)
    }

    #[test]
    fn a_text_with_an_offset_and_whole_numbers_are_times() {
        for body in [
            r#"{"at":"2026-11-25T20:15:00+01:00"}"#,
            r#"{"at":"2026-11-25T19:15:00Z"}"#,
            r#"{"at":"2026-11-25T19:15:00.000Z"}"#,
            r#"{"at":1795634100}"#,
            r#"{"at":1795634100000}"#,
        ] {
            assert_eq!(time(body), Ok(1_795_634_100_000), "{body}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_was_found() {
        for (body, words) in [
            ("{}", "`at`: found nothing, expected a time such as"),
            (r#"{"at":"2026-11-25"}"#, "found «2026-11-25»"),
            (
                r#"{"at":"2026-11-25T19:15:00"}"#,
                "found «2026-11-25T19:15:00»",
            ),
            (r#"{"at":1.5}"#, "found the number «1.5»"),
            (r#"{"at":-1}"#, "found the number «-1»"),
            (
                r#"{"at":"1815-12-10T00:00:00Z"}"#,
                "found «1815-12-10T00:00:00Z»",
            ),
            (r#"{"at":[1]}"#, "found a value of the type array"),
        ] {
            let error = time(body).unwrap_err().to_string();
            assert!(error.contains(words), "{words} in {error}");
        }
    }
}
