//! The lease on a batch, and every write to the record of a leased batch.

mod decisions;

use protocol::batch::{
    BatchRecord, BatchWrite, Due, Failure, Lease, LeaseDecision, Notice, OperatorDecision,
    PartRecord, may_lease,
};
use protocol::gate::Why;
use protocol::ids::{BatchId, LeaseOwner};
use protocol::limits::{
    BATCH_RECORD_RETENTION, DUE_GRACE, FAILURE_BYTES_MAX, RECEIPT_BYTES_MAX, RECORD_TEXT_BYTES_MAX,
    TICKET_AWAY_MAX,
};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::text::cut;
use protocol::time::Timestamp;
use shared::ports::{BatchStore, PortError, StoredEvent};
use shared::redaction::Redaction;
use shared::retry::{Budget, Written};
use sinks::{Part, Receipt};
use tracing::{error, info, warn};

use crate::invocation::Budgets;
use crate::sequences::Numbered;
use crate::ticket_end::TicketEnd;

/// Why a batch was not leased.
pub(crate) enum NotLeased {
    /// It has no record.
    Missing(TicketEnd),
    Refused {
        end: TicketEnd,
        /// The record, if nothing but its notices may be left to send.
        record: Option<Box<BatchRecord>>,
    },
}

impl NotLeased {
    fn ended(why: &'static str, record: Box<BatchRecord>) -> NotLeased {
        NotLeased::Refused {
            end: TicketEnd::Done(why),
            record: Some(record),
        }
    }
}

impl From<TicketEnd> for NotLeased {
    fn from(end: TicketEnd) -> NotLeased {
        NotLeased::Refused { end, record: None }
    }
}

/// A batch whose lease this invocation has.
pub(crate) struct LeasedBatch<'a> {
    batch_store: &'a dyn BatchStore,
    budgets: &'a Budgets<'a>,
    owner: LeaseOwner,
    record: BatchRecord,
    /// The decision of an operator for which the lease was taken.
    operator: Option<OperatorDecision>,
    /// Whether notices of the batch are sent.
    has_notices: bool,
    /// Notices of errors that were dropped.
    notices_dropped: u64,
}

/// Takes the lease of a batch, with the decision of an operator's ticket, if there is one. An earlier delivery of that ticket may have taken
/// effect: then the lease is taken without the decision.
pub(crate) async fn lease<'a>(
    batch_store: &'a dyn BatchStore,
    batch: BatchId,
    owner: &LeaseOwner,
    mut operator: Option<OperatorDecision>,
    has_notices: bool,
    budgets: &'a Budgets<'a>,
) -> Result<LeasedBatch<'a>, NotLeased> {
    loop {
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
            Ok(Written::Applied(record)) => {
                return Ok(LeasedBatch {
                    batch_store,
                    budgets,
                    owner: owner.clone(),
                    record: *record,
                    operator,
                    has_notices,
                    notices_dropped: 0,
                });
            }
            // The record has expired, and it has waited so long because its notice could not be sent.
            Ok(Written::Refused(None)) if batch.opened_at() + BATCH_RECORD_RETENTION <= now => {
                warn!(batch_id = %batch, "the record has expired: there is nothing to do");
                return Err(TicketEnd::Done("expired").into());
            }
            // A wrong id in an operator's ticket, or a batch table that was restored from a backup.
            Ok(Written::Refused(None)) => {
                let why = "got no record, expected one in the batch table";
                return Err(NotLeased::Missing(TicketEnd::retry(why)));
            }
            Ok(Written::Refused(Some(record))) => match refused(record, owner, operator, now) {
                Some(not_leased) => return Err(not_leased),
                None => operator = None,
            },
            Err(source) => {
                // The write may have been applied. Give the lease up, so that the next ticket need not wait for its end.
                let end = TicketEnd::from(source);
                give_up(batch_store, batch, owner.clone(), budgets, &end, None).await;
                return Err(end.into());
            }
        }
    }
}

/// Returns how a ticket ends whose lease `record` refused. `None` if the decision of the operator is in force.
fn refused(
    record: Box<BatchRecord>,
    owner: &LeaseOwner,
    operator: Option<OperatorDecision>,
    now: Timestamp,
) -> Option<NotLeased> {
    let end = match may_lease(&record, now, operator) {
        // The invocation that has the lease sends the notices of other batches itself.
        LeaseDecision::Complete => return Some(NotLeased::ended("complete", record)),
        LeaseDecision::InError => return Some(NotLeased::ended("in error", record)),
        // The invocation that received the operator's ticket first has died. If it did not write the new sink to the
        // record, the new sink is not accepted, and the batch goes into error again.
        LeaseDecision::NotInError
            if record.quarantine.is_some() || operator == Some(OperatorDecision::AcceptSink) =>
        {
            return None;
        }
        LeaseDecision::NotInError => {
            warn!(batch_id = %record.batch_id, status = ?record.status, "batch is not in error, and is not set aside");
            TicketEnd::Done("not in error")
        }
        // The invocation that received this ticket before may have died, and no other ticket may be on its way.
        LeaseDecision::Held { until } if is_same_ticket(&record, owner) => {
            let why = format!("leased by an earlier delivery of this ticket until {until}");
            TicketEnd::retry_at(until, now, why)
        }
        // If it dies, the sweep sends another ticket.
        LeaseDecision::Held { until } => {
            info!(batch_id = %record.batch_id, %until, "batch is leased by another");
            TicketEnd::Done("leased by another")
        }
        // No ticket waits so long. The sweep sends one when the window ends.
        LeaseDecision::TooEarly { closes_at } if now + TICKET_AWAY_MAX < closes_at => {
            TicketEnd::Done("open")
        }
        LeaseDecision::TooEarly { closes_at } => {
            TicketEnd::retry_at(closes_at, now, format!("open until {closes_at}"))
        }
        // The lease became free between the write and its reply.
        LeaseDecision::Free => lease_lost(),
    };
    Some(end.into())
}

