//! What the sinks that ship are told, and which variables go with which sink.

use std::time::Duration;

use shared::config::{Number, Reader, Text, Topic, Unset, Variable, Word};

use crate::columns::Columns;
use crate::compression::Compression;
use crate::format::Format;
#[cfg(feature = "postgres")]
use crate::postgres::Database;
use crate::rendering::Rendering;
#[cfg(feature = "http")]
use crate::secret::SecretConfig;
use crate::uri::{SINK_URIS, SinkKind, SinkUri};

mod access;

pub use access::{SINK_PASSWORD, SINK_SECRET, SINK_SECRET_HEADER, SINK_TABLE};

/// Where batches go.
pub const SINK: Variable<Text> = Variable {
    name: "SINK",
    topic: Topic::Sink,
    value: Text {
        unset: Unset::Default("log:"),
        allowed: SINK_URIS,
    },
    meaning: "Where batches go. `log:` counts them, and delivers nowhere. README.md says what each of the others does.",
};
const SINK_FORMAT: Variable<Word<FormatName>> = Variable {
    name: "SINK_FORMAT",
    topic: Topic::Sink,
    value: Word {
        default: FormatName::Envelope,
        words: &[
            ("envelope", FormatName::Envelope),
            ("body", FormatName::Body),
            ("csv", FormatName::Csv),
            ("fixed-width", FormatName::FixedWidth),
        ],
    },
    meaning: "What a batch looks like: `envelope` is a JSON object a line, `body` the bodies alone, `csv` and `fixed-width` \
              the columns of `SINK_COLUMNS`.",
};
/// The columns; or where they are, which only [`columns_source`](crate::columns_source) looks up.
pub(crate) const SINK_COLUMNS: Variable<Text> = Variable {
    name: "SINK_COLUMNS",
    topic: Topic::Sink,
    value: Text {
        unset: Unset::Nothing,
        allowed: "a JSON list of columns, or where one is: `file:///path` or `s3://bucket/key`",
    },
    meaning: "The columns of `csv`, `fixed-width` and `postgres:`. A file of the package is at `file:///var/task/…`.",
};
const SINK_HEADER: Variable<Word<bool>> = Variable {
    name: "SINK_HEADER",
    topic: Topic::Sink,
    value: Word {
        default: true,
        words: &[("on", true), ("off", false)],
    },
    meaning: "Whether `csv` begins with the names of its columns.",
};
const SINK_COMPRESSION: Variable<Word<Compression>> = Variable {
    name: "SINK_COMPRESSION",
    topic: Topic::Sink,
    value: Word {
        default: Compression::None,
        words: &[
            ("none", Compression::None),
            ("gzip", Compression::Gzip),
            ("zstd", Compression::Zstd),
        ],
    },
    meaning: "How parts are compressed.",
};
const SINK_TIMEOUT: Variable<Number<u64>> = Variable {
    name: "SINK_TIMEOUT",
    topic: Topic::Sink,
    value: Number {
        unit: "seconds",
        default: 30,
        min: 1,
        max: 900,
    },
    meaning: "How long an endpoint, a function or a database may take for one attempt at a part.",
};
/// Where reject lists go that cannot stand beside the parts.
pub const SINK_REJECTS: Variable<Text> = Variable {
    name: "SINK_REJECTS",
    topic: Topic::Sink,
    value: Text {
        unset: Unset::Nothing,
        allowed: "`file:///directory` or `s3://bucket/prefix`",
    },
    meaning: "With `https:` and `arn:`, where the records go that the format cannot carry.",
};
/// Where parts go that no call can carry.
pub const SINK_PAYLOADS: Variable<Text> = Variable {
    name: "SINK_PAYLOADS",
    topic: Topic::Sink,
    value: Text {
        unset: Unset::Nothing,
        allowed: "`s3://bucket/prefix`",
    },
    meaning: "With `arn:`, where parts go that a call cannot carry.",
};

/// What the sinks that ship are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// Where parts go.
    pub uri: SinkUri,
    /// What they look like there.
    pub rendering: Rendering,
    /// Both in words, with a hash of all that they depend on: see [`Sink::fingerprint`](crate::sink::Sink::fingerprint).
    pub fingerprint: String,
    /// How long an endpoint may take to answer.
    pub timeout: Duration,
    /// Where reject lists go that cannot stand beside the parts.
    pub rejects: Option<SinkUri>,
    /// Where parts go that no call can carry.
    pub payloads: Option<SinkUri>,
    /// What an endpoint or a database wants to see.
    #[cfg(feature = "http")]
    pub secret: Option<SecretConfig>,
    /// What else is said of a database.
    #[cfg(feature = "postgres")]
    pub database: Database,
}

