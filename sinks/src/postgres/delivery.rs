//! One attempt to deliver a part: it sends the rows that are not staged yet, and then writes everything in one transaction.

use protocol::ids::Seq;
use protocol::seqs::SeqSet;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tracing::info;

use super::attempt::{Attempt, Durability, Entry};
use super::connection::{Connections, limits, rows_of};
use super::errors::sink_error;
use super::insertion::insertion;
use super::rejects::{self, Refused, storable};
use super::rows::{Chunk, Mark, Rows};
use super::staging::Snapshot;
use crate::sink::{Receipt, SinkError};

impl Attempt<'_> {
    /// Delivers the part on an idle connection, or on a new one.
    pub(super) async fn run(&self, connections: &Connections) -> Result<Receipt, SinkError> {
        let (client, snapshot) = self.connected(connections).await?;
        let result = self.deliver(&client, snapshot).await;
        // After an error the connection is dropped, which rolls its transaction back.
        if result.is_ok() {
            connections.keep_idle(client);
        }
        result
    }

    /// Returns a working connection with a snapshot; skips idle connections that are broken.
    async fn connected(&self, connections: &Connections) -> Result<(Client, Snapshot), SinkError> {
        while let Some(client) = connections.take_idle() {
            if let Ok(snapshot) = self.read_snapshot(&client).await {
                return Ok((client, snapshot));
            }
        }
        let client = connections.connect().await?;
        let snapshot = self.read_snapshot(&client).await?;
        Ok((client, snapshot))
    }

    async fn deliver(&self, client: &Client, snapshot: Snapshot) -> Result<Receipt, SinkError> {
        if let Some(entry) = &snapshot.entry {
            let receipt = self.earlier_receipt(client, entry).await?;
            if !snapshot.staged.is_empty() {
                self.begin(client, Durability::InMemory).await?;
                self.clear(client).await?;
            }
            return Ok(receipt);
        }
        let target = self.target;
        let columns = snapshot.types.of_columns(&target.table, &target.columns)?;
        let mut rows = Rows::new(self.part, self.key, &self.target.columns);
        let mut marks = Vec::new();
        let mut last = None;
        let mut found = 0_u64;
        while let Some(chunk) = rows.next_chunk() {
            marks.push(chunk.mark);
            if snapshot.has(&chunk.mark) {
                found += 1;
            } else if rows.is_done() {
                // The last chunk goes into the final transaction, which saves one transaction.
                last = Some(chunk);
            } else if let Some(entry) = self.stage(client, chunk).await? {
                return self.end_with_earlier(client, &entry).await;
            }
        }
        info!(
            part_key = self.part.key(),
            chunks_count = marks.len(),
            chunks_found_count = found,
            "rows staged"
        );
        let rejects = rows.into_rejects();

        if let Some(entry) = self.begin(client, Durability::OnDisk).await? {
            return self.end_with_earlier(client, &entry).await;
        }
        if let Some(entry) = self.enter(client, &snapshot).await? {
            return self.end_with_earlier(client, &entry).await;
        }
        let refused = self.insert(client, &columns, &marks, last).await?;
        let rejects = match rejects::within_limit(self, rejects, refused) {
            Ok(rejects) => rejects,
            Err(error) => {
                self.dispose(client).await?;
                return Err(error);
            }
        };
        rejects::store(self, client, &snapshot, &rejects).await?;
        self.clear(client).await?;
        let (items, rejected) = (self.part.items.len(), rejects.len() as u64);
        info!(part_key = self.part.key(), items_count = items, rejected_count = rejected, content_hash = %self.hash, repeated = false, "part written");
        Ok(Receipt::with_rejects(self.receipt_text(), &rejects))
    }

    /// Inserts the part into the ledger; returns the part's row if another attempt inserted it first. Earlier versions of the
    /// service take no lock: the insert waits until the transaction of such an attempt ends.
    async fn enter(
        &self,
        client: &Client,
        snapshot: &Snapshot,
    ) -> Result<Option<Entry>, SinkError> {
        let statement = format!(
            "INSERT INTO {} (batch_id, part, source, batch_key, content_hash, count, rejected) \
             VALUES ($1::text::uuid, $2, $3, $4, $5, $6, 0) ON CONFLICT (batch_id, part) DO NOTHING",
            self.target.table.ledger()
        );
        let storable = |text| storable(text, snapshot.utf8);
        let source = storable(self.part.source.as_str());
        let batch_key = self.part.batch_key.as_ref();
        let batch_key = batch_key.map(|key| storable(key.as_str()));
        let entered = client
            .execute_typed(
                &statement,
                &[
                    (&self.key.0.to_string(), Type::TEXT),
                    (&self.key.1, Type::INT4),
                    (&source, Type::TEXT),
                    (&batch_key, Type::TEXT),
                    (&self.hash.to_string(), Type::TEXT),
                    (&(self.part.items.len() as i64), Type::INT8),
                ],
            )
            .await
            .map_err(sink_error)?;
        if entered == 1 {
            return Ok(None);
        }
        let results = rows_of(client, &self.entry_statement()).await?;
        match results.last().and_then(|rows| Entry::from_rows(rows)) {
            Some(entry) => Ok(Some(entry)),
            None => Err(SinkError::retryable(format!(
                "part {}: its row was deleted from {} while this attempt ran",
                self.part.key(),
                self.target.table.ledger()
            ))),
        }
    }

    /// Inserts the staged rows into the table; returns the rows that the database refuses.
    async fn insert(
        &self,
        client: &Client,
        columns: &[(String, String)],
        marks: &[Mark],
        last: Option<Chunk>,
    ) -> Result<Refused, SinkError> {
        if let Some(chunk) = last {
            self.send(client, chunk).await?;
        }
        self.check(client, marks).await?;
        let (Some(first), Some(last)) = (marks.first(), marks.last()) else {
            return Ok(Refused::default());
        };
        let (table, part_condition) = (&self.target.table, self.part_condition());
        let statements = format!(
            "{} {}; SELECT seq, refused, count(*) OVER () FROM {} WHERE {} AND refused IS NOT NULL ORDER BY seq LIMIT {}",
            // Some of the time that the transaction began with is spent.
            limits(self.time_left()),
            insertion(table, columns, &part_condition, first.first..=last.last),
            table.staging(),
            part_condition,
            // The error for too many rejects quotes the first one, even if none is allowed.
            self.target.rejects_max.max(1),
        );
        let results = rows_of(client, &statements).await?;
        let rows = results.last().map(Vec::as_slice).unwrap_or_default();
        let mut refused = Refused::default();
        for row in rows {
            let number = |column| row.get(column).and_then(|text| text.parse::<u64>().ok());
            let seq = number(0).and_then(|seq| Seq::try_from(seq).ok());
            let (Some(seq), Some(message), Some(count)) = (seq, row.get(1), number(2)) else {
                continue;
            };
            refused.count = count;
            refused.rows.push((seq, message.to_owned()));
        }
        Ok(refused)
    }

    /// Deletes the staged rows of the part, and commits.
    async fn clear(&self, client: &Client) -> Result<(), SinkError> {
        let delete = format!(
            "DELETE FROM {} WHERE {}",
            self.target.table.staging(),
            self.part_condition()
        );
        client.batch_execute(&delete).await.map_err(sink_error)?;
        self.commit(client).await
    }

    /// Rolls back, and deletes the staged rows, so that nothing of the part is left.
    async fn dispose(&self, client: &Client) -> Result<(), SinkError> {
        client.batch_execute("ROLLBACK").await.map_err(sink_error)?;
        self.begin(client, Durability::InMemory).await?;
        self.clear(client).await
    }

    /// Ends the transaction when the ledger has the part already, because another attempt was faster.
    async fn end_with_earlier(&self, client: &Client, entry: &Entry) -> Result<Receipt, SinkError> {
        let receipt = self.earlier_receipt(client, entry).await?;
        self.clear(client).await?;
        Ok(receipt)
    }

    /// Returns the receipt of a part that an earlier attempt wrote.
    ///
    /// # Errors
    /// Permanent if that part has other content.
    async fn earlier_receipt(&self, client: &Client, entry: &Entry) -> Result<Receipt, SinkError> {
        let hash = self.hash;
        if entry.hash != hash.to_string() {
            return Err(SinkError::permanent(format!(
                "part {}: is in {} with other content: got hash `{}`, expected `{hash}`",
                self.part.key(),
                self.target.table.ledger(),
                entry.hash,
            )));
        }
        let (items, rejected) = (self.part.items.len(), entry.rejected);
        info!(part_key = self.part.key(), items_count = items, rejected_count = rejected, content_hash = %hash, repeated = true, "part written");
        let rejected = match entry.rejected {
            0 => SeqSet::new(),
            count => rejects::stored(self, client, count).await?,
        };
        Ok(Receipt {
            text: self.receipt_text(),
            rejected,
            file: None,
        })
    }

    fn receipt_text(&self) -> String {
        format!("blake3:{}", self.hash)
    }
}
