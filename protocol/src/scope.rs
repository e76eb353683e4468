//! Scopes, and the scope item: the batch that all environments bring the events of a scope into.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batch::BatchRecord;
use crate::bodies::Bodies;
use crate::ids::{BatchId, BatchKey, SourceArn};
use crate::limits::{SCOPE_RETENTION, WINDOW_MAX};
use crate::period::Period;
use crate::time::Timestamp;

/// Shortest window of a batch. Within it, the environment that opened the batch can put its record.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// Names the events of one current batch: those of a source, of a batch key with `BATCH_KEY`, and of a period with `CLOSE_AT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchScope {
    pub source: SourceArn,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<BatchKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}

/// Why a batch takes no further events and is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// All its seats are reserved.
    Full,
    /// The next body would take it beyond its bytes.
    Bytes,
    /// Its source is drained.
    Drained,
    /// It has an urgent event.
    Urgent,
    /// No event of its scope came for a while.
    Idle,
}

/// The value of a scope item. It begins without a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeItem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<CurrentBatch>,
}

/// The current batch of a scope, with all that its record begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CurrentBatch {
    pub batch: BatchId,
    pub scope: BatchScope,
    pub created_at: Timestamp,
    pub closes_at: Timestamp,
    pub bodies: Bodies,
    /// Number of index shards; 1 in the log.
    #[serde(default = "one")]
    pub shards: u16,
    /// The dedup window of the batch, in seconds.
    pub window_secs: u64,
}

/// Scope items of the log had no number of shards at first.
fn one() -> u16 {
    1
}

/// What the batches of a configuration have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRules {
    /// How long a batch takes events; one of a period until this time after its end.
    pub window: Duration,
    pub bodies: Bodies,
    /// Number of index shards.
    pub shards: u16,
    pub dedup_window: Duration,
}

impl BatchScope {
    /// Returns whether the batch is one of many that are open at once: one of a key or of a period.
    pub fn is_one_of_many(&self) -> bool {
        self.key.is_some() || self.period.is_some()
    }
}

impl ScopeItem {
    /// Returns the batch that takes events at `now`; `None` if another one must be opened.
    pub fn open_at(&self, now: Timestamp) -> Option<&CurrentBatch> {
        self.current.as_ref().filter(|one| one.is_open_at(now))
    }

    /// Returns when the item may be removed: long after every line of its batch is decided.
    pub fn expires_at(&self) -> Option<Timestamp> {
        Some(self.current.as_ref()?.closes_at + SCOPE_RETENTION)
    }
}

impl CurrentBatch {
    /// Returns a new batch that is opened at `now`.
    pub fn new(
        batch: BatchId,
        scope: BatchScope,
        now: Timestamp,
        rules: &BatchRules,
    ) -> CurrentBatch {
        let window = rules.window;
        let of_period = scope.period.map(|period| period.ends + window);
        let closes_at = of_period.filter(|at| now + WINDOW_MIN <= *at);
        let closes_at = closes_at.unwrap_or(now + window.clamp(WINDOW_MIN, WINDOW_MAX));
        CurrentBatch {
            batch,
            scope,
            created_at: now,
            closes_at,
            bodies: rules.bodies.clone(),
            shards: rules.shards,
            window_secs: rules.dedup_window.as_secs(),
        }
    }

    /// Returns whether it takes events at `now`, unless it is sealed.
    pub fn is_open_at(&self, now: Timestamp) -> bool {
        now < self.closes_at
    }

