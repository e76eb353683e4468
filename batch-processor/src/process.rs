//! One ticket: from the lease to the proof that nothing is left.
//!
//! Every step starts from the batch record as it stands, so that whoever comes after a crash goes on from there.

use std::time::Duration;

use shared::calls::{Budget, Written};
use shared::ids::{BatchId, LeaseOwner, SourceArn};
use shared::limits::{DUE_GRACE, PARTS_MAX, RECORD_TEXT_BYTES_MAX};
use shared::metrics::Metrics;
use shared::planted::{Bug, planted};
use shared::ports::{BatchQueue, BatchStore, Clock, PortError, StoredEvent};
use shared::protocol::batch::{
    BatchRecord, BatchWrite, EmptyLook, Lease, LeaseVerdict, PartRecord, PartState, empty_look,
    may_lease, proven,
};
use shared::protocol::retry::RetryPolicy;
use shared::seqs::SeqSet;
use shared::time::Timestamp;
use shared::wire::{Ticket, TicketReason};
use tracing::{debug, error, info, warn};

use crate::collect::{Entries, Look, Sight, missing, seqs};
use crate::handler::{Handler, Ports};
use crate::sink::{Part, Sink, SinkError, content_hash};

/// Why a ticket was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The batch is complete.
    Complete,
    /// It will be looked at once more; another ticket is on its way.
    Verifying,
    /// The sink refused it; an operator decides.
    InError,
}

/// Why a ticket is given back.
#[derive(Debug, thiserror::Error)]
pub enum GiveBack {
    /// No such batch: a typing error, or a table that was restored.
    #[error("batch {batch} has no record")]
    UnknownBatch {
        /// The batch.
        batch: BatchId,
    },
    /// Somebody works on it.
    #[error("batch {batch} is leased until {until}")]
    Held {
        /// The batch.
        batch: BatchId,
        /// When that one must have stopped.
        until: Timestamp,
    },
    /// Its window has not closed.
    #[error("batch {batch} is open until {closes_at}")]
    TooEarly {
        /// The batch.
        batch: BatchId,
        /// When it closes.
        closes_at: Timestamp,
    },
    /// Somebody else has taken it over, or it changed at every attempt.
    #[error("lease on batch {batch} was lost")]
    LeaseLost {
        /// The batch.
        batch: BatchId,
    },
    /// What is known to exist was not seen in time.
    #[error("index does not show all of batch {batch} yet: {missing}")]
    IndexLag {
        /// The batch.
        batch: BatchId,
        /// What is missing.
        missing: String,
    },
    /// The sink may take it later.
    #[error("batch {batch}: {source}")]
    Sink {
        /// The batch.
        batch: BatchId,
        #[source]
        /// What it said.
        source: SinkError,
    },
    /// A service could not be reached in time.
    #[error("batch {batch}: {source}")]
    Service {
        /// The batch.
        batch: BatchId,
        #[source]
        /// What it said.
        source: PortError,
    },
    /// Delivered, but not all of it is released.
    #[error("`{count}` delivered claims of batch {batch} are not released")]
    NotReleased {
        /// The batch.
        batch: BatchId,
        /// How many.
        count: u64,
    },
    /// The invocation ends.
    #[error("no time left for batch {batch}")]
    OutOfTime {
        /// The batch.
        batch: BatchId,
    },
}

/// What is measured while a ticket is processed.
#[derive(Debug, Default)]
pub struct Report {
    /// Where the batch's events came from, once known.
    pub source: Option<SourceArn>,
    /// The figures.
    pub metrics: Metrics,
}

/// Time limits of an invocation.
#[derive(Debug)]
pub struct Budgets<'a, C, E> {
    /// When it is killed.
    pub deadline: Timestamp,
    /// For everything that can be resumed.
    pub work: Budget<'a, C, E>,
    /// For what should still be written: that the sink has a part, that the lease is given up.
    pub wrap_up: Budget<'a, C, E>,
}

/// What became of what a look showed.
enum Step {
    /// Something was delivered: what is left is for another look.
    LookAgain,
    /// The table does not confirm everything yet; what is missing, in words.
    Short(String),
    /// There was nothing to deliver.
    NothingNew,
    /// The ticket is done.
    Done(Done),
}

