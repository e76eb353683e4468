//! One column: how its value is found, and how it is written with a fixed width.

use std::borrow::Cow;

use jmespath::{Rcvar, Variable};
use shared::expression::Expression;
use shared::message_attributes::AttributeMap;
use shared::ports::StoredEvent;

use crate::part::Part;
use crate::reject::{RejectReason, shown};
use crate::types::{ColumnType, Value, has_long_number};

/// From here on, whole numbers lose digits as 64-bit floating point, which is how numbers beyond 64 bits are read.
const FLOAT_EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A column: its name, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name in a header, a table or a file.
    pub name: String,
    pub(super) content: Content,
    /// The type of its values, if it has one.
    pub kind: Option<ColumnType>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The value that an expression finds in the body.
    Json(Expression),
    /// A field of the envelope.
    Field(Field),
    /// The value of the message attribute with this name.
    Attribute(String),
}

/// A field of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    BatchId,
    Part,
    Seq,
    EventId,
    SqsMessageId,
    Source,
    SentAt,
    BatchKey,
    Body,
    Attributes,
}

pub(super) const FIELDS: [(&str, Field); 10] = [
    ("batchId", Field::BatchId),
    ("part", Field::Part),
    ("seq", Field::Seq),
    ("eventId", Field::EventId),
    ("sqsMessageId", Field::SqsMessageId),
    ("source", Field::Source),
    ("sentAt", Field::SentAt),
    ("batchKey", Field::BatchKey),
    ("body", Field::Body),
    ("attributes", Field::Attributes),
];

/// A body and its message attributes. Each is parsed as JSON once, when a column first needs it.
pub struct Body<'i> {
    item: &'i StoredEvent,
    json: Option<Rcvar>,
    attributes: Option<AttributeMap>,
    has_long_number: Option<bool>,
}

impl<'i> Body<'i> {
    /// Returns the body of an event; nothing is parsed.
    pub fn of(item: &'i StoredEvent) -> Body<'i> {
        Body {
            item,
            json: None,
            attributes: None,
            has_long_number: None,
        }
    }

    fn json(&mut self) -> Result<&Rcvar, RejectReason> {
        let json = match self.json.take() {
            Some(json) => json,
            None => Variable::from_json(&self.item.body)
                .map(Rcvar::new)
                .map_err(|message| RejectReason::NotJson { message })?,
        };
        Ok(self.json.insert(json))
    }

    /// Returns whether a number of the body may have lost digits when it was read.
    fn has_long_number(&mut self) -> bool {
        let item = self.item;
        *self
            .has_long_number
            .get_or_insert_with(|| has_long_number(&item.body))
    }

    /// Returns the value of a message attribute; `None` if the event does not have it.
    fn attribute(&mut self, name: &str) -> Option<String> {
        let attributes = self.item.attributes.as_ref()?;
        let all = self.attributes.get_or_insert_with(|| attributes.to_map());
        Some(all.get(name)?.text().into_owned())
    }
}

/// What the values of a column are, for a file that has types.
#[cfg(feature = "full")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind<'c> {
    /// Texts; some may be null.
    Text {
        /// Whether some may be null.
        optional: bool,
    },
    /// Whole numbers of 64 bits.
    Number,
    /// Times, in milliseconds since 1970 UTC.
    Time,
    /// Values of the type of the column; some may be null.
    Typed(&'c ColumnType),
}

impl Column {
    /// Returns what the values are. What an expression finds may differ from body to body, so it is a text unless the column has a type.
    #[cfg(feature = "full")]
    pub fn kind(&self) -> ColumnKind<'_> {
        if let Some(kind) = &self.kind {
            return ColumnKind::Typed(kind);
        }
        match &self.content {
            Content::Json(_)
            | Content::Attribute(_)
            | Content::Field(Field::BatchKey | Field::Attributes) => {
                ColumnKind::Text { optional: true }
            }
            Content::Field(Field::Part | Field::Seq) => ColumnKind::Number,
            Content::Field(Field::SentAt) => ColumnKind::Time,
            Content::Field(
                Field::BatchId | Field::EventId | Field::SqsMessageId | Field::Source | Field::Body,
            ) => ColumnKind::Text { optional: false },
        }
    }

    /// Rejects a record without a value, if the column has a type: what stands in its place would be a value.
    pub(crate) fn check_null(&self) -> Result<(), RejectReason> {
        match &self.kind {
            None => Ok(()),
            Some(kind) => Err(RejectReason::NoValue {
                column: self.name.clone(),
                kind: kind.name(),
                expected: kind.expected(),
            }),
        }
    }

    /// Returns the characters that the column writes whatever the value is.
    pub fn literals(&self) -> String {
        let kind = self.kind.as_ref();
        kind.map_or_else(String::new, ColumnType::literals)
    }

