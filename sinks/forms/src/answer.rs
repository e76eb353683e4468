//! The form of an answer: a file or message of the consumer that says which events it accepted, and which it rejected and why.
//!
//! A line is about one event, or about the rest of a part. A line that cannot be read is reported by its number, and never takes others down;
//! but what the answer says about the rest of its parts is not believed then, because the line may have rejected an event.

use std::collections::BTreeMap;
use std::str::FromStr;

use jmespath::{Rcvar, Variable};
use protocol::ids::EventId;
use protocol::sequence::PartId;
use serde::Deserialize;
use shared::expression::Expression;

use crate::encoding::Encoding;

/// `ANSWERS_FORM`: how answers are written.
#[derive(Clone, Debug)]
pub struct AnswerForm {
    format: AnswerFormat,
    encoding: Encoding,
    accepted: Vec<String>,
    rejected: Vec<String>,
    /// Whether an answer accepts the events of its parts that it does not name.
    accepts_unlisted: bool,
}

/// Where the fields of a line are.
#[derive(Clone, Debug)]
enum AnswerFormat {
    /// By the names in the first line.
    Csv {
        delimiter: u8,
        columns: BTreeMap<Field, String>,
    },
    /// By positions, counted from 0, in characters.
    FixedWidth(BTreeMap<Field, (usize, usize)>),
    /// One JSON object a line.
    JsonLines(BTreeMap<Field, Expression>),
}

/// What a line may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Field {
    /// The part, `<batchId>/<part>`.
    Part,
    /// The name of the part's file.
    File,
    /// The number of the event's record in the part, from 1.
    Record,
    /// The event id.
    Event,
    Result,
    Reason,
    /// How many records the consumer has read of the part.
    Records,
}

/// The text of `ANSWERS_FORM`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    delimiter: Option<char>,
    /// Where the fields are, if not under their own names.
    #[serde(default)]
    fields: BTreeMap<Field, String>,
    #[serde(default)]
    accepted: Option<Vec<String>>,
    #[serde(default)]
    rejected: Option<Vec<String>>,
    #[serde(default)]
    unlisted: Option<String>,
}

/// The part that a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartName {
    /// By its id.
    Part(PartId),
    /// By the path of its file, or the last steps of that.
    File(String),
    /// By its file, whose name this answer has, with another ending or with one more.
    OfAnswer(String),
}

/// The events of a part that a line is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The one of this record, counted from 1.
    Record(u32),
    /// The one with this id.
    Event(EventId),
    /// Those about which the answer has no line of their own.
    Rest,
}

/// A line of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerLine {
    /// Its number, from 1.
    pub number: usize,
    /// The events that it is about.
    pub named: Named,
    /// Whether they were accepted; otherwise they were rejected.
    pub accepted: bool,
    /// Why they were rejected, if it says.
    pub reason: Option<String>,
    /// How many records the consumer says that the part has.
    pub records: Option<u64>,
}

/// An answer that was read.
#[derive(Debug, Default)]
pub struct Answer {
    /// The lines about each part.
    pub parts: BTreeMap<PartName, Vec<AnswerLine>>,
    /// Why lines cannot be read, with their numbers.
    pub unread: Vec<String>,
    /// Whether it accepts the events of its parts that it does not name.
    pub accepts_unlisted: bool,
}

impl Default for AnswerForm {
    fn default() -> AnswerForm {
        "{}".parse().expect("every field has a default")
    }
}

impl FromStr for AnswerForm {
    type Err = String;

    fn from_str(text: &str) -> Result<AnswerForm, String> {
        let written: Written =
            serde_json::from_str(text).map_err(|error| format!("no form of answers: {error}"))?;
        let encoding = match written.encoding.as_deref() {
            None => Encoding::Utf8,
            Some(name) => Encoding::ALL
                .into_iter()
                .find(|encoding| encoding.name() == name)
                .ok_or_else(|| {
                    let all = Encoding::ALL
                        .map(|one| format!("`{}`", one.name()))
                        .join(", ");
                    format!("`encoding`: got `{name}`, expected one of {all}")
                })?,
        };
        let accepts_unlisted = match written.unlisted.as_deref() {
            None | Some("awaited") => false,
            Some("accepted") => true,
            Some(word) => {
                return Err(format!(
                    "`unlisted`: got `{word}`, expected `awaited` or `accepted`"
                ));
            }
        };
        let words = |words: Option<Vec<String>>, default: &str| {
            words.unwrap_or_else(|| vec![default.to_owned()])
        };
        let accepted = words(written.accepted.clone(), "accepted");
        let rejected = words(written.rejected.clone(), "rejected");
        if let Some(both) = accepted.iter().find(|word| rejected.contains(word)) {
            return Err(format!("`{both}` is among `accepted` and `rejected`"));
        }
        Ok(AnswerForm {
            format: format(&written)?,
            encoding,
            accepted,
            rejected,
            accepts_unlisted,
        })
    }
}

