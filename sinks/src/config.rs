//! The variables of the built-in sinks, and which of them go with which sink.

use std::collections::BTreeMap;
use std::time::Duration;

use shared::config::{Description, Number, Reader, Variable, Word};

use crate::answers::AnswersConfig;
use crate::built_in::{KINDS, SINK, parse};
use crate::kind::{Kind, Make, SinkConfig};
use crate::log::LogSink;
#[cfg(feature = "full")]
use crate::payload::SINK_PAYLOADS;
#[cfg(feature = "full")]
use crate::place::BucketPlace;
use crate::place::FilePlace;
use crate::rejects::SINK_REJECTS;
use crate::secret::{Secret, SecretConfig};
use forms::Columns;
use forms::Compression;
use forms::Format;
use forms::ParquetFormat;
use forms::Rendering;

pub(crate) mod form;
pub(crate) mod layout;
pub(crate) mod proof;

use form::{ColumnsValue, FormatName, SINK_COLUMNS, SINK_FORMAT, SINK_TABLE, TABLE};
#[cfg(feature = "full")]
use layout::SINK_ENCODING;
use proof::PROOF;

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
impl SinkConfig {
    /// Reads the variables of sinks. The reader collects the problems; a wrong value is read as its default.
    pub fn read(reader: &mut Reader<'_>) -> SinkConfig {
        // A wrong value is reported, and reading goes on with the default, so that all problems are reported at once.
        let (kind, uri) = reader.text_with(&SINK, parse).unzip();
        let uri = uri.unwrap_or_default();
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
        let (columns, of_rows) = rows(reader, kind, name, columns);
        let compression = reader.word(&SINK_COMPRESSION);
        let format = format(reader, name, columns, header, compression);
        let timeout_secs = reader.number(&SINK_TIMEOUT);
        let mut make = None;
        for each in KINDS {
            let is_it = kind.is_some_and(|kind| kind.name == each.name);
            make = (each.read)(reader, is_it.then_some(&*uri)).or(make);
        }
        let secret = SecretConfig::read(reader);
        let password = Secret::read_password(reader);
        let rejects = rejects(reader, kind, &format);
        let proof = with_links(reader, kind);
        let layout = layout::layout(reader, &format);
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
        #[cfg(feature = "full")]
        let payloads = payloads(reader, kind, &rendering);
        let call_bytes_max = kind.and_then(|kind| kind.call_bytes_max);
        #[cfg(feature = "full")]
        let call_bytes_max = call_bytes_max.filter(|_| payloads.is_none());
        check_unread(reader, kind);
        // Without a kind there is a problem, and the reader returns no configuration.
        let make = make.unwrap_or_else(|| Make::new(|_, _| Ok(LogSink)));
        let answers = AnswersConfig::read(reader, make.answers.is_some());
        let fingerprint = fingerprint_of(
            &uri,
            [rendering.format.name(), compression.name()],
            &columns_text,
            header,
            &[
                rejects
                    .as_ref()
                    .map_or_else(String::new, FilePlace::to_string),
                #[cfg(feature = "full")]
                payloads
                    .as_ref()
                    .map_or_else(String::new, BucketPlace::to_string),
                #[cfg(not(feature = "full"))]
                String::new(),
                reader
                    .value(&SINK_TABLE)
                    .unwrap_or_else(|| TABLE.to_owned()),
            ],
            &layout::settings(reader),
        );
        SinkConfig {
            rendering,
            fingerprint,
            timeout: Duration::from_secs(timeout_secs),
            rejects,
            proof,
            #[cfg(feature = "full")]
            payloads,
            // In JSON, an event takes more than a part counts for it: quotes and line breaks in its body are escaped.
            part_bytes_max: call_bytes_max.map(|bytes| bytes as u64 / 4 * 3),
            secret,
            password,
            columns: of_rows,
            writes_rows: kind.is_some_and(|kind| kind.writes_rows),
            answers,
            make,
        }
    }
}

