//! The staging table: what is there of a part, and what is sent to it.

use std::collections::BTreeMap;

use tokio_postgres::{Client, SimpleQueryRow};

use super::attempt::{Attempt, Durability, Entry};
use super::connection::{limits, rows_of};
use super::errors::told;
use super::names::{TableName, literal};
use super::rows::{COLUMNS, Chunk, Mark};
use crate::columns::Column;
use crate::sink::SinkError;

/// What the database has, as an attempt begins.
#[derive(Debug)]
pub(super) struct Look {
    /// What the ledger has of the part.
    pub(super) entry: Option<Entry>,
    /// The chunks of the part that are staged: by hash, how many rows.
    pub(super) staged: BTreeMap<String, u64>,
    /// Whether the database holds every character but NUL.
    pub(super) utf8: bool,
    /// The columns of the table: by name, the type.
    types: BTreeMap<String, String>,
}

impl Look {
    /// Whether all of a chunk is staged.
    pub(super) fn has(&self, mark: &Mark) -> bool {
        self.staged.get(mark.hash.to_hex().as_str()) == Some(&mark.rows)
    }

    /// The columns that rows have, each with its type in the table.
    pub(super) fn typed(
        &self,
        table: &TableName,
        columns: &[Column],
    ) -> Result<Vec<(String, String)>, SinkError> {
        let typed = |column: &Column| match self.types.get(&column.name) {
            Some(kind) => Ok((column.name.clone(), kind.clone())),
            None => {
                let known: Vec<_> = self.types.keys().map(|name| format!("`{name}`")).collect();
                Err(SinkError::Permanent {
                    reason: format!(
                        "table {}: a column is missing: got `{}` to write, expected one of {}",
                        table.table(),
                        column.name,
                        known.join(", ")
                    ),
                })
            }
        };
        columns.iter().map(typed).collect()
    }
}

impl Attempt<'_> {
    /// Looks at what the database has, in one request.
    pub(super) async fn look(&self, client: &Client) -> Result<Look, SinkError> {
        // A domain's type is the type below it: a value gets the domain as it is assigned, and a length that is too much is
        // refused then; a cast would cut. For the same reason types are written without their lengths.
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
            limits(self.left()),
            self.entry(),
            self.staged()
        );
        let answers = rows_of(client, &statements).await?;
        let [.., encoding, types, entry, staged, _commit] = answers.as_slice() else {
            return Err(SinkError::Retryable {
                reason: format!("the database gave `{}` answers", answers.len()),
            });
        };
        let text = |row: &SimpleQueryRow, column| row.get(column).unwrap_or_default().to_owned();
        Ok(Look {
            entry: Entry::of(entry),
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

    /// Sends a chunk and commits it, unless the ledger has the part by now: then the transaction is open, and its entry is
    /// returned.
    pub(super) async fn stage(
        &self,
        client: &Client,
        chunk: Chunk,
    ) -> Result<Option<Entry>, SinkError> {
        if let Some(entry) = self.begin(client, Durability::Soon).await? {
            return Ok(Some(entry));
        }
        self.send(client, chunk).await?;
        self.commit(client).await?;
        Ok(None)
    }

    /// Sends a chunk, in the place of whatever is staged there.
    pub(super) async fn send(&self, client: &Client, chunk: Chunk) -> Result<(), SinkError> {
        let staging = self.target.table.staging();
        let Mark { first, last, .. } = chunk.mark;
        let delete = format!(
            "DELETE FROM {staging} WHERE {} AND seq BETWEEN {first} AND {last}",
            self.of_part()
        );
        client.batch_execute(&delete).await.map_err(told)?;
        let copy = format!("COPY {staging} ({COLUMNS}) FROM STDIN (FORMAT binary)");
        chunk.tuples.copy(client, &copy).await.map_err(told)
    }

    /// Makes sure that exactly these chunks are staged: what else there is of the part is deleted. From here to the end of
    /// the transaction nobody changes that, for they would need its lock.
    pub(super) async fn check(&self, client: &Client, marks: &[Mark]) -> Result<(), SinkError> {
        let staging = self.target.table.staging();
        let expected: BTreeMap<String, u64> = marks
            .iter()
            .map(|mark| (mark.hash.to_hex().to_string(), mark.rows))
            .collect();
        let answers = rows_of(client, &self.staged()).await?;
        let mut staged = answers.last().map(|rows| chunks(rows)).unwrap_or_default();
        // Such chunks are there only if columns have changed since, or somebody wrote to the table.
        let strange = staged.extract_if(.., |hash, _| !expected.contains_key(hash));
        let strange = Vec::from_iter(strange.map(|(hash, _)| hash)).join(",");
        if !strange.is_empty() {
            let delete = format!(
                "DELETE FROM {staging} WHERE {} AND encode(chunk, 'hex') = ANY ('{{{strange}}}'::text[])",
                self.of_part()
            );
            client.batch_execute(&delete).await.map_err(told)?;
        }
        if staged == expected {
            return Ok(());
        }
        let rows = |chunks: &BTreeMap<String, u64>| chunks.values().sum::<u64>();
        Err(SinkError::Retryable {
            reason: format!(
                "part {}: rows were taken from {staging}: got `{}`, expected `{}`; they are sent again",
                self.part.key(),
                rows(&staged),
                rows(&expected)
            ),
        })
    }

    /// The statement that asks for what [`chunks`] reads.
    fn staged(&self) -> String {
        format!(
            "SELECT encode(chunk, 'hex'), count(*) FROM {} WHERE {} GROUP BY chunk",
            self.target.table.staging(),
            self.of_part()
        )
    }
}

fn chunks(rows: &[SimpleQueryRow]) -> BTreeMap<String, u64> {
    let chunk = |row: &SimpleQueryRow| {
        let count = row.get(1)?.parse().ok()?;
        Some((row.get(0)?.to_owned(), count))
    };
    rows.iter().filter_map(chunk).collect()
}