    /// Returns whether the values are bytes, which no encoding writes.
    pub fn is_binary(&self) -> bool {
        self.kind.as_ref().is_some_and(ColumnType::is_binary)
    }

    /// Returns the value of the column for an event: `None` for null. Without a type it is a text: strings as they are, anything else
    /// as JSON.
    pub fn value<'i>(
        &self,
        part: &'i Part,
        item: &'i StoredEvent,
        body: &mut Body<'_>,
    ) -> Result<Option<Value<'i>>, RejectReason> {
        let Some(text) = self.text(part, item, body)? else {
            return Ok(None);
        };
        let Some(kind) = &self.kind else {
            return Ok(Some(Value::Text(text)));
        };
        let wrong = || RejectReason::WrongType {
            column: self.name.clone(),
            kind: kind.name(),
            value: shown(&text),
            expected: kind.expected(),
        };
        kind.value(&text).map(Some).ok_or_else(wrong)
    }

    /// Returns the text that the column finds in an event: `None` for null, strings as they are, anything else as JSON.
    fn text<'i>(
        &self,
        part: &'i Part,
        item: &'i StoredEvent,
        body: &mut Body<'_>,
    ) -> Result<Option<Cow<'i, str>>, RejectReason> {
        let expression = match &self.content {
            Content::Field(field) => return Ok(field.value(part, item)),
            Content::Attribute(name) => return Ok(body.attribute(name).map(Cow::Owned)),
            Content::Json(expression) => expression,
        };
        let found = expression
            .find(body.json()?)
            .map_err(|message| RejectReason::Evaluation {
                column: self.name.clone(),
                expression: expression.as_str().to_owned(),
                message,
            })?;
        let too_large = || RejectReason::NumberTooLarge {
            column: self.name.clone(),
        };
        let text = match found.as_ref() {
            Variable::Null => return Ok(None),
            Variable::String(text) => text.clone(),
            Variable::Number(number) => {
                let is_float = number.is_f64() && self.kind.is_some();
                if is_float && body.has_long_number() {
                    return Err(RejectReason::NumberTooLong {
                        column: self.name.clone(),
                    });
                }
                number_text(number).ok_or_else(too_large)?
            }
            value if !is_exact(value) => return Err(too_large()),
            value @ (Variable::Bool(_)
            | Variable::Array(_)
            | Variable::Object(_)
            | Variable::Expref(_)) => value.to_string(),
        };
        Ok(Some(Cow::Owned(text)))
    }
}

/// Returns a number in digits; `None` if parsing may have changed its value. The results of expressions are floating
/// point, so a whole result is written as a whole number.
fn number_text(number: &serde_json::Number) -> Option<String> {
    if number.is_i64() || number.is_u64() {
        return Some(number.to_string());
    }
    let float = number
        .as_f64()
        .filter(|float| float.abs() < FLOAT_EXACT_MAX)?;
    Some(match float.fract() == 0.0 {
        true => (float as i64).to_string(),
        // Not as JSON has it, which may be with an exponent.
        false => float.to_string(),
    })
}

/// Returns whether parsing changed no number in a value.
fn is_exact(value: &Variable) -> bool {
    match value {
        Variable::Number(number) => number_text(number).is_some(),
        Variable::Array(values) => values.iter().all(|value| is_exact(value)),
        Variable::Object(values) => values.values().all(|value| is_exact(value)),
        Variable::Null | Variable::String(_) | Variable::Bool(_) | Variable::Expref(_) => true,
    }
}

impl Field {
    fn value<'i>(self, part: &'i Part, item: &'i StoredEvent) -> Option<Cow<'i, str>> {
        let text = match self {
            Field::BatchId => Cow::Owned(part.batch_id.to_string()),
            Field::Part => Cow::Owned(part.part_index.to_string()),
            Field::Seq => Cow::Owned(item.seq.to_string()),
            Field::EventId => Cow::Borrowed(item.event_id.as_str()),
            Field::SqsMessageId => Cow::Borrowed(item.sqs_message_id.as_str()),
            Field::Source => Cow::Borrowed(item.source.as_str()),
            Field::SentAt => Cow::Owned(item.sent_at.as_ms().to_string()),
            Field::BatchKey => Cow::Borrowed(part.batch_key.as_ref()?.as_str()),
            Field::Body => Cow::Borrowed(&*item.body),
            Field::Attributes => Cow::Borrowed(&**item.attributes.as_ref()?.as_text()),
        };
        Some(text)
    }
}

/// A column with a fixed number of characters, or of bytes if its values have no characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedColumn {
    /// What is written.
    pub column: Column,
    /// The number of characters or bytes.
    pub width: usize,
    pub(super) align: Align,
    /// The character that fills the width.
    pub pad: char,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

