//! Parses `EVENT_ID`, and finds event ids and batch keys in bodies.

use std::str::FromStr;

use jmespath::{Rcvar, Variable};
use shared::expression::Expression;

/// What an expression for a time may find.
const TIME: &str =
    "a time such as `2026-11-25T20:15:00+01:00`, or whole seconds or milliseconds since 1970";

/// Why an expression finds no event id, batch key or time in a body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// The result is null.
    #[error(
        "`{expression}`: found nothing, expected a string, a whole number, a boolean, or a list of these"
    )]
    Nothing { expression: String },
    /// The result is an empty text or list, an object, or a list in a list.
    #[error(
        "`{expression}`: found {found}, expected a string, a whole number, a boolean, or a list of these"
    )]
    NoText {
        expression: String,
        /// The kind of the result.
        found: &'static str,
    },
    /// The result is a number that is not whole or does not fit 64 bits.
    #[error(
        "`{expression}`: found the number «{number}», expected a whole number from {} to {}, or a string",
        i64::MIN,
        u64::MAX
    )]
    NotWhole {
        expression: String,
        /// The number, as it was parsed: its last digits may be lost.
        number: String,
    },
    /// The result is neither a text with a time nor a whole number, where a time is wanted.
    #[error("`{expression}`: found {found}, expected {TIME}")]
    NoTime {
        expression: String,
        /// What was found: a text or a number itself, or the type of another result.
        found: String,
    },
    /// The evaluation failed on this body.
    #[error("`{expression}`: cannot be evaluated: {message}")]
    Evaluation { expression: String, message: String },
}

/// Returns what an expression finds in a JSON body.
///
/// # Errors
/// [`ExpressionError::Evaluation`]. A retry fails too: the result depends on the body only.
pub(crate) fn evaluated(expression: &Expression, body: &Rcvar) -> Result<Rcvar, ExpressionError> {
    let found = expression.find(body);
    found.map_err(|message| ExpressionError::Evaluation {
        expression: expression.as_str().to_owned(),
        message,
    })
}

/// Returns the text that an expression finds in a JSON body. The members of a list are joined with `|`. A `|` or `\` inside
/// a member is escaped, so that different lists never give the same text.
///
/// # Errors
/// [`ExpressionError`]. A retry fails too: the result depends on the body only.
pub fn find_text(expression: &Expression, body: &Rcvar) -> Result<String, ExpressionError> {
    let name = || expression.as_str().to_owned();
    let nothing = || ExpressionError::Nothing { expression: name() };
    let no_text = |value: &Variable| match value {
        Variable::Number(number) => ExpressionError::NotWhole {
            expression: name(),
            number: number.to_string(),
        },
        value => ExpressionError::NoText {
            expression: name(),
            found: describe(value),
        },
    };
    let found = evaluated(expression, body)?;
    match found.as_ref() {
        Variable::Null => Err(nothing()),
        Variable::Array(members) if members.is_empty() => Err(no_text(&found)),
        Variable::Array(members) => {
            let text = |member: &Rcvar| scalar(member).ok_or_else(|| no_text(member));
            let texts: Result<Vec<String>, _> = members.iter().map(text).collect();
            Ok(join(&texts?))
        }
        value => match scalar(value) {
            Some(text) if text.is_empty() => Err(no_text(value)),
            Some(text) => Ok(text),
            None => Err(no_text(value)),
        },
    }
}

fn join(members: &[String]) -> String {
    let escaped = |member: &String| member.replace('\\', "\\\\").replace('|', "\\|");
    let escaped: Vec<String> = members.iter().map(escaped).collect();
    escaped.join("|")
}

/// Returns a scalar as a text. Returns `None` for numbers that are not whole or do not fit 64 bits: they are parsed as
/// floating point, which can turn two different ids into one.
fn scalar(value: &Variable) -> Option<String> {
    match value {
        Variable::String(text) => Some(text.clone()),
        Variable::Bool(flag) => Some(flag.to_string()),
        Variable::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        Variable::Number(_)
        | Variable::Null
        | Variable::Array(_)
        | Variable::Object(_)
        | Variable::Expref(_) => None,
    }
}

fn describe(value: &Variable) -> &'static str {
    match value {
        Variable::String(_) => "an empty text",
        Variable::Null => "a null inside a list",
        Variable::Array(members) if members.is_empty() => "an empty list",
        Variable::Array(_) => "a list inside a list",
        Variable::Object(_) => "an object",
        Variable::Number(_) | Variable::Bool(_) | Variable::Expref(_) => "something else",
    }
}

