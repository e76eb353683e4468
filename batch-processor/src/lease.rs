//! The lease on a batch, and every write to the record of a leased batch.

use protocol::batch::{
    BatchRecord, BatchWrite, Failure, Lease, LeaseVerdict, Notice, OperatorDecision, PartRecord,
    may_lease,
};
use protocol::ids::{BatchId, LeaseOwner};
use protocol::limits::{
    BATCH_LIFE_MAX, BATCH_RECORD_RETENTION, DUE_GRACE, FAILURE_BYTES_MAX, RECEIPT_BYTES_MAX,
    RECORD_TEXT_BYTES_MAX, TICKET_AWAY_MAX,
};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::discretion::Discretion;
use shared::ports::{BatchStore, PortError, StoredEvent};
use shared::retry::{Budget, Written};
use sinks::{Part, Receipt};
use tracing::{error, info, warn};

use crate::invocation::Budgets;
use crate::outcome::{Done, RetryTicket};

/// The result of an attempt to take a lease.
pub(crate) enum LeaseReply<'a> {
    Leased(Box<LeasedBatch<'a>>),
    /// There is nothing to do for this ticket but to send the notices of the record.
    Done(Done, Box<BatchRecord>),
    /// The batch was so long ago that its record has expired.
    NoRecord,
    /// An earlier delivery of the operator's ticket took effect. Take the lease without the operator's decision.
    DecisionInForce,
}

/// A batch whose lease this invocation has.
pub(crate) struct LeasedBatch<'a> {
    batch_store: &'a dyn BatchStore,
    budgets: &'a Budgets<'a>,
    owner: LeaseOwner,
    record: BatchRecord,
    /// Whether notices of the batch are sent.
    has_notices: bool,
    /// Notices of errors that were dropped.
    notices_dropped: u64,
}

/// Takes the lease of a batch, with the decision of an operator's ticket, if there is one.
///
/// # Errors
/// [`RetryTicket`]: the batch cannot be leased now.
pub(crate) async fn lease<'a>(
    batch_store: &'a dyn BatchStore,
    batch: BatchId,
    owner: &LeaseOwner,
    operator: Option<OperatorDecision>,
    has_notices: bool,
    budgets: &'a Budgets<'a>,
) -> Result<LeaseReply<'a>, RetryTicket> {
    let now = budgets.work.clock.now();
    let write = BatchWrite::Lease {
        lease: Lease {
            owner: owner.clone(),
            until: budgets.deadline,
        },
        at: now,
        operator,
    };
    match budgets.work.write(batch_store, batch, &write).await {
        Ok(Written::Applied(record)) => Ok(LeaseReply::Leased(Box::new(LeasedBatch {
            batch_store,
            budgets,
            owner: owner.clone(),
            record: *record,
            has_notices,
            notices_dropped: 0,
        }))),
        // The record has expired, and it has waited so long because its notice could not be sent.
        Ok(Written::Refused(None)) if batch.opened_at() + BATCH_RECORD_RETENTION <= now => {
            warn!(batch_id = %batch, "the record has expired: there is nothing to do");
            Ok(LeaseReply::NoRecord)
        }
        Ok(Written::Refused(None)) => Err(RetryTicket::UnknownBatch { batch }),
        Ok(Written::Refused(Some(record))) => refused(record, owner, operator, now),
        Err(source) => {
            // The write may have been applied. Give the lease up, so that the next ticket need not wait for its end.
            let reason = RetryTicket::Service { batch, source };
            give_up(batch_store, batch, owner.clone(), budgets, &reason, None).await;
            Err(reason)
        }
    }
}

