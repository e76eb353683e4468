//! One placeholder of a template: its value, and the width that it is brought to.

use protocol::ids::SourceArn;

use crate::dates::{DateFormat, Zone};
use crate::directory::key_name;
use crate::encoding::Encoding;
use crate::part::Part;
use crate::totals::{Total, Totals};

/// A placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placeholder {
    /// As the template writes it, with its braces.
    pub(super) written: String,
    pub(super) value: Value,
    pub(super) width: Width,
}

/// The value of a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Batch,
    Part,
    Source,
    Key,
    Sequence,
    Date(DateFormat),
    /// When the period of the batch begins.
    Period(DateFormat),
    Count,
    Total(Total),
}

/// The characters that a value is brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    AsItIs,
    /// The value is at the left, and spaces follow.
    Left(usize),
    /// The value is at the right, after spaces.
    Right(usize),
    /// The value is at the right, after its sign and zeros.
    Zeros(usize),
}

/// The sources of the values of placeholders.
pub(crate) struct Facts<'p> {
    pub(crate) part: &'p Part,
    pub(crate) zone: &'p Zone,
    pub(crate) totals: &'p Totals<'p>,
    pub(crate) target: Target,
}

/// Where the text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Into a file in this encoding.
    Record(Encoding),
    /// Into the name of a file or an object.
    Path,
}

impl Placeholder {
    /// Returns how many characters the placeholder has, if that is the same for every part.
    pub(super) fn length(&self) -> Option<usize> {
        match (self.width, &self.value) {
            (Width::Left(width) | Width::Right(width) | Width::Zeros(width), _) => Some(width),
            (Width::AsItIs, Value::Batch) => Some(36),
            (Width::AsItIs, Value::Date(format) | Value::Period(format)) => Some(format.length()),
            (
                Width::AsItIs,
                Value::Part
                | Value::Source
                | Value::Key
                | Value::Sequence
                | Value::Count
                | Value::Total(_),
            ) => None,
        }
    }

    /// Returns the text for a part.
    ///
    /// # Errors
    /// Says why there is none. Another attempt at the same part fails as well.
    pub(super) fn text(&self, facts: &Facts<'_>) -> Result<String, String> {
        let text = self
            .value(facts)
            .and_then(|value| self.fitted(value, facts.target));
        text.map_err(|problem| format!("placeholder `{}`: {problem}", self.written))
    }

    /// Returns a value in the width of the placeholder.
    fn fitted(&self, value: String, target: Target) -> Result<String, String> {
        if value.contains(char::is_control) {
            return Err(format!(
                "got «{}» with a control character, expected none",
                value.escape_debug()
            ));
        }
        if let Target::Record(encoding) = target
            && encoding.check(&value).is_err()
        {
            return Err(format!(
                "got «{value}», expected characters of the encoding `{}`",
                encoding.name()
            ));
        }
        let length = value.chars().count();
        match self.width {
            Width::Left(width) | Width::Right(width) | Width::Zeros(width) if length > width => {
                Err(format!(
                    "too long: got «{value}», expected at most {width} characters"
                ))
            }
            Width::AsItIs => Ok(value),
            Width::Left(width) => Ok(format!("{value:<width$}")),
            Width::Right(width) => Ok(format!("{value:>width$}")),
            Width::Zeros(width) => {
                let (sign, digits) = match value.strip_prefix('-') {
                    Some(digits) => ("-", digits),
                    None => ("", value.as_str()),
                };
                let width = width - sign.len();
                Ok(format!("{sign}{digits:0>width$}"))
            }
        }
    }

    fn value(&self, facts: &Facts<'_>) -> Result<String, String> {
        let part = facts.part;
        Ok(match &self.value {
            Value::Batch => part.batch_id.to_string(),
            Value::Part => part.part_index.to_string(),
            Value::Source => queue_name(&part.source).to_owned(),
            Value::Key => match (facts.target, &part.batch_key) {
                (Target::Record(_), None) => String::new(),
                (Target::Record(_), Some(key)) => key.as_str().to_owned(),
                (Target::Path, Some(key)) => key_name(key),
                (Target::Path, None) => {
                    return Err(
                        "got a batch without a batch key, expected one with a key".to_owned()
                    );
                }
            },
            Value::Sequence => {
                let number = part.file_number.ok_or(
                    "got a part without a number, expected one that the batch-processor delivers",
                )?;
                number.to_string()
            }
            Value::Date(format) => format.text(part.closed_at, facts.zone),
            Value::Period(format) => {
                let period = part.period.ok_or(
                    "got a batch without a period, expected one that was opened with `CLOSE_AT`",
                )?;
                format.text(period.begins, facts.zone)
            }
            Value::Count => facts.totals.count.to_string(),
            Value::Total(total) => facts.totals.text(total),
        })
    }
}

fn queue_name(source: &SourceArn) -> &str {
    source.as_str().rsplit(':').next().unwrap_or_default()
}
