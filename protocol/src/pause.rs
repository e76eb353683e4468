//! Pauses of deliveries: an operator keeps batches of a source or a batch key from the sink for a while.
//!
//! A pause only delays. A batch that is paused keeps its claims and its place; the processor gives up its lease until the end of
//! the pause. Every pause has an end, so that nothing waits for ever because nobody remembers it.

use crate::batch::BatchRecord;
use crate::ids::{BatchKey, SourceArn};
use crate::limits::BATCH_LIFE_MAX;
use crate::planted::{Bug, planted};
use crate::time::Timestamp;

/// A pause of deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Batches of this source; of all sources, if it is absent.
    pub source: Option<SourceArn>,
    /// Batches with this key; with any key or none, if it is absent.
    pub batch_key: Option<BatchKey>,
    /// When deliveries go on.
    pub until: Timestamp,
    /// When the pause was made, by whom, and why. No decision depends on these.
    pub at: Timestamp,
    pub by: String,
    pub why: String,
}

impl Pause {
    /// Returns whether this and `other` are about the same batches.
    pub fn has_scope_of(&self, other: &Pause) -> bool {
        (&self.source, &self.batch_key) == (&other.source, &other.batch_key)
    }

    /// Returns whether the pause is about batches of this source and key.
    pub fn covers(&self, source: &SourceArn, batch_key: Option<&BatchKey>) -> bool {
        if planted(Bug::PauseOfBothOverlooked) && self.source.is_some() && self.batch_key.is_some()
        {
            return false;
        }
        let of_source = self.source.as_ref().is_none_or(|wanted| wanted == source)
            || planted(Bug::PauseHoldsOthers);
        let of_key = |wanted: &BatchKey| batch_key == Some(wanted);
        of_source && self.batch_key.as_ref().is_none_or(of_key)
    }
}

/// Returns when deliveries of a batch go on, if they are paused at `now`.
pub fn paused_until(pauses: &[Pause], record: &BatchRecord, now: Timestamp) -> Option<Timestamp> {
    let covers = |pause: &&Pause| {
        pause.until > now && pause.covers(&record.source, record.batch_key.as_ref())
    };
    let until = pauses.iter().filter(covers).map(|pause| pause.until).max();
    until.and_then(|until| kept_until(record, until, now))
}

/// Returns until when a batch is kept from the sink that others may go to from `until` on. One that is being set aside, or is too
/// old to be delivered, is not kept: nothing of it goes to the sink.
pub fn kept_until(record: &BatchRecord, until: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let goes_to_the_sink = record.quarantine.is_none() && !record.is_too_old(now);
    // The batch must still be delivered or set aside within its life.
    goes_to_the_sink.then(|| until.min(record.created_at + BATCH_LIFE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BatchId;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_ms(secs * 1_000)
    }

    fn pause(source: Option<&str>, key: Option<&str>, until: u64) -> Pause {
        Pause {
            source: source.map(|text| text.parse().unwrap()),
            batch_key: key.map(|text| text.parse().unwrap()),
            until: at(until),
            at: at(1),
            by: "me".to_owned(),
            why: "sink is down".to_owned(),
        }
    }

    fn record(key: Option<&str>) -> BatchRecord {
        let id = BatchId::new(uuid::Uuid::from_u128(1));
        let key = key.map(|text| text.parse().unwrap());
        BatchRecord::open(id, "arn:q".parse().unwrap(), key, 10, at(0), at(30))
    }

    #[test]
    fn a_pause_holds_for_its_source_and_key_until_its_end() {
        let until = |pause: Pause, record: &BatchRecord, now| {
            paused_until(&[pause], record, at(now)).map(|until| until.as_ms() / 1_000)
        };
        let keyed = record(Some("k"));
        assert_eq!(until(pause(None, None, 50), &keyed, 40), Some(50));
        assert_eq!(until(pause(None, None, 50), &keyed, 50), None);
        assert_eq!(until(pause(Some("arn:q"), None, 50), &keyed, 40), Some(50));
        assert_eq!(until(pause(Some("arn:other"), None, 50), &keyed, 40), None);
        assert_eq!(until(pause(None, Some("k"), 50), &keyed, 40), Some(50));
        assert_eq!(until(pause(None, Some("k"), 50), &record(None), 40), None);
        let both = pause(Some("arn:q"), Some("other"), 50);
        assert_eq!(until(both, &keyed, 40), None);
    }

    #[test]
    fn the_latest_of_several_pauses_counts() {
        let pauses = [pause(None, None, 50), pause(Some("arn:q"), None, 90)];
        assert_eq!(paused_until(&pauses, &record(None), at(40)), Some(at(90)));
        assert_eq!(paused_until(&[], &record(None), at(40)), None);
    }

    #[test]
    fn what_does_not_go_to_the_sink_is_never_paused() {
        let pauses = [pause(None, None, 9_000_000)];
        let end_of_life = at(0) + BATCH_LIFE_MAX;
        let mut aside = record(None);
        aside.quarantine = Some("sink says no".to_owned());
        assert_eq!(paused_until(&pauses, &aside, at(40)), None);
        assert_eq!(
            paused_until(&pauses, &record(None), at(40)),
            Some(end_of_life)
        );
        assert_eq!(paused_until(&pauses, &record(None), end_of_life), None);
    }
}
