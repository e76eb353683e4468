//! The batch processor's configuration.

use std::time::Duration;

use shared::config::{Common, ConfigError, DDB_BATCH_INDEX, Reader, TABLE_NAME, table_name};
use shared::limits::SQS_DELAY_MAX;

use crate::sink::{Columns, Compression, Format, Rendering, SinkUri};
#[cfg(feature = "postgres")]
use crate::sink::{Database, Secret, TableName};
#[cfg(feature = "http")]
use crate::sink::{SecretConfig, SecretHeader, SecretName};

/// How long after an empty look a batch is looked at once more.
pub const VERIFY_DELAY: &str = "VERIFY_DELAY";
/// What a part holds at most: bodies, and 256 bytes for each event besides.
pub const MAX_PART_BYTES: &str = "MAX_PART_BYTES";
/// Where batches go.
pub const SINK: &str = "SINK";
/// What they look like there.
pub const SINK_FORMAT: &str = "SINK_FORMAT";
/// The columns of `csv` and `fixed-width`.
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
/// Where the secret is kept that an endpoint wants to see.
pub const SINK_SECRET: &str = "SINK_SECRET";
/// The header it is sent in.
pub const SINK_SECRET_HEADER: &str = "SINK_SECRET_HEADER";
/// The port of the AWS Parameters and Secrets Lambda Extension, which has the name from there.
pub const SECRETS_PORT: &str = "PARAMETERS_SECRETS_EXTENSION_HTTP_PORT";

/// The table of a database.
pub const SINK_TABLE: &str = "SINK_TABLE";
/// The password of a database's user.
pub const SINK_PASSWORD: &str = "SINK_PASSWORD";

/// Everything the batch processor is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What both functions are told.
    pub common: Common,
    /// The index of the lock table by batch.
    pub index: String,
    /// How long after an empty look a batch is looked at once more.
    pub verify_delay: Duration,
    /// What a part holds at most.
    pub part_bytes_max: u64,
    /// Where batches go; a sink of your own leaves it unread.
    pub sink: SinkUri,
    /// What they look like there.
    pub rendering: Rendering,
    /// How long an endpoint may take to answer.
    pub sink_timeout: Duration,
    /// Where reject lists go that cannot stand beside the parts.
    pub rejects: Option<SinkUri>,
    /// Where parts go that no call can carry.
    pub payloads: Option<SinkUri>,
    /// What an endpoint wants to see.
    #[cfg(feature = "http")]
    pub secret: Option<SecretConfig>,
    /// What else is said of a database.
    #[cfg(feature = "postgres")]
    pub database: Database,
}

/// `SINK_FORMAT`, before its columns are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FormatName {
    Envelope,
    Body,
    Csv,
    FixedWidth,
}

