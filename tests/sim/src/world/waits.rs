//! What keeps batches from the sink: the pauses, which operators make and end, and the numbers of parts.

use std::time::Duration;

use protocol::batch::{BatchRecord, BatchWrite, Due, PartState};
use protocol::ids::{BatchId, LeaseOwner};
use protocol::pause::{Pause, Pauses};
use protocol::sequence::{PartId, Sequence, SequenceScope};
use shared::named_items::NamedItem;
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
            scope: (
                pause.source.as_ref().map(source_index),
                pause.batch_key.clone(),
            ),
            from: now,
            until: pause.until,
            planned_until: pause.until,
        };
        let mut made: Vec<KnownPause> = written.pauses.iter().map(known_of).collect();
        let known = &mut self.pauses.known;
        for old in known.iter_mut().filter(|old| now < old.until) {
            let same = made.iter().find(|new| new.scope == old.scope);
            if same.is_none_or(|same| same.planned_until != old.planned_until) {
                old.until = now;
            }
        }
        let stands = |new: &KnownPause| {
            let mut known = known.iter();
            known.any(|old| old.scope == new.scope && old.until == new.until && now < old.until)
        };
        made.retain(|new| !stands(new));
        known.extend(made);
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
        let BatchWrite::GiveUp { due, failure, .. } = write else {
            return;
        };
        let subject = Subject {
            source: source_index(&record.source),
            key: record.batch_key.clone(),
        };
        let known = self.pauses.known.iter();
        let mut ending = known.filter(|pause| pause.planned_until == due.at && failure.is_none());
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
        let leased_at = leased.map(|(_, at)| *at);
        let (now, known) = (self.now(), &self.pauses.known);
        let latest = now + self.plan.skew_max();
        let check = checks::p7_no_delivery_begins_in_a_pause(known, &subject, leased_at, latest);
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
            let batch = part.batch_id;
            let check = checks::p6_the_end_of_a_pause_wakes(batch, ended_at, now, late_max);
            self.check(check);
        }
    }

    /// Returns what the messages of a part have as their source and key, not what the part says.
    fn subject_of(&self, part: &Part) -> Option<Subject> {
        let first = part.items.first()?;
        let sent = self.ledger.message(&first.sqs_message_id)?;
        Some(Subject {
            source: source_index(&sent.source),
            key: sent.batch_key.clone(),
        })
    }

    /// An environment has read a sequence.
    pub fn note_sequence_look(&mut self, environment: u64, name: &str, sequence: Sequence) {
        let ended = sequence.holder.filter(|holder| {
            let record = self.batches.get(holder.batch);
            record.is_none_or(|record| {
                let part = record.parts.get(holder.part);
                let has_ended = part.is_some_and(|part| part.state != PartState::Frozen);
                has_ended || record.status.is_none()
            })
        });
        let look = (name.to_owned(), ended);
        self.ledger.looks.insert(environment, look);
    }

    /// Checks that a part which is put back does not wait for the number of a part that had ended when it looked.
    pub fn check_number_awaited(
        &mut self,
        environment: u64,
        record: &BatchRecord,
        write: &BatchWrite,
    ) {
        let put_back = matches!(
            write,
            BatchWrite::GiveUp {
                due: Due {
                    verify_at: None,
                    ..
                },
                failure: None,
                ..
            }
        );
        let plan = &self.plan;
        // A write that is applied late belongs to an earlier look.
        let only_numbers = plan.sequence
            && plan.hours.is_none()
            && plan.pauses.is_empty()
            && plan.events_per_second == 0
            && plan.faults.apply_late == 0.0
            && plan.faults.late_record == 0.0;
        let part = record.frozen_part().map(|(_, part)| part);
        let has_none = part.is_none_or(|part| part.file_number.is_none());
        let name = Sequence::name(&SequenceScope::of(record));
        if let Some((looked_at, ended)) = self.ledger.looks.get(&environment)
            && *looked_at == name
            && put_back
            && only_numbers
            && has_none
        {
            let check = checks::p7_no_part_waits_for_one_that_has_ended(record.batch_id, *ended);
            self.check(check);
        }
    }

    /// Notes that a part took a number after it had ended: by a processor that had lost its lease, or by a write that came late.
    pub fn number_taken(&mut self, taken: Sequence) {
        let Some(part) = taken.holder else {
            return;
        };
        let Some(record) = self.batches.get(part.batch) else {
            return;
        };
        let state = record.parts.get(part.part).map(|part| &part.state);
        if state.is_some_and(|state| *state != PartState::Frozen) {
            let late = (SequenceScope::of(&record), taken.last);
            self.ledger.late_numbers.insert(part, late);
        }
    }

    /// Checks that a complete batch has given its last number up.
    pub fn check_numbers_given_up(&mut self, complete: &BatchRecord) {
        let scope = SequenceScope::of(complete);
        let sequence = self.named_item::<Sequence>(&scope).value;
        let is_late = |part: &PartId| self.ledger.late_numbers.contains_key(part);
        let held = sequence
            .holder
            .filter(|part| part.batch == complete.batch_id && !is_late(part));
        self.check(checks::inv32_a_complete_batch_holds_no_number(held));
    }
}
