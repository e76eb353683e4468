//! The sweep: sends another ticket for each batch that is past its due time.
//!
//! Because of the sweep, a ticket may be lost: the batch is still found by its record. A batch in error is counted and
//! gets no ticket, because it waits for an operator, until [`BATCH_LIFE_MAX`](protocol::limits::BATCH_LIFE_MAX) after it was opened.
//! Then the sweep has it set aside.
//!
//! With `DELIVERY_HOURS`, batches that wait for the hours to begin get their tickets beforehand, with a delay until then.
//!
//! A batch whose window ends later than SQS can delay a ticket has none yet. Its ticket is sent beforehand too.
//!
//! A batch that waits for the end of a pause gets a ticket at once if the pause was resumed or shortened.
//!
//! With `COMPLETION`, a batch whose notices were not sent gets a ticket too.

use std::sync::Arc;

use protocol::batch::{BatchWrite, Listing, Status};
use protocol::ids::BatchId;
use protocol::limits::{
    CLOCK_SKEW_MAX, NOTICE_TICKETS_MAX, SQS_BATCH_ENTRIES_MAX, SQS_DELAY_MAX, STATUS_SHARDS,
    SWEEP_TICKETS_MIN, TICKET_RESEND_AFTER,
};
use protocol::pause::Pauses;
use protocol::retry::RetryPolicy;
use protocol::sweep::{SweepRules, Wake};
use protocol::time::Timestamp;
use serde::Serialize;
use shared::delivery_hours::DeliveryHours;
use shared::metrics::{About, Level, OldestAge, write_line};
use shared::ports::{BatchQueue, BatchStore, MetricLog, NamedItems, Overdue, PortError, Ports};
use shared::retry::{Budget, Unsent, bounded, read_lists, send_tickets};
use shared::traces::Links;
use shared::wire::{Ticket, TicketReason};
use tracing::{error, info, warn};

use crate::answers::{Answers, AnswersRead};
use crate::config::Config;
use crate::invocation::{Budgets, Invocation};
use crate::metrics::SweepMetrics;

/// The `source` dimension of the sweep's metrics, which are about the batches of all sources.
const ALL_SOURCES: &str = "all";

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// Batches past their `dueAt` that are not in error.
    pub overdue: usize,
    /// Batches that got a ticket: overdue ones, and old ones in error.
    pub tickets_sent: usize,
    /// Batches that got none, which the next sweep sees again: the time was over, the queue refused the ticket, or it holds so many
    /// that theirs may be among them.
    pub tickets_left: usize,
    /// Whether the time was over before every batch was read and had its ticket. Then the counts may be too low.
    pub cut_short: bool,
    /// Batches with status `processing`, leased or given up.
    pub processing: usize,
    /// Batches with status `error`, which wait for an operator.
    pub in_error: usize,
    /// Batches whose notices should have been sent; absent without `COMPLETION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notices_waiting: Option<usize>,
    /// Milliseconds since the oldest overdue batch was due; 0 if there is none.
    pub oldest_overdue_age_ms: u64,
    /// Milliseconds since the oldest batch in error was opened; 0 if there is none.
    pub oldest_error_age_ms: u64,
    /// Milliseconds since the oldest batch whose notices wait was opened, 0 if there is none; absent without `COMPLETION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_notice_age_ms: Option<u64>,
    /// What was done about answers; absent without `ANSWERS_FROM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswersRead>,
}

pub(crate) struct Sweep {
    batch_store: Arc<dyn BatchStore>,
    batch_queue: Arc<dyn BatchQueue>,
    named_items: Arc<dyn NamedItems>,
    metric_log: Arc<dyn MetricLog>,
    hours: Option<DeliveryHours>,
    has_notices: bool,
    /// Whether there is a quarantine queue, to which old batches in error go.
    has_quarantine_queue: bool,
    concurrency: usize,
}

/// A ticket that the sweep sends, and its batch.
struct Resend {
    batch: Overdue,
    wake: Wake,
    /// When the ticket should arrive.
    at: Timestamp,
}