impl Config {
    /// Reads the configuration through `lookup`.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem; the same environment fails every time.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let mut reader = Reader::new(lookup);
        let common = Common::read(&mut reader);
        let index = reader.optional(DDB_BATCH_INDEX, TABLE_NAME, table_name);
        let verify_secs = reader.number(VERIFY_DELAY, "seconds", 60, 1, SQS_DELAY_MAX.as_secs());
        let part_bytes_max = reader.number(MAX_PART_BYTES, "bytes", 64 << 20, 1_024, 1 << 30);
        let sink = reader
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
        reader.optional_with(SINK_COLUMNS, |text| {
            columns = Given::Wrong;
            text.parse::<Columns>()
                .map(|parsed| columns = Given::Columns(parsed))
        });
        #[cfg(feature = "postgres")]
        let database = database(&mut reader, &sink, name, &mut columns);
        let format = format(&mut reader, name, columns, header);
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
        check_rejects(&mut reader, &sink, &format, rejects.as_ref());
        let payloads = payloads(&mut reader, &sink, compression);
        #[cfg(feature = "http")]
        let secret = secret(&mut reader, &sink);
        let config = common.map(|common| Config {
            common,
            index: index.unwrap_or_else(|| "batchId-index".to_owned()),
            verify_delay: Duration::from_secs(verify_secs),
            part_bytes_max,
            sink,
            rendering: Rendering {
                format,
                compression,
            },
            sink_timeout: Duration::from_secs(timeout_secs),
            rejects,
            payloads,
            #[cfg(feature = "http")]
            secret,
            #[cfg(feature = "postgres")]
            database,
        });
        reader.finish(config)
    }
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
    let is_database = matches!(sink, SinkUri::Postgres(_));
    if password.is_some() && !is_database {
        reader.problem(format!(
            "`{SINK_PASSWORD}` is set, but only `{SINK}` `postgres:` reads it"
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
    let elsewhere = match sink {
        #[cfg(feature = "http")]
        SinkUri::Http(_) => true,
        #[cfg(feature = "lambda")]
        SinkUri::Lambda { .. } => true,
        #[cfg(feature = "states")]
        SinkUri::States { .. } => true,
        #[cfg(feature = "s3")]
        SinkUri::S3 { .. } => false,
        SinkUri::Log | SinkUri::File(_) => false,
        #[cfg(feature = "postgres")]
        SinkUri::Postgres(_) => false,
    };
    let store = match rejects {
        None => None,
        #[cfg(feature = "http")]
        Some(SinkUri::Http(_)) => Some(false),
        #[cfg(feature = "s3")]
        Some(SinkUri::S3 { .. }) => Some(true),
        Some(SinkUri::Log) => Some(false),
        Some(SinkUri::File(_)) => Some(true),
        #[cfg(feature = "postgres")]
        Some(SinkUri::Postgres(_)) => Some(false),
        #[cfg(feature = "lambda")]
        Some(SinkUri::Lambda { .. }) => Some(false),
        #[cfg(feature = "states")]
        Some(SinkUri::States { .. }) => Some(false),
    };
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
            Ok(uri) if uri.kind() == "s3:" => Ok(uri),
            Ok(_) => Err(EXPECTED.to_owned()),
            Err(words) => Err(words),
        }
    });
    let called = match sink {
        #[cfg(feature = "lambda")]
        SinkUri::Lambda { .. } => true,
        #[cfg(feature = "states")]
        SinkUri::States { .. } => true,
        #[cfg(feature = "http")]
        SinkUri::Http(_) => false,
        #[cfg(feature = "s3")]
        SinkUri::S3 { .. } => false,
        SinkUri::Log | SinkUri::File(_) => false,
        #[cfg(feature = "postgres")]
        SinkUri::Postgres(_) => false,
    };
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

