//! Pauses of deliveries, which an operator makes and some of which are resumed before their end.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use protocol::batch::Status;
use protocol::ids::{BatchId, BatchKey, LeaseOwner, SourceArn};
use protocol::invariants::{Check, hold};
use protocol::pause::Pause;
use protocol::time::Timestamp;
use shared::ports::{PauseStore, Pauses, PortError};
use shared::wire::{Ticket, TicketReason};
use sinks::Part;

use crate::environment::{Environment, lock};
use crate::sources::source;
use crate::world::World;

/// A pause of a plan. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedPause {
    pub at_ms: u64,
    pub length_ms: u64,
    /// The number of the source; `None` for all.
    pub source: Option<usize>,
    /// The batch key; `None` for any or none.
    pub key: Option<BatchKey>,
    /// Time after which it is resumed, if somebody does that.
    pub resumed_after_ms: Option<u64>,
}

impl PlannedPause {
    /// Draws a pause that begins before `until_ms`.
    pub fn draw(rng: &mut Rng, until_ms: u64, sources: usize, keys: usize) -> PlannedPause {
        let at_ms = rng.u64(0..until_ms);
        let length_ms = [5_000, 60_000, 900_000][rng.usize(..3)];
        let source = rng.bool().then(|| rng.usize(..sources));
        let key = (keys > 0 && rng.bool()).then(|| {
            let key = format!("k{}", rng.usize(..keys));
            key.parse().expect("a short text is a key")
        });
        PlannedPause {
            at_ms,
            length_ms,
            source,
            key,
            resumed_after_ms: rng.bool().then(|| rng.u64(..length_ms)),
        }
    }
}

/// What a history knows about its pauses.
#[derive(Debug, Default)]
pub struct PauseTable {
    /// What the functions read.
    stored: Pauses,
    /// The last owner of a batch's lease in an environment, and when it first had the lease.
    leased: BTreeMap<(u64, BatchId), (LeaseOwner, Timestamp)>,
}

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
    fn check_not_paused(&mut self, environment: u64, part: &Part) {
        let leased = self.pauses.leased.get(&(environment, part.batch_id));
        let (now, skew) = (self.now(), self.plan.skew_max_ms as u64);
        let check = no_delivery_begins_in_a_pause(
            &self.pauses.stored.pauses,
            part,
            leased.map(|(_, at)| *at),
            now + Duration::from_millis(skew),
        );
        self.check(check);
    }
}

/// A paused batch stays where it is: whoever takes its lease after the pause was made delivers nothing of it.
fn no_delivery_begins_in_a_pause(
    pauses: &[Pause],
    part: &Part,
    leased_at: Option<Timestamp>,
    latest_now: Timestamp,
) -> Check {
    let overlooked = pauses.iter().find(|pause| {
        pause.covers(&part.source, part.batch_key.as_ref())
            && latest_now < pause.until
            && leased_at.is_none_or(|at| pause.at < at)
    });
    hold(
        "P7 no_delivery_begins_in_a_pause",
        overlooked.is_none(),
        || format!("{}, leased at {leased_at:?}, in {overlooked:?}", part.key()),
    )
}

impl Environment {
    /// Checks that a delivery may begin.
    pub fn check_not_paused(&self, part: &Part) {
        lock(self.world()).check_not_paused(self.number(), part);
    }
}

#[async_trait]
impl PauseStore for Environment {
    async fn read(&self) -> Result<Pauses, PortError> {
        // A history without pauses takes the same course as before there were pauses.
        if lock(self.world()).plan.pauses.is_empty() {
            return Ok(Pauses::default());
        }
        self.request(|world| world.pauses.stored.clone()).await
    }

    async fn write(&self, _: &Pauses) -> Result<bool, PortError> {
        unreachable!("only operators write pauses")
    }
}
