//! One attempt at a part: what is missing in the staging table is sent, and then everything happens in one transaction.

use protocol::ids::Seq;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tracing::info;

use super::attempt::{Attempt, Durability, Entry};
use super::connection::{Connections, limits, rows_of};
use super::errors::told;
use super::insertion::Insertion;
use super::rejects::{self, Refused, held};
use super::rows::{Chunk, Mark, Rows};
use super::staging::Look;
use crate::sink::{Receipt, SinkError};

impl Attempt<'_> {
    /// Delivers the part on a connection that was kept, or on a new one.
    pub(super) async fn run(&self, connections: &Connections) -> Result<Receipt, SinkError> {
        let (client, look) = self.connected(connections).await?;
        let answer = self.deliver(&client, look).await;
        // Dropped after an error, the connection takes its transaction with it.
        if answer.is_ok() {
            connections.keep(client);
        }
        answer
    }

    async fn connected(&self, connections: &Connections) -> Result<(Client, Look), SinkError> {
        while let Some(client) = connections.kept() {
            if let Ok(look) = self.look(&client).await {
                return Ok((client, look));
            }
        }
        let client = connections.connect().await?;
        let look = self.look(&client).await?;
        Ok((client, look))
    }

    async fn deliver(&self, client: &Client, look: Look) -> Result<Receipt, SinkError> {
        if let Some(entry) = &look.entry {
            let receipt = self.repeated(entry)?;
            if !look.staged.is_empty() {
                self.begin(client, Durability::Soon).await?;
                self.clear(client).await?;
            }
            return Ok(receipt);
        }
        let columns = look.typed(&self.target.table, &self.target.columns)?;
        let mut rows = Rows::of(self.part, self.key, &self.target.columns);
        let mut marks = Vec::new();
        let mut last = None;
        let mut found = 0_u64;
        while let Some(chunk) = rows.next_chunk() {
            marks.push(chunk.mark);
            if look.has(&chunk.mark) {
                found += 1;
            } else if rows.is_done() {
                // Of its own transaction nobody would have anything.
                last = Some(chunk);
            } else if let Some(entry) = self.stage(client, chunk).await? {
                return self.end_repeated(client, &entry).await;
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
            return self.end_repeated(client, &entry).await;
        }
        if let Some(entry) = self.enter(client, &look).await? {
            return self.end_repeated(client, &entry).await;
        }
        let refused = self.insert(client, &columns, &marks, last).await?;
        let rejects = match rejects::within_limit(self, rejects, refused) {
            Ok(rejects) => rejects,
            Err(error) => {
                self.dispose(client).await?;
                return Err(error);
            }
        };
        rejects::keep(self, client, &look, &rejects).await?;
        self.clear(client).await?;
        let (items, rejected) = (self.part.items.len(), rejects.len() as u64);
        info!(part_key = self.part.key(), items_count = items, rejected_count = rejected, content_hash = %self.hash, repeated = false, "part written");
        Ok(self.receipt(rejected))
    }

    /// Enters the part into the ledger; returns what is there already. Where an attempt of an earlier version, which knows
    /// no lock, is under way, the database waits for its end.
    async fn enter(&self, client: &Client, look: &Look) -> Result<Option<Entry>, SinkError> {
        let statement = format!(
            "INSERT INTO {} (batch_id, part, source, batch_key, content_hash, count, rejected) \
             VALUES ($1::text::uuid, $2, $3, $4, $5, $6, 0) ON CONFLICT (batch_id, part) DO NOTHING",
            self.target.table.ledger()
        );
        let held = |text| held(text, look.utf8);
        let source = held(self.part.source.as_str());
        let batch_key = self.part.batch_key.as_ref().map(|key| held(key.as_str()));
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
            .map_err(told)?;
        if entered == 1 {
            return Ok(None);
        }
        let answers = rows_of(client, &self.entry()).await?;
        match answers.last().and_then(|rows| Entry::of(rows)) {
            Some(entry) => Ok(Some(entry)),
            None => Err(SinkError::Retryable {
                reason: format!("part {} was taken from the ledger", self.part.key()),
            }),
        }
    }

    /// Has the database insert the staged rows; returns those that it refuses.
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
        let insertion = Insertion {
            table: &self.target.table,
            columns,
            of_part: &self.of_part(),
            first: first.first,
            last: last.last,
        };
        let statements = format!(
            "{} {}; SELECT seq, refused, count(*) OVER () FROM {} WHERE {} AND refused IS NOT NULL ORDER BY seq LIMIT {}",
            // The transaction is older by now.
            limits(self.left()),
            insertion.statements(),
            self.target.table.staging(),
            self.of_part(),
            // The first of them is told even where none is allowed.
            self.target.rejects_max.max(1),
        );
        let answers = rows_of(client, &statements).await?;
        let rows = answers.last().map(Vec::as_slice).unwrap_or_default();
        let mut refused = Refused::default();
        for row in rows {
            let number = |column| row.get(column).and_then(|text| text.parse::<u64>().ok());
            let seq = number(0).and_then(|seq| Seq::try_from(seq).ok());
            let (Some(seq), Some(words), Some(count)) = (seq, row.get(1), number(2)) else {
                continue;
            };
            refused.count = count;
            refused.rows.push((seq, words.to_owned()));
        }
        Ok(refused)
    }

    /// Removes what is staged of the part, and commits.
    async fn clear(&self, client: &Client) -> Result<(), SinkError> {
        let delete = format!(
            "DELETE FROM {} WHERE {}",
            self.target.table.staging(),
            self.of_part()
        );
        client.batch_execute(&delete).await.map_err(told)?;
        self.commit(client).await
    }

    /// Keeps nothing of the part.
    async fn dispose(&self, client: &Client) -> Result<(), SinkError> {
        client.batch_execute("ROLLBACK").await.map_err(told)?;
        self.begin(client, Durability::Soon).await?;
        self.clear(client).await
    }

    /// Ends the transaction in which the ledger turned out to have the part: another attempt was faster.
    async fn end_repeated(&self, client: &Client, entry: &Entry) -> Result<Receipt, SinkError> {
        let receipt = self.repeated(entry)?;
        self.clear(client).await?;
        Ok(receipt)
    }

    fn repeated(&self, entry: &Entry) -> Result<Receipt, SinkError> {
        let hash = self.hash;
        if entry.hash != hash.to_string() {
            return Err(SinkError::Permanent {
                reason: format!(
                    "part {} is in {} with other content: hash {}, ours is {hash}",
                    self.part.key(),
                    self.target.table.ledger(),
                    entry.hash,
                ),
            });
        }
        let (items, rejected) = (self.part.items.len(), entry.rejected);
        info!(part_key = self.part.key(), items_count = items, rejected_count = rejected, content_hash = %hash, repeated = true, "part written");
        Ok(self.receipt(rejected))
    }

    fn receipt(&self, rejected: u64) -> Receipt {
        Receipt {
            text: format!("blake3:{}", self.hash),
            rejected,
        }
    }
}
