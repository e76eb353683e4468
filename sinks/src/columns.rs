//! The columns of `csv` and `fixed-width`: `SINK_COLUMNS`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jmespath::{Rcvar, Variable};
use serde::Deserialize;
use serde_json::Value;
use shared::expression::Expression;
use shared::ports::StoredEvent;

use crate::part::Part;
use crate::reject::RejectReason;

/// Characters of a column of fixed width.
const WIDTH_MAX: usize = 10_000;
/// Where whole numbers begin to lose digits as 64-bit floating point, which is how numbers beyond 64 bits are read.
const FLOAT_EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A column: its name, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub(crate) name: String,
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// What an expression finds in the body.
    Json(Expression),
    /// What the envelope says.
    Field(Field),
}

/// A field of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    BatchId,
    Part,
    Seq,
    EventId,
    SqsMessageId,
    Source,
    SentAt,
    BatchKey,
    Body,
}

const FIELDS: [(&str, Field); 9] = [
    ("batchId", Field::BatchId),
    ("part", Field::Part),
    ("seq", Field::Seq),
    ("eventId", Field::EventId),
    ("sqsMessageId", Field::SqsMessageId),
    ("source", Field::Source),
    ("sentAt", Field::SentAt),
    ("batchKey", Field::BatchKey),
    ("body", Field::Body),
];

/// A body that is read as JSON once, when a column first needs it.
pub(crate) struct Body<'i> {
    text: &'i str,
    json: Option<Rcvar>,
}

impl<'i> Body<'i> {
    pub(crate) fn of(item: &'i StoredEvent) -> Body<'i> {
        Body {
            text: &item.body,
            json: None,
        }
    }

    fn json(&mut self) -> Result<&Rcvar, RejectReason> {
        let json = match self.json.take() {
            Some(json) => json,
            None => Variable::from_json(self.text)
                .map(Rcvar::new)
                .map_err(|message| RejectReason::NotJson { message })?,
        };
        Ok(self.json.insert(json))
    }
}

impl Column {
    /// What is in the column for an event, nothing for null.
    pub(crate) fn text<'i>(
        &self,
        part: &'i Part,
        item: &'i StoredEvent,
        body: &mut Body<'_>,
    ) -> Result<Cow<'i, str>, RejectReason> {
        let value = self.value(part, item, body)?;
        Ok(value.unwrap_or(Cow::Borrowed("")))
    }

    /// What is in the column for an event: `None` for null, strings as they are, anything else as JSON.
    pub(crate) fn value<'i>(
        &self,
        part: &'i Part,
        item: &'i StoredEvent,
        body: &mut Body<'_>,
    ) -> Result<Option<Cow<'i, str>>, RejectReason> {
        let expression = match &self.content {
            Content::Field(field) => return Ok(field.value(part, item)),
            Content::Json(expression) => expression,
        };
        let found = expression
            .find(body.json()?)
            .map_err(|message| RejectReason::Evaluation {
                column: self.name.clone(),
                expression: expression.as_str().to_owned(),
                message,
            })?;
        let text = match found.as_ref() {
            Variable::Null => return Ok(None),
            Variable::String(text) => text.clone(),
            Variable::Number(number) => {
                number_text(number).ok_or_else(|| RejectReason::NumberTooLarge {
                    column: self.name.clone(),
                })?
            }
            value @ (Variable::Bool(_)
            | Variable::Array(_)
            | Variable::Object(_)
            | Variable::Expref(_)) => value.to_string(),
        };
        Ok(Some(Cow::Owned(text)))
    }
}

/// A number in digits; `None` if it may be another than the one that was written. What expressions work out comes as
/// floating point, so one that is whole is written as such.
fn number_text(number: &serde_json::Number) -> Option<String> {
    if number.is_i64() || number.is_u64() {
        return Some(number.to_string());
    }
    let float = number
        .as_f64()
        .filter(|float| float.abs() < FLOAT_EXACT_MAX)?;
    Some(match float.fract() == 0.0 {
        true => (float as i64).to_string(),
        false => number.to_string(),
    })
}

impl Field {
    fn value<'i>(self, part: &'i Part, item: &'i StoredEvent) -> Option<Cow<'i, str>> {
        let text = match self {
            Field::BatchId => Cow::Owned(part.batch_id.to_string()),
            Field::Part => Cow::Owned(part.number.to_string()),
            Field::Seq => Cow::Owned(item.seq.to_string()),
            Field::EventId => Cow::Borrowed(item.event_id.as_str()),
            Field::SqsMessageId => Cow::Borrowed(item.sqs_message_id.as_str()),
            Field::Source => Cow::Borrowed(item.source.as_str()),
            Field::SentAt => Cow::Owned(item.sent_at.as_ms().to_string()),
            Field::BatchKey => Cow::Borrowed(part.batch_key.as_ref()?.as_str()),
            Field::Body => Cow::Borrowed(&*item.body),
        };
        Some(text)
    }
}

