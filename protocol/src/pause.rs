//! Pauses of deliveries: an operator keeps batches of a source or a batch key from the sink for a while.
//!
//! A pause only delays. A batch that is paused keeps its claims and its place; the processor gives up its lease until the end of
//! the pause. Every pause has an end, so that nothing waits for ever because nobody remembers it.
//!
//! A batch that waits is due at the end that its pause had when the batch was put back. If the pause is resumed or shortened, the sweep
//! wakes the batches that are due at this former end. So it also wakes a batch that was leased before the pause was resumed, and put back
//! after it.

use serde::{Deserialize, Serialize};

use crate::ids::{BatchId, BatchKey, SourceArn};
use crate::limits::{BATCH_LIFE_MAX, FORMER_PAUSES_MAX};
use crate::time::Timestamp;

/// A pause of deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Batches of this source; of all sources, if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceArn>,
    /// Batches with this key; with any key or none, if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_key: Option<BatchKey>,
    /// When deliveries go on.
    pub until: Timestamp,
    /// When the pause was made, by whom, and why. No decision depends on these.
    pub at: Timestamp,
    pub by: String,
    pub why: String,
}

impl Pause {
    /// Returns whether the pause is about exactly the batches of this source and key, where `None` stands for all of them.
    pub fn is_of(&self, source: &Option<SourceArn>, batch_key: &Option<BatchKey>) -> bool {
        (&self.source, &self.batch_key) == (source, batch_key)
    }

    /// Returns whether the pause is about batches of this source and key.
    pub fn covers(&self, source: &SourceArn, batch_key: Option<&BatchKey>) -> bool {
        let of_source = self.source.as_ref().is_none_or(|wanted| wanted == source);
        let of_key = |wanted: &BatchKey| batch_key == Some(wanted);
        of_source && self.batch_key.as_ref().is_none_or(of_key)
    }
}

/// All pauses of deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pauses {
    /// The pauses, ended ones too.
    pub pauses: Vec<Pause>,
    /// Pauses that were resumed or replaced, until their ends have passed. Batches may be put back until then.
    pub former: Vec<Pause>,
}

impl Pauses {
    /// Adds a pause, in place of one of the same scope. Drops ended pauses.
    pub fn pause(&mut self, pause: Pause, now: Timestamp) {
        self.lift(&pause.source, &pause.batch_key, now);
        self.pauses.push(pause);
    }

    /// Ends the pause of this scope, and drops ended pauses. Returns whether there was one of this scope.
    pub fn resume(
        &mut self,
        source: &Option<SourceArn>,
        batch_key: &Option<BatchKey>,
        now: Timestamp,
    ) -> bool {
        let is_there = self.pauses.iter().any(|one| one.is_of(source, batch_key));
        self.lift(source, batch_key, now);
        is_there
    }

    /// Moves the pause of this scope to the former ones, and drops ended pauses.
    fn lift(&mut self, source: &Option<SourceArn>, batch_key: &Option<BatchKey>, now: Timestamp) {
        let is_lifted = |pause: &mut Pause| pause.is_of(source, batch_key);
        self.former.extend(self.pauses.extract_if(.., is_lifted));
        self.former.retain(|pause| now < pause.until);
        self.pauses.retain(|pause| now < pause.until);
        // Of too many, the ones with the earliest ends are dropped: batches wait for them the shortest time.
        self.former.sort_by_key(|pause| pause.until);
        let over = self.former.len().saturating_sub(FORMER_PAUSES_MAX);
        self.former.drain(..over);
    }

    /// Returns whether a batch that is put back until `due_at` may wait for a pause that was resumed or shortened.
    pub fn were_lifted_for(&self, batch: BatchId, due_at: Timestamp) -> bool {
        // As the gate put it back.
        let life_ends = batch.opened_at() + BATCH_LIFE_MAX;
        let is_lifted = |former: &Pause| {
            let is_kept = |pause: &Pause| {
                pause.is_of(&former.source, &former.batch_key) && former.until <= pause.until
            };
            due_at == life_ends.min(former.until) && !self.pauses.iter().any(is_kept)
        };
        self.former.iter().any(is_lifted)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn at(secs: u64) -> Timestamp {
        Timestamp::from_ms(secs * 1_000)
    }

    pub(crate) fn pause(source: Option<&str>, key: Option<&str>, until: u64) -> Pause {
        Pause {
            source: source.map(|text| text.parse().unwrap()),
            batch_key: key.map(|text| text.parse().unwrap()),
            until: at(until),
            at: at(1),
            by: "me".to_owned(),
            why: "sink is down".to_owned(),
        }
    }

    #[test]
    fn a_pause_replaces_one_of_its_scope_and_ended_ones_are_dropped() {
        let mut pauses = Pauses {
            pauses: vec![
                pause(Some("arn:a"), None, 90),
                pause(Some("arn:ended"), None, 60),
                pause(None, None, 70),
            ],
            former: vec![pause(None, None, 60), pause(None, None, 95)],
        };
        pauses.pause(pause(Some("arn:a"), None, 200), at(60));
        let expected = Pauses {
            pauses: vec![pause(None, None, 70), pause(Some("arn:a"), None, 200)],
            former: vec![pause(Some("arn:a"), None, 90), pause(None, None, 95)],
        };
        assert_eq!(pauses, expected);
    }

    #[test]
    fn what_a_pause_kept_that_was_resumed_or_shortened_is_known_until_its_end_has_passed() {
        let id = BatchId::new(uuid::Uuid::from_u128(1));
        let mut pauses = Pauses::default();
        let now = at(10);
        let lifted =
            |pauses: &Pauses| [20, 50, 51, 90].map(|secs| pauses.were_lifted_for(id, at(secs)));
        pauses.pause(pause(None, None, 50), now);
        assert_eq!(lifted(&pauses), [false; 4], "it is paused");
        pauses.pause(pause(None, None, 90), now);
        assert_eq!(lifted(&pauses), [false; 4], "it is paused for longer");
        pauses.pause(pause(None, None, 20), now);
        assert_eq!(lifted(&pauses), [false, true, false, true], "shortened");
        assert!(!pauses.resume(&Some("arn:q".parse().unwrap()), &None, now));
        assert!(pauses.resume(&None, &None, now));
        assert_eq!(lifted(&pauses), [true, true, false, true], "resumed");
        pauses.pause(pause(Some("arn:q"), None, 99), now);
        assert_eq!(lifted(&pauses), [true, true, false, true], "another scope");
        assert!(!pauses.resume(&None, &None, at(50)));
        assert_eq!(lifted(&pauses), [false, false, false, true]);
    }

    #[test]
    fn a_batch_that_a_resumed_pause_would_have_kept_to_the_end_of_its_life_is_known_too() {
        let id = BatchId::new(uuid::Uuid::from_u128(1_000 << 80));
        let life_ends = at(1) + BATCH_LIFE_MAX;
        let mut pauses = Pauses::default();
        pauses.pause(pause(None, None, 9_000_000), at(10));
        pauses.resume(&None, &None, at(10));
        assert!(pauses.were_lifted_for(id, life_ends));
    }

    #[test]
    fn of_many_former_pauses_those_that_end_last_are_kept() {
        let mut pauses = Pauses::default();
        let count = FORMER_PAUSES_MAX as u64 + 5;
        for secs in 0..count {
            pauses.pause(pause(None, None, 1_000 - secs), at(0));
        }
        assert_eq!(pauses.former.len(), FORMER_PAUSES_MAX);
        assert_eq!(pauses.former.last().unwrap().until, at(1_000));
    }
}