/// Told without its value where that is wrong: it may be the secret itself.
#[cfg(feature = "http")]
fn secret(reader: &mut Reader<'_>, sink: &SinkUri) -> Option<SecretConfig> {
    let name = reader.optional(SINK_SECRET, "", |text| Some(text.parse::<SecretName>()));
    let header = reader.optional_with(SINK_SECRET_HEADER, str::parse::<SecretHeader>);
    let port = reader.optional(SECRETS_PORT, "a port from 1 to 65535", |text| {
        text.parse::<u16>().ok().filter(|port| *port > 0)
    });
    let is_endpoint = matches!(sink, SinkUri::Http(_));
    if header.is_some() && name.is_none() {
        reader.problem(format!(
            "`{SINK_SECRET_HEADER}` is set, but `{SINK_SECRET}` is not"
        ));
    }
    match name? {
        Ok(_) if !is_endpoint => {
            reader.problem(format!(
                "`{SINK_SECRET}` is set, but only `{SINK}` `https:` reads it"
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(extra: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let base = [
            ("DDB_LOCK_TABLE", "lock-table"),
            ("DDB_BATCH_TABLE", "batch-table"),
            (
                "BATCH_QUEUE_URL",
                "https://sqs.eu-west-1.amazonaws.com/1/batch-queue",
            ),
        ];
        Config::read(&|name: &str| {
            let set = extra.iter().chain(&base).find(|(key, _)| *key == name);
            set.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn defaults_are_those_of_the_design() {
        let config = read(&[]).unwrap();
        assert_eq!(config.index, "batchId-index");
        assert_eq!(config.verify_delay, Duration::from_secs(60));
        assert_eq!(config.part_bytes_max, 64 << 20);
        assert_eq!(config.sink, SinkUri::Log);
        assert_eq!(config.rendering.format, Format::Envelope);
        assert_eq!(config.rendering.compression, Compression::None);
        assert_eq!(config.sink_timeout, Duration::from_secs(30));
        assert_eq!(config.rejects, None);
        assert_eq!(config.payloads, None);
        #[cfg(feature = "http")]
        assert_eq!(config.secret, None);
    }

    #[test]
    fn every_wrong_variable_is_named_in_one_message() {
        let error = read(&[
            ("DDB_BATCH_TABLE", ""),
            (DDB_BATCH_INDEX, "!"),
            (VERIFY_DELAY, "901"),
            (MAX_PART_BYTES, "1k"),
            (SINK, "ftp://host"),
            (SINK_FORMAT, "xml"),
            (SINK_COLUMNS, "id"),
            (SINK_HEADER, "yes"),
            (SINK_COMPRESSION, "zip"),
            (SINK_TIMEOUT, "0"),
            (SINK_REJECTS, "log:"),
            (SINK_PAYLOADS, "log:"),
        ])
        .unwrap_err();
        let text = error.to_string();
        assert_eq!(error.problems.len(), 12, "{text}");
        for words in [
            "`DDB_BATCH_TABLE` is not set",
            "`DDB_BATCH_INDEX` is `!`",
            "`VERIFY_DELAY` is `901`, expected a whole number of seconds from 1 to 900",
            "`MAX_PART_BYTES` is `1k`, expected a whole number of bytes from 1024 to 1073741824",
            "`SINK` is `ftp://host`: expected `log:`, `file:///directory`, `s3://bucket/prefix`, `https://host/path`, ",
            "`SINK_FORMAT` is `xml`, expected `envelope`, `body`, `csv` or `fixed-width`",
            "`SINK_COLUMNS` is `id`: no JSON list of columns: ",
            "`SINK_HEADER` is `yes`, expected `on` or `off`",
            "`SINK_COMPRESSION` is `zip`, expected `none`, `gzip` or `zstd`",
            "`SINK_TIMEOUT` is `0`, expected a whole number of seconds from 1 to 900",
            "`SINK_REJECTS` keeps nothing, expected `file:///directory` or `s3://bucket/prefix`",
            "`SINK_PAYLOADS` is `log:`: expected `s3://bucket/prefix`",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    const COLUMNS: &str = r#"[{"name":"id","json":"id","width":3},{"name":"seq","field":"seq"}]"#;

    fn problem(extra: &[(&str, &str)]) -> String {
        let error = read(extra).unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error}");
        error.problems[0].clone()
    }

    #[test]
    fn columns_go_with_the_formats_that_have_them() {
        let csv = |header| {
            read(&[
                (SINK_FORMAT, "csv"),
                (SINK_COLUMNS, COLUMNS),
                (SINK_HEADER, header),
            ])
        };
        for (header, expected) in [("", true), ("on", true), ("off", false)] {
            let Format::Csv { columns, header } = csv(header).unwrap().rendering.format else {
                panic!("no csv");
            };
            assert_eq!((columns.len(), header), (2, expected));
        }
        for (extra, words) in [
            (
                vec![(SINK_FORMAT, "csv")],
                "`SINK_COLUMNS` is not set, `SINK_FORMAT` needs it",
            ),
            (
                vec![(SINK_COLUMNS, COLUMNS)],
                "`SINK_COLUMNS` is set, but only",
            ),
            (
                vec![(SINK_FORMAT, "body"), (SINK_COLUMNS, COLUMNS)],
                "`SINK_COLUMNS` is set, but only",
            ),
            (
                vec![(SINK_FORMAT, "fixed-width"), (SINK_COLUMNS, COLUMNS)],
                "column `seq` has no `width`",
            ),
            (
                vec![(SINK_FORMAT, "csv"), (SINK_COLUMNS, "[]")],
                "`SINK_COLUMNS` is `[]`: no columns",
            ),
        ] {
            let problem = problem(&extra);
            assert!(problem.contains(words), "{words} in {problem}");
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn an_endpoint_needs_a_place_for_rejects_where_there_can_be_any() {
        let url = (SINK, "https://host/path");
        read(&[url]).unwrap();
        let file = (SINK_REJECTS, "file:///rejects");
        let config = read(&[url, (SINK_FORMAT, "body"), file]).unwrap();
        assert_eq!(config.rejects, Some("file:///rejects".parse().unwrap()));
        for (extra, words) in [
            (
                vec![url, (SINK_FORMAT, "body")],
                "`SINK_REJECTS` is not set, `SINK_FORMAT` `body` needs it",
            ),
            (
                vec![url, (SINK_REJECTS, "https://host/rejects")],
                "`SINK_REJECTS` keeps nothing",
            ),
            (
                vec![(SINK, "file:///parts"), file],
                "`SINK_REJECTS` is set, but only `SINK` `https:`",
            ),
        ] {
            let problem = problem(&extra);
            assert!(problem.contains(words), "{words} in {problem}");
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_secret_is_for_an_endpoint_and_shown_nowhere() {
        let url = (SINK, "https://host/path");
        let name = (SINK_SECRET, "secretsmanager:key");
        let secret = read(&[url, name]).unwrap().secret.unwrap();
        assert_eq!(secret.name, "secretsmanager:key".parse().unwrap());
        assert_eq!(
            (secret.header.as_str(), secret.port),
            ("authorization", 2_773)
        );
        let header = (SINK_SECRET_HEADER, "x-api-key");
        let config = read(&[url, name, header, (SECRETS_PORT, "80")]).unwrap();
        let secret = config.secret.unwrap();
        assert_eq!((secret.header.as_str(), secret.port), ("x-api-key", 80));
        for (extra, words) in [
            (
                vec![name],
                "`SINK_SECRET` is set, but only `SINK` `https:` reads it",
            ),
            (
                vec![url, header],
                "`SINK_SECRET_HEADER` is set, but `SINK_SECRET` is not",
            ),
            (
                vec![url, name, (SINK_SECRET_HEADER, "batch-id")],
                "`SINK_SECRET_HEADER` is `batch-id`: expected a header that the sink does not set itself",
            ),
            (
                vec![url, name, (SECRETS_PORT, "0")],
                "`PARAMETERS_SECRETS_EXTENSION_HTTP_PORT` is `0`, expected a port from 1 to 65535",
            ),
            (
                vec![url, (SINK_SECRET, "hunter2")],
                "`SINK_SECRET` is not shown here: expected `secretsmanager:<name or ARN>`",
            ),
        ] {
            let problem = problem(&extra);
            assert!(problem.contains(words), "{words} in {problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
        let wrong = [
            url,
            (SINK_SECRET, "hunter2"),
            (SINK_SECRET_HEADER, "Host"),
            (SECRETS_PORT, "x"),
        ];
        assert_eq!(read(&wrong).unwrap_err().problems.len(), 3);
    }

    #[cfg(feature = "lambda")]
    #[cfg(feature = "states")]
    #[test]
    fn what_is_called_needs_places_for_what_no_call_carries() {
        let payloads = (SINK_PAYLOADS, "s3://bucket/parts");
        let rejects = (SINK_REJECTS, "s3://bucket/rejects");
        let zstd = (SINK_COMPRESSION, "zstd");
        for arn in [
            "arn:aws:lambda:eu-west-1:123456789012:function:f",
            "arn:aws:states:eu-west-1:123456789012:stateMachine:m",
        ] {
            let sink = (SINK, arn);
            read(&[sink]).unwrap();
            // The function may reject what the format does not.
            read(&[sink, rejects]).unwrap();
            let config = read(&[sink, zstd, payloads]).unwrap();
            assert_eq!(config.payloads, Some("s3://bucket/parts".parse().unwrap()));
            for (extra, words) in [
                (
                    vec![sink, zstd],
                    "`SINK_PAYLOADS` is not set, `SINK_COMPRESSION` `zstd` needs it",
                ),
                (
                    vec![sink, (SINK_FORMAT, "body")],
                    "`SINK_REJECTS` is not set, `SINK_FORMAT` `body` needs it",
                ),
                (
                    vec![sink, zstd, (SINK_PAYLOADS, "file:///parts")],
                    "`SINK_PAYLOADS` is `file:///parts`: expected `s3://bucket/prefix`",
                ),
                (
                    vec![sink, (SINK_REJECTS, arn)],
                    "`SINK_REJECTS` keeps nothing",
                ),
            ] {
                let problem = problem(&extra);
                assert!(problem.contains(words), "{words} in {problem}");
            }
        }
        let problem = problem(&[payloads]);
        assert!(
            problem.contains("`SINK_PAYLOADS` is set, but only"),
            "{problem}"
        );
    }
}