/// A batch under our lease.
struct Run<'a, P: Ports> {
    handler: &'a Handler<P>,
    budgets: &'a Budgets<'a, P::Clock, P::Entropy>,
    owner: LeaseOwner,
    record: BatchRecord,
    /// Seqs whose release was acknowledged to this run.
    released: SeqSet,
    metrics: &'a mut Metrics,
}

impl<P: Ports> Handler<P> {
    /// Processes one ticket.
    ///
    /// # Errors
    /// [`GiveBack`]: the ticket must come back, and its reason.
    pub async fn process(
        &self,
        ticket: &Ticket,
        owner: LeaseOwner,
        budgets: &Budgets<'_, P::Clock, P::Entropy>,
        report: &mut Report,
    ) -> Result<Done, GiveBack> {
        let batch = ticket.batch_id;
        let now = budgets.work.clock.now();
        let operator = ticket.reason == Some(TicketReason::Operator);
        let lease = Lease {
            owner: owner.clone(),
            until: budgets.deadline,
        };
        let write = BatchWrite::Lease {
            lease,
            at: now,
            operator,
        };
        let written = budgets
            .work
            .write(self.ports().batches(), batch, &write)
            .await;
        let record = match written {
            Err(source) => {
                // The lease may be ours without our knowing; nobody should have to wait for its end.
                self.give_up(batch, owner, budgets).await;
                return Err(GiveBack::Service { batch, source });
            }
            Ok(Written::Applied(record)) => record,
            Ok(Written::Refused(None)) => return Err(GiveBack::UnknownBatch { batch }),
            Ok(Written::Refused(Some(record))) => {
                return match may_lease(&record, now, operator) {
                    LeaseVerdict::Complete => Ok(Done::Complete),
                    LeaseVerdict::InError => Ok(Done::InError),
                    LeaseVerdict::Held { until } => Err(GiveBack::Held { batch, until }),
                    LeaseVerdict::TooEarly { closes_at } => {
                        Err(GiveBack::TooEarly { batch, closes_at })
                    }
                    // It became free between the write and its answer.
                    LeaseVerdict::Free => Err(GiveBack::LeaseLost { batch }),
                };
            }
        };
        info!(batch_id = %batch, source = %record.source, attempt = record.attempts, confirmed_count = record.confirmed, reason = ?ticket.reason, "batch leased");
        report.source = Some(record.source.clone());
        let mut run = Run {
            handler: self,
            budgets,
            owner,
            record: *record,
            released: SeqSet::new(),
            metrics: &mut report.metrics,
        };
        let done = run.carry_on().await;
        if done.is_err() {
            self.give_up(batch, run.owner, budgets).await;
        }
        done
    }

    /// Lets the next one start at once instead of after the lease; if this fails, it only starts later.
    async fn give_up(
        &self,
        batch: BatchId,
        owner: LeaseOwner,
        budgets: &Budgets<'_, P::Clock, P::Entropy>,
    ) {
        let due_at = budgets.work.clock.now() + DUE_GRACE;
        let write = BatchWrite::GiveUp {
            owner,
            due_at,
            verify_at: None,
        };
        if let Err(error) = budgets
            .wrap_up
            .write(self.ports().batches(), batch, &write)
            .await
        {
            warn!(batch_id = %batch, %error, "lease not given up");
        }
    }
}

