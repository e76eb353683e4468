//! The sink `postgres:`, which writes events as rows of a PostgreSQL table.
//!
//! Each part is written once and completely, or not at all: one transaction writes its rows, its row in the ledger and its
//! rejects, and the primary key of the ledger allows each part once. Before that transaction, the sink sends the rows to a
//! staging table in chunks and commits each chunk, so that the next attempt continues an interrupted one. The database moves
//! the rows from the staging table to the table and marks the rows that it refuses. The sink creates no tables:
//! `infra/postgres.sql` defines them.

mod attempt;
mod connection;
mod delivery;
mod errors;
mod insertion;
mod names;
mod rejects;
mod rows;
mod staging;
mod tuples;
mod types;

use std::time::Duration;

use async_trait::async_trait;
use aws::chain;
use shared::config::{Number, Reader, Variable};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::config::Host;

use crate::config::form::SINK_TABLE;
use crate::kind::{Kind, Make, RejectLists};
use crate::secret::{SINK_PASSWORD, SINK_SECRET, Secret, SecretReader};
use crate::sink::{Receipt, Sink, SinkError};
use attempt::{Attempt, Target};
use connection::Connections;
use forms::Columns;
use forms::Part;
pub use names::TableName;
use types::TableTypes;

pub(crate) const KIND: Kind = Kind {
    name: "postgres:",
    is_named: |uri| uri.starts_with("postgres:") || uri.starts_with("postgresql:"),
    check: |uri| check(uri).map(|()| uri.to_owned()),
    reads: &[&SINK_TABLE, &SINK_REJECTS_MAX, &SINK_SECRET, &SINK_PASSWORD],
    call_bytes_max: None,
    writes_rows: true,
    reject_lists: RejectLists::Fetched(
        "in the table of rejects: write its column `record` to a file, for `--list FILE`",
    ),
    read,
};

/// How many records of one part may be rejected before the whole part is refused.
const SINK_REJECTS_MAX: Variable<Number<u64>> = Variable {
    name: "SINK_REJECTS_MAX",
    key: Some("sink.max_rejects"),
    value: Number {
        unit: "records",
        default: 10_000,
        min: 0,
        max: 1_000_000,
    },
    meaning: "With `postgres:`, how many records of one part may be rejected. If there are more, the sink writes \
              nothing of the part, and the batch goes into `error`.",
};

fn read(reader: &mut Reader<'_>, uri: Option<&str>) -> Option<Make> {
    let table = reader.text_with(&SINK_TABLE, str::parse);
    let table = table.unwrap_or_else(TableName::events);
    let rejects_max = reader.number(&SINK_REJECTS_MAX);
    let url = uri?.to_owned();
    Some(Make::new(move |config, sdk| {
        let database = Database {
            table: table.clone(),
            columns: config.columns.clone(),
            password: config.password.clone(),
            rejects_max,
        };
        let sink = PostgresSink::new(&url, &database, config.timeout);
        let sink = sink.map_err(|error| format!("`SINK`: wrong value: got `{url}`: {error}"))?;
        Ok(match &config.secret {
            Some(secret) => sink.with_secret(secret.reader(sdk)),
            None => sink,
        })
    }))
}

/// Checks the URL of a database.
fn check(url: &str) -> Result<(), String> {
    let wrong = |words: &str| format!("{words}, expected `postgres://user@host/database`");
    let config: tokio_postgres::Config = url
        .parse()
        .map_err(|error| wrong(&format!("not a database URL: {}", chain(&error))))?;
    if config.get_password().is_some() {
        return Err(wrong(
            "a URL with a password, which belongs in the secret named by `SINK_SECRET` or in `SINK_PASSWORD`",
        ));
    }
    if config.get_user().is_none() || config.get_dbname().is_none() {
        return Err(wrong("the user or the database is missing"));
    }
    match config.get_hosts() {
        [Host::Tcp(_)] => Ok(()),
        _ => Err(wrong("more than one host, or a socket")),
    }
}

/// The columns that rows have if `SINK_COLUMNS` is not set: those of the envelope.
const ENVELOPE: &str = r#"[
    {"name": "batch_id", "field": "batchId"},
    {"name": "part", "field": "part"},
    {"name": "seq", "field": "seq"},
    {"name": "event_id", "field": "eventId"},
    {"name": "sqs_message_id", "field": "sqsMessageId"},
    {"name": "source", "field": "source"},
    {"name": "sent_at", "field": "sentAt"},
    {"name": "body", "field": "body"}
]"#;

