//! One ticket: from the lease to the proof that nothing is left.
//!
//! Every step starts from the batch record as it stands, so that whoever comes after a crash goes on from there.

use std::time::Duration;

use protocol::batch::{
    BatchRecord, BatchWrite, EmptyLook, Lease, LeaseVerdict, OperatorWord, PartRecord, empty_look,
    may_lease, proven,
};
use protocol::ids::{BatchId, LeaseOwner, SourceArn};
use protocol::limits::{
    DUE_GRACE, FINGERPRINT_BYTES_MAX, PARTS_FOR_STRAGGLERS, RECEIPT_BYTES_MAX,
    RECORD_TEXT_BYTES_MAX,
};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::calls::{Budget, Written};
use shared::metrics::Metrics;
use shared::ports::{PortError, StoredEvent};
use shared::wire::{Ticket, TicketReason};
use tracing::{debug, error, info, warn};

use crate::collect::{BodyProblem, Entries, Look, Sight, missing, seqs};
use crate::give_back::GiveBack;
use crate::handler::Handler;
use sinks::{Part, Receipt, SinkError, content_hash};

/// Why a ticket was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The batch is complete.
    Complete,
    /// It will be looked at once more; another ticket is on its way.
    Verifying,
    /// It is in error; an operator decides.
    InError,
    /// What an operator says is of an error, and it is in none.
    NotInError,
    /// Somebody works on it, who goes on or whom the sweep replaces.
    Held,
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
pub struct Budgets<'a> {
    /// When it is killed.
    pub deadline: Timestamp,
    /// For everything that can be resumed.
    pub work: Budget<'a>,
    /// For what should still be written: that the sink has a part, that the lease is given up.
    pub wrap_up: Budget<'a>,
    /// How long the ticket stays away if it is given back, and nobody says otherwise.
    pub backoff: Duration,
}

/// What became of what a look showed.
pub(crate) enum Step {
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
pub(crate) struct Run<'a> {
    pub(crate) handler: &'a Handler,
    pub(crate) budgets: &'a Budgets<'a>,
    pub(crate) owner: LeaseOwner,
    pub(crate) record: BatchRecord,
    /// Seqs whose release was acknowledged to this run.
    released: SeqSet,
    pub(crate) metrics: &'a mut Metrics,
}

