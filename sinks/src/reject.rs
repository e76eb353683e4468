//! Records that cannot be delivered.

use protocol::ids::{EventId, Seq};

/// A record that its format cannot carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event `{event_id}` (seq {seq}): {reason}")]
pub struct Reject {
    /// Its position in the batch.
    pub seq: Seq,
    /// The event.
    pub event_id: EventId,
    /// Why.
    #[source]
    pub reason: RejectReason,
}

/// Why a format cannot carry a record; the same record has the same reason every time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// It would be two records.
    #[error("body has a line break, which `SINK_FORMAT=body` cannot carry; `envelope` can")]
    LineBreak,
    /// A column is an expression over JSON.
    #[error("body is not JSON: {message}")]
    NotJson {
        /// What the parser says.
        message: String,
    },
    /// An expression fails on this body.
    #[error("column `{column}`: `{expression}` cannot be evaluated: {message}")]
    Evaluation {
        /// Name of the column.
        column: String,
        /// Its expression.
        expression: String,
        /// Why.
        message: String,
    },
    /// A number that may have lost digits when it was read.
    #[error(
        "column `{column}`: the number does not fit 64 bits; as a string it would be kept as it is"
    )]
    NumberTooLarge {
        /// Name of the column.
        column: String,
    },
    /// More than the column takes.
    #[error(
        "column `{column}`: the value has `{length}` characters, the column a width of `{width}`"
    )]
    TooWide {
        /// Name of the column.
        column: String,
        /// Characters of the value.
        length: usize,
        /// Characters of the column.
        width: usize,
    },
    /// The function has its own idea of what is a record.
    #[error("the function rejects it: {message}")]
    ByFunction {
        /// What it says.
        message: String,
    },
    /// The database has its own idea of what is a record.
    #[error("the database refuses it: {message}")]
    Refused {
        /// What it says.
        message: String,
    },
    /// It would be two lines.
    #[error(
        "column `{column}`: the value has a line break (`{length}` characters, the column a width of `{width}`)"
    )]
    ColumnLineBreak {
        /// Name of the column.
        column: String,
        /// Characters of the value.
        length: usize,
        /// Characters of the column.
        width: usize,
    },
}