/// A column of so many characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedColumn {
    column: Column,
    width: usize,
    align: Align,
    pad: char,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

impl FixedColumn {
    /// Pushes exactly as many characters as the column is wide.
    pub(crate) fn push(
        &self,
        line: &mut Vec<u8>,
        part: &Part,
        item: &StoredEvent,
        body: &mut Body<'_>,
    ) -> Result<(), RejectReason> {
        let text = self.column.text(part, item, body)?;
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
        let mut bytes = [0; 4];
        let pad = self.pad.encode_utf8(&mut bytes).as_bytes();
        let (before, after) = match self.align {
            Align::Left => (0, rest),
            Align::Right => (rest, 0),
        };
        line.extend(pad.iter().cycle().take(pad.len() * before));
        line.extend_from_slice(text.as_bytes());
        line.extend(pad.iter().cycle().take(pad.len() * after));
        Ok(())
    }
}

/// `SINK_COLUMNS`, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<Read>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    column: Column,
    width: Option<usize>,
    align: Align,
    pad: char,
}

/// Everything that is wrong with `SINK_COLUMNS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnsError(Vec<String>);

impl fmt::Display for ColumnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for ColumnsError {}

impl Columns {
    /// For `csv`; widths do not matter there.
    pub fn csv(self) -> Arc<[Column]> {
        self.0.into_iter().map(|read| read.column).collect()
    }

    /// For `fixed-width`.
    ///
    /// # Errors
    /// Columns that have no width.
    pub fn fixed_width(self) -> Result<Arc<[FixedColumn]>, ColumnsError> {
        let mut problems = Vec::new();
        let mut columns = Vec::with_capacity(self.0.len());
        for read in self.0 {
            match read.width {
                Some(width) => columns.push(FixedColumn {
                    column: read.column,
                    width,
                    align: read.align,
                    pad: read.pad,
                }),
                None => problems.push(format!("column `{}` has no `width`", read.column.name)),
            }
        }
        match problems.is_empty() {
            true => Ok(columns.into()),
            false => Err(ColumnsError(problems)),
        }
    }
}

/// A column as it is written. What may be wrong with a value is looked at later, so that all of it is told at once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    json: Option<String>,
    field: Option<String>,
    width: Option<Value>,
    align: Option<String>,
    pad: Option<String>,
}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        let written: Vec<Written> = serde_json::from_str(text)
            .map_err(|error| ColumnsError(vec![format!("no JSON list of columns: {error}")]))?;
        let mut problems = Vec::new();
        if written.is_empty() {
            problems.push("no columns".to_owned());
        }
        let mut names = BTreeSet::new();
        let mut columns = Vec::with_capacity(written.len());
        for each in written {
            if !names.insert(each.name.clone()) {
                problems.push(format!("two columns have the name `{}`", each.name));
            }
            columns.extend(column(each, &mut problems));
        }
        match problems.is_empty() {
            true => Ok(Columns(columns)),
            false => Err(ColumnsError(problems)),
        }
    }
}

