//! The batch queue, the input queues' depth, and the quarantine.

use std::time::Duration;

use protocol::batch::Status;
use protocol::ids::{SlotId, SourceArn};
use shared::ports::{PortError, Quarantined, QueueDepth};
use shared::wire::{Ticket, TicketReason};

use super::World;
use crate::checks;
use crate::clocks::SKEW_MAX_MS;
use crate::ledger::Accepted;
use crate::request_outcome::{throttled, unanswered};
use crate::sources::source_index;

/// How old a batch gets before the sweep has it set aside.
const BATCH_LIFE: Duration = Duration::from_secs(10 * 86_400);

impl World {
    /// A function sends a ticket.
    pub fn ticket_of_function(&mut self, ticket: &Ticket, delay: Duration) {
        if ticket.reason == Some(TicketReason::Quarantine) {
            let skew = Duration::from_millis(self.plan.skew_max_ms as u64);
            let opened_at = ticket.batch_id.opened_at();
            let is_old = opened_at + BATCH_LIFE <= self.now() + 2 * skew;
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
        if self.plan.calm
            && ticket.reason == Some(TicketReason::Sweep)
            && let Some(record) = self.batches.get(batch)
        {
            let again = record.period.is_some()
                && record.status == Some(Status::Open)
                && now < record.closes_at
                && self.ledger.tickets.contains_key(&batch);
            self.check(checks::p6_a_batch_gets_one_first_ticket(batch, again));
        }
        self.ledger
            .tickets
            .entry(batch)
            .or_default()
            .push(Accepted {
                at: now,
                visible_at,
            });
        // A batch of a period has its first ticket from the sweep.
        let is_first = |reason| match reason {
            TicketReason::Window => true,
            TicketReason::Sweep => {
                let record = self.batches.get(batch);
                record.is_some_and(|record| record.awaits_first_ticket())
            }
            _ => false,
        };
        let is_first = ticket.reason.is_some_and(is_first);
        if self.plan.calm
            && is_first
            && let Some(record) = self.batches.get(batch)
        {
            let check =
                checks::p6_a_ticket_comes_when_the_window_ends(record.closes_at, visible_at);
            self.check(check);
        }
        if is_first && let Some(record) = self.batches.get(batch) {
            let behind_max = Duration::from_millis(SKEW_MAX_MS as u64);
            let tame = self.plan.skew_max_ms <= SKEW_MAX_MS;
            self.check(if !tame {
                Ok(())
            } else {
                checks::p6_a_ticket_is_early_by_no_clock(record.closes_at, visible_at, behind_max)
            });
        }
        let faults = self.plan.faults.clone();
        let copies = if self.strikes_as(faults.lose_ticket, "ticket lost") {
            0
        } else {
            1 + u32::from(self.strikes_as(faults.repeat_ticket, "ticket repeated"))
        };
        for _ in 0..copies {
            let early = self.strikes_as(faults.early_ticket, "ticket early");
            let delay_ms = delay.as_millis() as u64;
            let delay_ms = if early {
                self.rng.u64(0..=delay_ms)
            } else {
                delay_ms
            };
            let visible_at_ms = self.now_ms + delay_ms;
            self.tickets.send(ticket.to_body(), visible_at_ms);
            self.poll_by(self.plan.sources, visible_at_ms);
        }
    }

    /// Tickets arrive in one request; each of them may fail alone.
    pub fn take_tickets(&mut self, tickets: &[(Ticket, Duration)]) -> Vec<Result<(), PortError>> {
        let faults = self.plan.faults.clone();
        let arrives = |(ticket, delay): &(Ticket, Duration)| {
            if self.strikes(faults.throttle_member) {
                return Err(throttled());
            }
            self.ticket_of_function(ticket, *delay);
            match self.strikes(faults.unknown_member) {
                true => Err(unanswered()),
                false => Ok(()),
            }
        };
        tickets.iter().map(arrives).collect()
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
    pub fn quarantine(&mut self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        messages
            .iter()
            .map(|message| {
                let faults = self.plan.faults.clone();
                if self.strikes(faults.throttle_member) {
                    return Err(throttled());
                }
                self.note("quarantined", || {
                    format!("{}: {}", message.sqs_message_id, message.reason)
                });
                self.check_conflict(message);
                if let Some(slot) = slot_id(message.sqs_message_id.as_str()) {
                    self.slot_reported_lost(slot, &message.body);
                }
                if message.reason.starts_with("`QUOTA` exceeded") {
                    self.beyond_quota(message);
                }
                if let Some(sent) = self.ledger.message(&message.sqs_message_id).cloned() {
                    self.check(checks::p8_the_quarantine_has_what_was_sent(message, &sent));
                }
                let now_ms = self.now_ms;
                self.quarantined.send((now_ms, message.clone()), now_ms);
                let edited = self.ledger.edited.contains(&message.sqs_message_id);
                if let Some(sent) = self.ledger.message(&message.sqs_message_id)
                    && (*sent.body == *message.body || edited)
                    && !message.reason.is_empty()
                {
                    sent.reported = true;
                }
                if self.strikes(faults.unknown_member) {
                    return Err(unanswered());
                }
                Ok(())
            })
            .collect()
    }
}

fn slot_id(text: &str) -> Option<SlotId> {
    let (batch, number) = text.split_once('/')?;
    Some(SlotId {
        batch: batch.parse().ok()?,
        number: number.parse().ok()?,
    })
}
