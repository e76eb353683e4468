//! The list of columns: how `SINK_COLUMNS` is parsed, and what may be wrong with it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::column::{Align, Column, Content, FIELDS, FixedColumn};

/// The prefix of the name of a message attribute, as in `EVENT_ID`.
const ATTRIBUTE: &str = "attribute:";
/// Characters of a column of fixed width.
const WIDTH_MAX: usize = 10_000;

/// The parsed value of `SINK_COLUMNS`.
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
    /// Returns the columns for `csv`, which ignores widths.
    pub fn csv(self) -> Arc<[Column]> {
        self.0.into_iter().map(|read| read.column).collect()
    }

    /// Returns the columns for `fixed-width`.
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

/// A column as JSON. Its values are checked later, so that all problems are reported at once.
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

/// Reads one column; puts everything that is wrong with it into `problems`.
fn column(written: Written, problems: &mut Vec<String>) -> Option<Read> {
    let name = written.name;
    let mut problem = |words: String| problems.push(format!("column `{name}`: {words}"));
    let content = content(written.json, written.field, &mut problem);
    let width = written.width.map(|width| self::width(&width, &mut problem));
    let align = align(written.align.as_deref(), &mut problem);
    let pad = pad(written.pad.as_deref().unwrap_or(" "), &mut problem);
    Some(Read {
        column: Column {
            name,
            content: content?,
        },
        // A width that is wrong makes no column; a width that is missing is allowed in `csv`.
        width: match width {
            None => None,
            Some(width) => Some(width?),
        },
        align: align?,
        pad: pad?,
    })
}

fn content(
    json: Option<String>,
    field: Option<String>,
    problem: &mut impl FnMut(String),
) -> Option<Content> {
    match (json, field) {
        (Some(json), None) => json
            .parse()
            .map(Content::Json)
            .map_err(|error| problem(format!("`json`: wrong value: got `{json}`: {error}")))
            .ok(),
        (None, Some(field)) => {
            let known = FIELDS.iter().find(|(name, _)| *name == field);
            let known = known.map(|(_, field)| Content::Field(*field));
            let attribute = || {
                field
                    .strip_prefix(ATTRIBUTE)
                    .filter(|name| !name.is_empty())
            };
            let content = known.or_else(|| Some(Content::Attribute(attribute()?.to_owned())));
            if content.is_none() {
                let all = FIELDS.map(|(name, _)| format!("`{name}`")).join(", ");
                problem(format!(
                    "`field`: wrong value: got `{field}`, expected one of {all}, `{ATTRIBUTE}NAME`"
                ));
            }
            content
        }
        (Some(_), Some(_)) => {
            problem("both `json` and `field`, expected one of them".to_owned());
            None
        }
        (None, None) => {
            problem("neither `json` nor `field`, expected one of them".to_owned());
            None
        }
    }
}

fn width(width: &Value, problem: &mut impl FnMut(String)) -> Option<usize> {
    let chars = width.as_u64().and_then(|chars| usize::try_from(chars).ok());
    let chars = chars.filter(|chars| (1..=WIDTH_MAX).contains(chars));
    if chars.is_none() {
        problem(format!(
            "`width`: wrong value: got `{width}`, expected a whole number of characters from 1 to {WIDTH_MAX}"
        ));
    }
    chars
}

fn align(align: Option<&str>, problem: &mut impl FnMut(String)) -> Option<Align> {
    match align {
        None | Some("left") => Some(Align::Left),
        Some("right") => Some(Align::Right),
        Some(other) => {
            problem(format!(
                "`align`: wrong value: got `{other}`, expected `left` or `right`"
            ));
            None
        }
    }
}

