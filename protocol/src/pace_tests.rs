use std::time::Duration;

use super::*;

fn key(shard: u16) -> BatchShard {
    let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
    BatchShard { batch, shard }
}

fn reply(shard: u16, passed: u32, throttled: u32) -> KeyReply {
    KeyReply {
        key: key(shard),
        passed,
        throttled,
    }
}

/// A key that takes `limit` units a second and saves up at most one second of unused units.
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

/// Writes 25 units a request for 30 s, when the pace allows it. Returns the used share of the limit, and the refused
/// share of the writes.
fn run(limit: f64) -> (f64, f64) {
    let mut paces = Paces::default();
    let mut at = Key {
        limit,
        left: 0.0,
        at_ms: 0,
    };
    paces.replied(&[reply(0, 0, 1)], Timestamp::EPOCH);
    let (mut written, mut refused) = (0, 0);
    for ms in 0..30_000 {
        let now = Timestamp::from_ms(ms);
        if paces.free_at(key(0)).is_none_or(|free| free > now) {
            continue;
        }
        paces.take(key(0), 25, now);
        let passed = (0..25).filter(|_| at.write(ms)).count() as u32;
        paces.replied(&[reply(0, passed, 25 - passed)], now);
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
        assert!(reached >= 0.8, "{limit} a second: {reached} reached");
        assert!(refused <= 0.25, "{limit} a second: {refused} refused");
    }
}

/// Lets several environments write to ten keys each of one table for 30 s, 25 writes a request; the table takes `limit`
/// units a second in all. Returns the used share of the limit, and the refused share of the writes.
fn share_a_table(limit: f64, environments: usize) -> (f64, f64) {
    let mut table = Key {
        limit,
        left: limit,
        at_ms: 0,
    };
    let paces = std::iter::repeat_with(Paces::default);
    let mut all: Vec<Paces> = paces.take(environments).collect();
    // Each environment sends a request every 5 ms while no pace holds it back.
    let mut next_at_ms: Vec<u64> = (0..environments as u64).map(|n| n % 5).collect();
    let (mut written, mut refused) = (0, 0);
    for ms in 0..30_000 {
        let now = Timestamp::from_ms(ms);
        for (paces, next_at_ms) in all.iter_mut().zip(&mut next_at_ms) {
            if ms < *next_at_ms || paces.table_free_at().is_some_and(|free| free > now) {
                continue;
            }
            *next_at_ms = ms + 5;
            paces.take_of_table(25, now);
            let mut replies: Vec<KeyReply> = (0..10).map(|shard| reply(shard, 0, 0)).collect();
            for write in 0..25 {
                let reply = &mut replies[write % 10];
                match table.write(ms) {
                    true => reply.passed += 1,
                    false => reply.throttled += 1,
                }
            }
            written += replies.iter().map(|reply| reply.passed).sum::<u32>();
            refused += replies.iter().map(|reply| reply.throttled).sum::<u32>();
            paces.replied(&replies, now);
        }
    }
    let (written, refused) = (f64::from(written), f64::from(refused));
    (written / (limit * 30.0), refused / (written + refused))
}

#[test]
fn environments_that_share_a_table_use_it_and_few_writes_are_refused() {
    for (limit, environments) in [(4_000.0, 1), (4_000.0, 10), (4_000.0, 50), (1_000.0, 10)] {
        let (used, refused) = share_a_table(limit, environments);
        let of = format!("{environments} environments, {limit} units a second");
        assert!(used >= 0.8, "{of}: {used} of it used");
        assert!(refused <= 0.2, "{of}: {refused} of all writes refused");
    }
}

const START: Timestamp = Timestamp::from_ms(1_000_000);

fn after(ms: u64) -> Timestamp {
    START + Duration::from_millis(ms)
}

fn to_a_tenth(units_per_second: f64) -> f64 {
    (units_per_second * 10.0).round() / 10.0
}

