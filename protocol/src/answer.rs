//! Answers: what the consumer of parts says about their events.
//!
//! An event that the sink has is *awaited* until an answer accepts or rejects it, or until the time for answers is over: then it is *silent*.
//! The first answer about an event counts, also one that comes after the event fell silent. A later one that says something else is reported,
//! and changes nothing, because a rejected event may have been sent again since.
//!
//! One item for each batch has these sets. An answer is written to it before anything is done about it, with the seats that it rejects as
//! *pending*: they go to the quarantine, then the batch record and their tombstones say that they were not taken, and then they are no longer
//! pending. Whoever finds pending seats does these steps again, each of which may be done twice.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batch::Listing;
use crate::ids::{BatchId, SourceArn};
use crate::limits::STATUS_SHARDS;
use crate::seqs::SeqSet;
use crate::sequence::PartId;
use crate::time::Timestamp;

/// How long the answers about a batch are kept after they were due, for answers that are late: as long as its events can be read.
const KEPT: Duration = Duration::from_hours(40 * 24);

/// The events of a batch that the sink has, by what was answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchAnswers {
    /// The key of `status-index` while events are awaited or silent, or seats are pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_shard: Option<String>,
    /// When events that are awaited fall silent. Without any, the sweep need not look before.
    pub due_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceArn>,
    /// The seats of all events that the sink has.
    pub delivered: SeqSet,
    pub accepted: SeqSet,
    pub rejected: SeqSet,
    pub silent: SeqSet,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
}

/// Rejected seats that may not be in the quarantine yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The name of the answer that rejected them.
    pub answer: String,
    pub seats: SeqSet,
}

/// What is known of an answer that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundAnswer {
    /// When it was found first.
    pub at: Timestamp,
    /// Whether there is nothing left to do about it.
    pub done: bool,
}

impl FoundAnswer {
    /// Returns when this may be forgotten. An answer that is still there is then read again, which changes nothing.
    pub fn expires_at(self) -> Timestamp {
        self.at + KEPT
    }
}

/// The parts whose files have names that begin alike, up to the first dot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedParts {
    /// By the paths of the files below the sink.
    pub parts: BTreeMap<String, PartId>,
    pub at: Timestamp,
}

impl NamedParts {
    /// How many parts are known under one name. Names of files are different from each other where answers name parts by them.
    const COUNT_MAX: usize = 100;

    /// Returns what the name of a file begins with.
    pub fn stem(path: &str) -> &str {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split('.').next().unwrap_or(name)
    }

    /// Adds a part. Drops another if there are too many.
    pub fn add(&mut self, path: &str, part: PartId, at: Timestamp) {
        self.parts.insert(path.to_owned(), part);
        self.at = at;
        while self.parts.len() > NamedParts::COUNT_MAX {
            // Ids of batches are in the order of time.
            let oldest = self.parts.iter().min_by_key(|(_, part)| **part);
            let oldest = oldest.map(|(path, _)| path.clone()).unwrap_or_default();
            self.parts.remove(&oldest);
        }
    }

    /// Returns the part whose file has this path, or a path that ends with these steps; `Err` says how many have, if not one.
    pub fn of_file(&self, path: &str) -> Result<PartId, usize> {
        let ends = |one: &String| {
            one.strip_suffix(path)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        self.only(ends)
    }

    /// Returns the part that an answer of this name is about: whose file has the name with another ending, or with one less; `Err` says how
    /// many have, if not one.
    pub fn of_answer(&self, name: &str) -> Result<PartId, usize> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let without = name.rsplit_once('.').map_or(name, |(without, _)| without);
        let fits = |path: &String| {
            let file = path.rsplit('/').next().unwrap_or(path);
            let of_file = file.rsplit_once('.').map_or(file, |(without, _)| without);
            [file, of_file].contains(&without) || file == name
        };
        self.only(fits)
    }

