//! The variables of the built-in sinks, and which of them go with which sink.

use std::time::Duration;

use shared::config::{Number, Reader, Text, Unset, Variable, Word};

use crate::columns::Columns;
use crate::compression::Compression;
use crate::format::Format;
use crate::parquet::ParquetFormat;
use crate::rendering::Rendering;
use crate::secret::SecretConfig;
use crate::uri::{SinkKind, SinkUri};

mod access;
mod form;
mod layout;
#[cfg(feature = "full")]
mod servers;

use access::DEFAULT_TABLE;
use form::{ColumnsValue, FormatName, SINK_FORMAT};
use layout::SINK_ENCODING;

pub use access::{SINK_HOST_KEY, SINK_PASSWORD, SINK_SECRET, SINK_SECRET_HEADER, SINK_TABLE};
pub use form::SINK;
pub(crate) use form::SINK_COLUMNS;
#[cfg(feature = "full")]
pub use servers::Servers;

const SINK_HEADER: Variable<Word<bool>> = Variable {
    name: "SINK_HEADER",
    key: Some("sink.header"),
    value: Word {
        default: true,
        words: &[("on", true), ("off", false)],
    },
    meaning: "Whether the first line of `csv` has the names of the columns.",
};
const SINK_COMPRESSION: Variable<Word<Compression>> = Variable {
    name: "SINK_COMPRESSION",
    key: Some("sink.compression"),
    value: Word {
        default: Compression::None,
        words: &[
            ("none", Compression::None),
            ("gzip", Compression::Gzip),
            ("zstd", Compression::Zstd),
        ],
    },
    meaning: "How parts are compressed. With `parquet`, `zstd` compresses inside the file.",
};
const SINK_TIMEOUT: Variable<Number<u64>> = Variable {
    name: "SINK_TIMEOUT",
    key: Some("sink.timeout"),
    value: Number {
        unit: "seconds",
        default: 30,
        min: 1,
        max: 900,
    },
    meaning: "The time limit of one attempt to deliver a part to an endpoint, a function, a database or a server.",
};
/// Where reject lists go if the sink has no files or objects to put them beside.
pub const SINK_REJECTS: Variable<Text> = Variable {
    name: "SINK_REJECTS",
    key: Some("sink.rejects"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "`file:///directory` or `s3://bucket/prefix`",
    },
    meaning: "With `https:` and `arn:`, where rejected records go, for example those that the format cannot carry.",
};
/// Where parts go that are too large or compressed for a call.
pub const SINK_PAYLOADS: Variable<Text> = Variable {
    name: "SINK_PAYLOADS",
    key: Some("sink.payloads"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "`s3://bucket/prefix`",
    },
    meaning: "With `arn:`, where parts go that are compressed, in another encoding than `utf-8`, or too large for a call.",
};

/// The configuration of the built-in sinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// The destination: `SINK`.
    pub uri: SinkUri,
    /// The format and the compression of parts.
    pub rendering: Rendering,
    /// A readable text for the destination and the rendering, with a hash of everything they depend on: see
    /// [`Sink::fingerprint`](crate::sink::Sink::fingerprint).
    pub fingerprint: String,
    /// The time limit of one attempt, for endpoints, functions, databases and servers.
    pub timeout: Duration,
    /// Where reject lists go if the sink has no files or objects to put them beside.
    pub rejects: Option<SinkUri>,
    /// Where parts go that are too large or compressed for a call.
    pub payloads: Option<SinkUri>,
    /// Where the secret for an endpoint, a database or a server is kept.
    pub secret: Option<SecretConfig>,
    /// What the sinks `postgres:` and `sftp:` need besides.
    #[cfg(feature = "full")]
    pub servers: Servers,
}

