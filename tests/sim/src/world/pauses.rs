//! An operator pauses deliveries, and resumes some of them before their end.

use std::time::Duration;

use protocol::batch::{BatchRecord, Status};
use protocol::ids::{BatchId, LeaseOwner};
use protocol::pause::Pause;
use shared::wire::{Ticket, TicketReason};
use sinks::Part;

use super::World;
use crate::checks;
use crate::pauses::PlannedPause;

impl World {
    /// Makes a pause of the plan.
    pub fn pause(&mut self, index: usize) {
        let planned = self.plan.pauses[index].clone();
        let now = self.now();
        let (source, batch_key) = planned.scope();
        let pause = Pause {
            source,
            batch_key,
            until: now + Duration::from_millis(planned.length_ms),
            at: now,
            by: "operator".to_owned(),
            why: "simulated".to_owned(),
        };
        self.note("paused", || format!("{pause:?}"));
        self.pauses.made.push(pause.clone());
        self.pauses.stored.pause(pause, now);
        self.pauses_written(&planned);
    }

    /// Ends a pause of the plan.
    pub fn resume(&mut self, index: usize) {
        let planned = self.plan.pauses[index].clone();
        let (scope, now) = (planned.scope(), self.now());
        self.note("resumed", || format!("{scope:?}"));
        self.pauses.stored.resume(&scope.0, &scope.1, now);
        self.pauses_written(&planned);
    }

    /// Sends a ticket to each batch that waits for a pause that was resumed or replaced, as `batchctl` does.
    fn pauses_written(&mut self, planned: &PlannedPause) {
        let stored = &mut self.pauses.stored;
        stored.version += 1;
        if !planned.sends_tickets {
            return;
        }
        let waits = |record: &BatchRecord| {
            record.status == Some(Status::Processing)
                && stored.were_lifted_for(record.batch_id, record.due_at)
        };
        let waiting = self.batches.records().into_iter().filter(waits);
        for record in Vec::from_iter(waiting) {
            let ticket = Ticket::new(record.batch_id, TicketReason::Sweep);
            self.ticket(&ticket, Duration::ZERO);
        }
    }

    /// Records that an environment took the lease of a batch. The write may be applied again, later.
    pub fn leased(&mut self, environment: u64, batch: BatchId, owner: &LeaseOwner) {
        let key = (environment, batch);
        let earlier = self.pauses.leased.get(&key);
        if earlier.is_none_or(|(other, _)| other != owner) {
            let leased = (owner.clone(), self.now());
            self.pauses.leased.insert(key, leased);
        }
    }

    /// Checks that a delivery which begins now may begin: its lease was taken before every pause of its batch.
    pub fn check_not_paused(&mut self, environment: u64, part: &Part) {
        let leased = self.pauses.leased.get(&(environment, part.batch_id));
        let (now, skew) = (self.now(), self.plan.skew_max_ms as u64);
        let check = checks::p7_no_delivery_begins_in_a_pause(
            &self.pauses.stored.pauses,
            part,
            leased.map(|(_, at)| *at),
            now + Duration::from_millis(skew),
        );
        self.check(check);
    }
}
