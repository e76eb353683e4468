//! How a template is written, and what may be wrong with it.

use super::placeholder::{Facts, Placeholder, Value, Width};
use crate::dates::DateFormat;
use crate::totals::{HASH_DIGITS_MAX, Total, TotalKind};

/// Characters of a placeholder or of spaces.
const WIDTH_MAX: usize = 10_000;
/// Decimals of a sum.
const DECIMALS_MAX: u8 = 9;
/// The allowed forms of a width.
const TEXT_WIDTH: &str =
    "a width such as `<9` (value, then spaces) or `>9` (spaces, then value), from 1 to 10000";
const NUMBER_WIDTH: &str = "a width such as `09` (zeros, then value), `<9` (value, then spaces) or `>9` (spaces, then value), \
                            from 1 to 10000";

/// The use of a template, which decides about its placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateUse {
    /// A header or a trailer record.
    Record,
    /// A path, which must not depend on what the records are.
    Path,
}

impl TemplateUse {
    const fn placeholders(self) -> &'static str {
        match self {
            TemplateUse::Record => {
                "`{batch}`, `{part}`, `{source}`, `{key}`, `{sequence}`, `{date:FORMAT}`, `{period:FORMAT}`, `{count}`, `{sum:COLUMN}`, \
                 `{hash:COLUMN:DIGITS}`, `{space:COUNT}`"
            }
            TemplateUse::Path => {
                "`{batch}`, `{part}`, `{source}`, `{key}`, `{sequence}`, `{date:FORMAT}`, `{period:FORMAT}`"
            }
        }
    }
}

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Placeholder(Placeholder),
}

impl Piece {
    fn literals(&self) -> String {
        match self {
            Piece::Text(text) => text.clone(),
            Piece::Placeholder(placeholder) => match &placeholder.value {
                Value::Date(format) | Value::Period(format) => format.literals(),
                _ => String::new(),
            },
        }
    }

    fn length(&self) -> Result<usize, &str> {
        match self {
            Piece::Text(text) => Ok(text.chars().count()),
            Piece::Placeholder(placeholder) => {
                placeholder.length().ok_or(placeholder.written.as_str())
            }
        }
    }
}

