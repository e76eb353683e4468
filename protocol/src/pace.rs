//! Limits the rate of writes to the lock table, once the table or a key of its index throttles.
//!
//! Two limits throttle writes. One key of the index takes [`INDEX_KEY_UNITS_PER_SECOND`]; when it is used up, DynamoDB
//! throttles the write to the table. Such a key gets a rate of its own, and writes to other keys are not slowed down.
//! The table as a whole has a limit too (a new table takes 4,000 units a second, of all environments together). When
//! several keys throttle at once, the table is the limit, and the environment writes all keys at one rate.
//!
//! A rate falls when writes are throttled and rises with every other write, so it stays near the limit. A throttled
//! write costs a request and achieves nothing.

use std::collections::BTreeMap;

use crate::ids::BatchShard;
use crate::limits::{
    INDEX_KEY_UNITS_PER_SECOND, PACE_CUT_EVERY, PACE_FORGOTTEN_AFTER, PACE_UNITS_PER_SECOND_MIN,
    TABLE_KEYS_MIN, TABLE_PACE_UNITS_PER_SECOND_MAX, TABLE_PACE_UNITS_PER_SECOND_MIN,
};
use crate::time::Timestamp;

/// A throttled rate is multiplied by the share of its writes that passed, and by this factor.
const CUT: f64 = 0.85;
/// One cut multiplies a rate by at least this.
const CUT_MIN: f64 = 0.1;
/// Units a second that each passed write adds to a rate. A rate that is fully used rises by a fifth within a second.
const RISE: f64 = 0.2;

/// The rates of an environment.
#[derive(Debug, Default)]
pub struct Paces {
    /// The rates of the keys that have throttled.
    keys: BTreeMap<BatchShard, Pace>,
    /// The rate of the whole table, if it has throttled.
    table: Option<Pace>,
}

#[derive(Debug)]
struct Pace {
    units_per_second: f64,
    /// When the next write may start, in epoch milliseconds. A fraction is kept, because one unit takes less than 1 ms.
    free_at_ms: f64,
    throttled_at: Timestamp,
    cut_at: Timestamp,
    /// Writes that passed since the last cut.
    passed: u32,
    /// Writes that were throttled since the last cut.
    throttled: u32,
}

/// The results of one request's writes to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyReply {
    pub key: BatchShard,
    /// Writes that were applied, or refused for another reason than throttling.
    pub passed: u32,
    /// Writes that were throttled.
    pub throttled: u32,
}

impl Pace {
    fn new(units_per_second: f64, now: Timestamp) -> Pace {
        Pace {
            units_per_second,
            free_at_ms: 0.0,
            throttled_at: now,
            cut_at: now,
            passed: 0,
            throttled: 0,
        }
    }

    fn free_at(&self) -> Timestamp {
        Timestamp::from_ms(self.free_at_ms.ceil() as u64)
    }

    fn take(&mut self, units: usize, now: Timestamp) {
        let start = self.free_at_ms.max(now.as_ms() as f64);
        self.free_at_ms = start + units as f64 / self.units_per_second * 1_000.0;
    }

    /// Raises the rate after a reply without a throttled write.
    fn passed(&mut self, passed: u32) {
        self.units_per_second += RISE * f64::from(passed);
        self.passed = self.passed.saturating_add(passed);
    }

    /// Cuts the rate after a reply with throttled writes, unless it was cut within [`PACE_CUT_EVERY`].
    fn throttled(&mut self, passed: u32, throttled: u32, least: f64, now: Timestamp) {
        self.throttled_at = now;
        self.passed = self.passed.saturating_add(passed);
        self.throttled = self.throttled.saturating_add(throttled);
        // Requests that were in flight together cut the rate only once.
        if self.cut_at + PACE_CUT_EVERY <= now {
            self.units_per_second =
                (self.units_per_second * cut(self.passed, self.throttled)).max(least);
            (self.cut_at, self.passed, self.throttled) = (now, 0, 0);
        }
    }

    fn is_old(&self, now: Timestamp) -> bool {
        let last = Timestamp::from_ms(self.free_at_ms as u64).max(self.cut_at);
        last + PACE_FORGOTTEN_AFTER <= now
    }
}

