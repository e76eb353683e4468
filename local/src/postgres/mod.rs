//! Runs a PostgreSQL server for the sink `postgres`, with a proxy in front that makes deliveries fail. Exports the rows as
//! files for the audit.

mod proxy;
mod server;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde_json::json;
use tokio_postgres::{Client, NoTls, Row};

use crate::faults::SinkErrors;

pub use proxy::{Proxy, Sent};
pub use server::Server;

/// The SQL that creates the tables of the sink.
pub const TABLES: &str = include_str!("../../../infra/postgres.sql");
/// Sorts rows so that those of a part follow each other.
const ORDER: &str = "ORDER BY batch_id, part, seq";

/// A running server with the sink's tables, and the proxy in front of it.
pub struct Postgres {
    _server: Server,
    proxy: Proxy,
    client: Client,
    out: PathBuf,
}

impl Postgres {
    /// Starts a server as [`Server::start`] does, and creates the tables. [`export_parts`](Self::export_parts) will write
    /// to `out`.
    ///
    /// # Errors
    /// No server is installed, or it does not start.
    pub async fn start(out: PathBuf, errors: Arc<SinkErrors>) -> anyhow::Result<Postgres> {
        let server = Server::start().await?;
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls)
            .await
            .context("connect to the PostgreSQL that was started")?;
        tokio::spawn(connection);
        client
            .batch_execute(TABLES)
            .await
            .context("create the tables of infra/postgres.sql")?;
        let proxy = Proxy::start(server.port(), errors).await?;
        Ok(Postgres {
            _server: server,
            proxy,
            client,
            out,
        })
    }

    /// Returns the value of `SINK`.
    pub fn variable(&self) -> String {
        self.proxy.url()
    }

    /// Writes the rows as files `<out>/<batchId>/<part>.jsonl`, and checks them against the table `events_parts`.
    ///
    /// # Errors
    /// A row is there twice, a part has another number of rows than `events_parts` says, rows of a delivered part are still
    /// staged, or a file cannot be written.
    pub async fn export_parts(&self) -> anyhow::Result<()> {
        let rows = self
            .client
            .query(
                &format!(
                    "SELECT batch_id::text, part, seq, event_id, sqs_message_id, source, sent_at, body FROM events {ORDER}"
                ),
                &[],
            )
            .await?;
        self.check().await?;
        self.write(&rows)
    }

    /// Checks the rows against the table `events_parts`.
    async fn check(&self) -> anyhow::Result<()> {
        let twice: i64 = self
            .client
            .query_one(
                "SELECT count(*) - count(DISTINCT (batch_id, part, seq)) FROM events",
                &[],
            )
            .await?
            .get(0);
        ensure!(
            twice == 0,
            "table `events`: rows that are there twice: got {twice}, expected none"
        );
        let wrong = self
            .client
            .query(
                "SELECT p.batch_id::text || '/' || p.part FROM events_parts p FULL JOIN \
                 (SELECT batch_id, part, count(*) AS rows FROM events GROUP BY batch_id, part) e \
                 ON (e.batch_id, e.part) = (p.batch_id, p.part) \
                 WHERE coalesce(e.rows, 0) + coalesce(p.rejected, 0) IS DISTINCT FROM p.count",
                &[],
            )
            .await?;
        ensure!(
            wrong.is_empty(),
            "table `events`: parts with another number of rows than `events_parts` says: got {:?}, expected none",
            Vec::from_iter(wrong.iter().map(|row| row.get::<_, Option<String>>(0)))
        );
        let staged: i64 = self
            .client
            .query_one(
                "SELECT count(*) FROM events_staging JOIN events_parts USING (batch_id, part)",
                &[],
            )
            .await?
            .get(0);
        ensure!(
            staged == 0,
            "table `events_staging`: rows of delivered parts: got {staged}, expected none"
        );
        Ok(())
    }

    /// Writes the rows, which must be sorted by part, as one file per part.
    fn write(&self, rows: &[Row]) -> anyhow::Result<()> {
        let mut file: Option<(PathBuf, std::io::BufWriter<fs::File>)> = None;
        for row in rows {
            let (batch, part): (String, i32) = (row.get(0), row.get(1));
            let path = self.out.join(&batch).join(format!("{part}.jsonl"));
            if file.as_ref().is_none_or(|(open, _)| *open != path) {
                flush(&mut file)?;
                fs::create_dir_all(parent(&path))?;
                file = Some((
                    path.clone(),
                    std::io::BufWriter::new(fs::File::create(&path)?),
                ));
            }
            let envelope = json!({
                "batchId": batch,
                "part": part,
                "seq": row.get::<_, i64>(2),
                "eventId": row.get::<_, String>(3),
                "sqsMessageId": row.get::<_, String>(4),
                "source": row.get::<_, String>(5),
                "sentAt": row.get::<_, i64>(6),
                "body": row.get::<_, String>(7),
            });
            if let Some((_, to)) = &mut file {
                writeln!(to, "{envelope}")?;
            }
        }
        flush(&mut file)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn flush(file: &mut Option<(PathBuf, std::io::BufWriter<fs::File>)>) -> anyhow::Result<()> {
    if let Some((path, mut to)) = file.take() {
        to.flush()
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
