//! The end of a history: whether everything has drained, and the promises that hold then.

use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::claim::{DuplicateRule, LockItem, LockState};
use protocol::ids::{EventId, SeatKey};
use protocol::invariants::Check;

use super::Run;
use crate::checks;
use crate::environment::lock;
use crate::ledger::Occurrence;
use crate::world::World;

impl Run {
    /// Returns whether every message, ticket, invocation and batch has come to its end.
    pub(super) fn drained(&self) -> bool {
        let world = lock(&self.world);
        !world.faulty
            && self.unsent == 0
            && !self.input_stopped
            && self.tasks.is_empty()
            && world.inputs.iter().all(|queue| queue.is_empty())
            && world.tickets.is_empty()
            && world
                .batches
                .records()
                .iter()
                .all(|record| record.listing().is_none())
    }

    /// Describes what has not drained.
    pub(super) fn left(&self) -> String {
        let world = lock(&self.world);
        let waiting = world
            .inputs
            .iter()
            .filter(|queue| !queue.is_empty())
            .count();
        let open: Vec<String> = world
            .batches
            .records()
            .iter()
            .filter(|record| record.listing().is_some())
            .map(|record| format!("{record:?}"))
            .collect();
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
            let records = world.batches.records();
            checks.extend(
                records
                    .iter()
                    .filter_map(|record| starts_at_once(&world, record)),
            );
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
            let claims = message
                .event_id
                .as_ref()
                .and_then(|id| world.ledger.occurrences.get(id));
            checks.push(checks::p1_acknowledged_means_delivered_or_reported(
                message,
                claims.map(Vec::as_slice).unwrap_or_default(),
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
        let all = world.ledger.occurrences.get(id);
        let is_of_log = |one: &Occurrence| one.window.is_some();
        let ends_in_log = self.plan.switch.is_some_and(|(_, to)| to.is_log());
        ends_in_log && all.is_some_and(|all| all.iter().any(is_of_log))
    }
}

/// Marks the messages in the dead letter queues as reported.
fn report_dead_letters(world: &mut World) {
    let dead: Vec<usize> = world
        .inputs
        .iter()
        .flat_map(|queue| queue.dead_letters.iter())
        .chain(world.dead.iter().flat_map(|queue| queue.all()))
        .copied()
        .collect();
    for index in dead {
        world.note("dead letter", || index.to_string());
        world.ledger.messages[index].reported = true;
    }
}

/// Returns whether an item is a live claim of none of the three kinds that may stay.
fn is_left(world: &World, id: &EventId, item: &LockItem) -> bool {
    let LockState::Live { shard, seq } = item.state else {
        return false;
    };
    let seat = SeatKey { shard, seq };
    if world.ledger.seat_delivered(id, seat)
        || world.ledger.seat_set_aside(id, seat)
        || world.ledger.came_too_late(id, seat)
    {
        return false;
    }
    let sent = world.ledger.by_id.get(&item.sqs_message_id);
    sent.is_none_or(|index| !world.ledger.messages[*index].reported)
}

/// Checks P6 for a batch that was sealed.
fn starts_at_once(world: &World, record: &BatchRecord) -> Option<Check> {
    let sealed_at = record.sealed_at?;
    // The first ticket is for the end of the window; a ticket that is visible at once is for the seal.
    let tickets = world.ledger.tickets.get(&record.batch_id);
    let at_once = tickets.and_then(|tickets| {
        let at_once = tickets.iter().find(|one| one.visible_at == one.at);
        at_once.map(|one| one.at)
    });
    Some(checks::p6_a_sealed_batch_starts_at_once(sealed_at, at_once))
}