/// Returns the columns for the format, and those of the rows: a sink that writes rows has them, and not the format.
fn rows(
    reader: &mut Reader<'_>,
    kind: Option<&Kind>,
    format: FormatName,
    columns: ColumnsValue,
) -> (ColumnsValue, Option<Columns>) {
    let kind = kind.filter(|kind| kind.writes_rows);
    let is_envelope = format == FormatName::Envelope;
    reader.rule(
        "With `SINK` `postgres:`, `SINK_FORMAT` is `envelope`: `SINK_COLUMNS` names the columns of the rows.",
        kind.filter(|_| !is_envelope).map(|kind| {
            format!(
                "`{SINK_FORMAT}` must be `envelope` with `{SINK}` `{}`: `{SINK_COLUMNS}` names the columns of the rows",
                kind.name
            )
        }),
    );
    match columns {
        ColumnsValue::Valid(columns) if kind.is_some() && is_envelope => {
            let problem = columns.clone().unpadded().err();
            reader.rule(
                "With `SINK` `postgres:`, no column of `SINK_COLUMNS` has the type `packed-decimal`, `zoned-decimal` or `binary`.",
                problem.map(|error| format!("`{SINK_COLUMNS}`: {error}")),
            );
            (ColumnsValue::Unset, Some(columns))
        }
        columns => (columns, None),
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
        "With `SINK_FORMAT` `parquet`, `SINK_COMPRESSION` is `none` or `zstd`, the compression of the pages in the file.",
        problem.map(|words| format!("`{SINK_FORMAT}`: wrong value: got `parquet`: {words}")),
    );
    let format = match (name, columns) {
        (FormatName::Parquet, ColumnsValue::Valid(columns)) => {
            let columns = columns.unpadded();
            columns.map(|columns| {
                let format = ParquetFormat::new(columns, compression);
                format.map_or(Format::Envelope, Format::Parquet)
            })
        }
        (FormatName::Csv, ColumnsValue::Valid(columns)) => {
            let columns = columns.unpadded();
            columns.map(|columns| Format::Csv { columns, header })
        }
        (FormatName::FixedWidth, ColumnsValue::Valid(columns)) => {
            columns.fixed_width().map(Format::FixedWidth)
        }
        (FormatName::Body, ColumnsValue::Unset) => Ok(Format::Body),
        (_, ColumnsValue::Unset | ColumnsValue::Invalid | ColumnsValue::Valid(_)) => {
            Ok(Format::Envelope)
        }
    };
    let problem = format.as_ref().err();
    let name_of_format = reader.value(&SINK_FORMAT);
    reader.rule(
        "With `SINK_FORMAT` `fixed-width`, every column of `SINK_COLUMNS` has a `width`. Only with it may columns have the types \
         `packed-decimal`, `zoned-decimal` and `binary`.",
        problem.map(|error| {
            let format = name_of_format.unwrap_or_default();
            format!("`{SINK_COLUMNS}`: {error} (`{SINK_FORMAT}` is `{format}`)")
        }),
    );
    format.unwrap_or(Format::Envelope)
}

/// Reads `SINK_REJECTS`, where sinks put reject lists that have no files or objects to put them beside.
fn rejects(reader: &mut Reader<'_>, kind: Option<&Kind>, format: &Format) -> Option<FilePlace> {
    let rejects = reader.text_with(&SINK_REJECTS, str::parse);
    let needs = kind.filter(|kind| kind.reads(SINK_REJECTS.name) && format.rejects());
    let missing = needs.filter(|_| !reader.is_set(&SINK_REJECTS));
    reader.rule(
        "With `SINK` `https:` or `arn:`, `SINK_REJECTS` is set unless `SINK_FORMAT` is `envelope`, where it may be.",
        missing.map(|kind| {
            format!(
                "`{SINK_REJECTS}`: not set: `{SINK_FORMAT}` `{}` needs it with `{SINK}` `{}`, expected {}",
                format.name(),
                kind.name,
                SINK_REJECTS.value.allowed
            )
        }),
    );
    rejects
}