fn column(written: Written, problems: &mut Vec<String>) -> Option<Read> {
    let name = written.name;
    let mut problem = |words: String| problems.push(format!("column `{name}`: {words}"));
    let content = match (written.json, written.field) {
        (Some(json), None) => json
            .parse()
            .map(Content::Json)
            .map_err(|error| problem(format!("`json` is `{json}`: {error}")))
            .ok(),
        (None, Some(field)) => {
            let known = FIELDS.iter().find(|(name, _)| *name == field);
            if known.is_none() {
                let all = FIELDS.map(|(name, _)| format!("`{name}`")).join(", ");
                problem(format!("`field` is `{field}`, expected one of {all}"));
            }
            known.map(|(_, field)| Content::Field(*field))
        }
        (Some(_), Some(_)) => {
            problem("both `json` and `field`, expected one of them".to_owned());
            None
        }
        (None, None) => {
            problem("neither `json` nor `field`, expected one of them".to_owned());
            None
        }
    };
    let width = written.width.map(|width| {
        let chars = width.as_u64().and_then(|chars| usize::try_from(chars).ok());
        let chars = chars.filter(|chars| (1..=WIDTH_MAX).contains(chars));
        if chars.is_none() {
            problem(format!(
                "`width` is `{width}`, expected a whole number of characters from 1 to {WIDTH_MAX}"
            ));
        }
        chars
    });
    let align = match written.align.as_deref() {
        None | Some("left") => Some(Align::Left),
        Some("right") => Some(Align::Right),
        Some(other) => {
            problem(format!("`align` is `{other}`, expected `left` or `right`"));
            None
        }
    };
    let pad = written.pad.unwrap_or_else(|| " ".to_owned());
    let mut letters = pad.chars();
    let pad = match (letters.next(), letters.next()) {
        (Some(letter), None) if !letter.is_control() => Some(letter),
        (Some(_) | None, _) => {
            problem(format!(
                "`pad` is `{}`, expected one character",
                pad.escape_debug()
            ));
            None
        }
    };
    // A width that is wrong is told already; one that is missing may be all right.
    let width = match width {
        None => None,
        Some(width) => Some(width?),
    };
    Some(Read {
        column: Column {
            name,
            content: content?,
        },
        width,
        align: align?,
        pad: pad?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::Format;
    use crate::tests_support::part;

    fn problems(text: &str) -> Vec<String> {
        text.parse::<Columns>().unwrap_err().0
    }

    #[test]
    fn every_wrong_column_is_told_at_once() {
        let found = problems(
            r#"[{"name":"a","json":"a["},{"name":"a","field":"id"},{"name":"b","json":"b","field":"seq","width":0},
                {"name":"c","align":"middle","pad":"xy"},{"name":"d","json":"d","width":10001,"pad":"\n"},
                {"name":"e","json":"[1::1048577]","width":"9","pad":""}]"#,
        );
        for words in [
            "column `a`: `json` is `a[`: no JMESPath expression: ",
            "two columns have the name `a`",
            "column `a`: `field` is `id`, expected one of `batchId`, `part`, ",
            "column `b`: both `json` and `field`",
            "column `b`: `width` is `0`, expected a whole number of characters from 1 to 10000",
            "column `c`: neither `json` nor `field`",
            "column `c`: `align` is `middle`, expected `left` or `right`",
            "column `c`: `pad` is `xy`, expected one character",
            "column `d`: `width` is `10001`",
            "column `d`: `pad` is `\\n`",
            "column `e`: `json` is `[1::1048577]`: a slice has the step",
            "column `e`: `width` is `\"9\"`",
            "column `e`: `pad` is ``",
        ] {
            assert!(
                found.iter().any(|problem| problem.starts_with(words)),
                "{words} in {found:?}"
            );
        }
        assert_eq!(found.len(), 13, "{found:?}");
    }

    #[test]
    fn what_is_no_list_of_columns_is_refused_with_the_parsers_words() {
        assert_eq!(problems("[]"), ["no columns"]);
        for wrong in [
            "",
            "{}",
            "[1]",
            r#"[{"json":"a"}]"#,
            r#"[{"name":"a","jsn":"a"}]"#,
        ] {
            let found = problems(wrong);
            assert!(
                found[0].starts_with("no JSON list of columns: "),
                "{wrong}: {found:?}"
            );
        }
    }

    #[test]
    fn a_width_may_be_missing_but_not_for_fixed_width() {
        let columns: Columns = r#"[{"name":"a","json":"a"},{"name":"b","json":"b","width":1}]"#
            .parse()
            .unwrap();
        assert_eq!(columns.clone().csv().len(), 2);
        let error = columns.fixed_width().unwrap_err();
        assert_eq!(error.to_string(), "column `a` has no `width`");
    }

    #[test]
    fn every_field_has_a_text_but_a_batch_key_that_is_not() {
        let part = part(3, &["body"]);
        let texts = FIELDS.map(|(_, field)| {
            let value = field.value(&part, &part.items[0]);
            value.map(Cow::into_owned)
        });
        let texts = texts.each_ref().map(Option::as_deref);
        assert_eq!(
            texts,
            [
                Some("0190163d-8694-739b-aea5-966c26f8ad91"),
                Some("3"),
                Some("0"),
                Some("e0"),
                Some("m0"),
                Some("arn:q"),
                Some("7"),
                None,
                Some("body"),
            ]
        );
    }

    proptest! {
        #[test]
        fn all_lines_of_fixed_width_have_one_length(
            values in prop::collection::vec("\\PC{0,12}", 0..20),
            widths in prop::collection::vec((1_usize..12, any::<bool>()), 1..4),
        ) {
            let columns: Vec<Value> = widths
                .iter()
                .enumerate()
                .map(|(index, (width, right))| serde_json::json!({
                    "name": index.to_string(), "json": "@", "width": width,
                    "align": if *right { "right" } else { "left" }, "pad": if *right { "ß" } else { " " },
                }))
                .collect();
            let columns: Columns = Value::from(columns).to_string().parse().unwrap();
            let format = Format::FixedWidth(columns.fixed_width().unwrap());
            let bodies: Vec<String> = values.iter().map(|value| Value::from(value.as_str()).to_string()).collect();
            let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
            let mut written = Vec::new();
            let rejects = format.write(&part(0, &bodies), &mut written).unwrap();
            let text = String::from_utf8(written).unwrap();
            let line: usize = widths.iter().map(|(width, _)| width).sum();
            prop_assert_eq!(text.lines().count() + rejects.len(), values.len());
            for each in text.split_terminator('\n') {
                prop_assert_eq!(each.chars().count(), line);
            }
        }
    }
}
