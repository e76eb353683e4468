//! The list of columns: how `SINK_COLUMNS` is parsed, and what may be wrong with it.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::column::{Align, Column, Content, FIELDS, FixedColumn};
use crate::types::{ColumnType, TypeWords};

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct ColumnsError(Vec<String>);

impl Columns {
    /// Returns the columns for `csv`, `parquet` and rows, which ignore widths.
    ///
    /// # Errors
    /// Columns whose types only fixed-width records have.
    pub fn unpadded(self) -> Result<Arc<[Column]>, ColumnsError> {
        let columns = self.0.into_iter().map(|read| read.column);
        let columns = Vec::from_iter(columns);
        let stored = columns.iter().filter_map(|column| {
            let kind = column.kind.as_ref().filter(|kind| kind.width().is_some())?;
            let (name, kind) = (&column.name, kind.name());
            Some(format!("column `{name}`: `type`: wrong value: got `{kind}`, which is of `SINK_FORMAT` `fixed-width` only"))
        });
        let problems = Vec::from_iter(stored);
        match problems.is_empty() {
            true => Ok(columns.into()),
            false => Err(ColumnsError(problems)),
        }
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
    #[serde(rename = "type")]
    kind: Option<String>,
    format: Option<String>,
    sign: Option<String>,
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
    let content = noted(content(written.json, written.field), &name, problems);
    let words = TypeWords {
        kind: written.kind.as_deref(),
        format: written.format.as_deref(),
        sign: written.sign.as_deref(),
    };
    let kind = noted(ColumnType::read(words), &name, problems);
    let of_type = kind.iter().flatten().find_map(ColumnType::width);
    let width = written.width;
    let width = width.map(|width| noted(self::width(&width, of_type), &name, problems));
    let width = width.or(of_type.map(Some));
    if of_type.is_some() && (written.align.is_some() || written.pad.is_some()) {
        let words = "`align`, `pad`: its type has neither";
        problems.push(format!("column `{name}`: {words}"));
    }
    let align = noted(align(written.align.as_deref()), &name, problems);
    let pad = noted(pad(written.pad.as_deref().unwrap_or(" ")), &name, problems);
    if let Some(Some(kind)) = &kind {
        let number = kind.is_number().then_some(&content);
        let inexact = number.and_then(|content| calculates(content.as_ref()?));
        let problem = inexact
            .map(|function| format!("`json`: calls `{function}`, which calculates in floating point, expected an expression that finds the number of type `{}` as it is", kind.name()))
            .or_else(|| padded_wrongly(kind, align, pad))
            .or_else(|| too_narrow(kind, width.flatten()));
        problems.extend(problem.map(|words| format!("column `{name}`: {words}")));
    }
    Some(Read {
        column: Column {
            name,
            content: content?,
            kind: kind?,
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

/// Returns what was read; puts what is wrong with it into `problems`.
fn noted<T>(read: Result<T, String>, name: &str, problems: &mut Vec<String>) -> Option<T> {
    read.map_err(|words| problems.push(format!("column `{name}`: {words}")))
        .ok()
}

/// Functions of JMESPath whose results are made of 64-bit floating point, or of texts of it.
const CALCULATING: [&str; 8] = [
    "to_number",
    "to_string",
    "join",
    "sum",
    "avg",
    "abs",
    "ceil",
    "floor",
];

/// Returns a function that an expression calls and that calculates.
fn calculates(content: &Content) -> Option<&'static str> {
    let Content::Json(expression) = content else {
        return None;
    };
    let text = expression.as_str();
    CALCULATING.into_iter().find(|function| {
        text.match_indices(function).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let is_whole = before.is_none_or(|one| !one.is_alphanumeric() && one != '_');
            let after = text[at + function.len()..].trim_start();
            is_whole && after.starts_with('(')
        })
    })
}

/// Returns what is wrong with a padding that would change a number.
fn padded_wrongly(kind: &ColumnType, align: Option<Align>, pad: Option<char>) -> Option<String> {
    let digit = pad
        .filter(char::is_ascii_digit)
        .filter(|_| kind.is_number())?;
    let is_in_front = align == Some(Align::Right);
    (digit != '0' || !is_in_front).then(|| {
        format!("`pad`: wrong value: got `{digit}`, which would change a number, expected another character, or `0` with `align` `right`")
    })
}

/// Returns what is wrong with a width that no value fits.
fn too_narrow(kind: &ColumnType, width: Option<usize>) -> Option<String> {
    let (width, length) = (width?, kind.length()?);
    (width < length).then(|| {
        format!("`width`: wrong value: got `{width}`, expected at least the `{length}` characters of its values")
    })
}

fn content(json: Option<String>, field: Option<String>) -> Result<Content, String> {
    match (json, field) {
        (Some(json), None) => json
            .parse()
            .map(Content::Json)
            .map_err(|error| format!("`json`: wrong value: got `{json}`: {error}")),
        (None, Some(field)) => {
            if let Some((_, known)) = FIELDS.iter().find(|(name, _)| *name == field) {
                return Ok(Content::Field(*known));
            }
            match field.strip_prefix(ATTRIBUTE) {
                Some(name) if !name.is_empty() => Ok(Content::Attribute(name.to_owned())),
                Some(_) | None => {
                    let all = FIELDS.map(|(name, _)| format!("`{name}`")).join(", ");
                    Err(format!(
                        "`field`: wrong value: got `{field}`, expected one of {all}, `{ATTRIBUTE}NAME`"
                    ))
                }
            }
        }
        (Some(_), Some(_)) => Err("both `json` and `field`, expected one of them".to_owned()),
        (None, None) => Err("neither `json` nor `field`, expected one of them".to_owned()),
    }
}

fn width(width: &Value, of_type: Option<usize>) -> Result<usize, String> {
    let chars = width.as_u64().and_then(|chars| usize::try_from(chars).ok());
    let chars = chars.filter(|chars| (1..=WIDTH_MAX).contains(chars));
    if let Some(expected) = of_type.filter(|expected| chars != Some(*expected)) {
        return Err(format!(
            "`width`: wrong value: got `{width}`, expected `{expected}`, which its type has, or no width"
        ));
    }
    chars.ok_or_else(|| {
        format!(
            "`width`: wrong value: got `{width}`, expected a whole number of characters from 1 to {WIDTH_MAX}"
        )
    })
}

fn align(align: Option<&str>) -> Result<Align, String> {
    match align {
        None | Some("left") => Ok(Align::Left),
        Some("right") => Ok(Align::Right),
        Some(other) => Err(format!(
            "`align`: wrong value: got `{other}`, expected `left` or `right`"
        )),
    }
}

fn pad(pad: &str) -> Result<char, String> {
    let mut letters = pad.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if !letter.is_control() => Ok(letter),
        (Some(_) | None, _) => Err(format!(
            "`pad`: wrong value: got `{}`, expected one character",
            pad.escape_debug()
        )),
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
            columns: columns.clone().unpadded().unwrap(),
            header: false,
        };
        assert_eq!(written(csv), "\"a,b\",AJ+Slg==,0\n,,1\n");
        let fixed_width = Format::FixedWidth(columns.fixed_width().unwrap());
        assert_eq!(written(fixed_width), "a,bAJ+Slg== 0\n            1\n");

        let all = r#"[{"name":"all","field":"attributes"}]"#;
        let all: Columns = all.parse().unwrap();
        let csv = Format::Csv {
            columns: all.unpadded().unwrap(),
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
    fn a_column_that_would_change_its_numbers_is_refused() {
        for (column, words) in [
            (
                r#""json":"to_number(a)","type":"decimal(9,2)""#,
                "calls `to_number`",
            ),
            (r#""json":"sum (a)","type":"int""#, "calls `sum`"),
            (
                r#""json":"a","type":"int","width":4,"pad":"0""#,
                "`pad`: wrong value: got `0`",
            ),
            (
                r#""json":"a","type":"int","width":4,"pad":"9","align":"right""#,
                "`pad`: wrong value: got `9`",
            ),
            (
                r#""json":"a","type":"bool","format":"yes/no","width":2"#,
                "at least the `3` characters",
            ),
            (
                r#""json":"a","type":"bool","format":"\n/x""#,
                "`format`: wrong value",
            ),
            (
                r#""json":"a","type":"date","width":9"#,
                "at least the `10` characters",
            ),
        ] {
            let found = problems(&format!(r#"[{{"name":"c",{column}}}]"#));
            assert!(found[0].contains(words), "{words}: {found:?}");
        }
        for column in [
            r#""json":"to_number(a)""#,
            r#""json":"summary","type":"int""#,
            r#""json":"items[?contains(id, 'x')].amount | [0]","type":"decimal(9,2)""#,
            r#""json":"a","type":"int","width":4,"pad":"0","align":"right""#,
            r#""json":"a","type":"date","format":"%d%m%Y","width":8"#,
        ] {
            let columns = format!(r#"[{{"name":"c",{column}}}]"#);
            assert!(columns.parse::<Columns>().is_ok(), "{column}");
        }
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