fn format(written: &Written) -> Result<AnswerFormat, String> {
    let name = written.format.as_deref().unwrap_or("csv");
    if written.delimiter.is_some() && name != "csv" {
        return Err(format!(
            "`delimiter`: only `csv` has one, got the format `{name}`"
        ));
    }
    let fields = match written.fields.is_empty() {
        true if name == "fixed-width" => {
            return Err(
                "`fields`: missing: `fixed-width` needs the position of each, such as `1-36`"
                    .to_owned(),
            );
        }
        true => Field::ALL
            .map(|field| (field, field.name().to_owned()))
            .into(),
        false => written.fields.clone(),
    };
    if !fields.contains_key(&Field::Result) {
        return Err("`fields`: `result` is missing".to_owned());
    }
    match name {
        "csv" => {
            let delimiter = written.delimiter.unwrap_or(',');
            let delimiter = u8::try_from(delimiter).ok().filter(u8::is_ascii);
            Ok(AnswerFormat::Csv {
                delimiter: delimiter.ok_or("`delimiter`: expected an ASCII character")?,
                columns: fields,
            })
        }
        "fixed-width" => {
            let position = |(field, text): (Field, String)| Ok((field, position(field, &text)?));
            let positions = fields.into_iter().map(position);
            Ok(AnswerFormat::FixedWidth(
                positions.collect::<Result<_, String>>()?,
            ))
        }
        "json-lines" => {
            let expression = |(field, text): (Field, String)| match text.parse() {
                Ok(expression) => Ok((field, expression)),
                Err(error) => Err(format!("`fields`: `{}`: {error}", field.name())),
            };
            let expressions = fields.into_iter().map(expression);
            Ok(AnswerFormat::JsonLines(
                expressions.collect::<Result<_, String>>()?,
            ))
        }
        _ => Err(format!(
            "`format`: got `{name}`, expected `csv`, `fixed-width` or `json-lines`"
        )),
    }
}

/// Returns the first position and the one after the last, counted from 0, of a text such as `1-36`.
fn position(field: Field, text: &str) -> Result<(usize, usize), String> {
    let read = || {
        let (first, last) = text.split_once('-')?;
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (1 <= first && first <= last).then_some((first - 1, last))
    };
    read().ok_or_else(|| {
        let name = field.name();
        format!("`fields`: `{name}`: got `{text}`, expected positions such as `1-36`")
    })
}

impl Field {
    const ALL: [Field; 7] = [
        Field::Part,
        Field::File,
        Field::Record,
        Field::Event,
        Field::Result,
        Field::Reason,
        Field::Records,
    ];

    fn name(self) -> &'static str {
        match self {
            Field::Part => "part",
            Field::File => "file",
            Field::Record => "record",
            Field::Event => "event",
            Field::Result => "result",
            Field::Reason => "reason",
            Field::Records => "records",
        }
    }
}

/// The fields of a line that are not empty.
type Fields = BTreeMap<Field, String>;
/// The fields of each line, with its number.
type Lines = Vec<(usize, Result<Fields, String>)>;

impl AnswerForm {
    /// Returns whether lines name parts by their files.
    pub fn names_files(&self) -> bool {
        let has = |field| match &self.format {
            AnswerFormat::Csv { columns, .. } => columns.contains_key(&field),
            AnswerFormat::FixedWidth(positions) => positions.contains_key(&field),
            AnswerFormat::JsonLines(expressions) => expressions.contains_key(&field),
        };
        // Without either, the answer itself has the name of the file.
        has(Field::File) || !has(Field::Part)
    }

