//! A leased batch: finds its events, delivers them, and completes the batch once nothing of it is left.
//!
//! Every step starts from the present batch record, so that the next invocation can continue after a crash.

mod closing;
mod gate;
mod log;
mod setting_aside;

use std::sync::Arc;

use protocol::batch::{OperatorDecision, PartRecord, proven};
use protocol::ids::BatchId;
use protocol::limits::BATCH_LIFE_MAX;
use protocol::pause::Pause;
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::delivery_hours::DeliveryHours;
use shared::ports::{NamedItems, QuarantineQueue, StoredEvent};
use shared::traces::Span;
use shared::traces::names::{BATCH_ID, ITEMS_COUNT, PART};
use sinks::{SinkError, content_hash};
use tracing::{debug, error, info};

use crate::answers::AnsweredParts;
use crate::body_source::{BodySource, Unread};
use crate::completion::Completion;
use crate::delivery::{Delivery, report_delivered};
use crate::index_snapshot::{Snapshot, missing, seqs};
use crate::invocation::Budgets;
use crate::lease::LeasedBatch;
use crate::log_index::LogIndex;
use crate::metrics::BatchProcessorMetrics;
use crate::notices::Notices;
use crate::part_rules::{PartRules, accepted, withheld};
use crate::quarantine::Quarantine;
use crate::rate::Rate;
use crate::reading::{HandOverError, ReadEvents, ReadLimits};
use crate::release::Releaser;
use crate::sequences::{Numbered, Sequences};
use crate::ticket_end::{TicketEnd, not_taken};

/// The components that a run uses, and its limits.
pub(crate) struct Components {
    pub(crate) body_source: BodySource,
    pub(crate) log_index: LogIndex,
    pub(crate) losers: Losers,
    pub(crate) delivery: Delivery,
    /// Without it, no answers are awaited.
    pub(crate) answered_parts: Option<Arc<AnsweredParts>>,
    pub(crate) releaser: Releaser,
    pub(crate) quarantine: Quarantine,
    pub(crate) completion: Completion,
    pub(crate) part_rules: PartRules,
    pub(crate) notices: Notices,
    pub(crate) named_items: Arc<dyn NamedItems>,
    pub(crate) sequences: Sequences,
    pub(crate) hours: Option<DeliveryHours>,
    pub(crate) rate: Option<Rate>,
}

/// Where the lines of a batch of the log go that do not win.
pub(crate) struct Losers {
    /// For conflicts and lines beyond a quota.
    pub(crate) quarantine: Option<Arc<dyn QuarantineQueue>>,
    /// Without it, duplicates are not reported.
    pub(crate) duplicates: Option<Arc<dyn QuarantineQueue>>,
    pub(crate) concurrency: usize,
}

/// A leased batch, with the releases and metrics of this run.
pub(crate) struct BatchRun<'a> {
    components: &'a Components,
    budgets: &'a Budgets<'a>,
    batch: LeasedBatch<'a>,
    /// Seqs whose release was acknowledged in this run.
    released: SeqSet,
    /// The pauses as they were after the lease was taken.
    pauses: Vec<Pause>,
    /// When half of the time for this run is over.
    half_at: Timestamp,
    /// Why lines that did not win are not reported yet, while the others are set aside.
    unreported: Option<HandOverError>,
    /// How often the table did not confirm every claim that must exist.
    lags: u32,
    metrics: &'a mut BatchProcessorMetrics,
}

