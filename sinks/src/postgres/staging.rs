//! Reads and writes the staging table.

use std::collections::BTreeMap;

use tokio_postgres::{Client, SimpleQueryRow};

use super::attempt::{Attempt, Durability, Entry};
use super::connection::{limits, rows_of};
use super::errors::sink_error;
use super::names::{TableName, literal};
use super::rows::{COLUMNS, Chunk, Mark};
use crate::sink::SinkError;
use forms::Column;

/// The state of the database when an attempt begins.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The part's row in the ledger.
    pub(super) entry: Option<Entry>,
    /// The staged chunks of the part: hash to number of rows.
    pub(super) staged: BTreeMap<String, u64>,
    /// Whether the encoding is UTF-8, which can store every character except NUL.
    pub(super) utf8: bool,
    /// The columns of the table: name to type.
    types: BTreeMap<String, String>,
}

impl Snapshot {
    /// Returns whether all rows of a chunk are staged.
    pub(super) fn has(&self, mark: &Mark) -> bool {
        self.staged.get(mark.hash.to_hex().as_str()) == Some(&mark.rows)
    }

    /// Returns name and type of each column that rows have.
    ///
    /// # Errors
    /// Permanent if the table has no such column.
    pub(super) fn typed(
        &self,
        table: &TableName,
        columns: &[Column],
    ) -> Result<Vec<(String, String)>, SinkError> {
        let typed = |column: &Column| match self.types.get(&column.name) {
            Some(kind) => Ok((column.name.clone(), kind.clone())),
            None => {
                let known: Vec<_> = self.types.keys().map(|name| format!("`{name}`")).collect();
                Err(SinkError::permanent(format!(
                    "table {}: a column is missing: got `{}` to write, expected one of {}",
                    table.table(),
                    column.name,
                    known.join(", ")
                )))
            }
        };
        columns.iter().map(typed).collect()
    }
}

impl Attempt<'_> {
    /// Reads the state of the database in one request.
    pub(super) async fn read_snapshot(&self, client: &Client) -> Result<Snapshot, SinkError> {
        // For a domain, this returns its base type, and for any type the name without its length. A cast to `varchar(3)` would
        // cut a longer value, while assigning the value to the column refuses it.
        let types = format!(
            "WITH RECURSIVE columns AS (\
               SELECT a.attname, t.oid, t.typtype, t.typbasetype \
               FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
               WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped \
             UNION ALL \
               SELECT c.attname, t.oid, t.typtype, t.typbasetype \
               FROM columns c JOIN pg_catalog.pg_type t ON t.oid = c.typbasetype WHERE c.typtype = 'd'\
             ) SELECT attname, pg_catalog.format_type(oid, -1) FROM columns WHERE typtype <> 'd'",
            literal(&self.target.table.table())
        );
        let statements = format!(
            "START TRANSACTION READ ONLY; {} SHOW server_encoding; {types}; {}; {}; COMMIT",
            limits(self.time_left()),
            self.entry_statement(),
            self.staged_statement()
        );
        let results = rows_of(client, &statements).await?;
        let [.., encoding, types, entry, staged, _commit] = results.as_slice() else {
            return Err(SinkError::retryable(format!(
                "the database returned `{}` results, expected at least 5",
                results.len()
            )));
        };
        let text = |row: &SimpleQueryRow, column| row.get(column).unwrap_or_default().to_owned();
        Ok(Snapshot {
            entry: Entry::from_rows(entry),
            staged: chunks(staged),
            utf8: encoding
                .first()
                .is_some_and(|row| row.get(0) == Some("UTF8")),
            types: types
                .iter()
                .map(|row| (text(row, 0), text(row, 1)))
                .collect(),
        })
    }

    /// Sends a chunk and commits it. If the ledger has the part by now, returns its row instead and leaves the transaction open.
    pub(super) async fn stage(
        &self,
        client: &Client,
        chunk: Chunk,
    ) -> Result<Option<Entry>, SinkError> {
        if let Some(entry) = self.begin(client, Durability::InMemory).await? {
            return Ok(Some(entry));
        }
        self.send(client, chunk).await?;
        self.commit(client).await?;
        Ok(None)
    }

    /// Sends a chunk, which replaces all staged rows in its range of seqs.
    pub(super) async fn send(&self, client: &Client, chunk: Chunk) -> Result<(), SinkError> {
        let staging = self.target.table.staging();
        let Mark { first, last, .. } = chunk.mark;
        let delete = format!(
            "DELETE FROM {staging} WHERE {} AND seq BETWEEN {first} AND {last}",
            self.part_condition()
        );
        client.batch_execute(&delete).await.map_err(sink_error)?;
        let copy = format!("COPY {staging} ({COLUMNS}) FROM STDIN (FORMAT binary)");
        chunk.tuples.copy(client, &copy).await.map_err(sink_error)
    }

    /// Makes sure that exactly these chunks are staged, and deletes other staged rows of the part. The staged rows then stay as
    /// they are until the transaction ends, because changing them takes the part's lock.
    ///
    /// # Errors
    /// Retryable if staged rows are missing.
    pub(super) async fn check(&self, client: &Client, marks: &[Mark]) -> Result<(), SinkError> {
        let staging = self.target.table.staging();
        let expected: BTreeMap<String, u64> = marks
            .iter()
            .map(|mark| (mark.hash.to_hex().to_string(), mark.rows))
            .collect();
        let results = rows_of(client, &self.staged_statement()).await?;
        let mut staged = results.last().map(|rows| chunks(rows)).unwrap_or_default();
        // Other chunks exist only if the columns were changed since, or something else wrote to the table.
        let others = staged.extract_if(.., |hash, _| !expected.contains_key(hash));
        let others = Vec::from_iter(others.map(|(hash, _)| hash)).join(",");
        if !others.is_empty() {
            let delete = format!(
                "DELETE FROM {staging} WHERE {} AND encode(chunk, 'hex') = ANY ('{{{others}}}'::text[])",
                self.part_condition()
            );
            client.batch_execute(&delete).await.map_err(sink_error)?;
        }
        if staged == expected {
            return Ok(());
        }
        let rows = |chunks: &BTreeMap<String, u64>| chunks.values().sum::<u64>();
        Err(SinkError::retryable(format!(
            "part {}: rows are missing in {staging}: got `{}`, expected `{}`; the next attempt sends them again",
            self.part.key(),
            rows(&staged),
            rows(&expected)
        )))
    }

    /// Returns the statement that selects the staged chunks of the part, for [`chunks`].
    fn staged_statement(&self) -> String {
        format!(
            "SELECT encode(chunk, 'hex'), count(*) FROM {} WHERE {} GROUP BY chunk",
            self.target.table.staging(),
            self.part_condition()
        )
    }
}

/// Reads the hash and the number of rows of each chunk.
fn chunks(rows: &[SimpleQueryRow]) -> BTreeMap<String, u64> {
    let chunk = |row: &SimpleQueryRow| {
        let count = row.get(1)?.parse().ok()?;
        Some((row.get(0)?.to_owned(), count))
    };
    rows.iter().filter_map(chunk).collect()
}