impl<P: Ports> Run<'_, P> {
    fn batch(&self) -> BatchId {
        self.record.batch_id
    }

    async fn carry_on(&mut self) -> Result<Done, GiveBack> {
        let mut looks = 0;
        loop {
            if !self.budgets.work.open() {
                return Err(GiveBack::OutOfTime {
                    batch: self.batch(),
                });
            }
            if proven(&self.record, &self.released) {
                if self.complete().await? {
                    return Ok(Done::Complete);
                }
                continue;
            }
            let look = self
                .handler
                .look(&self.record, &self.released, &self.budgets.work)
                .await;
            let Look {
                new,
                frozen,
                leftovers,
            } = match look.map_err(|source| self.service(source))? {
                Sight::Whole(look) => look,
                Sight::Short(missing) => {
                    looks += 1;
                    self.wait_for_index(looks, missing).await?;
                    continue;
                }
            };
            self.release_leftovers(leftovers).await?;
            let step = match self.record.frozen_part() {
                Some((index, _)) if !planted(Bug::PartRefrozen) => {
                    self.deliver_frozen(index, frozen).await?
                }
                Some(_) | None => self.deliver_new(new).await?,
            };
            match step {
                Step::LookAgain => {}
                Step::Short(missing) => {
                    looks += 1;
                    self.wait_for_index(looks, missing).await?;
                }
                Step::NothingNew => {
                    if let Some(done) = self.nothing_new().await? {
                        return Ok(done);
                    }
                }
                Step::Done(done) => return Ok(done),
            }
        }
    }

    /// Reads the next claims of the batch, as many as make a part.
    async fn read(
        &self,
        entries: &mut Entries,
        bytes_max: u64,
    ) -> Result<Vec<StoredEvent>, GiveBack> {
        self.handler
            .read(self.batch(), entries, bytes_max, &self.budgets.work)
            .await
            .map_err(|source| self.service(source))
    }

    async fn release_leftovers(&mut self, mut leftovers: Entries) -> Result<(), GiveBack> {
        let bytes_max = self.handler.config().part_bytes_max;
        while !leftovers.is_empty() {
            let events = self.read(&mut leftovers, bytes_max).await?;
            self.release(&events).await?;
        }
        Ok(())
    }

    /// Delivers the part that is frozen, of exactly its members.
    async fn deliver_frozen(
        &mut self,
        index: usize,
        mut frozen: Entries,
    ) -> Result<Step, GiveBack> {
        let events = self.read(&mut frozen, u64::MAX).await?;
        if let Some(missing) = missing(&self.record, &seqs(&events)) {
            return Ok(Step::Short(missing));
        }
        let end = self.deliver(index, events).await?;
        Ok(end.map_or(Step::LookAgain, Step::Done))
    }

    /// Delivers what is in no part yet, part by part.
    async fn deliver_new(&mut self, mut new: Entries) -> Result<Step, GiveBack> {
        let bytes_max = self.handler.config().part_bytes_max;
        let mut step = Step::NothingNew;
        loop {
            let events = self.read(&mut new, bytes_max).await?;
            // Only the last part can tell whether anything is missing.
            if new.is_empty()
                && let Some(missing) = missing(&self.record, &seqs(&events))
            {
                return Ok(Step::Short(missing));
            }
            if !events.is_empty() {
                let end = match self.freeze(&events).await? {
                    Some(index) => self.deliver(index, events).await?,
                    None => Some(Done::InError),
                };
                if let Some(done) = end {
                    return Ok(Step::Done(done));
                }
                step = Step::LookAgain;
            }
            if new.is_empty() {
                return Ok(step);
            }
            if !self.budgets.work.open() {
                return Err(GiveBack::OutOfTime {
                    batch: self.batch(),
                });
            }
        }
    }

    fn service(&self, source: PortError) -> GiveBack {
        GiveBack::Service {
            batch: self.batch(),
            source,
        }
    }

    /// Waits for the index, then takes in what the record says by now: counts may have arrived meanwhile.
    async fn wait_for_index(&mut self, looks: u32, missing: String) -> Result<(), GiveBack> {
        debug!(batch_id = %self.batch(), looks, missing, "index lags");
        self.metrics.count("IndexLagRetries", 1);
        if !self.budgets.work.pause(RetryPolicy::INDEX, looks).await {
            return Err(GiveBack::IndexLag {
                batch: self.batch(),
                missing,
            });
        }
        self.refresh().await
    }

    async fn refresh(&mut self) -> Result<(), GiveBack> {
        let batch = self.batch();
        let batches = self.handler.ports().batches();
        let read = self
            .budgets
            .work
            .call(RetryPolicy::CONTROL, || batches.read(batch))
            .await;
        match read.map_err(|source| self.service(source))? {
            Some(record)
                if record
                    .lease
                    .as_ref()
                    .is_some_and(|lease| lease.owner == self.owner) =>
            {
                self.record = record;
                Ok(())
            }
            Some(_) | None => Err(GiveBack::LeaseLost { batch }),
        }
    }

    /// Writes under the lease; the record is then what the table holds.
    async fn write(
        &mut self,
        write: &BatchWrite,
        budget: Budget<'_, P::Clock, P::Entropy>,
    ) -> Result<(), GiveBack> {
        let batch = self.batch();
        match budget
            .write(self.handler.ports().batches(), batch, write)
            .await
        {
            Ok(Written::Applied(record)) => {
                self.record = *record;
                Ok(())
            }
            Ok(Written::Refused(_)) => Err(GiveBack::LeaseLost { batch }),
            Err(source) => Err(self.service(source)),
        }
    }

    /// Fixes the content of the next part before the sink sees any of it; `None` when there may be no further part.
    async fn freeze(&mut self, new: &[StoredEvent]) -> Result<Option<usize>, GiveBack> {
        let index = match self.record.frozen_part() {
            Some((index, _)) if planted(Bug::PartRefrozen) => index,
            Some(_) | None => self.record.parts.len(),
        };
        if index >= PARTS_MAX {
            let error = format!(
                "batch has `{index}` parts, at most {PARTS_MAX} are allowed; a larger `MAX_PART_BYTES` makes fewer"
            );
            return self.fail(error).await.map(|_| None);
        }
        let part = PartRecord {
            members: seqs(new),
            hash: content_hash(new),
            state: PartState::Frozen,
        };
        let write = BatchWrite::Freeze {
            owner: self.owner.clone(),
            index,
            part,
        };
        self.write(&write, self.budgets.work).await?;
        info!(batch_id = %self.batch(), part = index, items_count = new.len(), "part frozen");
        Ok(Some(index))
    }

    fn part(&self, index: usize, items: Vec<StoredEvent>) -> Part {
        Part {
            batch_id: self.batch(),
            number: index,
            source: self.record.source.clone(),
            batch_key: self.record.batch_key.clone(),
            items,
        }
    }

    /// Has the sink take a frozen part, says so in the record, and releases its claims; answers an end only when the
    /// batch now waits for an operator.
    async fn deliver(
        &mut self,
        index: usize,
        mut items: Vec<StoredEvent>,
    ) -> Result<Option<Done>, GiveBack> {
        let batch = self.batch();
        let fetched = self
            .handler
            .fetch_bodies(&mut items, &self.budgets.work)
            .await;
        fetched.map_err(|source| self.service(source))?;
        let part = self.part(index, items);
        if self.record.parts.get(index).map(|frozen| frozen.hash) != Some(content_hash(&part.items))
        {
            error!(batch_id = %batch, part = index, "content of a frozen part changed");
            let error = format!("content of part {index} is not what was frozen");
            return self.fail(error).await;
        }
        info!(batch_id = %batch, part = index, items_count = part.items.len(), "delivering part");
        if planted(Bug::DeliveredBeforeAnswer) {
            let receipt = "none yet".to_owned();
            let owner = self.owner.clone();
            let write = BatchWrite::Delivered {
                owner,
                index,
                receipt,
            };
            self.write(&write, self.budgets.work).await?;
        }
        if planted(Bug::ReleasedBeforeDelivery) {
            self.release(&part.items).await?;
        }
        let started = self.budgets.work.clock.now();
        let delivered = self.within_time(&part).await;
        let elapsed = self.budgets.work.clock.now() - started;
        let receipt = match delivered {
            Ok(receipt) => receipt,
            Err(SinkError::Permanent { reason }) => {
                error!(batch_id = %batch, part = index, reason, "sink refused a part for good");
                return self.fail(reason).await;
            }
            Err(source) => return Err(GiveBack::Sink { batch, source }),
        };
        info!(batch_id = %batch, part = index, items_count = part.items.len(), elapsed_ms = elapsed.as_millis() as u64, "part delivered");
        self.metrics.count("PartsDelivered", 1);
        self.metrics.count("BatchItems", part.items.len() as u64);
        if receipt.rejected > 0 {
            warn!(
                part_key = part.key(),
                rejected_count = receipt.rejected,
                "records of a part were rejected"
            );
            self.metrics.count("Rejected", receipt.rejected);
        }
        self.metrics
            .milliseconds("DeliverTime", elapsed.as_millis());
        let write = BatchWrite::Delivered {
            owner: self.owner.clone(),
            index,
            receipt: cut(receipt.text),
        };
        self.write(&write, self.budgets.wrap_up).await?;
        self.release(&part.items).await.map(|()| None)
    }

    /// The sink's answer, or that there was none in time.
    async fn within_time(&self, part: &Part) -> Result<crate::sink::Receipt, SinkError> {
        let work = &self.budgets.work;
        let deliver = std::pin::pin!(self.handler.ports().sink().deliver(part));
        let rest = work.clock.now().until(work.stop_at);
        let timeout = std::pin::pin!(work.clock.sleep(rest));
        match futures::future::select(deliver, timeout).await {
            futures::future::Either::Left((answer, _)) => answer,
            futures::future::Either::Right(_) => Err(SinkError::Retryable {
                reason: format!("no answer within `{}` s", rest.as_secs()),
            }),
        }
    }

    async fn release(&mut self, events: &[StoredEvent]) -> Result<(), GiveBack> {
        let released = self.handler.release(events, &self.budgets.work).await;
        self.metrics.count("Released", released.len());
        self.released.extend_from(&released);
        if !released.is_empty() {
            info!(batch_id = %self.batch(), items_count = released.len(), "claims released");
        }
        match (events.len() as u64).saturating_sub(released.len()) {
            0 => Ok(()),
            count => Err(GiveBack::NotReleased {
                batch: self.batch(),
                count,
            }),
        }
    }

    /// A look found nothing new and nothing missing.
    async fn nothing_new(&mut self) -> Result<Option<Done>, GiveBack> {
        let now = self.budgets.work.clock.now();
        let delay = self.handler.config().verify_delay;
        match empty_look(&self.record, &self.released, now, delay) {
            EmptyLook::Complete => Ok(self.complete().await?.then_some(Done::Complete)),
            EmptyLook::VerifyAt(at) => {
                let batch = self.batch();
                self.pause_until(at).await?;
                let ticket = Ticket::new(batch, TicketReason::Verify);
                let send = || {
                    let delay = self.budgets.work.clock.now().until(at);
                    let whole_secs =
                        Duration::from_secs((delay.as_millis() as u64).div_ceil(1_000));
                    self.handler.ports().tickets().send(&ticket, whole_secs)
                };
                let sent = self.budgets.wrap_up.call(RetryPolicy::CONTROL, send).await;
                sent.map_err(|source| self.service(source))?;
                info!(batch_id = %batch, verify_at = %at, "verify ticket sent");
                Ok(Some(Done::Verifying))
            }
        }
    }

    async fn pause_until(&mut self, at: Timestamp) -> Result<(), GiveBack> {
        let write = BatchWrite::GiveUp {
            owner: self.owner.clone(),
            due_at: at + DUE_GRACE,
            verify_at: Some(at),
        };
        self.write(&write, self.budgets.wrap_up).await
    }

    /// Ends the batch; `false` when something was counted or witnessed meanwhile, and must be looked for.
    async fn complete(&mut self) -> Result<bool, GiveBack> {
        let batch = self.batch();
        let at = self.budgets.work.clock.now();
        let write = BatchWrite::Complete {
            owner: self.owner.clone(),
            accounts: self.record.accounts,
            witnesses: self.record.witnesses,
            parts: self.record.parts.len(),
            at,
        };
        match self
            .budgets
            .wrap_up
            .write(self.handler.ports().batches(), batch, &write)
            .await
        {
            Ok(Written::Applied(record)) => {
                let age = at - record.created_at;
                info!(batch_id = %batch, items_count = record.members().len(), parts_count = record.parts.len(), age_ms = age.as_millis() as u64, "batch complete");
                self.metrics.count("BatchesCompleted", 1);
                self.metrics.milliseconds("BatchAge", age.as_millis());
                Ok(true)
            }
            Ok(Written::Refused(_)) => self.refresh().await.map(|()| false),
            Err(source) => Err(self.service(source)),
        }
    }

    /// The batch waits for an operator from now on.
    async fn fail(&mut self, error: String) -> Result<Option<Done>, GiveBack> {
        let write = BatchWrite::Fail {
            owner: self.owner.clone(),
            error: cut(error),
        };
        self.write(&write, self.budgets.wrap_up)
            .await
            .map(|()| Some(Done::InError))
    }
}

/// A text of the sink's own, cut to what a batch record has room for.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(RECORD_TEXT_BYTES_MAX));
    text
}
