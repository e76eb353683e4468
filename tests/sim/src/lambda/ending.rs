//! The end of a history: whether everything has drained, and the promises that hold then.

use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::claim::{DuplicateRule, LockItem};
use protocol::ids::EventId;
use protocol::invariants::Check;

use super::Run;
use crate::checks;
use crate::environment::lock;
use crate::world::World;
use crate::world::lock_table::live_seat;

impl Run {
    /// Returns whether every message, ticket, invocation and batch has come to its end.
    pub(super) fn drained(&self) -> bool {
        let world = lock(&self.world);
        let is_open = |record: &BatchRecord| record.listing().is_some();
        !world.faulty
            && self.unsent == 0
            && !self.input_stopped
            && self.tasks.is_empty()
            && world.inputs.iter().all(|queue| queue.is_empty())
            && world.tickets.is_empty()
            && !world.batches.records().iter().any(is_open)
    }

    /// Describes what has not drained.
    pub(super) fn left(&self) -> String {
        let world = lock(&self.world);
        let inputs = world.inputs.iter();
        let waiting = inputs.filter(|queue| !queue.is_empty()).count();
        let mut open = world.batches.records();
        open.retain(|record| record.listing().is_some());
        format!(
            "after {} steps: {} to be sent, {waiting} queues, {:?} tickets, {} invocations, batches {open:?}",
            self.steps,
            self.unsent,
            world.tickets.depth(world.now_ms),
            self.tasks.len()
        )
    }

    /// Checks the promises that can be checked only when everything has drained.
    pub(super) fn check_the_end(&mut self) {
        let mut world = lock(&self.world);
        report_dead_letters(&mut world);
        let mut checks = self.messages_ended(&world);
        checks.push(self.no_claim_is_left(&world));
        checks.extend(world.quotas_are_used_up());
        checks.extend(world.dropped_are_reported());
        checks.extend(world.reads_are_few());
        world.check_rate_reached();
        checks.push(checks::p7_every_notice_is_sent(&world.unsent_notices()));
        if self.plan.calm {
            // The first ticket is for the end of the window; a ticket that is visible at once is for the seal.
            let tickets = &world.ledger.tickets;
            for record in world.batches.records() {
                let at_once = tickets.get(&record.batch_id).copied().flatten();
                let check = |at| checks::p6_a_sealed_batch_starts_at_once(at, at_once);
                checks.extend(record.sealed_at.map(check));
            }
        }
        for check in checks {
            world.check(check);
        }
    }

    /// Checks P1 and P8 for every message that was sent.
    fn messages_ended(&self, world: &World) -> Vec<Check> {
        let may_drop = self.plan.ever(DuplicateRule::Drop);
        let timeout = Duration::from_millis(self.plan.aggregator_timeout_ms);
        let answer_time_max = timeout + self.plan.excess_skew();
        let mut checks = Vec::new();
        for message in &world.ledger.messages {
            checks.push(checks::p8_what_cannot_be_read_is_reported(message));
            checks.push(checks::p1_acknowledged_means_delivered_or_reported(
                message,
                world.ledger.claims_for(message),
                may_drop,
                answer_time_max,
            ));
        }
        checks
    }

    /// Checks P7 for the lock table.
    ///
    /// After a switch to the log, nobody looks at claims that had no batch any more. Their messages come again, and are decided there.
    ///
    /// Three other kinds of live claims may stay, because a later message can replace each of them: without a dedup window, a
    /// write that arrives after the release of its event; a claim whose release was cut off, and which the index hid
    /// until its batch was complete; a write that arrives after its message was acknowledged because of another claim.
    fn no_claim_is_left(&self, world: &World) -> Check {
        let has_window = self.plan.dedup_window_min_secs() > 0;
        let left: Vec<String> = world
            .locks
            .items()
            .into_iter()
            .filter(|(id, item)| {
                has_window
                    && item.expires_at().is_none()
                    && is_left(world, id, item)
                    && !self.is_in_log(world, id)
            })
            .map(|(id, item)| format!("{id} {item:?}"))
            .collect();
        checks::p7_no_claim_is_left(&left)
    }

    /// Returns whether an event won in the log to which the history switched.
    fn is_in_log(&self, world: &World, id: &EventId) -> bool {
        let mut claims = world.ledger.claims_of(id).iter();
        let ends_in_log = self.plan.switch.is_some_and(|(_, to)| to.is_log());
        ends_in_log && claims.any(|one| one.window.is_some())
    }
}

/// Marks the messages in the dead letter queues as reported.
fn report_dead_letters(world: &mut World) {
    let left = world.inputs.iter().flat_map(|queue| &queue.dead_letters);
    let collected = world.dead.iter().flat_map(|queue| queue.all());
    let dead: Vec<usize> = left.chain(collected).copied().collect();
    for index in dead {
        world.note("dead letter", || index.to_string());
        world.ledger.messages[index].reported = true;
    }
}

/// Returns whether an item is a live claim of none of the three kinds that may stay.
fn is_left(world: &World, id: &EventId, item: &LockItem) -> bool {
    let Some(seat) = live_seat(item) else {
        return false;
    };
    if world.ledger.seat_delivered(id, seat)
        || world.ledger.seat_set_aside(id, seat)
        || world.ledger.came_too_late(id, seat)
    {
        return false;
    }
    let sent = world.ledger.message(&item.sqs_message_id);
    sent.is_none_or(|sent| !sent.reported)
}