impl Template {
    /// Parses a template. Its totals are over columns of `columns`, by name.
    ///
    /// # Errors
    /// The problem, with the placeholder and the allowed values.
    pub fn parse(text: &str, used_as: TemplateUse, columns: &[&str]) -> Result<Template, String> {
        if let Some(control) = text.chars().find(|letter| letter.is_control()) {
            return Err(format!(
                "control character `{}`, expected one record without any",
                control.escape_debug()
            ));
        }
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let end = rest
                .find(['{', '}'])
                .filter(|end| rest[*end..].starts_with('}'));
            let (Some(end), "{") = (end, brace) else {
                return Err(format!(
                    "a `{brace}` without its counterpart, expected `{brace}{brace}` for the character itself"
                ));
            };
            let content = &rest[..end];
            rest = &rest[end + 1..];
            match placeholder(content, used_as, columns)
                .map_err(|problem| format!("placeholder `{{{content}}}`: {problem}"))?
            {
                Piece::Text(text) => literal.push_str(&text),
                Piece::Placeholder(placeholder) => {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    pieces.push(Piece::Placeholder(placeholder));
                }
            }
        }
        literal.push_str(rest);
        pieces.push(Piece::Text(literal));
        Ok(Template { pieces })
    }

    fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Placeholder(placeholder) => Some(placeholder),
        })
    }

    /// Returns the totals that the template names.
    pub(crate) fn totals(&self) -> impl Iterator<Item = &Total> {
        self.placeholders()
            .filter_map(|placeholder| match &placeholder.value {
                Value::Total(total) => Some(total),
                _ => None,
            })
    }

    /// Returns whether the template names what is known only once all records were read.
    pub(crate) fn needs_totals(&self) -> bool {
        self.has(&Value::Count) || self.totals().next().is_some()
    }

    pub(crate) fn has_sequence(&self) -> bool {
        self.has(&Value::Sequence)
    }

    /// Returns whether the template has a placeholder for this value.
    pub(crate) fn has(&self, value: &Value) -> bool {
        self.placeholders()
            .any(|placeholder| placeholder.value == *value)
    }

    /// Returns the characters that are the same in every part.
    pub fn literals(&self) -> String {
        self.pieces.iter().map(Piece::literals).collect()
    }

    /// Returns the first two placeholders whose texts may be split in several ways, and what would tell them apart.
    pub(crate) fn blurred(&self) -> Option<(&str, &str, &'static str)> {
        // The last placeholder, and the characters since. Neither a key nor the name of a queue has a `/` or a `=`.
        let mut last: Option<(&Placeholder, String)> = None;
        let mut last_name: Option<(&Placeholder, String)> = None;
        for piece in &self.pieces {
            let placeholder = match piece {
                Piece::Placeholder(placeholder) if placeholder.length().is_none() => placeholder,
                Piece::Placeholder(_) | Piece::Text(_) => {
                    for (_, since) in last.iter_mut().chain(&mut last_name) {
                        since.push_str(&piece.literals());
                    }
                    continue;
                }
            };
            let written = placeholder.written.as_str();
            if matches!(placeholder.value, Value::Key | Value::Source) {
                if let Some(name) = not_apart(&last_name, |letter| "/=".contains(letter)) {
                    return Some((name, written, "`/` or `=`"));
                }
                last_name = Some((placeholder, String::new()));
            }
            if let Some(before) = not_apart(&last, |letter| !letter.is_ascii_digit()) {
                return Some((before, written, "a character that is no digit"));
            }
            last = Some((placeholder, String::new()));
        }
        None
    }

    /// Returns how many characters the text has in every part.
    ///
    /// # Errors
    /// The first placeholder whose length may differ.
    pub fn length(&self) -> Result<usize, &str> {
        self.pieces.iter().map(Piece::length).sum()
    }

    /// Returns the text for a part.
    ///
    /// # Errors
    /// Says which placeholder has no text, and why. Another attempt at the same part fails as well.
    pub(crate) fn text(&self, facts: &Facts<'_>) -> Result<String, String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Placeholder(placeholder) => text.push_str(&placeholder.text(facts)?),
            }
        }
        Ok(text)
    }
}

/// Returns what a placeholder is written as, unless a character that tells it from the next one follows it.
fn not_apart<'t>(
    last: &Option<(&'t Placeholder, String)>,
    apart: fn(char) -> bool,
) -> Option<&'t str> {
    let (placeholder, since) = last.as_ref()?;
    (!since.contains(apart)).then_some(placeholder.written.as_str())
}

/// Parses what stands between the braces.
fn placeholder(content: &str, used_as: TemplateUse, columns: &[&str]) -> Result<Piece, String> {
    let (name, argument) = match content.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (content, None),
    };
    let in_record = used_as == TemplateUse::Record;
    if !in_record
        && !["date", "period"].contains(&name)
        && argument.is_some_and(|width| width.starts_with(['<', '>']))
    {
        return Err(
            "width: got spaces in a path, expected none, or zeros before a number".to_owned(),
        );
    }
    let (value, width) = match name {
        "batch" => (Value::Batch, text_width(argument)?),
        "source" => (Value::Source, text_width(argument)?),
        "key" => (Value::Key, text_width(argument)?),
        "part" => (Value::Part, number_width(argument)?),
        "sequence" => (Value::Sequence, number_width(argument)?),
        "date" | "period" => {
            let format = argument.unwrap_or_default().parse::<DateFormat>()?;
            let value = match name {
                "date" => Value::Date(format),
                _ => Value::Period(format),
            };
            (value, Width::AsItIs)
        }
        "count" if in_record => (Value::Count, number_width(argument)?),
        "sum" if in_record => sum(argument, columns)?,
        "hash" if in_record => hash(argument, columns)?,
        "space" if in_record => {
            let count = argument.and_then(|text| number(text, WIDTH_MAX));
            let count = count.ok_or_else(|| {
                format!("expected a number of spaces, from 1 to {WIDTH_MAX}, such as `{{space:9}}`")
            })?;
            return Ok(Piece::Text(" ".repeat(count)));
        }
        _ => {
            let known = used_as.placeholders();
            return Err(format!(
                "unknown, expected one of {known}, or `{{{{` for a brace"
            ));
        }
    };
    Ok(Piece::Placeholder(Placeholder {
        written: format!("{{{content}}}"),
        value,
        width,
    }))
}

