//! Rows in a table of PostgreSQL: the sink `postgres:`.
//!
//! A part is there once, whole, or not at all: its rows, its row in the ledger and its rejects are of one transaction, and
//! the ledger has a part once. Before that, its rows are sent to a staging table in chunks that are committed one by one,
//! so that an attempt that ends in the middle is continued by the next. What of them the database refuses is found by the
//! database itself, from the staging table. Tables are not made here: `infra/postgres.sql` defines them.

mod attempt;
mod connection;
mod database;
mod delivery;
mod errors;
mod insertion;
mod names;
mod rejects;
mod rows;
mod staging;
mod tuples;

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout_at};

use crate::part::Part;
use crate::secret::SecretReader;
use crate::sink::{Receipt, Sink, SinkError};
use attempt::{Attempt, Target};
use connection::Connections;
pub use database::Database;
pub use names::TableName;

/// The columns of a table without `SINK_COLUMNS`: the envelope.
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

/// The sink `postgres:`.
#[derive(Debug)]
pub struct PostgresSink {
    connections: Connections,
    target: Target,
    timeout: Duration,
}

impl PostgresSink {
    /// Rows in a table of the database at `url`; `timeout` is for one attempt at a part.
    ///
    /// # Errors
    /// A URL that is none, or no certificates to trust where the host is another machine.
    pub fn new(url: &str, database: &Database, timeout: Duration) -> Result<PostgresSink, String> {
        let columns = match &database.columns {
            Some(columns) => columns.clone(),
            None => ENVELOPE
                .parse()
                .map_err(|error| format!("columns: {error}"))?,
        };
        Ok(PostgresSink {
            connections: Connections::new(url, database, timeout)?,
            target: Target {
                table: database.table.clone(),
                columns: columns.csv(),
                rejects_max: database.rejects_max,
            },
            timeout,
        })
    }

    /// With a password that is kept elsewhere, read anew for each connection.
    pub fn with_secret(self, reader: SecretReader) -> PostgresSink {
        PostgresSink {
            connections: self.connections.with_secret(reader),
            ..self
        }
    }
}

#[async_trait]
impl Sink for PostgresSink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let ends_at = Instant::now() + self.timeout;
        let attempt = Attempt::new(&self.target, part, ends_at);
        match timeout_at(ends_at, attempt.run(&self.connections)).await {
            Ok(answer) => answer,
            Err(_) => Err(SinkError::Retryable {
                reason: format!(
                    "not written within `{}` s; the next attempt goes on with the rows that are staged",
                    self.timeout.as_secs()
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::places::database as parse;

    #[test]
    fn a_url_names_a_user_a_host_and_a_database_and_no_password() {
        for url in [
            "postgres://user@db.example/legacy",
            "postgresql://user@127.0.0.1:5433/legacy?connect_timeout=3",
        ] {
            assert_eq!(parse(url), Ok(url.to_owned()));
        }
        for (url, words) in [
            ("postgres://user:word@db/legacy", "where `SINK_SECRET` says"),
            ("postgres://db/legacy", "a user or a database is missing"),
            ("postgres://user@db", "a user or a database is missing"),
            ("postgres://user@a,b/legacy", "one host, and no socket"),
            ("postgres://user@%2Frun/legacy", "one host, and no socket"),
            (
                "postgres://user@db/legacy?colour=blue",
                "no URL of a database",
            ),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains(words), "{words} in {error}");
        }
    }
}
