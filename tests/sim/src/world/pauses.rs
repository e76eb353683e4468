//! An operator pauses deliveries, and resumes some of them before their end.

use std::time::Duration;

use protocol::batch::Status;
use protocol::ids::{BatchId, LeaseOwner, SourceArn};
use protocol::pause::Pause;
use shared::wire::{Ticket, TicketReason};
use sinks::Part;

use super::World;
use crate::checks;
use crate::sources::source;

impl World {
    /// Makes a pause of the plan.
    pub fn pause(&mut self, index: usize) {
        let planned = self.plan.pauses[index].clone();
        let now = self.now();
        let pause = Pause {
            source: planned.source.map(source),
            batch_key: planned.key,
            until: now + Duration::from_millis(planned.length_ms),
            at: now,
            by: "operator".to_owned(),
            why: "simulated".to_owned(),
        };
        self.note("paused", || format!("{pause:?}"));
        let stored = &mut self.pauses.stored;
        stored.pauses.retain(|other| !other.has_scope_of(&pause));
        stored.pauses.push(pause);
        stored.version += 1;
    }

    /// Ends a pause of the plan, and sends a ticket to each batch that may have waited for its end, as `batchctl` does.
    pub fn resume(&mut self, index: usize) {
        let planned = self.plan.pauses[index].clone();
        let scope = (planned.source.map(source), planned.key);
        self.note("resumed", || format!("{scope:?}"));
        let stored = &mut self.pauses.stored;
        let is_other = |pause: &Pause| (&pause.source, &pause.batch_key) != (&scope.0, &scope.1);
        stored.pauses.retain(is_other);
        stored.version += 1;
        let of_source = |arn: &SourceArn| scope.0.as_ref().is_none_or(|wanted| wanted == arn);
        let waiting: Vec<BatchId> = self
            .batches
            .records()
            .into_iter()
            .filter(|record| record.status == Some(Status::Processing) && of_source(&record.source))
            .filter(|record| scope.1.is_none() || record.batch_key == scope.1)
            .map(|record| record.batch_id)
            .collect();
        for batch in waiting {
            self.ticket(&Ticket::new(batch, TicketReason::Sweep), Duration::ZERO);
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
