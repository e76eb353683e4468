//! The form of parts, and their columns: what the other variables of a sink depend on.

use shared::config::{List, Text, Unset, Variable, Word};

use forms::Columns;

pub(super) const SINK_FORMAT: Variable<Word<FormatName>> = Variable {
    name: "SINK_FORMAT",
    key: Some("sink.format"),
    value: Word {
        default: FormatName::Envelope,
        words: &[
            ("envelope", FormatName::Envelope),
            ("body", FormatName::Body),
            ("csv", FormatName::Csv),
            ("fixed-width", FormatName::FixedWidth),
            ("parquet", FormatName::Parquet),
        ],
    },
    meaning: "The format of a part: `envelope` is one JSON object per line, `body` one body per line, `csv`, `fixed-width` \
              and `parquet` have the columns of `SINK_COLUMNS`.",
};
/// The columns, or the URI of a file with them. [`columns_source`](crate::columns_source) reads that file.
pub(crate) const SINK_COLUMNS: Variable<List> = Variable {
    name: "SINK_COLUMNS",
    key: Some("sink.columns"),
    value: List(Text {
        unset: Unset::Nothing,
        allowed: "a JSON list of columns, or where one is: `file:///path` or `s3://bucket/key`",
    }),
    meaning: "The columns of `csv`, `fixed-width`, `parquet` and `postgres:`. A file in the deployment package has the URI `file:///var/task/…`.",
};

/// The table if `SINK_TABLE` is not set.
pub(super) const TABLE: &str = "events";
/// The table that `postgres:` writes to. It is here because every fingerprint has it: templates up to 0.2.0 set it for every sink.
pub(crate) const SINK_TABLE: Variable<Text> = Variable {
    name: "SINK_TABLE",
    key: Some("sink.table"),
    value: Text {
        unset: Unset::Default(TABLE),
        allowed: "`table` or `schema.table`, names of 1 to 55 bytes without `\"`",
    },
    meaning: "With `postgres:`, the table that events are written to.",
};

/// `SINK_FORMAT`, before its columns are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatName {
    Envelope,
    Body,
    Csv,
    FixedWidth,
    Parquet,
}

/// The value of `SINK_COLUMNS`.
pub(super) enum ColumnsValue {
    Unset,
    Invalid,
    Valid(Columns),
}
