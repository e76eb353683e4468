//! The sink, the form of its parts, and their columns: what the other variables of a sink depend on.

use shared::config::{List, Text, Unset, Variable, Word};

use crate::columns::Columns;
use crate::uri::SINK_URIS;

/// The sink that batches are delivered to.
pub const SINK: Variable<Text> = Variable {
    name: "SINK",
    key: Some("sink.uri"),
    value: Text {
        unset: Unset::Refused,
        allowed: SINK_URIS,
    },
    meaning: "Where batches go. `log:` counts them and delivers nowhere: it is for trying out. docs/sinks.md describes the others.",
};
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
