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

/// What is left of a rate after a reply that throttled some of it, and after one that throttled more than half.
const CUT: f64 = 0.85;
const DEEP_CUT: f64 = 0.5;
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
    cut_at: Timestamp,
    throttled_at: Timestamp,
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
            cut_at: now,
            throttled_at: now,
        }
    }

    fn free_at(&self) -> Timestamp {
        Timestamp::from_ms(self.free_at_ms.ceil() as u64)
    }

    fn take(&mut self, units: usize, now: Timestamp) {
        let start = self.free_at_ms.max(now.as_ms() as f64);
        self.free_at_ms = start + units as f64 / self.units_per_second * 1_000.0;
    }

    fn throttled(&mut self, passed: u32, throttled: u32, least: f64, now: Timestamp) {
        self.throttled_at = now;
        // What was under way at the same time is one reason to slow down, not several.
        if self.cut_at + PACE_CUT_EVERY <= now {
            self.cut_at = now;
            let cut = if throttled > passed { DEEP_CUT } else { CUT };
            self.units_per_second = (self.units_per_second * cut).max(least);
        }
    }

    fn is_old(&self, now: Timestamp) -> bool {
        let last = Timestamp::from_ms(self.free_at_ms as u64).max(self.cut_at);
        last + PACE_FORGOTTEN_AFTER <= now
    }
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
                table.units_per_second += RISE * f64::from(passed);
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
                pace.units_per_second += RISE * f64::from(reply.passed);
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
        self.table = Some(Pace::new(together * DEEP_CUT, now));
        self.keys.clear();
    }

    /// Forgets the keys that have not been written for long, whose batches are done, and a table that has not.
    pub fn forget_old(&mut self, now: Timestamp) {
        self.keys.retain(|_, pace| !pace.is_old(now));
        self.table.take_if(|pace| pace.is_old(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(shard: u16) -> BatchShard {
        let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        BatchShard { batch, shard }
    }

    fn replied(paces: &mut Paces, shard: u16, (passed, throttled): (u32, u32), now: Timestamp) {
        let key = key(shard);
        let reply = KeyReply {
            key,
            passed,
            throttled,
        };
        paces.replied(&[reply], now);
    }

    /// A key that takes so many units a second and saves up one second of them.
    struct Key {
        limit: f64,
        left: f64,
        at_ms: u64,
    }

    impl Key {
        fn write(&mut self, now_ms: u64) -> bool {
            let since = (now_ms - self.at_ms) as f64 / 1_000.0;
            self.at_ms = now_ms;
            self.left = (self.left + since * self.limit).min(self.limit);
            let takes = self.left >= 1.0;
            self.left -= f64::from(takes);
            takes
        }
    }

    /// Writes 25 at a time for 30 s as the pace allows; answers the share of the limit that was reached, and the share
    /// of the writes that was refused.
    fn run(limit: f64) -> (f64, f64) {
        let mut paces = Paces::default();
        let mut at = Key {
            limit,
            left: 0.0,
            at_ms: 0,
        };
        replied(&mut paces, 0, (0, 1), Timestamp::EPOCH);
        let (mut written, mut refused) = (0, 0);
        for ms in 0..30_000 {
            let now = Timestamp::from_ms(ms);
            if paces.free_at(key(0)).is_none_or(|free| free > now) {
                continue;
            }
            paces.take(key(0), 25, now);
            let passed = (0..25).filter(|_| at.write(ms)).count() as u32;
            replied(&mut paces, 0, (passed, 25 - passed), now);
            written += passed;
            refused += 25 - passed;
        }
        let (written, refused) = (f64::from(written), f64::from(refused));
        (written / (limit * 30.0), refused / (written + refused))
    }

    #[test]
    fn the_rate_stays_near_what_the_key_takes() {
        for limit in [100.0, 250.0, 1_000.0] {
            let (reached, refused) = run(limit);
            assert!(
                reached >= 0.8,
                "{limit} units a second: {reached} of it reached"
            );
            assert!(
                refused <= 0.25,
                "{limit} units a second: {refused} of all writes refused"
            );
        }
    }

    #[test]
    fn only_keys_that_throttled_wait_and_only_until_long_after() {
        let mut paces = Paces::default();
        let now = Timestamp::from_ms(1_000);
        replied(&mut paces, 1, (20, 5), now);
        paces.take(key(1), 25, now);
        assert_eq!(paces.free_at(key(1)), Some(Timestamp::from_ms(1_025)));
        assert_eq!(paces.free_at(key(2)), None);
        paces.forget_old(now);
        assert!(paces.free_at(key(1)).is_some());
        paces.forget_old(now + PACE_FORGOTTEN_AFTER * 2);
        assert_eq!(paces.free_at(key(1)), None);
    }

    #[test]
    fn a_key_that_takes_everything_is_let_go() {
        let mut paces = Paces::default();
        replied(&mut paces, 1, (20, 5), Timestamp::EPOCH);
        assert!(paces.free_at(key(1)).is_some());
        for _ in 0..300 {
            replied(&mut paces, 1, (25, 0), Timestamp::EPOCH);
        }
        assert_eq!(paces.free_at(key(1)), None);
    }

    /// Environments that write to ten keys each of a table which takes so many units a second of all of them together,
    /// 25 writes a request; returns the share of the limit that is used, and the share of the writes that is refused, from
    /// the sixth second on.
    fn share_a_table(limit: f64, environments: usize) -> (f64, f64) {
        let mut table = Key {
            limit,
            left: limit,
            at_ms: 0,
        };
        let mut all: Vec<Paces> = std::iter::repeat_with(Paces::default)
            .take(environments)
            .collect();
        // Without a pace, a request of each every 5 ms.
        let mut asks_at_ms: Vec<u64> = (0..environments as u64).map(|n| n % 5).collect();
        let (mut written, mut refused) = (0, 0);
        for ms in 0..30_000 {
            let now = Timestamp::from_ms(ms);
            for (paces, asks_at_ms) in all.iter_mut().zip(&mut asks_at_ms) {
                if ms < *asks_at_ms || paces.table_free_at().is_some_and(|free| free > now) {
                    continue;
                }
                *asks_at_ms = ms + 5;
                paces.take_of_table(25, now);
                let mut replies: Vec<KeyReply> = (0..10)
                    .map(|shard| KeyReply {
                        key: key(shard),
                        passed: 0,
                        throttled: 0,
                    })
                    .collect();
                for write in 0..25 {
                    let reply = &mut replies[write % 10];
                    match table.write(ms) {
                        true => reply.passed += 1,
                        false => reply.throttled += 1,
                    }
                }
                if ms >= 6_000 {
                    written += replies.iter().map(|reply| reply.passed).sum::<u32>();
                    refused += replies.iter().map(|reply| reply.throttled).sum::<u32>();
                }
                paces.replied(&replies, now);
            }
        }
        let (written, refused) = (f64::from(written), f64::from(refused));
        (written / (limit * 24.0), refused / (written + refused))
    }

    #[test]
    fn environments_that_share_a_table_use_it_and_are_seldom_refused() {
        for (limit, environments) in [(4_000.0, 1), (4_000.0, 10), (4_000.0, 50), (1_000.0, 10)] {
            let (used, refused) = share_a_table(limit, environments);
            assert!(
                used >= 0.8,
                "{environments} environments, {limit} units a second: {used} of it used"
            );
            assert!(
                refused <= 0.2,
                "{environments} environments, {limit} units a second: {refused} of all writes refused"
            );
        }
    }

    #[test]
    fn one_key_that_throttles_beside_others_is_not_the_table() {
        let mut paces = Paces::default();
        let reply = |shard, throttled| KeyReply {
            key: key(shard),
            passed: 3,
            throttled,
        };
        let now = Timestamp::EPOCH;
        paces.replied(&[reply(0, 2), reply(1, 0), reply(2, 0)], now);
        assert_eq!(paces.table_free_at(), None);
        assert!(paces.free_at(key(0)).is_some());
        let all: Vec<KeyReply> = (0..TABLE_KEYS_MIN as u16).map(|shard| reply(shard, 2)).collect();
        paces.replied(&all, now);
        assert!(paces.table_free_at().is_some());
        assert_eq!(paces.free_at(key(0)), None, "the table's rate is for all of them");
        // A key that is hot besides still gets a rate of its own.
        paces.replied(&[reply(7, 2), reply(1, 0)], now);
        assert!(paces.free_at(key(7)).is_some());
        assert_eq!(paces.free_at(key(1)), None);
        paces.forget_old(now + PACE_FORGOTTEN_AFTER * 2);
        assert_eq!(paces.table_free_at(), None);
    }
}