impl Sweep {
    pub(crate) fn new(config: &Config, ports: &Ports) -> Sweep {
        Sweep {
            hours: config.delivery_hours.clone(),
            has_quarantine_queue: ports.quarantine_queue.is_some(),
            has_notices: ports.notice_target.is_some(),
            batch_store: ports.batch_store.clone(),
            batch_queue: ports.batch_queue.clone(),
            named_items: ports.named_items.clone(),
            metric_log: ports.metric_log.clone(),
            concurrency: config.common.write_concurrency,
        }
    }

    /// Sends a ticket for each overdue batch, and for each old one in error, the oldest first, until the time is over. Then reads `answers`.
    ///
    /// # Errors
    /// [`PortError`] when the batch table could not be read in time. The batches that were found have their tickets then; the next sweep
    /// reads it again.
    pub(crate) async fn run(
        &self,
        answers: Option<&Answers>,
        invocation: &Invocation,
        budgets: &Budgets<'_>,
    ) -> Result<Swept, PortError> {
        let budget = &budgets.work;
        let rules = self.rules(budget).await;
        let (mut swept, mut resends, unread) = self.find(&rules, budget).await;
        swept.tickets_left = resends.len();
        self.leave_out_waiting(&mut resends, budget).await;
        self.resend(&resends, budgets, &mut swept).await;
        info!(
            overdue_count = swept.overdue,
            tickets_count = swept.tickets_sent,
            left_count = swept.tickets_left,
            cut_short = swept.cut_short,
            processing_count = swept.processing,
            error_count = swept.in_error,
            oldest_overdue_age_ms = swept.oldest_overdue_age_ms,
            oldest_error_age_ms = swept.oldest_error_age_ms,
            "sweep done"
        );
        // After the tickets: they are what others wait for.
        if let Some(answers) = answers {
            swept.answers = Some(answers.run(budget).await);
        }
        if let Some(error) = unread {
            return Err(error);
        }
        self.write_metrics(&swept, invocation, rules.now);
        Ok(swept)
    }

    /// Reads what decides about all batches. If the pauses cannot be read, the batches that wait for a pause are left to the next sweep.
    async fn rules(&self, budget: &Budget<'_>) -> SweepRules {
        let read = || self.named_items.get::<Pauses>(&());
        let pauses = budget.call(RetryPolicy::CONTROL, read).await;
        let now = budget.clock.now();
        SweepRules {
            now,
            opening: self.next_opening(now),
            pauses: pauses
                .inspect_err(|error| warn!(%error, "pauses not read"))
                .unwrap_or_default()
                .value,
            has_quarantine_queue: self.has_quarantine_queue,
            has_notices: self.has_notices,
        }
    }

    /// Returns when the hours of delivery begin, if a ticket can be sent for that time.
    fn next_opening(&self, now: Timestamp) -> Option<Timestamp> {
        let opens = self.hours.as_ref()?.closed_until(now)?;
        (now.until(opens + CLOCK_SKEW_MAX) < SQS_DELAY_MAX).then_some(opens)
    }