/// Returns the rate of a key in units a second.
fn rate(paces: &Paces, shard: u16) -> Option<f64> {
    let pace = paces.keys.get(&key(shard));
    pace.map(|pace| to_a_tenth(pace.units_per_second))
}

/// Returns the rate of the table in units a second.
fn table_rate(paces: &Paces) -> Option<f64> {
    let table = paces.table.as_ref();
    table.map(|pace| to_a_tenth(pace.units_per_second))
}

/// Returns the rates after `keys` keys throttled at once.
fn throttled_at_once(keys: u16, now: Timestamp) -> Paces {
    let mut paces = Paces::default();
    let replies: Vec<KeyReply> = (0..keys).map(|shard| reply(shard, 3, 2)).collect();
    paces.replied(&replies, now);
    paces
}

#[test]
fn a_rate_is_cut_every_250_ms_by_the_throttled_share_and_stays_above_its_minimum() {
    let mut paces = Paces::default();
    for (at_ms, passed, throttled, expected) in [
        (0, 20, 5, 1_000.0),
        (249, 20, 5, 1_000.0),
        // 60 of 75 writes passed since the start: 80 %, less 15 %.
        (250, 20, 5, 680.0),
        (499, 20, 5, 680.0),
        // 30 of 50 writes passed since the last cut.
        (500, 10, 15, 346.8),
        (750, 0, 25, 50.0),
        (1_000, 0, 1, 50.0),
    ] {
        paces.replied(&[reply(0, passed, throttled)], after(at_ms));
        assert_eq!(rate(&paces, 0), Some(expected), "after {at_ms} ms");
    }
}

#[test]
fn a_rate_rises_with_passed_writes_up_to_twice_the_limit_of_a_key() {
    let mut paces = Paces::default();
    paces.replied(&[reply(0, 20, 5)], START);
    paces.replied(&[reply(0, 25, 0)], START);
    assert_eq!(rate(&paces, 0), Some(1_005.0));
    paces.replied(&[reply(0, 4_975, 0), reply(1, 9, 0)], START);
    assert_eq!((rate(&paces, 0), rate(&paces, 1)), (Some(2_000.0), None));
    paces.replied(&[reply(0, 1, 0)], START);
    assert_eq!(rate(&paces, 0), None);
}

#[test]
fn writes_are_spaced_by_the_rate() {
    let mut paces = Paces::default();
    paces.replied(&[reply(0, 20, 5)], START);
    paces.replied(&[reply(0, 20, 5)], after(250));
    let mut take = |units, now| {
        paces.take(key(0), units, now);
        paces.free_at(key(0))
    };
    // The rate is 680 a second.
    assert_eq!(take(1, after(0)), Some(after(2)));
    assert_eq!(take(16, after(0)), Some(after(25)));
    assert_eq!(take(17, after(0)), Some(after(50)));
    assert_eq!(take(17, after(100)), Some(after(125)));
}

#[test]
fn a_rate_is_forgotten_60_s_after_its_last_cut_and_last_write() {
    let mut paces = Paces::default();
    paces.replied(&[reply(0, 20, 5)], START);
    paces.forget_old(after(59_999));
    assert_eq!(rate(&paces, 0), Some(1_000.0));
    paces.take(key(0), 1_000, START);
    paces.forget_old(after(60_999));
    assert_eq!(rate(&paces, 0), Some(1_000.0));
    paces.forget_old(after(61_000));
    assert_eq!(rate(&paces, 0), None);
    paces.replied(&[reply(0, 20, 5)], START);
    paces.forget_old(after(60_000));
    assert_eq!(rate(&paces, 0), None);
    let mut table = throttled_at_once(3, START);
    table.forget_old(after(59_999));
    assert!(table.table_free_at().is_some());
    table.forget_old(after(60_000));
    assert_eq!(table.table_free_at(), None);
}

