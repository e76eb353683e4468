//! One attempt to deliver a part: its transactions, and the part's row in the ledger.

use std::sync::Arc;
use std::time::Duration;

use blake3::Hash;
use tokio::time::Instant;
use tokio_postgres::Client;
use uuid::Uuid;

use super::connection::{limits, rows_of};
use super::errors::sink_error;
use super::names::TableName;
use crate::sink::SinkError;
use forms::Column;
use forms::{Part, content_hash};

/// The table that all parts go to, and the limit of rejects.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) table: TableName,
    pub(super) columns: Arc<[Column]>,
    /// How many records of one part may be rejected.
    pub(super) rejects_max: u64,
}

/// One attempt to deliver a part.
pub(super) struct Attempt<'a> {
    pub(super) target: &'a Target,
    pub(super) part: &'a Part,
    /// Batch id and number of the part, as in the columns `batch_id` and `part`.
    pub(super) key: (Uuid, i32),
    pub(super) hash: Hash,
    ends_at: Instant,
}

/// A part's row in the ledger.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) hash: String,
    pub(super) rejected: u64,
}

/// When `COMMIT` returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Durability {
    /// When the transaction is on disk: needed before the part is acknowledged.
    OnDisk,
    /// Before the transaction is on disk: enough for staged rows, because lost rows are sent again.
    InMemory,
}

impl Entry {
    /// Reads the result of [`Attempt::entry_statement`].
    pub(super) fn from_rows(rows: &[tokio_postgres::SimpleQueryRow]) -> Option<Entry> {
        let row = rows.first()?;
        Some(Entry {
            hash: row.get(0)?.to_owned(),
            rejected: row.get(1)?.parse().ok()?,
        })
    }
}

impl Attempt<'_> {
    pub(super) fn new<'a>(target: &'a Target, part: &'a Part, ends_at: Instant) -> Attempt<'a> {
        let id = part.batch_id.to_string();
        Attempt {
            target,
            part,
            key: (
                id.parse().expect("a batch id is a UUID"),
                // A batch has at most a few hundred parts.
                i32::try_from(part.part_index).unwrap_or(i32::MAX),
            ),
            hash: Hash::from_bytes(content_hash(&part.items)),
            ends_at,
        }
    }

    /// Begins a transaction that holds the lock of this part; returns the part's row in the ledger, if there is one.
    ///
    /// The lock depends on the part's key alone, not on the table. Transactions that stage rows of a part and transactions that
    /// rely on staged rows therefore run one after the other. A transaction that waited for the lock must see what the others
    /// committed, hence the isolation level `READ COMMITTED`. The lock does not keep a part from being written twice; the
    /// primary key of the ledger does.
    pub(super) async fn begin(
        &self,
        client: &Client,
        durability: Durability,
    ) -> Result<Option<Entry>, SinkError> {
        let lock = blake3::hash(self.part.key().as_bytes());
        let (lock, _) = lock
            .as_bytes()
            .split_first_chunk()
            .expect("32 bytes are more than 8");
        let synchronous = match durability {
            Durability::OnDisk => "on",
            Durability::InMemory => "off",
        };
        let statements = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {} SET LOCAL synchronous_commit = {synchronous}; \
             SELECT pg_advisory_xact_lock({}); {}",
            limits(self.time_left()),
            i64::from_be_bytes(*lock),
            self.entry_statement()
        );
        let results = rows_of(client, &statements).await?;
        Ok(results.last().and_then(|rows| Entry::from_rows(rows)))
    }

    /// Returns the statement that selects the part's row in the ledger, for [`Entry::from_rows`].
    pub(super) fn entry_statement(&self) -> String {
        format!(
            "SELECT content_hash, rejected FROM {} WHERE {}",
            self.target.table.ledger(),
            self.part_condition()
        )
    }

    pub(super) async fn commit(&self, client: &Client) -> Result<(), SinkError> {
        client.batch_execute("COMMIT").await.map_err(sink_error)
    }

    /// Returns how much time the attempt has until its deadline.
    pub(super) fn time_left(&self) -> Duration {
        self.ends_at.saturating_duration_since(Instant::now())
    }

    /// Returns the condition, for all four tables, that a row is of this part.
    pub(super) fn part_condition(&self) -> String {
        format!("batch_id = '{}' AND part = {}", self.key.0, self.key.1)
    }
}