/// Returns the factor by which a rate is cut after `passed` and `throttled` writes. A rate that is many times the limit
/// falls to the limit at once, and a rate that is slightly above the limit falls slightly. Without any write since the
/// last cut, the rate stays.
fn cut(passed: u32, throttled: u32) -> f64 {
    if passed == 0 && throttled == 0 {
        return 1.0;
    }
    let all = f64::from(passed) + f64::from(throttled);
    (CUT * f64::from(passed) / all).max(CUT_MIN)
}

impl Paces {
    /// Returns when the rate of `key` allows the next write; `None` when the key has no rate.
    pub fn free_at(&self, key: BatchShard) -> Option<Timestamp> {
        self.keys.get(&key).map(Pace::free_at)
    }

    /// Returns when the rate of the table allows the next write; `None` when the table has no rate.
    pub fn table_free_at(&self) -> Option<Timestamp> {
        self.table.as_ref().map(Pace::free_at)
    }

    /// Reserves the time of `units` writes of one unit to a key, which start when [`free_at`](Self::free_at) allowed
    /// it.
    pub fn take(&mut self, key: BatchShard, units: usize, now: Timestamp) {
        if let Some(pace) = self.keys.get_mut(&key) {
            pace.take(units, now);
        }
    }

    /// Reserves the time of `units` writes of one unit, which start when [`table_free_at`](Self::table_free_at) allowed
    /// it.
    pub fn take_of_table(&mut self, units: usize, now: Timestamp) {
        if let Some(pace) = &mut self.table {
            pace.take(units, now);
        }
    }

    /// Adjusts the rates to the reply of one request.
    pub fn replied(&mut self, replies: &[KeyReply], now: Timestamp) {
        let passed: u32 = replies.iter().map(|reply| reply.passed).sum();
        let throttled: u32 = replies.iter().map(|reply| reply.throttled).sum();
        let keys_throttled = replies.iter().filter(|reply| reply.throttled > 0).count();
        let keys_passed = replies.iter().filter(|reply| reply.throttled == 0).count();
        if let Some(table) = &mut self.table {
            // Only one key throttled, and other keys of the same request passed: the key is the limit, not the table.
            let only_one_key = keys_throttled == 1 && keys_passed > 0;
            if throttled == 0 {
                table.passed(passed);
                if table.units_per_second > TABLE_PACE_UNITS_PER_SECOND_MAX {
                    self.table = None;
                }
            } else if !only_one_key {
                let least = TABLE_PACE_UNITS_PER_SECOND_MIN;
                table.throttled(passed, throttled, least, now);
                return;
            }
        }
        for reply in replies {
            self.key_replied(reply, now);
        }
        self.notice_the_table(now);
    }

    fn key_replied(&mut self, reply: &KeyReply, now: Timestamp) {
        if reply.throttled == 0 {
            if let Some(pace) = self.keys.get_mut(&reply.key) {
                pace.passed(reply.passed);
                if pace.units_per_second > 2.0 * INDEX_KEY_UNITS_PER_SECOND {
                    self.keys.remove(&reply.key);
                }
            }
            return;
        }
        let pace = self.keys.entry(reply.key);
        let pace = pace.or_insert_with(|| Pace::new(INDEX_KEY_UNITS_PER_SECOND, now));
        let least = PACE_UNITS_PER_SECOND_MIN;
        pace.throttled(reply.passed, reply.throttled, least, now);
    }

    /// Gives the table one rate, if so many keys throttled at about the same time that the table must be the limit.
    fn notice_the_table(&mut self, now: Timestamp) {
        let lately = |pace: &&Pace| pace.throttled_at + PACE_CUT_EVERY > now;
        let count = self.keys.values().filter(lately).count();
        if self.table.is_some() || count < TABLE_KEYS_MIN {
            return;
        }
        let together: f64 = self.keys.values().map(|pace| pace.units_per_second).sum();
        let passed = self.keys.values().map(|pace| pace.passed).sum();
        let throttled = self.keys.values().map(|pace| pace.throttled).sum();
        self.table = Some(Pace::new(together * cut(passed, throttled), now));
        self.keys.clear();
    }

    /// Forgets the rates of keys and of the table that were not used for [`PACE_FORGOTTEN_AFTER`].
    pub fn forget_old(&mut self, now: Timestamp) {
        self.keys.retain(|_, pace| !pace.is_old(now));
        self.table.take_if(|pace| pace.is_old(now));
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