#[test]
fn keys_that_throttle_together_give_the_table_the_sum_of_their_cut_rates() {
    let two = throttled_at_once(2, START);
    assert_eq!((table_rate(&two), rate(&two, 0)), (None, Some(1_000.0)));
    let three = throttled_at_once(3, START);
    assert_eq!((table_rate(&three), rate(&three, 0)), (Some(1_530.0), None));
    for (at_ms, expected) in [(249, Some(1_530.0)), (250, None)] {
        let mut paces = throttled_at_once(2, START);
        paces.replied(&[reply(2, 3, 2)], after(at_ms));
        assert_eq!(table_rate(&paces), expected, "after {at_ms} ms");
    }
}

#[test]
fn keys_whose_rates_were_cut_by_the_same_reply_are_not_cut_again_for_the_table() {
    let mut paces = Paces::default();
    for (shard, at_ms) in [(0, 0), (1, 300), (2, 600)] {
        paces.replied(&[reply(shard, 20, 5)], after(at_ms));
    }
    let all: Vec<KeyReply> = (0..3).map(|shard| reply(shard, 5, 20)).collect();
    assert_eq!(table_rate(&paces), None);
    paces.replied(&all, after(900));
    // 25 of 50 writes of each key passed since its rate began: 425 units a second each.
    assert_eq!((table_rate(&paces), rate(&paces, 0)), (Some(1_275.0), None));
}

#[test]
fn the_rate_of_a_table_falls_rises_and_ends() {
    let mut paces = throttled_at_once(3, START);
    paces.take_of_table(15, START);
    assert_eq!(paces.table_free_at(), Some(after(10)));
    paces.replied(&[reply(0, 9, 1), reply(1, 9, 1)], after(250));
    assert_eq!((table_rate(&paces), rate(&paces, 0)), (Some(1_170.4), None));
    paces.replied(&[reply(0, 1, 0)], after(500));
    assert_eq!(table_rate(&paces), Some(1_170.6));
    // All writes of the request were to one key, so the key or the table may be the limit.
    paces.replied(&[reply(0, 1, 2)], after(500));
    assert_eq!((table_rate(&paces), rate(&paces, 0)), (Some(497.5), None));
    // One key of several throttled: the key is the limit, and the table keeps its rate.
    paces.replied(&[reply(0, 1, 2), reply(1, 9, 0)], after(750));
    assert_eq!(table_rate(&paces), Some(497.5));
    assert_eq!(rate(&paces, 0), Some(1_000.0));
    // Two keys of three throttled: the table is the limit.
    let two_of_three = [reply(0, 0, 1), reply(1, 1, 1), reply(2, 2, 0)];
    paces.replied(&two_of_three, after(999));
    assert_eq!((table_rate(&paces), rate(&paces, 2)), (Some(253.7), None));
    for round in 5..20 {
        paces.replied(&[reply(0, 0, 1), reply(1, 0, 1)], after(250 * round));
    }
    assert_eq!(table_rate(&paces), Some(TABLE_PACE_UNITS_PER_SECOND_MIN));
    let to_the_most = (TABLE_PACE_UNITS_PER_SECOND_MAX - TABLE_PACE_UNITS_PER_SECOND_MIN) / RISE;
    paces.replied(&[reply(3, to_the_most as u32, 0)], after(6_000));
    assert_eq!(table_rate(&paces), Some(TABLE_PACE_UNITS_PER_SECOND_MAX));
    paces.replied(&[reply(3, 1, 0)], after(6_000));
    assert_eq!(table_rate(&paces), None);
}

#[test]
fn single_keys_that_throttle_do_not_change_the_rate_of_the_table() {
    let mut paces = throttled_at_once(3, START);
    for shard in 0..4 {
        paces.replied(&[reply(shard, 1, 2), reply(9, 9, 0)], START);
    }
    // Four times, 9 writes passed in a reply that throttled a key. Such replies do not raise the table's rate.
    assert_eq!(table_rate(&paces), Some(1_530.0));
    assert_eq!(rate(&paces, 3), Some(1_000.0));
}