/// Reads `PROOF`, which needs a sink with manifests.
fn with_links(reader: &mut Reader<'_>, kind: Option<&Kind>) -> bool {
    let proof = reader.word(&PROOF);
    let problem = kind.filter(|kind| proof && !kind.reads(PROOF.name));
    reader.rule(
        "With `PROOF` `on`, `SINK` is `file:`, `s3:` or `sftp:`, which write manifests.",
        problem.map(|kind| {
            format!(
                "`{PROOF}`: got `on` with `{SINK}` `{}`, which writes no manifests, expected `file:`, `s3:` or `sftp:`",
                kind.name
            )
        }),
    );
    proof
}

/// Reads `SINK_PAYLOADS`, where calls put parts that are too large for them, or not a text in UTF-8.
#[cfg(feature = "full")]
fn payloads(
    reader: &mut Reader<'_>,
    kind: Option<&Kind>,
    rendering: &Rendering,
) -> Option<BucketPlace> {
    let payloads = reader.text_with(&SINK_PAYLOADS, str::parse);
    let needs = kind.filter(|kind| kind.reads(SINK_PAYLOADS.name) && !rendering.is_text());
    let missing = needs.filter(|_| !reader.is_set(&SINK_PAYLOADS));
    let problem = missing.map(|kind| {
        let cause = match rendering.compression {
            Compression::None if matches!(rendering.format, Format::Parquet(_)) => {
                format!("`{SINK_FORMAT}` `parquet`")
            }
            Compression::None if rendering.layout.line_end == forms::LineEnd::Rdw => {
                "`SINK_LINE_END` `rdw`".to_owned()
            }
            Compression::None => {
                format!("`{SINK_ENCODING}` `{}`", rendering.layout.encoding.name())
            }
            compression @ (Compression::Gzip | Compression::Zstd) => {
                format!("`{SINK_COMPRESSION}` `{}`", compression.name())
            }
        };
        format!(
            "`{SINK_PAYLOADS}`: not set: {cause} needs it with `{SINK}` `{}`, expected {}",
            kind.name, SINK_PAYLOADS.value.allowed
        )
    });
    reader.rule(
        "With `SINK` `arn:`, `SINK_PAYLOADS` is set if `SINK_COMPRESSION` is not `none`, `SINK_ENCODING` is not `utf-8` or \
         `SINK_FORMAT` is `parquet`.",
        problem,
    );
    payloads
}

/// Reports each setting that the sink does not read. One with a default may be set with every sink.
fn check_unread(reader: &mut Reader<'_>, kind: Option<&Kind>) {
    reader.rule(
        "`SINK_SECRET`, `SINK_PASSWORD`, `SINK_HOST_KEY`, `SINK_PATH`, `SINK_REJECTS` and `SINK_PAYLOADS` are set only with a `SINK` that \
         reads them.",
        None,
    );
    let Some(kind) = kind else {
        return;
    };
    let mut unread: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for each in KINDS {
        for setting in each.reads {
            let Description { name, default, .. } = setting.description();
            let has_default = default.is_none_or(|text| !text.is_empty());
            if !has_default && !kind.reads(name) && reader.is_set(*setting) {
                unread.entry(name).or_default().push(each.name);
            }
        }
    }
    for (setting, readers) in unread {
        let (last, others) = readers.split_last().unwrap_or((&"", &[]));
        let readers = match others {
            [] => format!("`{last}` reads"),
            others => format!("`{}` and `{last}` read", others.join("`, `")),
        };
        reader.problem(format!(
            "`{setting}` is set, but only `{SINK}` {readers} it"
        ));
    }
}

/// How much of the destination a fingerprint shows. The query of a URL is left out, because it may hold a secret; the hash
/// covers the whole destination.
const PLACE_CHARACTERS_MAX: usize = 120;

/// Returns a hash of everything that a part's destination and bytes depend on, followed by the format, the compression and
/// the destination for an operator to compare. Configurations that deliver differently have different fingerprints. The hash
/// comes first because the end of a long fingerprint is cut off.
fn fingerprint_of(
    place: &str,
    [format, compression]: [&str; 2],
    columns: &str,
    header: bool,
    others: &[String],
    layout: &[(&str, String)],
) -> String {
    let mut hasher = blake3::Hasher::new();
    let header = if header { "on" } else { "off" };
    let fixed = [place, format, columns, header, compression];
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