impl SinkConfig {
    /// Reads the variables of sinks. The reader collects the problems; a wrong value is read as its default.
    pub fn read(reader: &mut Reader<'_>) -> SinkConfig {
        // A wrong value is reported, and reading goes on with the default, so that all problems are reported at once.
        let uri = reader.text_with(&SINK, str::parse).unwrap_or(SinkUri::Log);
        let name = reader.word(&SINK_FORMAT);
        let header = reader.word(&SINK_HEADER);
        let mut columns = ColumnsValue::Unset;
        let mut columns_text = String::new();
        reader.text_with(&SINK_COLUMNS, |text| {
            columns = ColumnsValue::Invalid;
            columns_text = text.to_owned();
            text.parse::<Columns>()
                .map(|parsed| columns = ColumnsValue::Valid(parsed))
        });
        #[cfg(feature = "full")]
        let servers = Servers::read(reader, &uri, name, &mut columns);
        #[cfg(not(feature = "full"))]
        access::declare(reader);
        let compression = reader.word(&SINK_COMPRESSION);
        let format = format(reader, name, columns, header, compression);
        let timeout_secs = reader.number(&SINK_TIMEOUT);
        let rejects = reader.text_with(&SINK_REJECTS, str::parse);
        check_rejects(reader, &uri, &format, rejects.as_ref());
        let layout = layout::layout(reader, &uri, &format);
        let rendering = Rendering {
            format,
            layout,
            compression: match name {
                // The file is compressed inside.
                FormatName::Parquet => Compression::None,
                FormatName::Envelope
                | FormatName::Body
                | FormatName::Csv
                | FormatName::FixedWidth => compression,
            },
        };
        let payloads = payloads(reader, &uri, &rendering);
        let secret = access::secret(reader, &uri);
        let others = [
            rejects.as_ref().map(SinkUri::to_string),
            payloads.as_ref().map(SinkUri::to_string),
            // Templates up to 0.2.0 set this variable for every sink, to its default.
            Some(
                reader
                    .value(&SINK_TABLE)
                    .unwrap_or_else(|| DEFAULT_TABLE.to_owned()),
            ),
        ];
        let others = others.map(Option::unwrap_or_default);
        let fingerprint = fingerprint_of(
            &uri,
            [rendering.format.name(), compression.name()],
            &columns_text,
            header,
            &others,
            &layout::settings(reader),
        );
        SinkConfig {
            uri,
            rendering,
            fingerprint,
            timeout: Duration::from_secs(timeout_secs),
            rejects,
            payloads,
            secret,
            #[cfg(feature = "full")]
            servers,
        }
    }
}

/// Returns the format with its columns. If they do not fit together, reports that and returns the format `envelope`.
fn format(
    reader: &mut Reader<'_>,
    name: FormatName,
    columns: ColumnsValue,
    header: bool,
    compression: Compression,
) -> Format {
    let has_columns = matches!(
        name,
        FormatName::Csv | FormatName::FixedWidth | FormatName::Parquet
    );
    let problem = match &columns {
        ColumnsValue::Unset if has_columns => Some(format!(
            "`{SINK_COLUMNS}`: not set: `{SINK_FORMAT}` needs it, expected \
             a JSON list of columns, each with a `name` and a `json` or `field`"
        )),
        ColumnsValue::Valid(_) if !has_columns => Some(format!(
            "`{SINK_COLUMNS}` is set, but only `{SINK_FORMAT}` `csv`, `fixed-width` and `parquet` have columns"
        )),
        ColumnsValue::Unset | ColumnsValue::Valid(_) | ColumnsValue::Invalid => None,
    };
    reader.rule(
        "`SINK_COLUMNS` is set with `SINK_FORMAT` `csv`, `fixed-width` and `parquet`, may be set with `SINK` `postgres:`, and is not \
         set otherwise.",
        problem,
    );
    // The build may not have the format, nor the format the compression, whatever the columns are.
    let no_columns = ParquetFormat::new([].into(), compression);
    let problem = (name == FormatName::Parquet)
        .then(|| no_columns.err())
        .flatten();
    reader.rule(
        "With `SINK_FORMAT` `parquet`, `SINK_COMPRESSION` is `none` or `zstd`, which is that of the pages in the file.",
        problem.map(|words| format!("`{SINK_FORMAT}`: wrong value: got `parquet`: {words}")),
    );
    let (format, problem) = match (name, columns) {
        (FormatName::Parquet, ColumnsValue::Valid(columns)) => {
            let format = ParquetFormat::new(columns.csv(), compression);
            (format.map_or(Format::Envelope, Format::Parquet), None)
        }
        (FormatName::Csv, ColumnsValue::Valid(columns)) => {
            let columns = columns.csv();
            (Format::Csv { columns, header }, None)
        }
        (FormatName::FixedWidth, ColumnsValue::Valid(columns)) => match columns.fixed_width() {
            Ok(columns) => (Format::FixedWidth(columns), None),
            Err(error) => (
                Format::Envelope,
                Some(format!(
                    "`{SINK_COLUMNS}`: {error}, which `{SINK_FORMAT}` `fixed-width` needs"
                )),
            ),
        },
        (FormatName::Body, ColumnsValue::Unset) => (Format::Body, None),
        (_, ColumnsValue::Unset | ColumnsValue::Invalid | ColumnsValue::Valid(_)) => {
            (Format::Envelope, None)
        }
    };
    reader.rule(
        "With `SINK_FORMAT` `fixed-width`, every column of `SINK_COLUMNS` has a `width`.",
        problem,
    );
    format
}