/// Parses `COLUMN` or `COLUMN:WIDTH`, where the width may end with the number of decimals.
fn sum(argument: Option<&str>, columns: &[&str]) -> Result<(Value, Width), String> {
    let (name, rest) = column_and_rest(argument);
    let column = column(name, columns)?;
    let (width, decimals) = match rest.and_then(|rest| rest.split_once('.')) {
        Some((width, decimals)) => {
            let parsed = decimals.parse().ok().filter(|count| *count <= DECIMALS_MAX);
            let parsed = parsed.ok_or_else(|| {
                format!("decimals: got `{decimals}`, expected a number from 0 to {DECIMALS_MAX}")
            })?;
            (Some(width).filter(|width| !width.is_empty()), Some(parsed))
        }
        None => (rest, None),
    };
    let total = Total {
        kind: TotalKind::Sum { decimals },
        column,
        name: name.to_owned(),
    };
    Ok((Value::Total(total), number_width(width)?))
}

/// Parses `COLUMN:DIGITS`.
fn hash(argument: Option<&str>, columns: &[&str]) -> Result<(Value, Width), String> {
    let (name, rest) = column_and_rest(argument);
    let column = column(name, columns)?;
    let digits = rest.and_then(|text| number(text, HASH_DIGITS_MAX));
    let digits = digits.ok_or_else(|| {
        format!("expected how many digits the total has, from 1 to {HASH_DIGITS_MAX}, such as `{{hash:{name}:10}}`")
    })?;
    let total = Total {
        kind: TotalKind::Hash { digits },
        column,
        name: name.to_owned(),
    };
    Ok((Value::Total(total), Width::Zeros(digits)))
}

fn column_and_rest(argument: Option<&str>) -> (&str, Option<&str>) {
    match argument.unwrap_or_default().split_once(':') {
        Some((column, rest)) => (column, Some(rest)),
        None => (argument.unwrap_or_default(), None),
    }
}

fn column(name: &str, columns: &[&str]) -> Result<usize, String> {
    let found = columns.iter().position(|column| *column == name);
    found.ok_or_else(|| match columns.is_empty() {
        true => {
            format!("column: got `{name}`, expected a format with columns, `csv` or `fixed-width`")
        }
        false => format!(
            "column: got `{name}`, expected one of `{}`",
            columns.join("`, `")
        ),
    })
}

fn text_width(argument: Option<&str>) -> Result<Width, String> {
    match width(argument) {
        Some(Width::Zeros(_)) | None => Err(wrong_width(argument, TEXT_WIDTH)),
        Some(width) => Ok(width),
    }
}

fn number_width(argument: Option<&str>) -> Result<Width, String> {
    width(argument).ok_or_else(|| wrong_width(argument, NUMBER_WIDTH))
}

fn wrong_width(argument: Option<&str>, expected: &str) -> String {
    let got = argument.unwrap_or_default();
    format!("width: got `{got}`, expected {expected}")
}

fn width(argument: Option<&str>) -> Option<Width> {
    let Some(text) = argument else {
        return Some(Width::AsItIs);
    };
    let make = match text.chars().next()? {
        '<' => Width::Left,
        '>' => Width::Right,
        '0' => Width::Zeros,
        _ => return None,
    };
    number(&text[1..], WIDTH_MAX).map(make)
}

/// Parses a number from 1 to `max`, without a sign or zeros in front.
fn number(text: &str, max: usize) -> Option<usize> {
    let is_plain = text.starts_with(|digit: char| digit.is_ascii_digit() && digit != '0');
    let number = text.parse().ok().filter(|_| is_plain);
    number.filter(|number| *number <= max)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
