//! The pauses of deliveries, which operators make and end.

use std::time::Duration;

use protocol::batch::{BatchRecord, BatchWrite};
use protocol::ids::{BatchId, LeaseOwner};
use protocol::pause::{Pause, Pauses};
use sinks::Part;

use super::World;
use crate::checks;
use crate::pauses::{KnownPause, Subject};
use crate::sources::source_index;

/// How long after a pause has ended, and a sweep after that has begun, the delivery of a batch begins that waited for it.
const WAKING_TIME_MAX: Duration = Duration::from_secs(60);

impl World {
    /// An operator has written the pauses.
    pub fn note_pauses_written(&mut self, written: &Pauses) {
        self.note("paused", || format!("{:?}", written.pauses));
        let now = self.now();
        let known_of = |pause: &Pause| KnownPause {
            source: pause.source.as_ref().map(source_index),
            key: pause.batch_key.as_ref().map(|key| key.as_str().to_owned()),
            from: now,
            until: pause.until,
            planned_until: pause.until,
            is_replaced: false,
        };
        let scope = |pause: &KnownPause| (pause.source, pause.key.clone());
        let made: Vec<KnownPause> = written.pauses.iter().map(known_of).collect();
        let known = &mut self.pauses.known;
        for old in known.iter_mut().filter(|old| now < old.until) {
            let same = made.iter().find(|new| scope(new) == scope(old));
            if same.is_none_or(|same| same.planned_until != old.planned_until) {
                (old.until, old.is_replaced) = (now, same.is_some());
            }
        }
        let stands = |new: &KnownPause| {
            let mut known = known.iter();
            known.any(|old| scope(old) == scope(new) && old.until == new.until && now < old.until)
        };
        let added: Vec<KnownPause> = made.iter().filter(|new| !stands(new)).cloned().collect();
        self.pauses.known.extend(added);
    }

    /// Records that an environment took the lease of a batch. The write may be applied again, later.
    pub fn leased(&mut self, environment: u64, batch: BatchId, owner: &LeaseOwner) {
        let key = (environment, batch);
        self.ledger.looks.remove(&environment);
        let earlier = self.pauses.leased.get(&key);
        if earlier.is_none_or(|(other, _)| other != owner) {
            let leased = (owner.clone(), self.now());
            self.pauses.leased.insert(key, leased);
        }
    }

    /// Records that a batch waits for the end of a pause, if it was put back for that.
    pub fn note_paused(&mut self, record: &BatchRecord, write: &BatchWrite) {
        let BatchWrite::GiveUp {
            due_at, failure, ..
        } = write
        else {
            return;
        };
        let subject = Subject {
            source: source_index(&record.source),
            key: record.batch_key.as_ref().map(|key| key.as_str().to_owned()),
        };
        let known = self.pauses.known.iter();
        let mut ending = known.filter(|pause| pause.planned_until == *due_at && failure.is_none());
        let waits = ending.clone().any(|pause| pause.is_about(&subject));
        let strange = ending.find(|_| !waits);
        let batch = record.batch_id;
        let check = checks::p7_a_batch_waits_for_its_own_pauses(batch, strange);
        self.check(check);
        match waits {
            true => self.pauses.waiting.insert(batch),
            false => self.pauses.waiting.remove(&batch),
        };
    }

    /// Checks that a delivery which begins now may begin: its lease was taken before every pause of its batch.
    pub fn check_not_paused(&mut self, environment: u64, part: &Part) {
        let Some(subject) = self.subject_of(part) else {
            return;
        };
        let leased = self.pauses.leased.get(&(environment, part.batch_id));
        let (now, skew) = (self.now(), self.plan.skew_max_ms as u64);
        let known = &self.pauses.known;
        let check = checks::p7_no_delivery_begins_in_a_pause(
            known,
            &subject,
            leased.map(|(_, at)| *at),
            now + Duration::from_millis(skew),
        );
        let pauses = known
            .iter()
            .filter(|pause| pause.is_about(&subject) && pause.from <= now);
        let ended_at = pauses.map(|pause| pause.until).max();
        self.check(check);
        let waited = self.pauses.waiting.remove(&part.batch_id);
        let plan = &self.plan;
        let is_prompt = plan.calm && !plan.sequence && plan.events_per_second == 0;
        if waited
            && is_prompt
            && plan.hours.is_none()
            && let Some(ended_at) = ended_at
        {
            let late_max = Duration::from_millis(plan.sweep_every_ms) + WAKING_TIME_MAX;
            self.check(checks::p6_the_end_of_a_pause_wakes(
                part.batch_id,
                ended_at,
                now,
                late_max,
            ));
        }
    }

    /// Returns what the messages of a part have as their source and key, not what the part says.
    fn subject_of(&self, part: &Part) -> Option<Subject> {
        let first = part.items.first()?;
        let index = self.ledger.by_id.get(&first.sqs_message_id)?;
        let sent = &self.ledger.messages[*index];
        Some(Subject {
            source: source_index(&sent.source),
            key: sent.batch_key.as_ref().map(|key| key.as_str().to_owned()),
        })
    }
}