    fn only(&self, fits: impl Fn(&String) -> bool) -> Result<PartId, usize> {
        let found = Vec::from_iter(self.parts.iter().filter(|(path, _)| fits(path)));
        match found[..] {
            [(_, part)] => Ok(*part),
            _ => Err(found.len()),
        }
    }

    /// Returns when the item may be removed.
    pub fn expires_at(&self) -> Timestamp {
        self.at + KEPT
    }
}

/// What an answer says about events of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    pub accepted: SeqSet,
    pub rejected: SeqSet,
}

/// What became of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// How many events it accepted that nothing was answered about before.
    pub accepted: u64,
    /// How many it rejected.
    pub rejected: u64,
    /// The events about which an earlier answer said something else.
    pub contradicted: SeqSet,
}

/// What was answered about some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerState {
    /// An answer about some of them may still come in time.
    Awaited,
    Accepted,
    Rejected,
    /// Some were accepted and the others rejected.
    Partly,
    /// Nothing was answered about some of them in time.
    Silent,
}

impl AnswerState {
    pub fn as_str(self) -> &'static str {
        match self {
            AnswerState::Awaited => "awaited",
            AnswerState::Accepted => "accepted",
            AnswerState::Rejected => "rejected",
            AnswerState::Partly => "partly",
            AnswerState::Silent => "silent",
        }
    }
}

impl BatchAnswers {
    /// Awaits answers about further events, which the sink has, until `due_at`. Does nothing about those that are known.
    pub fn expect(
        &mut self,
        batch: BatchId,
        source: &SourceArn,
        seats: &SeqSet,
        due_at: Timestamp,
    ) {
        if seats.is_subset(&self.delivered) {
            return;
        }
        self.due_at = match self.awaited().is_empty() {
            true => due_at,
            false => self.due_at.max(due_at),
        };
        self.source = Some(source.clone());
        self.delivered.extend_from(seats);
        self.list(batch);
    }

    /// Returns the seats of events about which nothing was answered and time is left.
    pub fn awaited(&self) -> SeqSet {
        let mut awaited = self.delivered.clone();
        for ended in [&self.accepted, &self.rejected, &self.silent] {
            awaited.remove_from(ended);
        }
        awaited
    }

    /// Returns what was answered about `seats`, leaving out those that the sink does not have.
    pub fn state_of(&self, seats: &SeqSet) -> AnswerState {
        let has = |set: &SeqSet| !set.is_disjoint(seats);
        match (has(&self.accepted), has(&self.rejected)) {
            _ if has(&self.awaited()) => AnswerState::Awaited,
            _ if has(&self.silent) => AnswerState::Silent,
            (true, true) => AnswerState::Partly,
            (false, true) => AnswerState::Rejected,
            (_, false) => AnswerState::Accepted,
        }
    }

    /// Takes an answer. An event that it both accepts and rejects is rejected. Seats that an earlier answer rejected must not be pending.
    pub fn take(&mut self, batch: BatchId, answer: &str, said: &Said) -> Taken {
        let rejected = said.rejected.intersection(&self.delivered);
        let accepted = said
            .accepted
            .intersection(&self.delivered)
            .difference(&rejected);
        let mut contradicted = accepted.intersection(&self.rejected);
        contradicted.extend_from(&rejected.intersection(&self.accepted));
        let new = |said: &SeqSet| said.difference(&self.accepted.union(&self.rejected));
        let (accepted, rejected) = (new(&accepted), new(&rejected));
        for answered in [&accepted, &rejected] {
            self.silent.remove_from(answered);
        }
        self.accepted.extend_from(&accepted);
        self.rejected.extend_from(&rejected);
        let taken = Taken {
            accepted: accepted.len(),
            rejected: rejected.len(),
            contradicted,
        };
        self.pending = (!rejected.is_empty()).then(|| Pending {
            answer: answer.to_owned(),
            seats: rejected,
        });
        self.list(batch);
        taken
    }

