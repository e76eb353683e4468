//! How fast the lock table is written: as fast as it goes until it throttles, from then on at a rate.
//!
//! Two things throttle. A key of the index takes [`INDEX_KEY_UNITS_PER_SECOND`], and a key that has none left throttles
//! the write to the table: such a key gets a rate of its own, and the other keys are left alone. And the table as a whole
//! takes so much, a new one 4,000 units a second of all environments together: when several keys throttle at once it is
//! not the keys, and the environment gets one rate for all of them. A rate falls with each further throttle and rises with
//! each write, and so stays near what there is; what is refused costs a request and brings nothing.

use std::collections::BTreeMap;

use crate::ids::BatchShard;
use crate::limits::{
    INDEX_KEY_UNITS_PER_SECOND, PACE_CUT_EVERY, PACE_FORGOTTEN_AFTER, PACE_UNITS_PER_SECOND_MIN,
    TABLE_KEYS_MIN, TABLE_PACE_UNITS_PER_SECOND_MAX, TABLE_PACE_UNITS_PER_SECOND_MIN,
};
use crate::time::Timestamp;

/// A rate that throttles falls to the share of its writes that was let through, and by this factor below that.
const CUT: f64 = 0.85;
/// One cut leaves at least this share of a rate.
const CUT_MIN: f64 = 0.1;
/// Units a second that each write adds to a rate: a fifth of it within a second.
const RISE: f64 = 0.2;

/// The rates of an environment.
#[derive(Debug, Default)]
pub struct Paces {
    /// Of the keys that have throttled.
    keys: BTreeMap<BatchShard, Pace>,
    /// Of the whole table, if that has throttled.
    table: Option<Pace>,
}

#[derive(Debug)]
struct Pace {
    units_per_second: f64,
    /// When the next write may start, in epoch milliseconds: a unit takes less than one.
    free_at_ms: f64,
    throttled_at: Timestamp,
    cut_at: Timestamp,
    /// Writes since the last cut.
    passed: u32,
    throttled: u32,
}

/// What a reply says of one key: how many of its writes it let through, or refused for another reason, and how many it
/// throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyReply {
    /// The key.
    pub key: BatchShard,
    /// Let through.
    pub passed: u32,
    /// Throttled.
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

    /// All of a reply was let through.
    fn passed(&mut self, passed: u32) {
        self.units_per_second += RISE * f64::from(passed);
        self.passed = self.passed.saturating_add(passed);
    }

    /// Some of a reply was throttled.
    fn throttled(&mut self, passed: u32, throttled: u32, least: f64, now: Timestamp) {
        self.throttled_at = now;
        self.passed = self.passed.saturating_add(passed);
        self.throttled = self.throttled.saturating_add(throttled);
        // What was under way at the same time is one reason to slow down, not several.
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

/// What is left of a rate at which so many writes were let through and so many throttled. A rate that is many times
/// what there is falls to it at once, and one that is a little above it loses little. With no writes since the last cut,
/// that cut has said it all.
fn cut(passed: u32, throttled: u32) -> f64 {
    if passed == 0 && throttled == 0 {
        return 1.0;
    }
    let all = f64::from(passed) + f64::from(throttled);
    (CUT * f64::from(passed) / all).max(CUT_MIN)
}

impl Paces {
    /// When the next write to a key may start, as far as the key is concerned; `None` when it has not throttled.
    pub fn free_at(&self, key: BatchShard) -> Option<Timestamp> {
        self.keys.get(&key).map(Pace::free_at)
    }

    /// When the next write to any key may start, as far as the table is concerned; `None` when it has not throttled.
    pub fn table_free_at(&self) -> Option<Timestamp> {
        self.table.as_ref().map(Pace::free_at)
    }

    /// Takes the time of so many writes of one unit to a key, which start as [`free_at`](Self::free_at) said.
    pub fn take(&mut self, key: BatchShard, units: usize, now: Timestamp) {
        if let Some(pace) = self.keys.get_mut(&key) {
            pace.take(units, now);
        }
    }

    /// Takes the time of so many writes of one unit, which start as [`table_free_at`](Self::table_free_at) said.
    pub fn take_of_table(&mut self, units: usize, now: Timestamp) {
        if let Some(pace) = &mut self.table {
            pace.take(units, now);
        }
    }

    /// Takes in a reply to one request.
    pub fn replied(&mut self, replies: &[KeyReply], now: Timestamp) {
        let passed: u32 = replies.iter().map(|reply| reply.passed).sum();
        let throttled: u32 = replies.iter().map(|reply| reply.throttled).sum();
        let keys_throttled = replies.iter().filter(|reply| reply.throttled > 0).count();
        let keys_passed = replies.iter().filter(|reply| reply.throttled == 0).count();
        if let Some(table) = &mut self.table {
            // One key alone, and others of the same request went through: it is the key.
            let of_one_key = keys_throttled == 1 && keys_passed > 0;
            if throttled == 0 {
                table.passed(passed);
                if table.units_per_second > TABLE_PACE_UNITS_PER_SECOND_MAX {
                    self.table = None;
                }
            } else if !of_one_key {
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

    /// Several keys that throttle within the same time: it is the table, which has one rate from then on.
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

    /// Forgets the keys that have not been written for long, whose batches are done, and a table that has not.
    pub fn forget_old(&mut self, now: Timestamp) {
        self.keys.retain(|_, pace| !pace.is_old(now));
        self.table.take_if(|pace| pace.is_old(now));
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
