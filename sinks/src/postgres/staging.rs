//! Reads and writes the staging table.

use std::collections::BTreeMap;

use tokio_postgres::{Client, SimpleQueryRow};

use super::attempt::{Attempt, Durability, Entry};
use super::connection::{limits, rows_of};
use super::errors::sink_error;
use super::rows::{COLUMNS, Chunk, Mark};
use super::types::{self, TableTypes};
use crate::sink::SinkError;

/// The state of the database when an attempt begins.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The part's row in the ledger.
    pub(super) entry: Option<Entry>,
    /// The staged chunks of the part: hash to number of rows.
    pub(super) staged: BTreeMap<String, u64>,
    /// Whether the encoding is UTF-8, which can store every character except NUL.
    pub(super) utf8: bool,
    /// The columns of the table.
    pub(super) types: TableTypes,
}

impl Snapshot {
    /// Returns whether all rows of a chunk are staged.
    pub(super) fn has(&self, mark: &Mark) -> bool {
        self.staged.get(mark.hash.to_hex().as_str()) == Some(&mark.rows)
    }
}

impl Attempt<'_> {
    /// Reads the state of the database in one request.
    pub(super) async fn read_snapshot(&self, client: &Client) -> Result<Snapshot, SinkError> {
        let types = types::query(&self.target.table);
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
        Ok(Snapshot {
            entry: Entry::from_rows(entry),
            staged: chunks(staged),
            utf8: encoding
                .first()
                .is_some_and(|row| row.get(0) == Some("UTF8")),
            types: TableTypes::of(types),
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
