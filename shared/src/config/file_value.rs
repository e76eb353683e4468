//! A value of the configuration file.

use serde_json::{Map, Value};
use toml::de::DeValue;

/// A value of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum FileValue {
    Integer(i128),
    Text(String),
    Boolean(bool),
    /// An array, as JSON.
    List(Value),
    Table,
    /// A value that fits no setting, in words.
    Other(&'static str),
}

impl FileValue {
    /// Returns the value if it is a text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            FileValue::Text(text) => Some(text),
            FileValue::Integer(_)
            | FileValue::Boolean(_)
            | FileValue::List(_)
            | FileValue::Table
            | FileValue::Other(_) => None,
        }
    }

    pub(super) fn of(value: &DeValue<'_>) -> FileValue {
        match value {
            DeValue::String(text) => FileValue::Text(text.clone().into_owned()),
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                .map_or(
                    FileValue::Other("a number of more than 38 digits"),
                    FileValue::Integer,
                ),
            DeValue::Float(_) => FileValue::Other("a number with a fraction"),
            DeValue::Boolean(on) => FileValue::Boolean(*on),
            DeValue::Datetime(_) => FileValue::Other("a date or time"),
            DeValue::Array(_) => {
                json(value).map_or(FileValue::Other("an array with dates"), FileValue::List)
            }
            DeValue::Table(_) => FileValue::Table,
        }
    }
}

/// Returns a value as JSON; [`None`] if it has a date, or a number that JSON cannot have.
fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            Value::from(i64::from_str_radix(number.as_str(), number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::from(number.as_str().parse::<f64>().ok()?),
        DeValue::Boolean(on) => Value::from(*on),
        DeValue::Datetime(_) => return None,
        DeValue::Array(values) => {
            let values = values.iter().map(|value| json(value.get_ref()));
            Value::Array(values.collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let mut object = Map::new();
            for (key, value) in table {
                object.insert(key.get_ref().to_string(), json(value.get_ref())?);
            }
            Value::Object(object)
        }
    })
}