    /// Counts the batches, and returns the tickets to send, the oldest first, with the error of a list that was not read.
    async fn find(
        &self,
        rules: &SweepRules,
        budget: &Budget<'_>,
    ) -> (Swept, Vec<Resend>, Option<PortError>) {
        let mut swept = Swept::default();
        let mut unread = None;
        let (mut resends, mut notices) = (Vec::new(), Vec::new());
        // At most half of the time, so that there is time for tickets.
        let budget = &budget.half();
        let concurrency = self.concurrency.max(STATUS_SHARDS.into());
        let lists = read_lists(&*self.batch_store, rules.lists(), concurrency, budget);
        for (listing, list) in lists.await {
            let list = match list {
                // Deliveries come first: overdue batches get their tickets all the same.
                Err(error) if listing == Listing::Notices => {
                    error!(%error, "batches whose notices wait are not found; the next sweep looks again");
                    continue;
                }
                Err(error) => {
                    unread = Some(error);
                    continue;
                }
                Ok(list) => list,
            };
            swept.cut_short |= list.is_cut;
            swept.count(listing, &list.batches, rules.now);
            for batch in list.batches {
                let Some(wake) = rules.wake(listing, batch.batch_id, batch.due_at) else {
                    continue;
                };
                let at = rules.ticket_at(wake, batch.due_at);
                let resend = Resend { batch, wake, at };
                match wake == Wake::Notice {
                    true => notices.push(resend),
                    false => resends.push(resend),
                }
            }
        }
        if rules.has_notices {
            let batches = notices.iter().map(|resend| &resend.batch);
            swept.oldest_notice_age_ms = Some(age_ms(batches, rules.now));
            swept.notices_waiting = Some(notices.len());
            notices.sort_unstable_by_key(Resend::age);
            notices.truncate(NOTICE_TICKETS_MAX);
        }
        resends.append(&mut notices);
        resends.sort_unstable_by_key(Resend::age);
        (swept, resends, unread)
    }

    /// Leaves out the newest, as many as there are tickets in the queue. Batches that have their ticket there need no other, and the queue
    /// would grow faster than it is worked off. The oldest always get one, in case theirs was lost.
    async fn leave_out_waiting(&self, resends: &mut Vec<Resend>, budget: &Budget<'_>) {
        if resends.len() <= SWEEP_TICKETS_MIN {
            return;
        }
        let depth = budget.call(RetryPolicy::CONTROL, || self.batch_queue.depth());
        match depth.await {
            Ok(depth) => {
                let without = resends.len().saturating_sub(depth.visible as usize);
                resends.truncate(without.max(SWEEP_TICKETS_MIN));
            }
            Err(error) => warn!(%error, "depth of the batch queue not read"),
        }
    }

    /// Sends the tickets, and moves the due times of the batches that got one.
    async fn resend(&self, resends: &[Resend], budgets: &Budgets<'_>, swept: &mut Swept) {
        let mut problem = None;
        for wave in resends.chunks(SQS_BATCH_ENTRIES_MAX * self.concurrency) {
            if !budgets.work.has_time() {
                swept.cut_short = true;
                break;
            }
            let all = wave.len();
            let wave = self.without_ticket(wave, &budgets.work).await;
            swept.tickets_left -= all - wave.len();
            let tickets = Vec::from_iter(wave.iter().map(|resend| resend.ticket()));
            let queue = &*self.batch_queue;
            let sent = send_tickets(queue, &tickets, self.concurrency, &budgets.work);
            let mut resent = Vec::new();
            for (resend, sent) in wave.into_iter().zip(sent.await) {
                match sent {
                    Ok(()) => resent.push(self.move_due_time(resend, &budgets.wrap_up)),
                    Err(Unsent::OutOfTime) => swept.cut_short = true,
                    Err(Unsent::Refused(error)) => problem = Some(error),
                }
            }
            swept.tickets_sent += resent.len();
            swept.tickets_left -= resent.len();
            let written = bounded(resent, self.concurrency).await;
            problem = written.into_iter().find_map(Result::err).or(problem);
        }
        if let Some(error) = problem {
            warn!(%error, "tickets not sent, or batches that the next sweep may send another one");
        }
    }

    /// Leaves out the batches whose window ends and that have a ticket, as their records say.
    async fn without_ticket<'r>(&self, wave: &'r [Resend], budget: &Budget<'_>) -> Vec<&'r Resend> {
        let looks = wave.iter().map(|resend| async move {
            if resend.wake != Wake::Window {
                return Some(resend);
            }
            let read = || self.batch_store.read(resend.batch.batch_id);
            match budget.call(RetryPolicy::CONTROL, read).await {
                Ok(record) => record?.awaits_first_ticket().then_some(resend),
                Err(_) => Some(resend),
            }
        });
        let looks = bounded(looks.collect(), self.concurrency).await;
        let mut without: Vec<&Resend> = looks.into_iter().flatten().collect();
        without.sort_unstable_by_key(|resend| resend.age());
        without
    }