impl<'a> BatchRun<'a> {
    pub(crate) fn new(
        components: &'a Components,
        budgets: &'a Budgets<'a>,
        batch: LeasedBatch<'a>,
        metrics: &'a mut BatchProcessorMetrics,
    ) -> BatchRun<'a> {
        BatchRun {
            components,
            budgets,
            batch,
            released: SeqSet::new(),
            pauses: Vec::new(),
            half_at: budgets.work.half().stop_at,
            unreported: None,
            lags: 0,
            metrics,
        }
    }

    /// Goes on with the batch, and returns how the ticket ends; gives up the lease if the ticket comes back.
    pub(crate) async fn run(mut self, operator: Option<OperatorDecision>) -> TicketEnd {
        let end = match self.run_to_end(operator).await {
            Ok(end) | Err(end) => end,
        };
        self.batch.give_up(&end).await;
        self.metrics
            .notices_dropped
            .add(self.batch.notices_dropped());
        self.send_notices(None).await;
        end
    }

    /// Sends the notices that wait in the record.
    async fn send_notices(&mut self, operator: Option<OperatorDecision>) {
        let record = self.batch.record();
        let notices = &self.components.notices;
        let sent = notices.send_waiting(record, operator, self.budgets, self.metrics);
        if sent.await {
            self.batch.forget_notices();
        }
    }

    /// Looks for events and delivers them, until the batch is complete or must wait.
    async fn run_to_end(
        &mut self,
        operator: Option<OperatorDecision>,
    ) -> Result<TicketEnd, TicketEnd> {
        // First of all: the decision holds for this ticket alone, and is kept once it is in the record.
        if self.batch.operator() == Some(OperatorDecision::AcceptSink)
            && let Some((index, _)) = self.batch.record().frozen_part()
        {
            let present = self.components.delivery.fingerprint();
            let sink = accepted(self.batch.record(), index, present);
            self.batch.accept_sink(index, sink).await?;
        }
        // Before the delivery, so that there is room for a notice of it.
        self.send_notices(operator).await;
        if let Some(error) = self.too_old() {
            error!(batch_id = %self.id(), error, "batch is too old to be delivered");
            return Err(self.batch.fail(error).await);
        }
        // Before pauses and hours: neither claims nor duplicates depend on when the batch may be delivered.
        self.settle().await?;
        self.pass_gate_before_reading().await?;
        self.take_file_number_before_reading().await?;
        // A former run may have died after the last part ended, before it gave the number up.
        let record = self.batch.record();
        if let Some(last) = record.parts.len().checked_sub(1)
            && record.frozen_part().is_none()
        {
            self.give_number_up(last, &self.budgets.work).await?;
        }
        loop {
            self.check_time()?;
            if proven(self.batch.record(), &self.released) {
                let completion = &self.components.completion;
                let complete = completion.complete(&mut self.batch, self.budgets, self.metrics);
                if complete.await? {
                    return Ok(TicketEnd::Done("complete"));
                }
                continue;
            }
            let source = &self.components.body_source;
            let record = self.batch.record();
            let look = source.look(record, &self.released, &self.budgets.work);
            let found = match look.await? {
                Ok(snapshot) => self.deliver_snapshot(snapshot).await?,
                Err(missing) => self.wait_for_index(missing).await?,
            };
            if !found {
                if let Some(error) = self.unreported.take() {
                    return Err(self.hand_over_failed(error).await);
                }
                let completion = &self.components.completion;
                let (batch, metrics) = (&mut self.batch, &mut *self.metrics);
                let end = completion.after_empty_look(batch, &self.released, self.budgets, metrics);
                if let Some(end) = end.await? {
                    return Ok(end);
                }
            }
        }
    }

    fn check_time(&self) -> Result<(), TicketEnd> {
        match self.budgets.work.has_time() {
            true => Ok(()),
            false => Err(TicketEnd::retry("deadline reached")),
        }
    }

    /// Returns the error of a batch that is older than its batch life and is not being set aside. Its claims and loads are
    /// kept for a limited time, so nothing more of it may be delivered.
    fn too_old(&self) -> Option<String> {
        let record = self.batch.record();
        let is_old = record.is_too_old(self.budgets.work.clock.now());
        let can_be_set_aside = record.bodies.is_log() || self.components.quarantine.exists();
        (is_old && can_be_set_aside && record.quarantine.is_none()).then(|| {
            let days = BATCH_LIFE_MAX.as_secs() / 86_400;
            let error = format!("not complete {days} days after it was opened");
            match self.components.quarantine.exists() {
                true => error,
                false => format!("{error}, and `QUARANTINE_SQS_URL` is not set; set it, so that its events go there"),
            }
        })
    }

    /// Releases the leftovers, and delivers or quarantines the other entries, as the batch record demands. Returns whether the batch
    /// must be looked at again: there was an event to deliver, or one is missing.
    async fn deliver_snapshot(&mut self, snapshot: Snapshot<Unread>) -> Result<bool, TicketEnd> {
        let Snapshot {
            new,
            frozen,
            leftovers,
        } = snapshot;
        self.release_leftovers(leftovers).await?;
        let record = self.batch.record();
        match record.frozen_part().map(|(index, _)| index) {
            Some(index) if record.quarantine.is_some() => {
                self.quarantine_frozen(index, frozen).await
            }
            None if record.quarantine.is_some() => self.quarantine_new(new).await,
            Some(index) => self.deliver_frozen(index, frozen).await,
            None => self.deliver_new(new).await,
        }
    }

    async fn release_leftovers(&mut self, mut leftovers: Unread) -> Result<(), TicketEnd> {
        while !leftovers.is_empty() {
            let limits = self.components.part_rules.without_part();
            let events = self.read(&mut leftovers, limits).await?;
            self.release(&events).await?;
        }
        Ok(())
    }

    /// Delivers exactly the members of the frozen part.
    async fn deliver_frozen(
        &mut self,
        index: usize,
        mut frozen: Unread,
    ) -> Result<bool, TicketEnd> {
        self.check_withheld(index).await?;
        let events = self.read(&mut frozen, ReadLimits::NONE).await?;
        if let Some(missing) = missing(self.batch.record(), &seqs(&events)) {
            return self.wait_for_index(missing).await;
        }
        self.deliver(index, events).await?;
        Ok(true)
    }

    /// Puts the batch in error if an operator must decide about the frozen part.
    async fn check_withheld(&mut self, index: usize) -> Result<(), TicketEnd> {
        let present = self.components.delivery.fingerprint();
        let Some(error) = withheld(self.batch.record(), index, &present) else {
            return Ok(());
        };
        error!(batch_id = %self.id(), part = index, error, "part is withheld from the sink");
        Err(self.batch.fail(error).await)
    }

    /// Delivers the entries that are in no part yet, part by part.
    async fn deliver_new(&mut self, mut new: Unread) -> Result<bool, TicketEnd> {
        let mut found = false;
        loop {
            let rules = &self.components.part_rules;
            let limits = rules.next_part(self.batch.record(), new.len());
            let events = self.read(&mut new, limits).await?;
            // Whether a claim is missing is known only after the last entry was read.
            if new.is_empty()
                && let Some(missing) = missing(self.batch.record(), &seqs(&events))
            {
                return self.wait_for_index(missing).await;
            }
            if !events.is_empty() {
                let index = self.freeze(&events).await?;
                self.check_withheld(index).await?;
                self.deliver(index, events).await?;
                found = true;
            }
            if new.is_empty() {
                return Ok(found);
            }
            self.check_time()?;
        }
    }

    /// Freezes the next part before the sink sees any of it. Returns the part's index.
    async fn freeze(&mut self, events: &[StoredEvent]) -> Result<usize, TicketEnd> {
        let index = self.batch.record().parts.len();
        if let Some(error) = self.components.part_rules.too_many(index) {
            return Err(self.batch.fail(error).await);
        }
        let (rules, sink) = (&self.components.part_rules, &self.components.delivery);
        let count = events.len() as u64;
        let sink = rules.fingerprint(self.batch.record(), count, sink.fingerprint());
        let part = PartRecord::frozen(seqs(events), content_hash(events), Some(sink));
        let span = self.span("freeze").count(PART, index);
        span.run(self.batch.freeze(index, part)).await?;
        info!(batch_id = %self.id(), part = index, items_count = events.len(), "part frozen");
        Ok(index)
    }

    /// Delivers a frozen part, writes the receipt to the record, and releases its claims.
    async fn deliver(&mut self, index: usize, events: Vec<StoredEvent>) -> Result<(), TicketEnd> {
        self.pass_gate(false).await?;
        let batch = self.id();
        let delivery = &self.components.delivery;
        let mut part = self.batch.part(index, events);
        let frozen = self.batch.record().parts.get(index).map(|part| part.hash);
        let prepared = delivery.prepare(&mut part, frozen, &self.budgets.work);
        if let Err(error) = prepared.await {
            return Err(self.hand_over_failed(error).await);
        }
        if delivery.needs_sequence() {
            let Numbered { number, link } = self.take_file_number(index).await?;
            (part.file_number, part.link) = (Some(number), link);
        }
        let next_turn_at = self.begin(part.items.len()).await?;
        info!(batch_id = %batch, part = index, items_count = part.items.len(), "delivering part");
        let started = self.budgets.work.clock.now();
        let span = self.span("deliver").calls().count(PART, index);
        let span = span.count(ITEMS_COUNT, part.items.len());
        let attempts = self.in_hours();
        let delivered = span.run(delivery.deliver(&part, &attempts)).await;
        let ended = self.budgets.work.clock.now();
        let receipt = match delivered {
            Ok(receipt) => receipt,
            Err(SinkError::Permanent { reason }) => {
                error!(batch_id = %batch, part = index, reason, "sink refused a part permanently");
                return Err(self.batch.fail(reason).await);
            }
            Err(error) => return Err(not_taken(&error)),
        };
        report_delivered(&part, &receipt, ended - started, ended, self.metrics);
        let wrap_up = self.budgets.wrap_up;
        if let Some(answered) = &self.components.answered_parts {
            let record = self.batch.record();
            answered.keep(record, &part, &receipt, &wrap_up).await?;
        }
        self.batch.delivered(index, receipt, wrap_up).await?;
        self.batch.keep_turn(next_turn_at);
        self.give_number_up(index, &self.budgets.wrap_up).await?;
        self.release(&part.items).await
    }

    async fn hand_over_failed(&mut self, error: HandOverError) -> TicketEnd {
        match error {
            HandOverError::Service(source) => source.into(),
            HandOverError::Lease(end) => end,
            HandOverError::Permanent(error) => {
                error!(batch_id = %self.id(), error, "events cannot be handed over");
                self.batch.fail(error).await
            }
        }
    }

    async fn read_with_losses(&mut self, unread: &mut Unread, limits: ReadLimits) -> ReadEvents {
        let source = &self.components.body_source;
        let (record, work) = (self.batch.record(), &self.budgets.work);
        source.read(record, unread, limits, work).await
    }

    /// Reads events to deliver them. If some are lost, the batch goes into error.
    async fn read(
        &mut self,
        unread: &mut Unread,
        limits: ReadLimits,
    ) -> Result<Vec<StoredEvent>, TicketEnd> {
        let read = self.read_with_losses(unread, limits).await;
        if let Some(lost) = read.lost.first() {
            error!(batch_id = %self.id(), object = %lost.object, error = lost.problem, "object is lost");
            return Err(self.batch.fail(lost.to_string()).await);
        }
        match read.failed {
            None => Ok(read.events),
            Some(error) => Err(self.hand_over_failed(error).await),
        }
    }

    /// Releases the claims of events. A batch of the log has none.
    async fn release(&mut self, events: &[StoredEvent]) -> Result<(), TicketEnd> {
        if self.batch.record().bodies.is_log() {
            return Ok(());
        }
        let releaser = &self.components.releaser;
        let set_aside = &self.batch.record().set_aside;
        let released = releaser.release(events, set_aside, &self.budgets.work);
        let span = self.span("release").count(ITEMS_COUNT, events.len());
        let released = span.run(released).await;
        self.metrics.released.add(released.len());
        self.released.extend_from(&released);
        if !released.is_empty() {
            info!(batch_id = %self.id(), items_count = released.len(), "claims released");
        }
        match (events.len() as u64).saturating_sub(released.len()) {
            0 => Ok(()),
            count => Err(TicketEnd::retry(format!(
                "{count} delivered claims are not released"
            ))),
        }
    }

    /// Waits for the index, then reads the record again, because claims may have been counted since. The batch must be looked at again then.
    async fn wait_for_index(&mut self, missing: String) -> Result<bool, TicketEnd> {
        self.lags += 1;
        debug!(batch_id = %self.id(), lags = self.lags, missing, "index lags");
        self.metrics.index_lag_retries.add(1);
        if !self.budgets.work.pause(RetryPolicy::INDEX, self.lags).await {
            let why = format!("the index does not show every claim yet: {missing}");
            return Err(TicketEnd::retry(why));
        }
        self.batch.refresh().await?;
        Ok(true)
    }

    /// Returns a span of a step of this batch.
    fn span(&self, step: &'static str) -> Span {
        shared::traces::span(step).text(BATCH_ID, self.id())
    }

    fn id(&self) -> BatchId {
        self.batch.id()
    }
}