    /// Returns the record of the batch as it is put. It is the same in every environment.
    pub fn record(&self) -> BatchRecord {
        let BatchScope {
            source,
            key,
            period,
        } = self.scope.clone();
        let window = Duration::from_secs(self.window_secs);
        let (shards, created_at) = (self.shards, self.created_at);
        BatchRecord::open(self.batch, source, key, shards, created_at, self.closes_at)
            .with_period(period)
            .with_bodies(self.bodies.clone(), window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::ObjectPlace;
    use crate::limits::{CLOCK_SKEW_MAX, SQS_DELAY_MAX};

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn scope(period: Option<Period>) -> BatchScope {
        BatchScope {
            source: "arn:q".parse().unwrap(),
            key: Some("k".parse().unwrap()),
            period,
        }
    }

    fn current(window: Duration, period: Option<Period>) -> CurrentBatch {
        let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let rules = BatchRules {
            window,
            bodies: Bodies::Log(ObjectPlace::Table),
            shards: 1,
            dedup_window: secs(60),
        };
        CurrentBatch::new(batch, scope(period), NOW, &rules)
    }

    #[test]
    fn a_window_lasts_from_the_opening_and_fits_the_delay_of_a_ticket() {
        let closes_after = |window| NOW.until(current(window, None).closes_at);
        assert_eq!(closes_after(secs(30)), secs(30));
        assert_eq!(closes_after(secs(0)), secs(1));
        assert_eq!(closes_after(secs(43_200)), WINDOW_MAX);
        assert_eq!(WINDOW_MAX, SQS_DELAY_MAX - CLOCK_SKEW_MAX - secs(1));
    }

    #[test]
    fn a_batch_of_a_period_takes_events_until_the_window_after_its_end() {
        let ending = |at| Period {
            begins: Timestamp::EPOCH,
            ends: at,
        };
        let closes_at = |ends, window| current(secs(window), Some(ending(ends))).closes_at;
        assert_eq!(closes_at(NOW + secs(7_200), 30), NOW + secs(7_230));
        // The period is over, and late events still come.
        let over = NOW.saturating_sub(secs(60));
        assert_eq!(closes_at(over, 61), NOW + secs(1));
        assert_eq!(closes_at(over, 60), NOW + secs(60));
    }

    #[test]
    fn a_batch_takes_events_before_its_window_ends() {
        let item = ScopeItem {
            current: Some(current(secs(30), None)),
        };
        assert_eq!(item.open_at(NOW), item.current.as_ref());
        let last = NOW + Duration::from_millis(29_999);
        assert_eq!(item.open_at(last), item.current.as_ref());
        assert_eq!(item.open_at(NOW + secs(30)), None);
        assert_eq!(ScopeItem::default().open_at(NOW), None);
        assert_eq!(item.expires_at(), Some(NOW + secs(30) + SCOPE_RETENTION));
        assert_eq!(ScopeItem::default().expires_at(), None);
    }

    #[test]
    fn a_scope_of_a_key_or_a_period_is_one_of_many() {
        let source = || BatchScope {
            key: None,
            ..scope(None)
        };
        let period = Some(Period {
            begins: Timestamp::EPOCH,
            ends: NOW,
        });
        assert!(!source().is_one_of_many());
        assert!(scope(None).is_one_of_many());
        assert!(BatchScope { period, ..source() }.is_one_of_many());
    }

    #[test]
    fn an_item_of_the_first_previews_of_the_log_has_one_index_shard() {
        let item = ScopeItem {
            current: Some(current(secs(30), None)),
        };
        let mut json = serde_json::to_value(&item).unwrap();
        let fields = json["current"].as_object_mut().unwrap();
        assert!(fields.remove("shards").is_some());
        assert_eq!(serde_json::from_value::<ScopeItem>(json).unwrap(), item);
    }

    #[test]
    fn the_record_is_a_function_of_the_item() {
        let current = current(secs(30), None);
        let record = current.record();
        assert_eq!((record.batch_id, record.created_at), (current.batch, NOW));
        assert_eq!(record.closes_at, current.closes_at);
        assert_eq!(record.source, current.scope.source);
        assert_eq!(record.batch_key, current.scope.key);
        assert_eq!(record.dedup_window, secs(60));
        assert!(record.bodies.is_log() && record.reservations.is_some());
        let json = serde_json::to_string(&current).unwrap();
        let read: CurrentBatch = serde_json::from_str(&json).unwrap();
        assert_eq!(read.record(), record, "{json}");
    }
}