    /// Notes that the pending seats are in the quarantine.
    pub fn done(&mut self, batch: BatchId) {
        self.pending = None;
        self.list(batch);
    }

    /// Lets the events fall silent that are awaited, once they are due. Returns how many there are.
    pub fn fall_silent(&mut self, batch: BatchId, now: Timestamp) -> u64 {
        if now < self.due_at {
            return 0;
        }
        let awaited = self.awaited();
        self.silent.extend_from(&awaited);
        self.due_at = now + KEPT;
        self.list(batch);
        awaited.len()
    }

    /// Leaves events out that are in the quarantine, and not at the sink: their part was set aside.
    pub fn withdraw(&mut self, batch: BatchId, quarantined: &SeqSet) {
        self.delivered.remove_from(quarantined);
        self.list(batch);
    }

    /// Returns when the item may be removed.
    pub fn expires_at(&self) -> Timestamp {
        self.due_at + KEPT
    }

    /// Puts the item into `status-index`, or takes it out.
    fn list(&mut self, batch: BatchId) {
        let waits = !self.awaited().is_empty() || !self.silent.is_empty();
        let is_listed = self.pending.is_some() || waits;
        self.status_shard = is_listed.then(|| {
            let shard = batch.random_byte() % STATUS_SHARDS;
            format!("{}#{shard}", Listing::Answers.as_str())
        });
    }