fn lease_lost() -> TicketEnd {
    TicketEnd::retry("the lease was lost")
}

/// Returns whether an invocation that received the same ticket has the lease: owners end with the ticket's message id.
fn is_same_ticket(record: &BatchRecord, owner: &LeaseOwner) -> bool {
    let ticket = |owner: &LeaseOwner| owner.as_str().rsplit('/').next().map(str::to_owned);
    let held_by = record.lease.as_ref().map(|lease| &lease.owner);
    held_by.is_some_and(|holder| ticket(holder) == ticket(owner))
}

/// Gives a lease up, so that the ticket that comes back need not wait for its end. If the write fails, the batch only starts
/// later.
async fn give_up(
    batch_store: &dyn BatchStore,
    batch: BatchId,
    owner: LeaseOwner,
    budgets: &Budgets<'_>,
    end: &TicketEnd,
    turn_at: Option<Timestamp>,
) {
    let (TicketEnd::Retry { why, .. }, Some(away_for)) = (end, end.away_for(budgets.backoff))
    else {
        return;
    };
    let now = budgets.work.clock.now();
    let write = BatchWrite::GiveUp {
        owner,
        // The batch is due after the ticket comes back, so that the sweep sends no second ticket.
        due: Due {
            turn_at,
            ..Due::at(now + away_for + DUE_GRACE)
        },
        failure: Some(Failure {
            at: now,
            text: cut(why, FAILURE_BYTES_MAX),
        }),
    };
    if let Err(error) = budgets.wrap_up.write(batch_store, batch, &write).await {
        warn!(batch_id = %batch, %error, "lease not given up");
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
        Part::of(&self.record, index, items)
    }

    /// Returns the decision of an operator for which the lease was taken.
    pub(crate) fn operator(&self) -> Option<OperatorDecision> {
        self.operator
    }

    /// Gives the lease up if the ticket comes back.
    pub(crate) async fn give_up(&self, end: &TicketEnd) {
        let (store, owner) = (self.batch_store, self.owner.clone());
        let turn_at = self.record.turn_at;
        give_up(store, self.id(), owner, self.budgets, end, turn_at).await;
    }

    /// Keeps the turn that the next part has, until the part is delivered or must wait for something else; `None` drops one that was
    /// kept. The next write that gives the lease up writes it.
    pub(crate) fn keep_turn(&mut self, turn_at: Option<Timestamp>) {
        self.record.turn_at = turn_at;
    }

    /// Takes the record as it is stored now. The turn is stored only when the lease is given up.
    fn replace_record(&mut self, record: BatchRecord) {
        let turn_at = self.record.turn_at;
        self.record = BatchRecord { turn_at, ..record };
    }

    /// Reads the record again, because claims may have been counted since.
    pub(crate) async fn refresh(&mut self) -> Result<(), TicketEnd> {
        let batch = self.id();
        let read = || self.batch_store.read(batch);
        let read = self.budgets.work.call(RetryPolicy::CONTROL, read).await;
        let is_ours = |record: &BatchRecord| {
            let lease = record.lease.as_ref();
            lease.is_some_and(|lease| lease.owner == self.owner)
        };
        match read? {
            Some(record) if is_ours(&record) => {
                self.replace_record(record);
                Ok(())
            }
            Some(_) | None => Err(lease_lost()),
        }
    }

    /// Freezes a part: its members and its content are fixed from now on.
    pub(crate) async fn freeze(&mut self, index: usize, part: PartRecord) -> Result<(), TicketEnd> {
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
    ) -> Result<(), TicketEnd> {
        warn!(batch_id = %self.id(), part = index, sink, "an operator lets a frozen part go to the sink");
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
    ) -> Result<(), TicketEnd> {
        let write = BatchWrite::Delivered {
            owner: self.owner.clone(),
            index,
            receipt: cut(&receipt.text, RECEIPT_BYTES_MAX),
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
    ) -> Result<(), TicketEnd> {
        let write = BatchWrite::SetAside {
            owner: self.owner.clone(),
            part,
            set_aside: self.record.set_aside.union(seqs),
            set_asides: self.record.set_asides,
        };
        self.write(&write, self.budgets.wrap_up).await
    }

    /// Writes the number of a frozen part to the record, with its link if it has one.
    pub(crate) async fn number(
        &mut self,
        index: usize,
        numbered: Numbered,
    ) -> Result<(), TicketEnd> {
        let write = BatchWrite::Number {
            owner: self.owner.clone(),
            index,
            number: numbered.number,
            link: numbered.link,
        };
        self.write(&write, self.budgets.work).await
    }

    /// Releases the lease until `due_at`, because the batch must wait. A turn is not kept in a pause or outside the hours:
    /// afterwards, all turns that passed would come at once.
    pub(crate) async fn put_back(&mut self, due_at: Timestamp, why: Why) -> Result<(), TicketEnd> {
        let keeps_turn = matches!(why, Why::Number(_) | Why::Turn);
        let turn_at = self.record.turn_at.filter(|_| keeps_turn);
        self.give_up_until(Due {
            turn_at,
            ..Due::at(due_at)
        })
        .await
    }

    /// Gives the lease up until the batch is verified at `at`.
    pub(crate) async fn verify_at(&mut self, at: Timestamp) -> Result<(), TicketEnd> {
        self.give_up_until(Due {
            verify_at: Some(at),
            ..Due::at(at + DUE_GRACE)
        })
        .await
    }

    async fn give_up_until(&mut self, due: Due) -> Result<(), TicketEnd> {
        let write = BatchWrite::GiveUp {
            owner: self.owner.clone(),
            due,
            failure: None,
        };
        self.write(&write, self.budgets.wrap_up).await
    }

    /// Completes the batch at `at`. Returns `false` when a claim was counted or witnessed since the record was read;
    /// then the batch must be looked at again.
    pub(crate) async fn complete(&mut self, at: Timestamp) -> Result<bool, TicketEnd> {
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
        self.write_as_read(&write, self.budgets.wrap_up).await
    }

    /// Makes a write that depends on the record as it was read. Returns `false` if the record has changed since; it is read again then.
    async fn write_as_read(
        &mut self,
        write: &BatchWrite,
        budget: Budget<'_>,
    ) -> Result<bool, TicketEnd> {
        match budget.write(self.batch_store, self.id(), write).await {
            Ok(Written::Applied(record)) => {
                self.replace_record(*record);
                Ok(true)
            }
            Ok(Written::Refused(_)) => self.refresh().await.map(|()| false),
            Err(source) => Err(self.unwritten(source).await),
        }
    }

    /// Puts the batch in error. It waits for an operator from now on.
    pub(crate) async fn fail(&mut self, error: String) -> TicketEnd {
        let write = self.failure(error);
        match self.write(&write, self.budgets.wrap_up).await {
            Ok(()) => TicketEnd::Done("in error"),
            Err(end) => end,
        }
    }

    async fn write(&mut self, write: &BatchWrite, budget: Budget<'_>) -> Result<(), TicketEnd> {
        let batch = self.id();
        match budget.write(self.batch_store, batch, write).await {
            Ok(Written::Applied(record)) => {
                self.replace_record(*record);
                Ok(())
            }
            Ok(Written::Refused(_)) => Err(lease_lost()),
            Err(source) => Err(self.unwritten(source).await),
        }
    }

    /// Returns why the ticket comes back after a write failed. A write that was refused would be refused again, so the
    /// batch goes into error.
    async fn unwritten(&mut self, source: PortError) -> TicketEnd {
        let batch = self.id();
        if let PortError::Refused { .. } = source {
            let failure = self.failure(format!("batch record: {source}"));
            let budget = &self.budgets.wrap_up;
            match budget.write(self.batch_store, batch, &failure).await {
                Ok(_) => error!(batch_id = %batch, error = %source, "batch record refused"),
                Err(error) => error!(batch_id = %batch, %error, "batch not put in error"),
            }
        }
        source.into()
    }

    /// Notes that the notices of the record were sent and removed.
    pub(crate) fn forget_notices(&mut self) {
        self.record.notices.clear();
    }

    /// Returns how many notices of errors were dropped.
    pub(crate) fn notices_dropped(&self) -> u64 {
        self.notices_dropped
    }

    fn failure(&mut self, error: String) -> BatchWrite {
        let has_room = self.record.takes_notice();
        if self.has_notices && !has_room {
            error!(batch_id = %self.id(), "no notice of this error: earlier notices of the batch are not sent yet");
            self.notices_dropped += 1;
        }
        let notice = (self.has_notices && has_room).then(|| {
            // What comes from messages is only in the record.
            let error = Redaction { event_ids: false }.filtered(&error);
            Notice::of_error(&self.record, &error, self.budgets.work.clock.now())
        });
        BatchWrite::Fail {
            owner: self.owner.clone(),
            error: cut(&error, RECORD_TEXT_BYTES_MAX),
            notice,
        }
    }
}