/// Returns the result for a record that refused the lease.
fn refused<'a>(
    record: Box<BatchRecord>,
    owner: &LeaseOwner,
    operator: Option<OperatorDecision>,
    now: Timestamp,
) -> Result<LeaseReply<'a>, RetryTicket> {
    let batch = record.batch_id;
    match may_lease(&record, now, operator) {
        LeaseVerdict::Complete => Ok(LeaseReply::Done(Done::Complete, record)),
        LeaseVerdict::InError => Ok(LeaseReply::Done(Done::InError, record)),
        // The invocation that received the operator's ticket first has died. If it did not write the new sink to the
        // record, the new sink is not accepted, and the batch goes into error again.
        LeaseVerdict::NotInError
            if record.quarantine.is_some() || operator == Some(OperatorDecision::AcceptSink) =>
        {
            Ok(LeaseReply::DecisionInForce)
        }
        LeaseVerdict::NotInError => {
            warn!(batch_id = %batch, status = ?record.status, "batch is not in error, and is not set aside");
            Ok(LeaseReply::Done(Done::NotInError, record))
        }
        // The invocation that received this ticket before may have died, and no other ticket may be on its way.
        LeaseVerdict::Held { until } if is_same_ticket(&record, owner) => {
            Err(RetryTicket::Held { batch, until })
        }
        LeaseVerdict::Held { until } => {
            info!(batch_id = %batch, %until, "batch is leased by another");
            Ok(LeaseReply::Done(Done::Held, record))
        }
        // No ticket waits so long. The sweep sends one when the window ends.
        LeaseVerdict::TooEarly { closes_at } if now + TICKET_AWAY_MAX < closes_at => {
            Ok(LeaseReply::Done(Done::Open, record))
        }
        LeaseVerdict::TooEarly { closes_at } => Err(RetryTicket::TooEarly { batch, closes_at }),
        // The lease became free between the write and its reply.
        LeaseVerdict::Free => Err(RetryTicket::LeaseLost { batch }),
    }
}

/// Returns whether an invocation that received the same ticket has the lease: owners end with the ticket's message id.
fn is_same_ticket(record: &BatchRecord, owner: &LeaseOwner) -> bool {
    let ticket = |owner: &LeaseOwner| owner.as_str().rsplit('/').next().map(str::to_owned);
    let held_by = record.lease.as_ref().map(|lease| &lease.owner);
    held_by.is_some_and(|holder| ticket(holder) == ticket(owner))
}

/// Gives a lease up, so that the given-back ticket need not wait for its end. If the write fails, the batch only starts
/// later.
async fn give_up(
    batch_store: &dyn BatchStore,
    batch: BatchId,
    owner: LeaseOwner,
    budgets: &Budgets<'_>,
    reason: &RetryTicket,
    turn_at: Option<Timestamp>,
) {
    let now = budgets.work.clock.now();
    // The batch is due after the ticket comes back, so that the sweep sends no second ticket.
    let due_at = now + reason.away_for(budgets.backoff, now) + DUE_GRACE;
    let write = BatchWrite::GiveUp {
        owner,
        due_at,
        verify_at: None,
        turn_at,
        failure: Some(failure(batch, reason, now)),
    };
    if let Err(error) = budgets.wrap_up.write(batch_store, batch, &write).await {
        warn!(batch_id = %batch, %error, "lease not given up");
    }
}

/// Returns the failure for the record, which names the batch itself.
fn failure(batch: BatchId, reason: &RetryTicket, at: Timestamp) -> Failure {
    let text = reason.to_string();
    let of_batch = format!("batch {batch}: ");
    let text = text.strip_prefix(&of_batch).unwrap_or(&text).to_owned();
    Failure {
        at,
        text: cut(text, FAILURE_BYTES_MAX),
    }
}

