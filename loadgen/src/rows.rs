//! Exports the rows that the sink `postgres:` wrote, as files for an audit.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use futures::{StreamExt, pin_mut};
use serde_json::json;
use tokio_postgres::{Client, Row};

/// Selects rows by the first parameter: ids of batches, or NULL for all.
const OF_BATCHES: &str = "($1::text[] IS NULL OR batch_id = ANY($1::text[]::uuid[]))";

/// The table `events`, with the columns of `infra/postgres.sql`.
#[derive(Debug)]
pub struct Rows<'a> {
    client: &'a Client,
    /// Quoted names of the table, of the one with its parts and of the one with staged rows.
    table: String,
    parts: String,
    staging: String,
    batch_ids: Option<Vec<&'a str>>,
}

/// Why rows could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// The database refused a query, or the connection broke.
    #[error("table {table}: {message}")]
    Database { table: String, message: String },
    /// The rows contradict each other.
    #[error("table {table}: {what}: got {got}, expected none")]
    Contradiction {
        table: String,
        what: &'static str,
        got: String,
    },
    /// A file cannot be written.
    #[error("`{path}`: {source}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

impl<'a> Rows<'a> {
    /// Returns the rows of the batches `batch_ids`, or all. `table` is `table` or `schema.table`, as in `SINK_TABLE`.
    pub fn new(client: &'a Client, table: &str, batch_ids: Option<&BTreeSet<&'a str>>) -> Rows<'a> {
        let quoted = |suffix: &str| {
            let names = format!("{table}{suffix}").replace('"', "\"\"");
            format!("\"{}\"", names.replacen('.', "\".\"", 1))
        };
        Rows {
            client,
            table: quoted(""),
            parts: quoted("_parts"),
            staging: quoted("_staging"),
            batch_ids: batch_ids.map(|ids| ids.iter().copied().collect()),
        }
    }

    /// Writes the rows as files `<directory>/<batchId>/<part>.jsonl` in the format `envelope`. Memory holds one row at a time.
    ///
    /// # Errors
    /// A part has another number of rows than the table of parts says, rows of a delivered part are still staged, the database
    /// refuses a query, or a file cannot be written.
    pub async fn export(&self, directory: &Path) -> Result<(), RowsError> {
        self.check().await?;
        let Rows { table, .. } = self;
        let query = format!(
            "SELECT batch_id::text, part, seq, event_id, sqs_message_id, source, sent_at, body FROM {table} \
             WHERE {OF_BATCHES} ORDER BY batch_id, part, seq"
        );
        let failed = |error| database_error(table, &error);
        let rows = self.client.query_raw(&query, [&self.batch_ids]).await;
        let rows = rows.map_err(failed)?;
        pin_mut!(rows);
        let mut open: Option<PartFile> = None;
        while let Some(row) = rows.next().await {
            let row = row.map_err(failed)?;
            let (batch, part): (String, i32) = (row.get(0), row.get(1));
            let path = directory.join(&batch).join(format!("{part}.jsonl"));
            let file = match open.take().filter(|file| file.path == path) {
                Some(file) => open.insert(file),
                None => open.insert(PartFile::create(path)?),
            };
            file.write(&row)?;
        }
        Ok(())
    }

    /// Checks the rows against the table of parts.
    async fn check(&self) -> Result<(), RowsError> {
        let Rows {
            table,
            parts,
            staging,
            ..
        } = self;
        self.none(
            table,
            "parts with another number of rows than the table of parts says",
            &format!(
                "SELECT batch_id::text || '/' || part FROM (SELECT * FROM {parts} WHERE {OF_BATCHES}) p FULL JOIN \
                 (SELECT batch_id, part, count(*) AS rows FROM {table} WHERE {OF_BATCHES} GROUP BY batch_id, part) e \
                 USING (batch_id, part) WHERE coalesce(e.rows, 0) + coalesce(p.rejected, 0) IS DISTINCT FROM p.count"
            ),
        )
        .await?;
        self.none(
            staging,
            "parts that were delivered and are still staged",
            &format!(
                "SELECT DISTINCT batch_id::text || '/' || part FROM {staging} JOIN {parts} USING (batch_id, part) \
                 WHERE {OF_BATCHES}"
            ),
        )
        .await
    }

    /// Fails if `query`, which returns names of parts, returns any.
    async fn none(&self, table: &str, what: &'static str, query: &str) -> Result<(), RowsError> {
        let found = self.client.query(query, &[&self.batch_ids]).await;
        let found = found.map_err(|error| database_error(table, &error))?;
        if found.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = found.iter().map(|row| row.get(0)).collect();
        Err(RowsError::Contradiction {
            table: table.to_owned(),
            what,
            got: names.join(", "),
        })
    }
}

/// The file of a part.
struct PartFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl PartFile {
    fn create(path: PathBuf) -> Result<PartFile, RowsError> {
        let file_error = |source| file_error(&path, source);
        fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(file_error)?;
        let file = BufWriter::new(File::create(&path).map_err(file_error)?);
        Ok(PartFile { path, file })
    }

    fn write(&mut self, row: &Row) -> Result<(), RowsError> {
        let envelope = json!({
            "batchId": row.get::<_, String>(0),
            "part": row.get::<_, i32>(1),
            "seq": row.get::<_, i64>(2),
            "eventId": row.get::<_, String>(3),
            "sqsMessageId": row.get::<_, String>(4),
            "source": row.get::<_, String>(5),
            "sentAt": row.get::<_, i64>(6),
            "body": row.get::<_, String>(7),
        });
        let written = writeln!(self.file, "{envelope}");
        written.map_err(|source| file_error(&self.path, source))
    }
}

fn database_error(table: &str, error: &tokio_postgres::Error) -> RowsError {
    // The message of the outer error alone says only "db error".
    let message = match error.as_db_error() {
        Some(reported) => reported.to_string(),
        None => error.to_string(),
    };
    RowsError::Database {
        table: table.to_owned(),
        message,
    }
}

fn file_error(path: &Path, source: std::io::Error) -> RowsError {
    RowsError::File {
        path: path.display().to_string(),
        source,
    }
}