impl SinkConfig {
    /// Reads the variables of sinks; problems are the reader's.
    pub fn read(reader: &mut Reader<'_>) -> SinkConfig {
        // Where a value is wrong, which is told, reading goes on as if it were the default.
        let uri = reader.text_with(&SINK, str::parse).unwrap_or(SinkUri::Log);
        let name = reader.word(&SINK_FORMAT);
        let header = reader.word(&SINK_HEADER);
        let mut columns = Given::No;
        let mut columns_text = String::new();
        reader.text_with(&SINK_COLUMNS, |text| {
            columns = Given::Wrong;
            columns_text = text.to_owned();
            text.parse::<Columns>()
                .map(|parsed| columns = Given::Columns(parsed))
        });
        #[cfg(feature = "postgres")]
        let database = database(reader, &uri, name, &mut columns);
        #[cfg(not(feature = "postgres"))]
        reader.not_in_this_build(&[&SINK_TABLE, &SINK_PASSWORD, &access::SINK_REJECTS_MAX]);
        let format = format(reader, name, columns, header);
        let compression = reader.word(&SINK_COMPRESSION);
        let timeout_secs = reader.number(&SINK_TIMEOUT);
        let rejects = reader.text_with(&SINK_REJECTS, str::parse);
        check_rejects(reader, &uri, &format, rejects.as_ref());
        let payloads = payloads(reader, &uri, compression);
        #[cfg(feature = "http")]
        let secret = access::secret(reader, &uri);
        #[cfg(not(feature = "http"))]
        reader.not_in_this_build(&[&SINK_SECRET, &SINK_SECRET_HEADER, &access::SECRETS_PORT]);
        let rendering = Rendering {
            format,
            compression,
        };
        let others = [
            rejects.as_ref().map(SinkUri::to_string),
            payloads.as_ref().map(SinkUri::to_string),
            reader.value(&SINK_TABLE),
        ];
        let others = others.map(Option::unwrap_or_default);
        let fingerprint = fingerprint_of(&uri, &rendering, &columns_text, header, &others);
        SinkConfig {
            uri,
            rendering,
            fingerprint,
            timeout: Duration::from_secs(timeout_secs),
            rejects,
            payloads,
            #[cfg(feature = "http")]
            secret,
            #[cfg(feature = "postgres")]
            database,
        }
    }
}

/// `SINK_FORMAT`, before its columns are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormatName {
    Envelope,
    Body,
    Csv,
    FixedWidth,
}

/// What was said of the columns.
enum Given {
    No,
    Wrong,
    Columns(Columns),
}

/// Reads what is said of a database, which has a format of its own. Takes the columns, if they are for it.
#[cfg(feature = "postgres")]
fn database(
    reader: &mut Reader<'_>,
    sink: &SinkUri,
    format: FormatName,
    columns: &mut Given,
) -> Database {
    let access = access::database(reader, sink);
    let is_database = sink.kind() == SinkKind::Postgres;
    let rows = format == FormatName::Envelope;
    let problem = || {
        format!(
            "`{SINK_FORMAT}` is set, but only `envelope` goes with `{SINK}` `postgres:`: \
             it has rows, and `{SINK_COLUMNS}` says what is in them"
        )
    };
    reader.rule(
        "With `SINK` `postgres:`, `SINK_FORMAT` is `envelope`: `SINK_COLUMNS` says what is in the rows.",
        (is_database && !rows).then(problem),
    );
    let columns = match columns {
        Given::Columns(given) if is_database && rows => {
            let given = given.clone();
            *columns = Given::No;
            Some(given)
        }
        Given::Columns(_) | Given::No | Given::Wrong => None,
    };
    Database {
        table: access.table,
        columns,
        password: access.password,
        rejects_max: access.rejects_max,
    }
}

/// Returns the format with its columns; another one where there is a problem, which is told.
fn format(reader: &mut Reader<'_>, name: FormatName, columns: Given, header: bool) -> Format {
    let has_columns = matches!(name, FormatName::Csv | FormatName::FixedWidth);
    let problem = match &columns {
        Given::No if has_columns => Some(format!(
            "`{SINK_COLUMNS}` is not set, `{SINK_FORMAT}` needs it: \
             a JSON list of columns, each with a `name` and a `json` or `field`"
        )),
        Given::Columns(_) if !has_columns => Some(format!(
            "`{SINK_COLUMNS}` is set, but only `{SINK_FORMAT}` `csv` and `fixed-width` have columns"
        )),
        Given::No | Given::Columns(_) | Given::Wrong => None,
    };
    reader.rule(
        "`SINK_COLUMNS` is set with `SINK_FORMAT` `csv` and `fixed-width`, may be set with `SINK` `postgres:`, and is not \
         set otherwise.",
        problem,
    );
    let (format, problem) = match (name, columns) {
        (FormatName::Csv, Given::Columns(columns)) => {
            let columns = columns.csv();
            (Format::Csv { columns, header }, None)
        }
        (FormatName::FixedWidth, Given::Columns(columns)) => match columns.fixed_width() {
            Ok(columns) => (Format::FixedWidth(columns), None),
            Err(error) => (
                Format::Envelope,
                Some(format!(
                    "`{SINK_COLUMNS}`: {error}, which `{SINK_FORMAT}` `fixed-width` needs"
                )),
            ),
        },
        (FormatName::Body, Given::No) => (Format::Body, None),
        (_, Given::No | Given::Wrong | Given::Columns(_)) => (Format::Envelope, None),
    };
    reader.rule(
        "With `SINK_FORMAT` `fixed-width`, every column of `SINK_COLUMNS` has a `width`.",
        problem,
    );
    format
}

