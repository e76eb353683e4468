//! Records that cannot be delivered.

use protocol::ids::{EventId, Seq};
use shared::ports::StoredEvent;

use crate::encoding::{Encoding, Unwritable};

/// A record of a part that the sink's format, function or database does not take. The other records are delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event ‹{event_id}› (seq {seq}): «{reason}»")]
pub struct Reject {
    /// The seq of the record in its batch.
    pub seq: Seq,
    /// The event that the record carries.
    pub event_id: EventId,
    /// Why the record was rejected; written to the reject list.
    #[source]
    pub reason: RejectReason,
}

impl Reject {
    /// Returns the reject of an event.
    pub fn of(item: &StoredEvent, reason: RejectReason) -> Reject {
        Reject {
            seq: item.seq,
            event_id: item.event_id.clone(),
            reason,
        }
    }
}

/// Why a record was rejected. The same record has the same reason at every attempt, because the reject list is written
/// once and compared by its hash; for the same reason, changing a message here changes lists that are half delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// In the format `body`, a line break in the body would make two records.
    #[error("body has a line break, which `SINK_FORMAT=body` cannot carry; `envelope` can")]
    LineBreak,
    /// A column has an expression over JSON, and the body is not JSON.
    #[error("body is not JSON: {message}")]
    NotJson {
        /// The parser's message.
        message: String,
    },
    /// A column's expression cannot be evaluated on this body.
    #[error("column `{column}`: `{expression}` cannot be evaluated: {message}")]
    Evaluation {
        /// Name of the column.
        column: String,
        /// The column's JMESPath expression.
        expression: String,
        /// The evaluator's message.
        message: String,
    },
    /// A number does not fit 64 bits, so reading it may have lost digits.
    #[error(
        "column `{column}`: the number does not fit 64 bits; as a string it would be kept as it is"
    )]
    NumberTooLarge {
        /// Name of the column.
        column: String,
    },
    /// The body has a number with so many digits that reading it may have changed it, and the column has a type.
    #[error(
        "column `{column}`: the body has a number of more than 15 digits, which may not be read exactly; as a string it would be kept as it is"
    )]
    NumberTooLong {
        /// Name of the column.
        column: String,
    },
    /// The value is not of the type of its column.
    #[error("column `{column}`: `{kind}`: got `{value}`, expected {expected}")]
    WrongType {
        /// Name of the column.
        column: String,
        /// The type of the column.
        kind: String,
        /// The value, or its beginning.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// There is no value, and the column has no way to say so.
    #[error("column `{column}`: `{kind}`: no value, expected {expected}")]
    NoValue {
        /// Name of the column.
        column: String,
        /// The type of the column.
        kind: String,
        /// What is allowed.
        expected: String,
    },
    /// The record is longer than a length of 16 bits can say.
    #[error("the record has `{length}` bytes, with `SINK_LINE_END=rdw` at most `{length_max}`")]
    TooLong {
        /// Bytes of the record.
        length: usize,
        /// Bytes of the longest record.
        length_max: usize,
    },
    /// The value has more characters than its fixed-width column.
    #[error(
        "column `{column}`: the value has `{length}` characters, the column a width of `{width}`"
    )]
    TooWide {
        /// Name of the column.
        column: String,
        /// Length of the value, in characters.
        length: usize,
        /// Width of the column, in characters.
        width: usize,
    },
    /// The encoding of the part lacks a character.
    #[error(
        "{place}: `{encoding}` has no character U+{code:04X}, the character `{position}` of the text"
    )]
    NotInEncoding {
        /// Where the character is: `body`, or a column.
        place: String,
        /// Name of the encoding.
        encoding: &'static str,
        /// The character, as a number of Unicode.
        code: u32,
        /// Position of the character in the body or column, counted from 1.
        position: usize,
    },
    /// A column that is added up has no number.
    #[error(
        "column `{column}`: not a number: got `{value}`, expected digits with at most one point and `{decimals_max}` decimals, such as `-12.50`"
    )]
    NoNumber {
        /// Name of the column.
        column: String,
        /// The value, or its beginning.
        value: String,
        /// Decimals that the total takes.
        decimals_max: usize,
    },
    /// The Lambda function of the sink named the record among its `rejects`.
    #[error("the function rejects it: {message}")]
    ByFunction {
        /// The function's reason.
        message: String,
    },
    /// The database refused the row, for example because of a constraint.
    #[error("the database refuses it: {message}")]
    Refused {
        /// The database's error code and message.
        message: String,
    },
    /// In a fixed-width column, a line break in the value would make two lines.
    #[error(
        "column `{column}`: the value has a line break (`{length}` characters, the column a width of `{width}`)"
    )]
    ColumnLineBreak {
        /// Name of the column.
        column: String,
        /// Length of the value, in characters.
        length: usize,
        /// Width of the column, in characters.
        width: usize,
    },
}

/// Returns the beginning of a value.
pub(crate) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl RejectReason {
    pub(crate) fn not_in_encoding(
        place: &str,
        wrong: Unwritable,
        encoding: Encoding,
    ) -> RejectReason {
        RejectReason::NotInEncoding {
            place: place.to_owned(),
            encoding: encoding.name(),
            code: wrong.character.into(),
            position: wrong.position,
        }
    }
}
