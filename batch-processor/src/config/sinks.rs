//! Which variables go with which sink.

use shared::config::Reader;

#[cfg(feature = "http")]
use super::{SECRETS_PORT, SINK_SECRET, SINK_SECRET_HEADER};
use super::{SINK, SINK_COLUMNS, SINK_COMPRESSION, SINK_FORMAT, SINK_PAYLOADS, SINK_REJECTS};
#[cfg(feature = "postgres")]
use super::{SINK_PASSWORD, SINK_REJECTS_MAX, SINK_TABLE};
use crate::sink::{Columns, Compression, Format, Rendering, SinkKind, SinkUri};
#[cfg(feature = "postgres")]
use crate::sink::{Database, Secret, TableName};
#[cfg(feature = "http")]
use crate::sink::{SecretConfig, SecretHeader, SecretName};

/// `SINK_FORMAT`, before its columns are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FormatName {
    Envelope,
    Body,
    Csv,
    FixedWidth,
}

/// What was said of the columns.
pub(super) enum Given {
    No,
    Wrong,
    Columns(Columns),
}

/// A database has its own format. Takes the columns, if they are for it.
#[cfg(feature = "postgres")]
pub(super) fn database(
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
pub(super) fn format(
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
pub(super) fn check_rejects(
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
pub(super) fn payloads(
    reader: &mut Reader<'_>,
    sink: &SinkUri,
    compression: Compression,
) -> Option<SinkUri> {
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
pub(super) fn secret(reader: &mut Reader<'_>, sink: &SinkUri) -> Option<SecretConfig> {
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
pub(super) fn fingerprint(
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