fn pad(pad: &str, problem: &mut impl FnMut(String)) -> Option<char> {
    let mut letters = pad.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if !letter.is_control() => Some(letter),
        (Some(_) | None, _) => {
            problem(format!(
                "`pad`: wrong value: got `{}`, expected one character",
                pad.escape_debug()
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use shared::message_attributes::MessageAttributes;

    use crate::format::Format;
    use crate::tests_support::part;

    fn problems(text: &str) -> Vec<String> {
        text.parse::<Columns>().unwrap_err().0
    }

    #[test]
    fn all_problems_of_all_columns_are_reported_at_once() {
        let found = problems(
            r#"[{"name":"a","json":"a["},{"name":"a","field":"id"},{"name":"b","json":"b","field":"seq","width":0},
                {"name":"c","align":"middle","pad":"xy"},{"name":"d","json":"d","width":10001,"pad":"\n"},
                {"name":"e","json":"[1::1048577]","width":"9","pad":""}]"#,
        );
        for words in [
            "column `a`: `json`: wrong value: got `a[`: not a JMESPath expression: ",
            "two columns have the name `a`",
            "column `a`: `field`: wrong value: got `id`, expected one of `batchId`, `part`, ",
            "column `b`: both `json` and `field`",
            "column `b`: `width`: wrong value: got `0`, expected a whole number of characters from 1 to 10000",
            "column `c`: neither `json` nor `field`",
            "column `c`: `align`: wrong value: got `middle`, expected `left` or `right`",
            "column `c`: `pad`: wrong value: got `xy`, expected one character",
            "column `d`: `width`: wrong value: got `10001`",
            "column `d`: `pad`: wrong value: got `\\n`",
            "column `e`: `json`: wrong value: got `[1::1048577]`: slice step too large: got `1048577`",
            "column `e`: `width`: wrong value: got `\"9\"`",
            "column `e`: `pad`: wrong value: got ``",
        ] {
            assert!(
                found.iter().any(|problem| problem.starts_with(words)),
                "{words} in {found:?}"
            );
        }
        assert_eq!(found.len(), 13, "{found:?}");
    }

    #[test]
    fn a_column_has_the_value_of_a_message_attribute_and_is_empty_without_it() {
        const COLUMNS: &str = r#"[{"name":"t","field":"attribute:tenant","width":3},
            {"name":"b","field":"attribute:raw","width":9},{"name":"s","field":"seq","width":1}]"#;
        const ATTRIBUTES: &str = r#"{"tenant":{"dataType":"String.mine","stringValue":"a,b"},
            "raw":{"dataType":"Binary","binaryValue":"AJ+Slg=="}}"#;
        let mut part = part(0, &["no JSON", "no JSON"]);
        part.items[0].attributes = MessageAttributes::read(ATTRIBUTES).unwrap();
        let written = |format: Format| {
            let mut bytes = Vec::new();
            assert!(format.write(&part, &mut bytes).unwrap().is_empty());
            String::from_utf8(bytes).unwrap()
        };
        let columns: Columns = COLUMNS.parse().unwrap();
        let csv = Format::Csv {
            columns: columns.clone().csv(),
            header: false,
        };
        assert_eq!(written(csv), "\"a,b\",AJ+Slg==,0\n,,1\n");
        let fixed_width = Format::FixedWidth(columns.fixed_width().unwrap());
        assert_eq!(written(fixed_width), "a,bAJ+Slg== 0\n            1\n");

        let all = r#"[{"name":"all","field":"attributes"}]"#;
        let all: Columns = all.parse().unwrap();
        let csv = Format::Csv {
            columns: all.csv(),
            header: false,
        };
        let first = concat!(
            r#""{""raw"":{""dataType"":""Binary"",""binaryValue"":""AJ+Slg==""},"#,
            r#"""tenant"":{""dataType"":""String.mine"",""stringValue"":""a,b""}}""#
        );
        assert_eq!(written(csv), format!("{first}\n\"\"\n"));
        assert_eq!(
            problems(r#"[{"name":"a","field":"attribute:"}]"#),
            [
                "column `a`: `field`: wrong value: got `attribute:`, expected one of `batchId`, `part`, `seq`, `eventId`, \
                 `sqsMessageId`, `source`, `sentAt`, `batchKey`, `body`, `attributes`, `attribute:NAME`"
            ]
        );
    }

    #[test]
    fn a_value_that_is_no_list_of_columns_is_refused_with_the_parsers_error() {
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
    fn a_width_may_be_missing_in_csv_but_not_in_fixed_width() {
        let columns: Columns = r#"[{"name":"a","json":"a"},{"name":"b","json":"b","width":1}]"#
            .parse()
            .unwrap();
        assert_eq!(columns.clone().csv().len(), 2);
        let error = columns.fixed_width().unwrap_err();
        assert_eq!(error.to_string(), "column `a` has no `width`");
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