    /// Moves the due time of a batch that got a ticket, so that the next sweep sends no second one while the first may wait in the
    /// queue.
    async fn move_due_time(&self, resend: &Resend, budget: &Budget<'_>) -> Result<(), PortError> {
        let write = BatchWrite::TicketResent {
            was_due_at: resend.batch.due_at,
            due_at: budget.clock.now().max(resend.at) + TICKET_RESEND_AFTER,
        };
        let batch = resend.batch.batch_id;
        budget.write(&*self.batch_store, batch, &write).await?;
        Ok(())
    }

    fn write_metrics(&self, swept: &Swept, invocation: &Invocation, now: Timestamp) {
        let of_answers =
            |count: fn(&AnswersRead) -> u64| swept.answers.as_ref().map(count).map(Level);
        let metrics = SweepMetrics {
            batches_overdue: Level(swept.overdue as u64),
            batches_processing: Level(swept.processing as u64),
            batches_in_error: Level(swept.in_error as u64),
            oldest_overdue_age: OldestAge(swept.oldest_overdue_age_ms),
            oldest_error_age: OldestAge(swept.oldest_error_age_ms),
            notices_waiting: swept.notices_waiting.map(|count| Level(count as u64)),
            oldest_notice_age: swept.oldest_notice_age_ms.map(OldestAge),
            events_accepted: of_answers(|answers| answers.accepted),
            events_rejected: of_answers(|answers| answers.rejected),
            events_silent: of_answers(|answers| answers.silent),
            answer_problems: of_answers(|answers| answers.problems + answers.contradicted),
        };
        let about = About {
            function: &invocation.function,
            source: ALL_SOURCES,
            at: now,
        };
        write_line(&*self.metric_log, about, &metrics);
    }
}

impl Swept {
    /// Counts the batches of a list, which are in the order of their due times.
    fn count(&mut self, listing: Listing, batches: &[Overdue], now: Timestamp) {
        match listing {
            Listing::Status(Status::Error) => {
                self.in_error += batches.len();
                self.oldest_error_age_ms = self.oldest_error_age_ms.max(age_ms(batches, now));
                return;
            }
            Listing::Status(Status::Processing) => self.processing += batches.len(),
            Listing::Status(Status::Open | Status::Sealed) => {}
            Listing::Notices | Listing::Answers => return,
        }
        self.overdue += batches.partition_point(|batch| batch.due_at < now);
        let oldest = batches.first().map(|batch| batch.due_at.until(now));
        let oldest_ms = oldest.map_or(0, |age| age.as_millis() as u64);
        self.oldest_overdue_age_ms = self.oldest_overdue_age_ms.max(oldest_ms);
    }
}

impl Resend {
    /// Returns the sort key of resends, the oldest first.
    fn age(&self) -> (Timestamp, BatchId) {
        (self.batch.due_at, self.batch.batch_id)
    }

    /// Returns the ticket, and when it should arrive.
    fn ticket(&self) -> (Ticket, Timestamp) {
        let reason = match self.wake {
            Wake::Quarantine => TicketReason::Quarantine,
            Wake::Due | Wake::Opening | Wake::Window | Wake::Notice => TicketReason::Sweep,
        };
        let ticket = Ticket {
            source: Some(self.batch.source.clone()),
            traces: Links::of_present(),
            ..Ticket::new(self.batch.batch_id, reason)
        };
        (ticket, self.at)
    }
}

/// Returns the milliseconds since the oldest batch was opened; 0 if there is none.
fn age_ms<'b>(batches: impl IntoIterator<Item = &'b Overdue>, now: Timestamp) -> u64 {
    let opened = batches.into_iter().map(|batch| batch.batch_id.opened_at());
    opened
        .min()
        .map_or(0, |at| at.until(now).as_millis() as u64)
}
