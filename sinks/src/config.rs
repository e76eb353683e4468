//! What the sinks that ship are told, and which variables go with which sink.

use std::time::Duration;

use shared::config::Reader;

use crate::columns::Columns;
use crate::compression::Compression;
use crate::format::Format;
#[cfg(feature = "postgres")]
use crate::postgres::{Database, TableName};
use crate::rendering::Rendering;
#[cfg(feature = "postgres")]
use crate::secret::Secret;
#[cfg(feature = "http")]
use crate::secret::{SecretConfig, SecretHeader, SecretName};
use crate::uri::{SinkKind, SinkUri};

/// Where batches go.
pub const SINK: &str = "SINK";
/// What they look like there.
pub const SINK_FORMAT: &str = "SINK_FORMAT";
/// The columns of `csv` and `fixed-width`; or where they are, which only [`columns_source`](crate::columns_source) looks up.
pub const SINK_COLUMNS: &str = "SINK_COLUMNS";
/// Whether `csv` begins with the names of its columns.
pub const SINK_HEADER: &str = "SINK_HEADER";
/// How parts are compressed.
pub const SINK_COMPRESSION: &str = "SINK_COMPRESSION";
/// How long an endpoint may take to answer.
pub const SINK_TIMEOUT: &str = "SINK_TIMEOUT";
/// Where reject lists go that cannot stand beside the parts.
pub const SINK_REJECTS: &str = "SINK_REJECTS";
/// Where parts go that no call can carry.
pub const SINK_PAYLOADS: &str = "SINK_PAYLOADS";
/// Where the secret is kept that an endpoint or a database wants to see.
pub const SINK_SECRET: &str = "SINK_SECRET";
/// The header it is sent in to an endpoint.
pub const SINK_SECRET_HEADER: &str = "SINK_SECRET_HEADER";
/// The port of the AWS Parameters and Secrets Lambda Extension, which has the name from there.
pub const SECRETS_PORT: &str = "PARAMETERS_SECRETS_EXTENSION_HTTP_PORT";
/// The table of a database.
pub const SINK_TABLE: &str = "SINK_TABLE";
/// The password of a database's user.
pub const SINK_PASSWORD: &str = "SINK_PASSWORD";
/// How many records of one part a database may reject.
pub const SINK_REJECTS_MAX: &str = "SINK_REJECTS_MAX";

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
        let uri = reader
            .optional_with(SINK, str::parse)
            .unwrap_or(SinkUri::Log);
        let name = reader.optional(
            SINK_FORMAT,
            "`envelope`, `body`, `csv` or `fixed-width`",
            |text| match text {
                "envelope" => Some(FormatName::Envelope),
                "body" => Some(FormatName::Body),
                "csv" => Some(FormatName::Csv),
                "fixed-width" => Some(FormatName::FixedWidth),
                _ => None,
            },
        );
        let header = reader
            .optional(SINK_HEADER, "`on` or `off`", |text| match text {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            })
            .unwrap_or(true);
        let mut columns = Given::No;
        let mut columns_text = String::new();
        reader.optional_with(SINK_COLUMNS, |text| {
            columns = Given::Wrong;
            columns_text = text.to_owned();
            text.parse::<Columns>()
                .map(|parsed| columns = Given::Columns(parsed))
        });
        #[cfg(feature = "postgres")]
        let database = database(reader, &uri, name, &mut columns);
        let format = format(reader, name, columns, header);
        let compression = reader
            .optional(
                SINK_COMPRESSION,
                "`none`, `gzip` or `zstd`",
                |text| match text {
                    "none" => Some(Compression::None),
                    "gzip" => Some(Compression::Gzip),
                    "zstd" => Some(Compression::Zstd),
                    _ => None,
                },
            )
            .unwrap_or(Compression::None);
        let timeout_secs = reader.number(SINK_TIMEOUT, "seconds", 30, 1, 900);
        let rejects = reader.optional_with(SINK_REJECTS, str::parse);
        check_rejects(reader, &uri, &format, rejects.as_ref());
        let payloads = payloads(reader, &uri, compression);
        #[cfg(feature = "http")]
        let secret = secret(reader, &uri);
        let rendering = Rendering {
            format,
            compression,
        };
        let others = [
            rejects.as_ref().map(SinkUri::to_string),
            payloads.as_ref().map(SinkUri::to_string),
            reader.value(SINK_TABLE),
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
#[derive(Clone, Copy, PartialEq, Eq)]
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

/// A database has its own format. Takes the columns, if they are for it.
#[cfg(feature = "postgres")]
fn database(
    reader: &mut Reader<'_>,
    sink: &SinkUri,
    format: Option<FormatName>,
    columns: &mut Given,
) -> Database {
    let table = reader.optional_with(SINK_TABLE, str::parse);
    let password = reader.optional(SINK_PASSWORD, "a password", |text| {
        Some(Secret::from(text.to_owned()))
    });
    let rejects_max = reader.number(SINK_REJECTS_MAX, "records", 10_000, 0, 1_000_000);
    let is_database = sink.kind() == SinkKind::Postgres;
    if password.is_some() && !is_database {
        reader.problem(format!(
            "`{SINK_PASSWORD}` is set, but only `{SINK}` `postgres:` reads it"
        ));
    }
    if password.is_some() && reader.is_set(SINK_SECRET) {
        reader.problem(format!(
            "`{SINK_PASSWORD}` and `{SINK_SECRET}` are both set, expected one of them"
        ));
    }
    let rows = matches!(format, None | Some(FormatName::Envelope));
    if is_database && !rows {
        reader.problem(format!(
            "`{SINK_FORMAT}` is set, but only `envelope` goes with `{SINK}` `postgres:`: \
             it has rows, and `{SINK_COLUMNS}` says what is in them"
        ));
    }
    let columns = match columns {
        Given::Columns(given) if is_database && rows => {
            let given = given.clone();
            *columns = Given::No;
            Some(given)
        }
        Given::Columns(_) | Given::No | Given::Wrong => None,
    };
    Database {
        table: table.unwrap_or_else(TableName::events),
        columns,
        password,
        rejects_max,
    }
}

/// The format with its columns; another one where there is a problem, which is told.
fn format(
    reader: &mut Reader<'_>,
    name: Option<FormatName>,
    columns: Given,
    header: bool,
) -> Format {
    let name = name.unwrap_or(FormatName::Envelope);
    let columns = match (name, columns) {
        (FormatName::Csv | FormatName::FixedWidth, Given::Columns(columns)) => columns,
        (FormatName::Csv | FormatName::FixedWidth, Given::No) => {
            reader.problem(format!(
                "`{SINK_COLUMNS}` is not set, `{SINK_FORMAT}` needs it: \
                 a JSON list of columns, each with a `name` and a `json` or `field`"
            ));
            return Format::Envelope;
        }
        (FormatName::Envelope | FormatName::Body, Given::Columns(_)) => {
            reader.problem(format!(
                "`{SINK_COLUMNS}` is set, but only `{SINK_FORMAT}` `csv` and `fixed-width` have columns"
            ));
            return Format::Envelope;
        }
        (_, Given::Wrong) => return Format::Envelope,
        (FormatName::Body, Given::No) => return Format::Body,
        (FormatName::Envelope, Given::No) => return Format::Envelope,
    };
    if name == FormatName::Csv {
        return Format::Csv {
            columns: columns.csv(),
            header,
        };
    }
    match columns.fixed_width() {
        Ok(columns) => Format::FixedWidth(columns),
        Err(error) => {
            reader.problem(format!(
                "`{SINK_COLUMNS}`: {error}, which `{SINK_FORMAT}` `fixed-width` needs"
            ));
            Format::Envelope
        }
    }
}

/// What is called has no place for reject lists; files and objects have them beside the parts, and nowhere else.
fn check_rejects(
    reader: &mut Reader<'_>,
    sink: &SinkUri,
    format: &Format,
    rejects: Option<&SinkUri>,
) {
    const STORES: &str = "expected `file:///directory` or `s3://bucket/prefix`";
    let elsewhere = matches!(
        sink.kind(),
        SinkKind::Http | SinkKind::Lambda | SinkKind::States
    );
    let store = rejects.map(|uri| matches!(uri.kind(), SinkKind::File | SinkKind::S3));
    match (elsewhere, store) {
        (_, Some(false)) => reader.problem(format!("`{SINK_REJECTS}` keeps nothing, {STORES}")),
        (true, None) if format.rejects() => reader.problem(format!(
            "`{SINK_REJECTS}` is not set, `{SINK_FORMAT}` `{}` needs it with `{SINK}` `{}`, {STORES}",
            format.name(),
            sink.kind()
        )),
        (false, Some(true)) => reader.problem(format!(
            "`{SINK_REJECTS}` is set, but only `{SINK}` `https:`, `arn:…:lambda:…` and `arn:…:states:…` read it: other sinks keep rejects beside the parts"
        )),
        (true, Some(true) | None) | (false, None) => {}
    }
}

/// Calls carry only so much, and nothing that is compressed; other sinks take every part as it is.
fn payloads(reader: &mut Reader<'_>, sink: &SinkUri, compression: Compression) -> Option<SinkUri> {
    const EXPECTED: &str = "expected `s3://bucket/prefix`";
    let mut given = false;
    let payloads = reader.optional_with(SINK_PAYLOADS, |text| {
        given = true;
        match text.parse::<SinkUri>() {
            Ok(uri) if uri.kind() == SinkKind::S3 => Ok(uri),
            Ok(_) => Err(EXPECTED.to_owned()),
            Err(words) => Err(words),
        }
    });
    let called = matches!(sink.kind(), SinkKind::Lambda | SinkKind::States);
    if called && !given && compression != Compression::None {
        reader.problem(format!(
            "`{SINK_PAYLOADS}` is not set, `{SINK_COMPRESSION}` `{}` needs it with `{SINK}` `{}`, {EXPECTED}",
            compression.name(),
            sink.kind()
        ));
    }
    if payloads.is_some() && !called {
        reader.problem(format!(
            "`{SINK_PAYLOADS}` is set, but only `{SINK}` `arn:…:lambda:…` and `arn:…:states:…` read it"
        ));
    }
    payloads
}

/// What an endpoint or a database wants to see. Told without its value where that is wrong: it may be the secret itself.
#[cfg(feature = "http")]
fn secret(reader: &mut Reader<'_>, sink: &SinkUri) -> Option<SecretConfig> {
    let name = reader.optional(SINK_SECRET, "", |text| Some(text.parse::<SecretName>()));
    let header = reader.optional_with(SINK_SECRET_HEADER, str::parse::<SecretHeader>);
    let port = reader.optional(SECRETS_PORT, "a port from 1 to 65535", |text| {
        text.parse::<u16>().ok().filter(|port| *port > 0)
    });
    let reads_it = matches!(sink.kind(), SinkKind::Http | SinkKind::Postgres);
    if header.is_some() && name.is_none() {
        reader.problem(format!(
            "`{SINK_SECRET_HEADER}` is set, but `{SINK_SECRET}` is not"
        ));
    }
    match name? {
        Ok(_) if !reads_it => {
            reader.problem(format!(
                "`{SINK_SECRET}` is set, but only `{SINK}` `https:` and `postgres:` read it"
            ));
            None
        }
        Ok(name) => Some(SecretConfig {
            name,
            header: header.unwrap_or_default(),
            port: port.unwrap_or(2_773),
        }),
        Err(words) => {
            reader.problem(format!("`{SINK_SECRET}` is not shown here: {words}"));
            None
        }
    }
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