    /// Reads an answer. Lines that name no part are about the file whose name the answer has, with another ending or with one more.
    ///
    /// # Errors
    /// It cannot be read at all.
    pub fn read(&self, name: &str, bytes: &[u8]) -> Result<Answer, String> {
        let text = self.encoding.decoded(bytes).map_err(|at| {
            let encoding = self.encoding.name();
            format!("byte {at} is no character of `{encoding}`")
        })?;
        let mut answer = Answer {
            accepts_unlisted: self.accepts_unlisted,
            ..Answer::default()
        };
        // Spreadsheets write a byte order mark before UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        for (number, fields) in self.lines(text)? {
            let line = fields.and_then(|fields| self.line(number, name, &fields));
            match line {
                Ok((part, line)) => answer.parts.entry(part).or_default().push(line),
                Err(error) => answer.unread.push(format!("line {number}: {error}")),
            }
        }
        Ok(answer)
    }

    /// Returns the fields of each line with its number.
    fn lines(&self, text: &str) -> Result<Lines, String> {
        let lines = || {
            let all = text.lines().zip(1..).map(|(line, number)| (number, line));
            all.filter(|(_, line)| !line.trim().is_empty())
        };
        match &self.format {
            AnswerFormat::Csv { delimiter, columns } => csv_lines(text, *delimiter, columns),
            AnswerFormat::FixedWidth(positions) => {
                let fields = |line: &str| positions_of(line, positions);
                Ok(lines()
                    .map(|(number, line)| (number, Ok(fields(line))))
                    .collect())
            }
            AnswerFormat::JsonLines(expressions) => {
                let fields = |line: &str| found(line, expressions);
                Ok(lines()
                    .map(|(number, line)| (number, fields(line)))
                    .collect())
            }
        }
    }

    fn line(
        &self,
        number: usize,
        name: &str,
        fields: &Fields,
    ) -> Result<(PartName, AnswerLine), String> {
        let part = match (fields.get(&Field::Part), fields.get(&Field::File)) {
            (Some(part), _) => {
                let part = PartId::try_from(part.clone());
                PartName::Part(part.map_err(|error| error.to_string())?)
            }
            (None, Some(file)) => PartName::File(file.clone()),
            (None, None) => PartName::OfAnswer(name.to_owned()),
        };
        let named = match (fields.get(&Field::Record), fields.get(&Field::Event)) {
            (Some(record), _) => {
                let read = record.parse().ok().filter(|record| *record > 0);
                Named::Record(read.ok_or_else(|| {
                    format!("`record`: got `{record}`, expected a number from 1 on")
                })?)
            }
            (None, Some(event)) => {
                let event = event.parse();
                Named::Event(event.map_err(|error| format!("`event`: {error}"))?)
            }
            (None, None) => Named::Rest,
        };
        let result = fields
            .get(&Field::Result)
            .map(String::as_str)
            .unwrap_or_default();
        let is = |words: &[String]| words.iter().any(|word| word == result);
        let accepted = match (is(&self.accepted), is(&self.rejected)) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => {
                let words = [&self.accepted[..], &self.rejected[..]]
                    .concat()
                    .join("`, `");
                return Err(format!(
                    "`result`: got `{result}`, expected one of `{words}`"
                ));
            }
        };
        let records = fields.get(&Field::Records).map(|text| {
            let read = text.parse::<u64>();
            read.map_err(|_| format!("`records`: got `{text}`, expected a number"))
        });
        let line = AnswerLine {
            number,
            named,
            accepted,
            reason: fields.get(&Field::Reason).cloned(),
            records: records.transpose()?,
        };
        Ok((part, line))
    }
}

fn csv_lines(
    text: &str,
    delimiter: u8,
    columns: &BTreeMap<Field, String>,
) -> Result<Lines, String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let position = |name: &str| header.iter().position(|one| one == name);
    let positions: BTreeMap<Field, usize> = columns
        .iter()
        .filter_map(|(field, name)| Some((*field, position(name)?)))
        .collect();
    if !positions.contains_key(&Field::Result) {
        let (name, header) = (
            &columns[&Field::Result],
            header.iter().collect::<Vec<_>>().join("`, `"),
        );
        return Err(format!("first line: no column `{name}`: got `{header}`"));
    }
    let mut lines = Vec::new();
    for record in reader.records() {
        let (number, fields) = match record {
            Ok(record) => {
                let number = record.position().map_or(0, csv::Position::line) as usize;
                let field = |(field, at): (&Field, &usize)| {
                    let text = record.get(*at).filter(|text| !text.is_empty())?;
                    Some((*field, text.to_owned()))
                };
                (number, Ok(positions.iter().filter_map(field).collect()))
            }
            Err(error) => {
                let number = error.position().map_or(0, csv::Position::line) as usize;
                (number, Err(error.to_string()))
            }
        };
        lines.push((number, fields));
    }
    Ok(lines)
}

fn positions_of(line: &str, positions: &BTreeMap<Field, (usize, usize)>) -> Fields {
    let field = |(field, (first, end)): (&Field, &(usize, usize))| {
        let text: String = line.chars().skip(*first).take(end - first).collect();
        let text = text.trim();
        (!text.is_empty()).then(|| (*field, text.to_owned()))
    };
    positions.iter().filter_map(field).collect()
}

fn found(line: &str, expressions: &BTreeMap<Field, Expression>) -> Result<Fields, String> {
    let line = Variable::from_json(line).map(Rcvar::new)?;
    let mut fields = Fields::new();
    for (field, expression) in expressions {
        let text = match &*expression.find(&line)? {
            Variable::Null => continue,
            Variable::String(text) => text.clone(),
            Variable::Number(number) => number.to_string(),
            other => {
                let name = field.name();
                return Err(format!(
                    "`{name}`: got a {}, expected a text or a number",
                    other.get_type()
                ));
            }
        };
        if !text.is_empty() {
            fields.insert(*field, text);
        }
    }
    Ok(fields)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