/// Checks `SINK_REJECTS`: endpoints, functions and state machines need it; other sinks keep reject lists beside the parts.
fn check_rejects(
    reader: &mut Reader<'_>,
    sink: &SinkUri,
    format: &Format,
    rejects: Option<&SinkUri>,
) {
    let stores = SINK_REJECTS.value.allowed;
    let needs_store = matches!(
        sink.kind(),
        SinkKind::Http | SinkKind::Lambda | SinkKind::States
    );
    let is_store = |kind: SinkKind| matches!(kind, SinkKind::File | SinkKind::S3);
    let problem = match (needs_store, rejects.map(SinkUri::kind)) {
        (_, Some(kind)) if !is_store(kind) => Some(format!(
            "`{SINK_REJECTS}`: wrong sink: got `{kind}`, expected {stores}"
        )),
        (true, None) if format.rejects() => Some(format!(
            "`{SINK_REJECTS}`: not set: `{SINK_FORMAT}` `{}` needs it with `{SINK}` `{}`, expected {stores}",
            format.name(),
            sink.kind()
        )),
        (false, Some(_)) => Some(format!(
            "`{SINK_REJECTS}` is set, but only `{SINK}` `https:`, `arn:…:lambda:…` and `arn:…:states:…` read it: other sinks keep rejects beside the parts"
        )),
        (true, Some(_) | None) | (false, None) => None,
    };
    reader.rule(
        "With `SINK` `https:` or `arn:`, `SINK_REJECTS` is set unless `SINK_FORMAT` is `envelope`, where it may be; with \
         other sinks it is not set: they keep rejects beside the parts.",
        problem,
    );
}

/// Reads `SINK_PAYLOADS`, where parts go that are too large for a call, or not a text in UTF-8. Only functions and state machines need
/// it: other sinks take every part.
fn payloads(reader: &mut Reader<'_>, sink: &SinkUri, rendering: &Rendering) -> Option<SinkUri> {
    let (compression, encoding) = (rendering.compression, rendering.layout.encoding);
    let is_parquet = matches!(rendering.format, Format::Parquet(_));
    let expected = format!("expected {}", SINK_PAYLOADS.value.allowed);
    let payloads = reader.text_with(&SINK_PAYLOADS, |text| match text.parse::<SinkUri>() {
        Ok(uri) if uri.kind() == SinkKind::S3 => Ok(uri),
        Ok(_) => Err(expected.clone()),
        Err(words) => Err(words),
    });
    let is_call = matches!(sink.kind(), SinkKind::Lambda | SinkKind::States);
    let missing = is_call && !reader.is_set(&SINK_PAYLOADS) && !rendering.is_text();
    let unread = payloads.is_some() && !is_call;
    let problem = match (missing, unread) {
        (true, _) => Some(format!(
            "`{SINK_PAYLOADS}`: not set: {} needs it with `{SINK}` `{}`, {expected}",
            match compression {
                Compression::None if is_parquet => format!("`{SINK_FORMAT}` `parquet`"),
                Compression::None => format!("`{SINK_ENCODING}` `{}`", encoding.name()),
                Compression::Gzip | Compression::Zstd =>
                    format!("`{SINK_COMPRESSION}` `{}`", compression.name()),
            },
            sink.kind()
        )),
        (false, true) => Some(format!(
            "`{SINK_PAYLOADS}` is set, but only `{SINK}` `arn:…:lambda:…` and `arn:…:states:…` read it"
        )),
        (false, false) => None,
    };
    reader.rule(
        "With `SINK` `arn:`, `SINK_PAYLOADS` is set if `SINK_COMPRESSION` is not `none`, `SINK_ENCODING` is not `utf-8` or \
         `SINK_FORMAT` is `parquet`; with other sinks it is not set.",
        problem,
    );
    payloads
}

/// How much of the destination a fingerprint shows. The query of a URL is left out, because it may hold a secret; the hash
/// covers the whole destination.
const PLACE_CHARACTERS_MAX: usize = 120;

/// Returns a hash of everything that a part's destination and bytes depend on, followed by the format, the compression and
/// the destination for an operator to compare. Configurations that deliver differently have different fingerprints. The hash
/// comes first because the end of a long fingerprint is cut off.
fn fingerprint_of(
    sink: &SinkUri,
    [format, compression]: [&str; 2],
    columns: &str,
    header: bool,
    others: &[String],
    layout: &[(&str, String)],
) -> String {
    let place = sink.to_string();
    let mut hasher = blake3::Hasher::new();
    let header = if header { "on" } else { "off" };
    let fixed = [place.as_str(), format, columns, header, compression];
    let others = others.iter().map(String::as_str);
    // Nothing is added for the default layout: before there were layouts, it had this fingerprint.
    let layout = layout
        .iter()
        .flat_map(|(name, value)| [*name, value.as_str()]);
    for text in fixed.into_iter().chain(others).chain(layout) {
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
        "{}, {format}, {compression}, {shown}",
        &hasher.finalize().to_hex()[..12],
    )
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
