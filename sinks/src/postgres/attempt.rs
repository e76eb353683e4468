//! An attempt at a part: its transactions, and what the ledger has.

use std::sync::Arc;
use std::time::Duration;

use blake3::Hash;
use tokio::time::Instant;
use tokio_postgres::Client;
use uuid::Uuid;

use super::connection::{limits, rows_of};
use super::errors::told;
use super::names::TableName;
use crate::columns::Column;
use crate::part::{Part, content_hash};
use crate::sink::SinkError;

/// Where the rows of all parts go.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) table: TableName,
    pub(super) columns: Arc<[Column]>,
    /// How many records of one part may be rejected.
    pub(super) rejects_max: u64,
}

/// One attempt at a part.
pub(super) struct Attempt<'a> {
    pub(super) target: &'a Target,
    pub(super) part: &'a Part,
    /// The part's key, as its rows have it.
    pub(super) key: (Uuid, i32),
    pub(super) hash: Hash,
    ends_at: Instant,
}

/// What the ledger has of a part.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) hash: String,
    pub(super) rejected: u64,
}

/// When a transaction counts as committed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Durability {
    /// What is acknowledged must be on disk.
    OnDisk,
    /// What is lost is sent again: nobody waits for the disk.
    Soon,
}

impl Entry {
    /// Reads the answer to [`Attempt::entry`].
    pub(super) fn of(rows: &[tokio_postgres::SimpleQueryRow]) -> Option<Entry> {
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
                // A batch has at most some hundred parts.
                i32::try_from(part.number).unwrap_or(i32::MAX),
            ),
            hash: Hash::from_bytes(content_hash(&part.items)),
            ends_at,
        }
    }

    /// Begins a transaction that nobody else has for this part; returns what the ledger has of it.
    ///
    /// The lock is the part's, whatever the table is called: who stages rows of a part, and who relies on them, come one
    /// after the other. Whoever has waited for it must see what was committed meanwhile, hence the isolation level. That a
    /// part is there only once is the ledger's affair, and needs no lock.
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
            Durability::Soon => "off",
        };
        let statements = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {} SET LOCAL synchronous_commit = {synchronous}; \
             SELECT pg_advisory_xact_lock({}); {}",
            limits(self.left()),
            i64::from_be_bytes(*lock),
            self.entry()
        );
        let answers = rows_of(client, &statements).await?;
        Ok(answers.last().and_then(|rows| Entry::of(rows)))
    }

    /// The statement that asks for what [`Entry::of`] reads.
    pub(super) fn entry(&self) -> String {
        format!(
            "SELECT content_hash, rejected FROM {} WHERE {}",
            self.target.table.ledger(),
            self.of_part()
        )
    }

    pub(super) async fn commit(&self, client: &Client) -> Result<(), SinkError> {
        client.batch_execute("COMMIT").await.map_err(told)
    }

    /// What the attempt has left of its time.
    pub(super) fn left(&self) -> Duration {
        self.ends_at.saturating_duration_since(Instant::now())
    }

    /// The condition that a row is of this part, in all tables.
    pub(super) fn of_part(&self) -> String {
        format!("batch_id = '{}' AND part = {}", self.key.0, self.key.1)
    }
}
