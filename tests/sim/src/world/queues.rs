//! The batch queue, the input queues' depth, and the quarantine.

use std::time::Duration;

use protocol::batch::Status;
use protocol::ids::{SlotId, SourceArn};
use shared::ports::{Quarantined, QueueDepth};
use shared::wire::{Ticket, TicketReason};

use super::World;
use crate::checks;
use crate::plan::SKEW_MAX_MS;
use crate::sources::source_index;

/// How old a batch gets before the sweep has it set aside.
const BATCH_LIFE: Duration = Duration::from_secs(10 * 86_400);

impl World {
    pub fn ticket_of_function(&mut self, ticket: &Ticket, delay: Duration) {
        if ticket.reason == Some(TicketReason::Quarantine) {
            let opened_at = ticket.batch_id.opened_at();
            let is_old = opened_at + BATCH_LIFE <= self.now() + 2 * self.plan.skew_max();
            let check = checks::p8_no_young_batch_is_set_aside(ticket.batch_id, is_old);
            self.check(check);
        }
        self.ticket(ticket, delay);
    }

    /// A ticket arrives at the batch queue.
    pub fn ticket(&mut self, ticket: &Ticket, delay: Duration) {
        let (batch, now) = (ticket.batch_id, self.now());
        self.note("ticket", || {
            format!("{} in {} s", ticket.to_body(), delay.as_secs())
        });
        let visible_at = now + delay;
        let record = self.batches.get(batch);
        if self.plan.calm
            && ticket.reason == Some(TicketReason::Sweep)
            && let Some(record) = &record
        {
            let again = record.period.is_some()
                && record.status == Some(Status::Open)
                && now < record.closes_at
                && self.ledger.tickets.contains_key(&batch);
            self.check(checks::p6_a_batch_gets_one_first_ticket(batch, again));
        }
        let at_once = self.ledger.tickets.entry(batch).or_default();
        if visible_at == now {
            at_once.get_or_insert(now);
        }
        // A batch of a period has its first ticket from the sweep.
        let of_first = record.filter(|record| match ticket.reason {
            Some(TicketReason::Window) => true,
            Some(TicketReason::Sweep) => record.awaits_first_ticket(),
            _ => false,
        });
        if let Some(closes_at) = of_first.map(|record| record.closes_at) {
            if self.plan.calm {
                let check = checks::p6_a_ticket_comes_when_the_window_ends(closes_at, visible_at);
                self.check(check);
            }
            if !self.plan.is_wild() {
                let behind_max = Duration::from_millis(SKEW_MAX_MS as u64);
                let check =
                    checks::p6_a_ticket_is_early_by_no_clock(closes_at, visible_at, behind_max);
                self.check(check);
            }
        }
        let faults = self.plan.faults.clone();
        let copies = match self.strikes_as(faults.lose_ticket, "ticket lost") {
            true => 0,
            false => 1 + u32::from(self.strikes_as(faults.repeat_ticket, "ticket repeated")),
        };
        for _ in 0..copies {
            let mut delay_ms = delay.as_millis() as u64;
            if self.strikes_as(faults.early_ticket, "ticket early") {
                delay_ms = self.rng.u64(0..=delay_ms);
            }
            let visible_at_ms = self.now_ms + delay_ms;
            self.tickets.send(ticket.to_body(), visible_at_ms);
            self.poll_by(self.plan.sources, visible_at_ms);
        }
    }

    /// Makes a ticket visible again after a delay, unless it was deleted.
    pub fn retry_ticket(&mut self, receipt: u64, delay: Duration) {
        let visible_at_ms = self.now_ms + delay.as_millis() as u64;
        self.tickets.set_visible(receipt, visible_at_ms);
        self.poll_by(self.plan.sources, visible_at_ms);
    }

    /// Returns the depth of an input queue; with a fault, random numbers.
    pub fn depth(&mut self, source: &SourceArn) -> QueueDepth {
        if !self.strikes_as(self.plan.faults.depth_wrong, "depth wrong") {
            return self.inputs[source_index(source)].depth(self.now_ms);
        }
        let mut some = || match self.rng.bool() {
            true => self.rng.u64(1..50),
            false => 0,
        };
        QueueDepth {
            visible: some(),
            in_flight: some(),
            delayed: some(),
        }
    }

    /// A message arrives in the quarantine.
    pub fn quarantine(&mut self, message: &Quarantined) {
        self.note("quarantined", || {
            format!("{}: {}", message.sqs_message_id, message.reason)
        });
        self.check_conflict(message);
        if let Some(slot) = slot_id(message.sqs_message_id.as_str()) {
            self.slot_reported_lost(slot, &message.body);
        }
        if let Some(sent) = self.ledger.message(&message.sqs_message_id) {
            let check = checks::p8_the_quarantine_has_what_was_sent(message, sent);
            self.check(check);
        }
        let now_ms = self.now_ms;
        self.quarantined.send((now_ms, message.clone()), now_ms);
        let edited = self.ledger.edited.contains(&message.sqs_message_id);
        if let Some(sent) = self.ledger.message_mut(&message.sqs_message_id)
            && (*sent.body == *message.body || edited)
            && !message.reason.is_empty()
        {
            sent.reported = true;
        }
    }
}

fn slot_id(text: &str) -> Option<SlotId> {
    let (batch, number) = text.split_once('/')?;
    Some(SlotId {
        batch: batch.parse().ok()?,
        number: number.parse().ok()?,
    })
}