impl Handler {
    /// Processes one ticket.
    ///
    /// # Errors
    /// [`GiveBack`]: the ticket must come back, and its reason.
    pub async fn process(
        &self,
        ticket: &Ticket,
        owner: LeaseOwner,
        budgets: &Budgets<'_>,
        report: &mut Report,
    ) -> Result<Done, GiveBack> {
        let batch = ticket.batch_id;
        let now = budgets.work.clock.now();
        let operator = ticket.operator();
        if operator == Some(OperatorWord::Quarantine) && self.ports().quarantine_queue.is_none() {
            error!(batch_id = %batch, "batch cannot be set aside: `QUARANTINE_SQS_URL` is not set");
            return Ok(Done::InError);
        }
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
            .write(&*self.ports().batch_store, batch, &write)
            .await;
        let record = match written {
            Err(source) => {
                // The lease may be ours without our knowing; nobody should have to wait for its end.
                let reason = GiveBack::Service { batch, source };
                self.give_up(batch, owner, budgets, &reason).await;
                return Err(reason);
            }
            Ok(Written::Applied(record)) => record,
            Ok(Written::Refused(None)) => return Err(GiveBack::UnknownBatch { batch }),
            Ok(Written::Refused(Some(record))) => {
                return match may_lease(&record, now, operator) {
                    LeaseVerdict::Complete => Ok(Done::Complete),
                    LeaseVerdict::InError => Ok(Done::InError),
                    // The operator's ticket is back: somebody who had it came to no end. Another sink that was not
                    // noted as accepted is not; then the batch is in error again.
                    LeaseVerdict::NotInError
                        if record.quarantine.is_some()
                            || operator == Some(OperatorWord::AcceptSink) =>
                    {
                        let plain = Ticket::new(batch, TicketReason::Sweep);
                        Box::pin(self.process(&plain, owner, budgets, report)).await
                    }
                    LeaseVerdict::NotInError => {
                        warn!(batch_id = %batch, status = ?record.status, "batch is not in error, and is not set aside");
                        Ok(Done::NotInError)
                    }
                    // An earlier delivery of this very ticket, whose invocation died: nobody else will go on.
                    LeaseVerdict::Held { until } if is_same_ticket(&record, &owner) => {
                        Err(GiveBack::Held { batch, until })
                    }
                    LeaseVerdict::Held { until } => {
                        info!(batch_id = %batch, %until, "batch is leased by another");
                        Ok(Done::Held)
                    }
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
        if operator == Some(OperatorWord::AcceptSink) {
            run.accept_sink().await?;
        }
        let done = run.carry_on().await;
        if let Err(reason) = &done {
            self.give_up(batch, run.owner, budgets, reason).await;
        }
        done
    }

    /// Lets the next one start when the ticket is back instead of after the lease; if this fails, it only starts later.
    async fn give_up(
        &self,
        batch: BatchId,
        owner: LeaseOwner,
        budgets: &Budgets<'_>,
        reason: &GiveBack,
    ) {
        let now = budgets.work.clock.now();
        // Not before the ticket: a second one beside it would be one too many.
        let due_at = now + reason.away_for(budgets.backoff, now) + DUE_GRACE;
        let write = BatchWrite::GiveUp {
            owner,
            due_at,
            verify_at: None,
        };
        if let Err(error) = budgets
            .wrap_up
            .write(&*self.ports().batch_store, batch, &write)
            .await
        {
            warn!(batch_id = %batch, %error, "lease not given up");
        }
    }
}

impl Run<'_> {
    pub(crate) fn batch(&self) -> BatchId {
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
                _ if self.record.quarantine.is_some() => self.set_aside(frozen, new).await?,
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

    /// Reads the next claims of the batch, as many as make a part; at least about `items_min`.
    pub(crate) async fn read(
        &self,
        entries: &mut Entries,
        bytes_max: u64,
        items_min: usize,
    ) -> Result<Vec<StoredEvent>, GiveBack> {
        self.handler
            .read(
                self.batch(),
                entries,
                bytes_max,
                items_min,
                &self.budgets.work,
            )
            .await
            .map_err(|source| self.service(source))
    }

    async fn release_leftovers(&mut self, mut leftovers: Entries) -> Result<(), GiveBack> {
        let bytes_max = self.handler.config().part_bytes_max;
        while !leftovers.is_empty() {
            let events = self.read(&mut leftovers, bytes_max, 1).await?;
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
        if let Some(error) = self.other_sink(index) {
            error!(batch_id = %self.batch(), part = index, error, "part was frozen for another sink");
            return self
                .fail(error)
                .await
                .map(|done| done.map_or(Step::LookAgain, Step::Done));
        }
        let events = self.read(&mut frozen, u64::MAX, 1).await?;
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
            let items_min = self.items_min(new.len());
            let events = self.read(&mut new, bytes_max, items_min).await?;
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

    /// Returns how many of `left` items the next part must have, so that the parts that are left suffice for all.
    fn items_min(&self, left: usize) -> usize {
        if planted(Bug::PartsNotGrown) {
            return 1;
        }
        let for_all = self.handler.config().parts_max - PARTS_FOR_STRAGGLERS;
        left.div_ceil(for_all.saturating_sub(self.record.parts.len()).max(1))
    }

    /// Returns what is wrong, in words for the operator, if part `index` was frozen for another sink or rendering.
    fn other_sink(&self, index: usize) -> Option<String> {
        let was = self.record.parts.get(index)?.sink.as_deref()?;
        let is = self.sink_fingerprint();
        (was != is && !planted(Bug::SinkFingerprintIgnored)).then(|| {
            format!(
                "part {index}: frozen for the sink `{was}`, but the sink is `{is}` now; restore the former, or \
                 accept the new one by a ticket with `\"accept\":\"new-sink\"`, or set the batch aside"
            )
        })
    }

    fn sink_fingerprint(&self) -> String {
        cut(self.handler.sink().fingerprint(), FINGERPRINT_BYTES_MAX)
    }

    /// Lets the part that is frozen go to the sink of now: an operator said so.
    async fn accept_sink(&mut self) -> Result<(), GiveBack> {
        let Some((index, _)) = self.record.frozen_part() else {
            return Ok(());
        };
        let sink = self.sink_fingerprint();
        warn!(batch_id = %self.batch(), part = index, sink, "an operator accepts another sink for a frozen part");
        let write = BatchWrite::AcceptSink {
            owner: self.owner.clone(),
            index,
            sink,
        };
        self.write(&write, self.budgets.work).await
    }

    pub(crate) fn service(&self, source: PortError) -> GiveBack {
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
        let batches = &*self.handler.ports().batch_store;
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
    pub(crate) async fn write(
        &mut self,
        write: &BatchWrite,
        budget: Budget<'_>,
    ) -> Result<(), GiveBack> {
        let batch = self.batch();
        match budget
            .write(&*self.handler.ports().batch_store, batch, write)
            .await
        {
            Ok(Written::Applied(record)) => {
                self.record = *record;
                Ok(())
            }
            Ok(Written::Refused(_)) => Err(GiveBack::LeaseLost { batch }),
            Err(source) => Err(self.unwritten(source).await),
        }
    }

    /// A write to the record failed. One that was refused would be refused every time: then the batch is in error.
    async fn unwritten(&self, source: PortError) -> GiveBack {
        let batch = self.batch();
        if let PortError::Refused { .. } = source {
            let fail = self.failure(format!("batch record: {source}"));
            let batches = &*self.handler.ports().batch_store;
            match self.budgets.wrap_up.write(batches, batch, &fail).await {
                Ok(_) => error!(batch_id = %batch, error = %source, "batch record refused"),
                Err(error) => error!(batch_id = %batch, %error, "batch not put in error"),
            }
        }
        self.service(source)
    }

    fn failure(&self, error: String) -> BatchWrite {
        BatchWrite::Fail {
            owner: self.owner.clone(),
            error: cut(error, RECORD_TEXT_BYTES_MAX),
        }
    }

    /// Fixes the content of the next part before the sink sees any of it; `None` when there may be no further part.
    async fn freeze(&mut self, new: &[StoredEvent]) -> Result<Option<usize>, GiveBack> {
        let index = match self.record.frozen_part() {
            Some((index, _)) if planted(Bug::PartRefrozen) => index,
            Some(_) | None => self.record.parts.len(),
        };
        let parts_max = self.handler.config().parts_max;
        if index >= parts_max {
            let error = format!(
                "parts: got a further one after `{index}`, expected at most {parts_max}: claims kept showing after all \
                 others; only setting the batch aside ends it"
            );
            return self.fail(error).await.map(|_| None);
        }
        let part = PartRecord::frozen(seqs(new), content_hash(new), Some(self.sink_fingerprint()));
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
        match fetched {
            Ok(()) => {}
            Err(BodyProblem::Unread(source)) => return Err(self.service(source)),
            Err(problem) => {
                error!(batch_id = %batch, part = index, error = %problem, "body of an event cannot be delivered");
                return self.fail(problem.to_string()).await;
            }
        }
        let part = self.part(index, items);
        if self.record.parts.get(index).map(|frozen| frozen.hash) != Some(content_hash(&part.items))
            && !planted(Bug::ContentHashNotCompared)
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
                delivered: self.record.delivered_with(index),
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
            receipt: cut(receipt.text, RECEIPT_BYTES_MAX),
            delivered: self.record.delivered_with(index),
        };
        self.write(&write, self.budgets.wrap_up).await?;
        self.release(&part.items).await.map(|()| None)
    }

    /// Has the sink take a part: again and again while it may yet, until the time of the invocation ends.
    async fn within_time(&self, part: &Part) -> Result<Receipt, SinkError> {
        let work = &self.budgets.work;
        let mut attempt = 0;
        loop {
            let error = match self.attempt(part).await {
                Err(error @ (SinkError::Retryable { .. } | SinkError::Busy { .. })) => error,
                answer => return answer,
            };
            attempt += 1;
            let pause = RetryPolicy::SINK.pause(attempt, work.entropy.jitter());
            let pause = match &error {
                SinkError::Busy { retry_after, .. } => pause.max(*retry_after),
                SinkError::Retryable { .. } | SinkError::Permanent { .. } => pause,
            };
            if work.clock.now() + pause >= work.stop_at {
                return Err(error);
            }
            warn!(part_key = part.key(), attempt, pause_ms = pause.as_millis() as u64, %error, "sink is asked again");
            work.clock.sleep(pause).await;
        }
    }

    /// The sink's answer, or that there was none in time.
    async fn attempt(&self, part: &Part) -> Result<Receipt, SinkError> {
        let work = &self.budgets.work;
        let deliver = std::pin::pin!(self.handler.sink().deliver(part));
        let rest = work.clock.now().until(work.stop_at);
        let timeout = std::pin::pin!(work.clock.sleep(rest));
        match futures::future::select(deliver, timeout).await {
            futures::future::Either::Left((answer, _)) => answer,
            futures::future::Either::Right(_) => Err(SinkError::Retryable {
                reason: format!("no answer within `{}` s", rest.as_secs()),
            }),
        }
    }

    pub(crate) async fn release(&mut self, events: &[StoredEvent]) -> Result<(), GiveBack> {
        let set_aside = &self.record.set_aside;
        let released = self.handler.release(events, set_aside, &self.budgets.work);
        let released = released.await;
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
                    self.handler.ports().batch_queue.send(&ticket, whole_secs)
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
            .write(&*self.handler.ports().batch_store, batch, &write)
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
            Err(source) => Err(self.unwritten(source).await),
        }
    }

    /// The batch waits for an operator from now on.
    pub(crate) async fn fail(&mut self, error: String) -> Result<Option<Done>, GiveBack> {
        let write = self.failure(error);
        self.write(&write, self.budgets.wrap_up)
            .await
            .map(|()| Some(Done::InError))
    }
}

/// Whether a batch is leased by another delivery of the same ticket: owners end with the ticket's message id.
fn is_same_ticket(record: &BatchRecord, owner: &LeaseOwner) -> bool {
    let ticket = |owner: &LeaseOwner| owner.as_str().rsplit('/').next().map(str::to_owned);
    let held_by = record.lease.as_ref().map(|lease| &lease.owner);
    held_by.is_some_and(|holder| ticket(holder) == ticket(owner))
}

/// A text of somebody else's, cut to what a batch record has room for.
fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
