//! Values of columns.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::Date;

use super::decimal::Decimal;

/// A value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'i> {
    /// A text, or whatever a column without a type has.
    Text(Cow<'i, str>),
    /// A whole number of 64 bits.
    Int(i64),
    /// A number with decimals.
    Decimal(Decimal),
    /// A day.
    Date(Date),
    /// A moment, to the microsecond.
    Timestamp(Timestamp),
    /// True or false.
    Bool(bool),
}

impl<'i> Value<'i> {
    /// Returns the value as SQL and control totals read it, whatever a column writes.
    pub fn into_text(self) -> Cow<'i, str> {
        match self {
            Value::Text(text) => text,
            Value::Int(number) => Cow::Owned(number.to_string()),
            Value::Decimal(decimal) => Cow::Owned(decimal.to_string()),
            Value::Date(date) => Cow::Owned(date.to_string()),
            Value::Timestamp(at) => Cow::Owned(at.to_string()),
            Value::Bool(value) => Cow::Owned(value.to_string()),
        }
    }
}