    /// Returns whether the item is in `status-index`, where people find it too.
    pub fn is_listed(&self) -> bool {
        self.status_shard.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch() -> BatchId {
        "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap()
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn seats(seats: impl IntoIterator<Item = u32>) -> SeqSet {
        seats.into_iter().collect()
    }

    /// Returns the answers about ten events, which are due at 100.
    fn ten() -> BatchAnswers {
        let mut answers = BatchAnswers::default();
        let source = "arn:q".parse().unwrap();
        answers.expect(batch(), &source, &seats(0..10), at(100));
        answers
    }

    fn said(accepted: impl IntoIterator<Item = u32>, rejected: &[u32]) -> Said {
        Said {
            accepted: seats(accepted),
            rejected: seats(rejected.iter().copied()),
        }
    }

    #[test]
    fn an_answer_accepts_and_rejects_what_the_sink_has() {
        let mut answers = ten();
        assert_eq!(answers.state_of(&seats(0..10)), AnswerState::Awaited);
        let taken = answers.take(batch(), "a.csv", &said(0..12, &[3, 4, 20]));
        assert_eq!((taken.accepted, taken.rejected), (8, 2));
        assert!(taken.contradicted.is_empty());
        let pending = answers.pending.clone().unwrap();
        assert_eq!(
            (pending.answer.as_str(), pending.seats),
            ("a.csv", seats([3, 4]))
        );
        assert!(answers.is_listed(), "because of what is pending");
        answers.done(batch());
        assert!(!answers.is_listed());
        for (of, state) in [
            (seats(0..10), AnswerState::Partly),
            (seats([3, 4]), AnswerState::Rejected),
            (seats([0, 9]), AnswerState::Accepted),
        ] {
            assert_eq!(answers.state_of(&of), state);
        }
    }

    #[test]
    fn the_first_answer_counts_and_another_is_reported() {
        let mut answers = ten();
        answers.take(batch(), "a", &said(0..5, &[5]));
        answers.done(batch());
        let before = answers.clone();
        let again = answers.take(batch(), "b", &said([5], &[0, 1]));
        assert_eq!((again.accepted, again.rejected), (0, 0));
        assert_eq!(again.contradicted, seats([0, 1, 5]));
        assert_eq!(answers, before);
    }

    #[test]
    fn what_is_not_answered_in_time_falls_silent_and_a_late_answer_counts() {
        let mut answers = ten();
        answers.take(batch(), "a", &said(0..4, &[]));
        assert_eq!(answers.fall_silent(batch(), at(99)), 0);
        assert_eq!(answers.fall_silent(batch(), at(100)), 6);
        assert!(answers.is_listed() && answers.due_at > at(100));
        assert_eq!(answers.state_of(&seats(0..10)), AnswerState::Silent);
        assert_eq!(answers.take(batch(), "b", &said(4..10, &[])).accepted, 6);
        assert!(!answers.is_listed());
        assert_eq!(answers.state_of(&seats(0..10)), AnswerState::Accepted);
    }

    #[test]
    fn a_further_part_is_awaited_and_a_known_one_changes_nothing() {
        let (mut answers, source) = (ten(), "arn:q".parse().unwrap());
        let before = answers.clone();
        answers.expect(batch(), &source, &seats(2..5), at(900));
        assert_eq!(answers, before);
        answers.fall_silent(batch(), at(100));
        answers.expect(batch(), &source, &seats(10..12), at(200));
        assert_eq!(answers.awaited(), seats([10, 11]));
        assert!(answers.is_listed() && answers.due_at == at(200));
    }

    #[test]
    fn a_part_is_found_by_its_file_and_by_the_name_of_an_answer() {
        let part = |part| PartId {
            batch: batch(),
            part,
        };
        let mut named = NamedParts::default();
        for (path, number) in [
            ("2026/orders-7.txt", 0),
            ("2027/orders-7.txt", 1),
            ("orders-7.csv.gz", 2),
        ] {
            named.add(path, part(number), at(1));
            assert_eq!(NamedParts::stem(path), "orders-7");
        }
        assert_eq!(named.of_file("2027/orders-7.txt"), Ok(part(1)));
        assert_eq!(named.of_file("orders-7.txt"), Err(2));
        assert_eq!(named.of_file("ders-7.csv.gz"), Err(0));
        assert_eq!(named.of_answer("in/orders-7.csv.gz.ack"), Ok(part(2)));
        assert_eq!(named.of_answer("orders-7.csv.ack"), Ok(part(2)));
        assert_eq!(named.of_answer("orders-7.ack"), Err(2));
        for number in 0..200 {
            named.add(&format!("{number}/orders-7.x"), part(number + 9), at(1));
        }
        assert_eq!(named.parts.len(), NamedParts::COUNT_MAX);
        assert_eq!(named.of_file("199/orders-7.x"), Ok(part(208)));
    }

    proptest! {
        /// P14: whatever comes in whatever order, every event is in exactly one set, and no answer is undone.
        #[test]
        fn every_event_ends_accepted_rejected_or_silent(
            steps in prop::collection::vec((0_u8..4, 0_u32..12, 0_u32..12, 0_u64..300), 1..20),
        ) {
            let (mut answers, source) = (ten(), "arn:q".parse().unwrap());
            for (step, from, to, ms) in steps {
                let before = answers.clone();
                match step {
                    0 => drop(answers.take(batch(), "a", &said(from..to, &[to]))),
                    1 => drop(answers.take(batch(), "b", &said([to], &[from]))),
                    2 => drop(answers.fall_silent(batch(), at(ms))),
                    _ => answers.expect(batch(), &source, &seats(from..to), at(ms)),
                }
                let awaited = answers.awaited();
                let sets = [&answers.accepted, &answers.rejected, &answers.silent, &awaited];
                let sum: u64 = sets.iter().map(|set| set.len()).sum();
                prop_assert_eq!(sum, answers.delivered.len());
                prop_assert!(sets.iter().all(|set| set.is_subset(&answers.delivered)));
                prop_assert!(before.accepted.is_subset(&answers.accepted));
                prop_assert!(before.rejected.is_subset(&answers.rejected));
                let waits = !awaited.is_empty() || !answers.silent.is_empty();
                prop_assert_eq!(answers.is_listed(), waits || answers.pending.is_some());
            }
        }
    }
}