/// The configuration of the sink `postgres:` besides the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The table that events are written to: `SINK_TABLE`.
    pub table: TableName,
    /// The columns that rows have; `None` for those of the envelope.
    pub columns: Option<Columns>,
    /// The user's password: `SINK_PASSWORD`.
    pub password: Option<Secret>,
    /// How many records of one part may be rejected. If there are more, nothing of the part is written.
    pub rejects_max: u64,
}

/// Writes the records of parts as rows of a PostgreSQL table.
#[derive(Debug)]
pub struct PostgresSink {
    connections: Connections,
    target: Target,
    timeout: Duration,
}

impl PostgresSink {
    /// Returns a sink that writes to the database at `url`; connects only when it delivers. `timeout` limits one attempt to
    /// deliver a part.
    ///
    /// # Errors
    /// The URL is malformed, or the host is another machine and no trusted certificates were found.
    pub fn new(url: &str, database: &Database, timeout: Duration) -> Result<PostgresSink, String> {
        let columns = match &database.columns {
            Some(columns) => columns.clone(),
            None => ENVELOPE
                .parse()
                .map_err(|error| format!("columns: {error}"))?,
        };
        Ok(PostgresSink {
            connections: Connections::new(url, database.password.as_ref(), timeout)?,
            target: Target {
                table: database.table.clone(),
                columns: columns.unpadded().map_err(|error| error.to_string())?,
                rejects_max: database.rejects_max,
            },
            timeout,
        })
    }

    /// Takes the password from a secret, which is read again for each new connection.
    pub fn with_secret(mut self, reader: SecretReader) -> PostgresSink {
        self.connections.secret = Some(reader);
        self
    }
}

#[async_trait]
impl Sink for PostgresSink {
    /// Connects, and asks whether rows may be inserted into each table, and whether the table takes the types of the columns.
    async fn dry_run(&self) -> Result<(), SinkError> {
        let table = &self.target.table;
        let tables = [
            table.table(),
            table.ledger(),
            table.rejects(),
            table.staging(),
        ];
        let asked = async {
            let client = self.connections.connect().await?;
            for table in &tables {
                let name = table.replace('\'', "''");
                let question = format!("SELECT has_any_column_privilege('{name}', 'INSERT')");
                let replies = connection::rows_of(&client, &question).await?;
                let reply = replies.first().and_then(|rows| rows.first()?.get(0));
                if reply != Some("t") {
                    let reason = format!("the user may not insert into {table}");
                    return Err(SinkError::retryable(reason));
                }
            }
            let replies = connection::rows_of(&client, &types::query(table)).await?;
            let found = TableTypes::of(replies.first().map_or(&[], Vec::as_slice));
            found.of_columns(table, &self.target.columns)?;
            Ok(())
        };
        match timeout_at(Instant::now() + self.timeout, asked).await {
            Ok(asked) => asked,
            Err(_) => Err(SinkError::Retryable {
                reason: format!("no reply within `{}` s", self.timeout.as_secs()),
            }),
        }
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let ends_at = Instant::now() + self.timeout;
        let attempt = Attempt::new(&self.target, part, ends_at);
        match timeout_at(ends_at, attempt.run(&self.connections)).await {
            Ok(result) => result,
            Err(_) => Err(SinkError::retryable(format!(
                "part {key}: not written within `{}` s; the next attempt continues with the rows that are staged",
                self.timeout.as_secs(),
                key = part.key()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_url_has_a_user_a_host_and_a_database_and_no_password() {
        for url in [
            "postgres://user@db.example/legacy",
            "postgresql://user@127.0.0.1:5433/legacy?connect_timeout=3",
        ] {
            assert_eq!(check(url), Ok(()));
        }
        for (url, words) in [
            ("postgres://user:word@db/legacy", "a URL with a password"),
            (
                "postgres://db/legacy",
                "the user or the database is missing",
            ),
            ("postgres://user@db", "the user or the database is missing"),
            (
                "postgres://user@a,b/legacy",
                "more than one host, or a socket",
            ),
            (
                "postgres://user@%2Frun/legacy",
                "more than one host, or a socket",
            ),
            (
                "postgres://user@db/legacy?colour=blue",
                "not a database URL",
            ),
        ] {
            let error = check(url).unwrap_err();
            assert!(error.contains(words), "{words} in {error}");
        }
    }
}