impl LeasedBatch<'_> {
    pub(crate) fn id(&self) -> BatchId {
        self.record.batch_id
    }

    /// Returns the record after the last write or read of this invocation.
    pub(crate) fn record(&self) -> &BatchRecord {
        &self.record
    }

    /// Returns part `index` of the batch with these events.
    pub(crate) fn part(&self, index: usize, items: Vec<StoredEvent>) -> Part {
        Part {
            batch_id: self.record.batch_id,
            number: index,
            source: self.record.source.clone(),
            batch_key: self.record.batch_key.clone(),
            closed_at: self.record.closed_at(),
            period: self.record.period,
            sequence: self.record.parts.get(index).and_then(|part| part.sequence),
            items,
        }
    }

    pub(crate) async fn give_up(&self, reason: &RetryTicket) {
        let (owner, turn_at) = (self.owner.clone(), self.record.turn_at);
        give_up(
            self.batch_store,
            self.id(),
            owner,
            self.budgets,
            reason,
            turn_at,
        )
        .await;
    }

    /// Keeps the turn that the next part has, until the part is delivered or must wait for something else; `None` drops one that was
    /// kept. The next write that gives the lease up writes it.
    pub(crate) fn keep_turn(&mut self, turn_at: Option<Timestamp>) {
        self.record.turn_at = turn_at;
    }

    /// Reads the record again, because claims may have been counted since.
    pub(crate) async fn refresh(&mut self) -> Result<(), RetryTicket> {
        let batch = self.id();
        let read = || self.batch_store.read(batch);
        let read = self.budgets.work.call(RetryPolicy::CONTROL, read).await;
        let is_ours = |record: &BatchRecord| {
            let lease = record.lease.as_ref();
            lease.is_some_and(|lease| lease.owner == self.owner)
        };
        match read.map_err(|source| RetryTicket::Service { batch, source })? {
            Some(record) if is_ours(&record) => {
                self.record = record;
                Ok(())
            }
            Some(_) | None => Err(RetryTicket::LeaseLost { batch }),
        }
    }

    /// Freezes a part: its members and its content are fixed from now on.
    pub(crate) async fn freeze(
        &mut self,
        index: usize,
        part: PartRecord,
    ) -> Result<(), RetryTicket> {
        let write = BatchWrite::Freeze {
            owner: self.owner.clone(),
            index,
            part,
        };
        self.write(&write, self.budgets.work).await
    }

    /// Changes the fingerprint of the frozen part to the present sink, as an operator decided.
    pub(crate) async fn accept_sink(
        &mut self,
        index: usize,
        sink: String,
    ) -> Result<(), RetryTicket> {
        warn!(batch_id = %self.id(), part = index, sink, "an operator accepts another sink for a frozen part");
        let write = BatchWrite::AcceptSink {
            owner: self.owner.clone(),
            index,
            sink,
        };
        self.write(&write, self.budgets.work).await
    }

    /// Writes to the record that the sink has a part.
    pub(crate) async fn delivered(
        &mut self,
        index: usize,
        receipt: Receipt,
        budget: Budget<'_>,
    ) -> Result<(), RetryTicket> {
        let write = BatchWrite::Delivered {
            owner: self.owner.clone(),
            index,
            receipt: cut(receipt.text, RECEIPT_BYTES_MAX),
            rejects: self.record.rejects_with(index, &receipt.rejected),
            at: budget.clock.now(),
            delivered: self.record.delivered_with(index),
        };
        self.write(&write, budget).await
    }

    /// Writes to the record that events are in the quarantine: those of the frozen `part`, or events in no part.
    pub(crate) async fn quarantined(
        &mut self,
        seqs: &SeqSet,
        part: Option<usize>,
    ) -> Result<(), RetryTicket> {
        let mut set_aside = self.record.set_aside.clone();
        set_aside.extend_from(seqs);
        let write = BatchWrite::SetAside {
            owner: self.owner.clone(),
            part,
            set_aside,
            set_asides: self.record.set_asides,
        };
        self.write(&write, self.budgets.wrap_up).await
    }

    /// Writes the number of a frozen part to the record.
    pub(crate) async fn number(&mut self, index: usize, number: u64) -> Result<(), RetryTicket> {
        let write = BatchWrite::Number {
            owner: self.owner.clone(),
            index,
            number,
        };
        self.write(&write, self.budgets.work).await
    }

    /// Gives the lease up until a pause ends. A turn is not kept: after the pause, all those that passed would come at once.
    pub(crate) async fn pause(&mut self, until: Timestamp) -> Result<(), RetryTicket> {
        let forgotten = planted(Bug::PausedForEver);
        let write = BatchWrite::GiveUp {
            owner: self.owner.clone(),
            due_at: if forgotten {
                until + BATCH_LIFE_MAX
            } else {
                until
            },
            verify_at: None,
            turn_at: None,
            failure: None,
        };
        self.write(&write, self.budgets.wrap_up).await
    }

    /// Gives the lease up until `due_at`, because its next part must wait. Only the turn `turn_at` is kept.
    pub(crate) async fn put_back(
        &mut self,
        due_at: Timestamp,
        turn_at: Option<Timestamp>,
    ) -> Result<(), RetryTicket> {
        let forgotten = planted(Bug::NeverOpened);
        let write = BatchWrite::GiveUp {
            owner: self.owner.clone(),
            due_at: if forgotten {
                due_at + BATCH_LIFE_MAX
            } else {
                due_at
            },
            verify_at: None,
            turn_at,
            failure: None,
        };
        self.write(&write, self.budgets.wrap_up).await
    }

    /// Gives the lease up until the batch is verified at `at`.
    pub(crate) async fn verify_at(&mut self, at: Timestamp) -> Result<(), RetryTicket> {
        let write = BatchWrite::GiveUp {
            owner: self.owner.clone(),
            due_at: at + DUE_GRACE,
            verify_at: Some(at),
            turn_at: None,
            failure: None,
        };
        self.write(&write, self.budgets.wrap_up).await
    }

    /// Completes the batch at `at`. Returns `false` when a claim was counted or witnessed since the record was read;
    /// then the batch must be looked at again.
    pub(crate) async fn complete(&mut self, at: Timestamp) -> Result<bool, RetryTicket> {
        let notice = self
            .has_notices
            .then(|| Notice::of_completion(&self.record, at));
        let write = BatchWrite::Complete {
            owner: self.owner.clone(),
            notice,
            counts_version: self.record.counts_version,
            witnesses: self.record.witnesses,
            parts: self.record.parts.len(),
            at,
            expires_at: self.record.kept_until(at),
        };
        let budget = self.budgets.wrap_up;
        match budget.write(self.batch_store, self.id(), &write).await {
            Ok(Written::Applied(record)) => {
                self.record = *record;
                Ok(true)
            }
            Ok(Written::Refused(_)) => self.refresh().await.map(|()| false),
            Err(source) => Err(self.unwritten(source).await),
        }
    }

    /// Puts the batch in error. It waits for an operator from now on.
    pub(crate) async fn fail(&mut self, error: String) -> Result<Done, RetryTicket> {
        let write = self.failure(error);
        self.write(&write, self.budgets.wrap_up).await?;
        Ok(Done::InError)
    }

    async fn write(&mut self, write: &BatchWrite, budget: Budget<'_>) -> Result<(), RetryTicket> {
        let batch = self.id();
        match budget.write(self.batch_store, batch, write).await {
            Ok(Written::Applied(record)) => {
                self.record = *record;
                Ok(())
            }
            Ok(Written::Refused(_)) => Err(RetryTicket::LeaseLost { batch }),
            Err(source) => Err(self.unwritten(source).await),
        }
    }

    /// Returns why the ticket comes back after a write failed. A write that was refused would be refused again, so the
    /// batch goes into error.
    async fn unwritten(&mut self, source: PortError) -> RetryTicket {
        let batch = self.id();
        if let PortError::Refused { .. } = source {
            let failure = self.failure(format!("batch record: {source}"));
            let budget = &self.budgets.wrap_up;
            match budget.write(self.batch_store, batch, &failure).await {
                Ok(_) => error!(batch_id = %batch, error = %source, "batch record refused"),
                Err(error) => error!(batch_id = %batch, %error, "batch not put in error"),
            }
        }
        RetryTicket::Service { batch, source }
    }

    /// Notes that the notices of the record were sent and removed.
    pub(crate) fn forget_notices(&mut self) {
        self.record.notices.clear();
    }

    /// Returns how many notices of errors were dropped.
    pub(crate) fn notices_dropped(&self) -> u64 {
        self.notices_dropped
    }

    /// Returns the notice of an error. What comes from messages is only in the record.
    fn notice_of(&self, error: &str) -> Notice {
        let error = Discretion { event_ids: false }.filtered(error);
        Notice::of_error(&self.record, &error, self.budgets.work.clock.now())
    }

    fn failure(&mut self, error: String) -> BatchWrite {
        let has_room = self.record.takes_notice();
        if self.has_notices && !has_room {
            error!(batch_id = %self.id(), "no notice of this error: earlier notices of the batch are not sent yet");
            self.notices_dropped += 1;
        }
        let notice = (self.has_notices && has_room).then(|| self.notice_of(&error));
        BatchWrite::Fail {
            owner: self.owner.clone(),
            error: cut(error, RECORD_TEXT_BYTES_MAX),
            notice,
        }
    }
}

/// Cuts a text of the sink or a service to `bytes_max` bytes, because a batch record has limited space.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
