//! The batch processor's configuration.

pub(crate) mod columns_source;
mod sinks;

use std::time::Duration;

use protocol::limits::{PARTS_MAX, SQS_DELAY_MAX};
use shared::config::{
    BatchBytes, Common, ConfigError, DDB_BATCH_INDEX, QUARANTINE_SQS_URL, QUEUE_URL, Reader,
    TABLE_NAME, queue_url, table_name,
};

#[cfg(feature = "postgres")]
use crate::sink::Database;
#[cfg(feature = "http")]
use crate::sink::SecretConfig;
use crate::sink::{Columns, Compression, Rendering, SinkUri};

use sinks::{FormatName, Given};

/// How long after an empty look a batch is looked at once more.
pub const VERIFY_DELAY: &str = "VERIFY_DELAY";
/// Where batches go.
pub const SINK: &str = "SINK";
/// What they look like there.
pub const SINK_FORMAT: &str = "SINK_FORMAT";
/// The columns of `csv` and `fixed-width`; or where they are, which only [`run`](crate::run()) looks up.
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

/// Everything the batch processor is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What both functions are told.
    pub common: Common,
    /// The index of the lock table by batch.
    pub index: String,
    /// How long after an empty look a batch is looked at once more.
    pub verify_delay: Duration,
    /// What a part holds, unless the parts of a batch would run out.
    pub part_bytes_max: u64,
    /// Parts that a batch may have.
    pub parts_max: usize,
    /// Where events go that an operator sets aside.
    pub quarantine_url: Option<String>,
    /// Where batches go; a sink of your own leaves it unread.
    pub sink: SinkUri,
    /// What they look like there.
    pub rendering: Rendering,
    /// Both in words, with a hash of all that they depend on: see [`Sink::fingerprint`](crate::sink::Sink::fingerprint).
    pub sink_fingerprint: String,
    /// How long an endpoint may take to answer.
    pub sink_timeout: Duration,
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
        let part_bytes_max = BatchBytes::read(&mut reader).part_bytes_max;
        let quarantine_url = reader.optional(QUARANTINE_SQS_URL, QUEUE_URL, queue_url);
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
        let mut columns_text = String::new();
        reader.optional_with(SINK_COLUMNS, |text| {
            columns = Given::Wrong;
            columns_text = text.to_owned();
            text.parse::<Columns>()
                .map(|parsed| columns = Given::Columns(parsed))
        });
        #[cfg(feature = "postgres")]
        let database = sinks::database(&mut reader, &sink, name, &mut columns);
        let format = sinks::format(&mut reader, name, columns, header);
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
        sinks::check_rejects(&mut reader, &sink, &format, rejects.as_ref());
        let payloads = sinks::payloads(&mut reader, &sink, compression);
        #[cfg(feature = "http")]
        let secret = sinks::secret(&mut reader, &sink);
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
        let sink_fingerprint =
            sinks::fingerprint(&sink, &rendering, &columns_text, header, &others);
        let config = common.map(|common| Config {
            common,
            index: index.unwrap_or_else(|| "batchId-index".to_owned()),
            verify_delay: Duration::from_secs(verify_secs),
            part_bytes_max,
            parts_max: PARTS_MAX,
            quarantine_url,
            sink,
            rendering,
            sink_fingerprint,
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

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