impl FixedColumn {
    /// Pushes exactly as many characters as the column is wide. Zeros before a number stand behind its sign.
    pub(crate) fn push(&self, record: &mut String, text: &str) -> Result<(), RejectReason> {
        let (length, width) = (text.chars().count(), self.width);
        let column = || self.column.name.clone();
        if text.contains(['\n', '\r']) {
            return Err(RejectReason::ColumnLineBreak {
                column: column(),
                length,
                width,
            });
        }
        let Some(rest) = width.checked_sub(length) else {
            return Err(RejectReason::TooWide {
                column: column(),
                length,
                width,
            });
        };
        let (before, after) = match self.align {
            Align::Left => (0, rest),
            Align::Right => (rest, 0),
        };
        // A reader of such a record takes `00000-12.5` for no number.
        let (sign, unsigned) = match (self.pad, self.align) {
            ('0', Align::Right) => split_sign(text),
            (_, Align::Left | Align::Right) => ("", text),
        };
        record.push_str(sign);
        record.extend(std::iter::repeat_n(self.pad, before));
        record.push_str(unsigned);
        record.extend(std::iter::repeat_n(self.pad, after));
        Ok(())
    }
}

/// Returns the sign of a text, and what follows it. Only a digit makes the character before it a sign.
fn split_sign(text: &str) -> (&str, &str) {
    match text.as_bytes() {
        [b'-' | b'+', b'0'..=b'9', ..] => text.split_at(1),
        [..] => ("", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_support::{BATCH, part};

    #[test]
    fn every_field_but_an_absent_batch_key_and_absent_attributes_has_a_text() {
        let part = part(3, &["body"]);
        let texts = FIELDS.map(|(_, field)| {
            let value = field.value(&part, &part.items[0]);
            value.map_or_else(|| "null".to_owned(), Cow::into_owned)
        });
        let expected = format!("{BATCH} 3 0 e0 m0 arn:q 7 null body null");
        assert_eq!(texts.join(" "), expected);
    }

    fn fixed(width: usize, align: Align, pad: char, text: &str) -> Result<String, RejectReason> {
        let column = FixedColumn {
            column: Column {
                name: "amount".to_owned(),
                content: Content::Field(Field::Body),
                kind: None,
            },
            width,
            align,
            pad,
        };
        let mut record = String::new();
        column.push(&mut record, text)?;
        Ok(record)
    }

    #[test]
    fn a_number_is_in_digits_and_one_that_lost_some_is_none_wherever_it_is() {
        let text = |json: &str| number_text(&serde_json::from_str(json).unwrap());
        for (json, expected) in [
            ("7", "7"),
            ("-2.50", "-2.5"),
            ("10.0", "10"),
            ("0.0000012", "0.0000012"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(text(json).as_deref(), Some(expected));
        }
        assert_eq!(text("18446744073709551616"), None);
        let exact = |json: &str| is_exact(&Variable::from_json(json).unwrap());
        assert!(exact(r#"{"a": [1, 0.5, {"b": "98765432109876543210"}]}"#));
        assert!(!exact(r#"{"a": [1, {"b": 98765432109876543210}]}"#));
    }

    #[test]
    fn zeros_that_pad_a_number_stand_between_its_sign_and_its_digits() {
        for (text, expected) in [
            ("-12.5", "-0000012.5"),
            ("+7", "+000000007"),
            ("-0", "-000000000"),
            ("12.5", "00000012.5"),
            ("-123456789", "-123456789"),
            ("", "0000000000"),
            ("-", "000000000-"),
            ("--1", "0000000--1"),
            ("-.5", "0000000-.5"),
            ("-é1", "0000000-é1"),
            ("1-2", "00000001-2"),
            // More bytes than the width has characters.
            ("-1€€€€", "-00001€€€€"),
        ] {
            let found = fixed(10, Align::Right, '0', text).unwrap();
            assert_eq!(found, expected);
            assert_eq!(found.chars().count(), 10, "{found}");
        }
        assert_eq!(fixed(5, Align::Right, ' ', "-1").unwrap(), "   -1");
        assert_eq!(fixed(5, Align::Left, '0', "-1").unwrap(), "-1000");
    }

    #[test]
    fn a_signed_number_of_more_characters_than_its_width_is_rejected() {
        assert_eq!(fixed(2, Align::Right, '0', "-1").unwrap(), "-1");
        let error = fixed(2, Align::Right, '0', "-12").unwrap_err();
        assert!(matches!(
            error,
            RejectReason::TooWide {
                length: 3,
                width: 2,
                ..
            }
        ));
    }
}