/// `EVENT_ID`: where the event id of a message comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum EventIdRule {
    /// The SQS message id: two messages never carry the same event.
    MessageId,
    /// The body hash: messages with the same body carry the same event.
    BodyHash,
    /// The string value of the message attribute with this name.
    Attribute(String),
    /// The value that this expression finds in the JSON body.
    Json(Expression),
}

impl FromStr for EventIdRule {
    type Err = String;

    fn from_str(text: &str) -> Result<EventIdRule, String> {
        match text.split_once(':') {
            None if text == "message-id" => Ok(EventIdRule::MessageId),
            None if text == "body-hash" => Ok(EventIdRule::BodyHash),
            Some(("attribute", name)) if !name.is_empty() => {
                Ok(EventIdRule::Attribute(name.to_owned()))
            }
            Some(("json", expression)) => expression.parse().map(EventIdRule::Json),
            Some(_) | None => Err(
                "expected `message-id`, `body-hash`, `attribute:NAME` or `json:EXPRESSION`"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(expression: &str, body: &str) -> Result<String, ExpressionError> {
        let body = Rcvar::new(Variable::from_json(body).unwrap());
        find_text(&expression.parse().unwrap(), &body)
    }

    #[test]
    fn scalars_have_one_text() {
        let body =
            r#"{"s":"a b","n":42,"big":18446744073709551615,"neg":-7,"t":true,"o":{"in":["x"]}}"#;
        for (expression, expected) in [
            ("s", "a b"),
            ("n", "42"),
            ("big", "18446744073709551615"),
            ("neg", "-7"),
            ("t", "true"),
            ("o.in[0]", "x"),
        ] {
            assert_eq!(text(expression, body).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_list_joins_to_one_text_and_different_lists_to_different_texts() {
        assert_eq!(text("[a, b]", r#"{"a":"x","b":7}"#).as_deref(), Ok("x|7"));
        let left = text("[a, b]", r#"{"a":"x|y","b":"z"}"#).unwrap();
        let right = text("[a, b]", r#"{"a":"x","b":"y|z"}"#).unwrap();
        assert_ne!(left, right);
        assert_eq!(text("[a]", r#"{"a":"x|\\y"}"#).as_deref(), Ok(r"x\|\\y"));
    }

    #[test]
    fn what_has_no_text_is_refused_by_name() {
        for (expression, body, words) in [
            ("id", "{}", "`id`: found nothing"),
            ("id", r#"{"id":null}"#, "`id`: found nothing"),
            ("id", r#"{"id":""}"#, "`id`: found an empty text, expected"),
            ("id", r#"{"id":[]}"#, "`id`: found an empty list, expected"),
            (
                "[id]",
                r#"{"id":[]}"#,
                "`[id]`: found an empty list, expected",
            ),
            ("id", r#"{"id":{}}"#, "`id`: found an object"),
            ("id", r#"{"id":1.5}"#, "the number «1.5»"),
            (
                "id",
                r#"{"id":12345678901234567890123}"#,
                "`id`: found the number «1.2345678901234568e+22», \
                 expected a whole number from -9223372036854775808 to 18446744073709551615, or a string",
            ),
            ("[id, other]", r#"{"id":"a"}"#, "a null inside a list"),
            ("abs(id)", r#"{"id":"a"}"#, "cannot be evaluated"),
        ] {
            let error = text(expression, body).unwrap_err().to_string();
            assert!(error.contains(words), "{words} in {error}");
        }
    }

    #[test]
    fn rules_are_read_and_others_refused_with_what_is_allowed() {
        assert_eq!("message-id".parse(), Ok(EventIdRule::MessageId));
        assert_eq!("body-hash".parse(), Ok(EventIdRule::BodyHash));
        let attribute = EventIdRule::Attribute("order".to_owned());
        assert_eq!("attribute:order".parse(), Ok(attribute));
        let expression = EventIdRule::Json("a.b".parse().unwrap());
        assert_eq!("json:a.b".parse(), Ok(expression));
        for wrong in ["", "id", "attribute:", "jsn:a", "MESSAGE-ID"] {
            let error = wrong.parse::<EventIdRule>().unwrap_err();
            assert!(error.contains("`message-id`"), "{wrong}");
        }
    }
}