/// Checks where reject lists go: what is called has no place for them; files and objects have them beside the parts.
fn check_rejects(
    reader: &mut Reader<'_>,
    sink: &SinkUri,
    format: &Format,
    rejects: Option<&SinkUri>,
) {
    let stores = SINK_REJECTS.value.allowed;
    let elsewhere = matches!(
        sink.kind(),
        SinkKind::Http | SinkKind::Lambda | SinkKind::States
    );
    let store = rejects.map(|uri| matches!(uri.kind(), SinkKind::File | SinkKind::S3));
    let problem = match (elsewhere, store) {
        (_, Some(false)) => Some(format!("`{SINK_REJECTS}` keeps nothing, expected {stores}")),
        (true, None) if format.rejects() => Some(format!(
            "`{SINK_REJECTS}` is not set, `{SINK_FORMAT}` `{}` needs it with `{SINK}` `{}`, expected {stores}",
            format.name(),
            sink.kind()
        )),
        (false, Some(true)) => Some(format!(
            "`{SINK_REJECTS}` is set, but only `{SINK}` `https:`, `arn:…:lambda:…` and `arn:…:states:…` read it: other sinks keep rejects beside the parts"
        )),
        (true, Some(true) | None) | (false, None) => None,
    };
    reader.rule(
        "With `SINK` `https:` or `arn:`, `SINK_REJECTS` is set unless `SINK_FORMAT` is `envelope`, where it may be; with \
         other sinks it is not set: they keep rejects beside the parts.",
        problem,
    );
}

/// Reads where parts go that no call carries: one that is too large, or compressed; other sinks take every part as it is.
fn payloads(reader: &mut Reader<'_>, sink: &SinkUri, compression: Compression) -> Option<SinkUri> {
    let expected = format!("expected {}", SINK_PAYLOADS.value.allowed);
    let payloads = reader.text_with(&SINK_PAYLOADS, |text| match text.parse::<SinkUri>() {
        Ok(uri) if uri.kind() == SinkKind::S3 => Ok(uri),
        Ok(_) => Err(expected.clone()),
        Err(words) => Err(words),
    });
    let called = matches!(sink.kind(), SinkKind::Lambda | SinkKind::States);
    let missing = called && !reader.is_set(&SINK_PAYLOADS) && compression != Compression::None;
    let unread = payloads.is_some() && !called;
    let problem = match (missing, unread) {
        (true, _) => Some(format!(
            "`{SINK_PAYLOADS}` is not set, `{SINK_COMPRESSION}` `{}` needs it with `{SINK}` `{}`, {expected}",
            compression.name(),
            sink.kind()
        )),
        (false, true) => Some(format!(
            "`{SINK_PAYLOADS}` is set, but only `{SINK}` `arn:…:lambda:…` and `arn:…:states:…` read it"
        )),
        (false, false) => None,
    };
    reader.rule(
        "With `SINK` `arn:`, `SINK_PAYLOADS` is set if `SINK_COMPRESSION` is not `none`; with other sinks it is not set.",
        problem,
    );
    payloads
}

/// A place in a fingerprint, cut: a URL's query may hold a secret, and long places have their hash.
const PLACE_CHARACTERS_MAX: usize = 120;

/// Returns where parts go and what they look like there, in words that an operator can compare, and before them, where
/// nothing is cut off, a hash of all that a part's destination and bytes depend on: two configurations that deliver otherwise have two fingerprints.
fn fingerprint_of(
    sink: &SinkUri,
    rendering: &Rendering,
    columns: &str,
    header: bool,
    others: &[String],
) -> String {
    let place = sink.to_string();
    let mut hasher = blake3::Hasher::new();
    let header = if header { "on" } else { "off" };
    let fixed = [
        place.as_str(),
        rendering.format.name(),
        columns,
        header,
        rendering.compression.name(),
    ];
    for text in fixed.into_iter().chain(others.iter().map(String::as_str)) {
        hasher.update(&(text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    }
    let shown: String = place
        .split('?')
        .next()
        .unwrap_or_default()
        .chars()
        .take(PLACE_CHARACTERS_MAX)
        .collect();
    format!(
        "{}, {}, {}, {shown}",
        &hasher.finalize().to_hex()[..12],
        rendering.format.name(),
        rendering.compression.name(),
    )
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
