//! What a seed decides before anything happens: the configuration, the burst, and how often each fault strikes.
//!
//! Each history has some faults and not others ("swarm testing"): a fault that is always on hides what only happens
//! without it. Source: <https://users.cs.utah.edu/~regehr/papers/swarm12.pdf>.

use fastrand::Rng;
use protocol::claim::DuplicateRule;
use protocol::limits::{
    KNOWN_CLAIMS_MAX, PARTS_FOR_STRAGGLERS, PARTS_MAX, PAST_DELIVERIES_MAX, SEATS_MAX,
};

use crate::clocks::SKEW_MAX_MS;
use crate::plan::{Faults, IdKind, Plan, SinkKind};
use crate::redeploy::{Change, Redeploy};

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

/// Zero for half of the histories, otherwise mostly small.
fn rate(rng: &mut Rng, max: f64) -> f64 {
    if rng.bool() {
        return 0.0;
    }
    let draw = rng.f64();
    draw * draw * max
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        // A draw among the others would make every seed another history; these came later.
        let apart = &mut Rng::with_seed(seed ^ 0xd2a1_4ed0);
        let later = &mut Rng::with_seed(seed ^ 0x6c8e_944d);
        let calm = rng.u8(..) < 12;
        let faults = Faults {
            throttle: rate(rng, 0.4),
            throttle_member: rate(rng, 0.4),
            unknown_member: rate(rng, 0.1),
            slow: rate(rng, 0.5),
            lose_request: rate(rng, 0.1),
            lose_reply: rate(rng, 0.2),
            apply_late: rate(rng, 0.1),
            kill: rate(rng, 0.03),
            stall: rate(rng, 0.02),
            deliver_twice: rate(rng, 0.3),
            ghost: rate(rng, 0.2),
            lose_answer: rate(rng, 0.1),
            lose_ticket: rate(rng, 0.3),
            repeat_ticket: rate(rng, 0.3),
            early_ticket: rate(rng, 0.3),
            // Some sinks are down for as long as there are faults.
            sink_fails_before: if rng.u8(..) < 16 { 1.0 } else { rate(rng, 0.5) },
            sink_fails_after: rate(rng, 0.5),
            sink_hangs: rate(rng, 0.2),
            sink_refuses: rate(rng, 0.2),
            index_lags_long: rate(rng, 0.3),
            ttl: rate(rng, 1.0),
            depth_wrong: rate(apart, 1.0),
            refuse: rate(later, 0.01),
            lose_record: rate(later, 0.6),
            late_record: rate(later, 0.2),
            jump: rate(later, 1.0),
            take_away: rate(later, 0.02),
            edit: rate(later, 0.3),
        };
        let burst_ms = rng.u64(1_000..=600_000);
        let quarantine = rng.u8(..) < 220;
        let aggregator_timeout_ms = pick(rng, &[10_000, 20_000, 60_000]);
        let mut plan = Plan {
            seed,
            messages: rng.usize(20..=160),
            duplicates: pick(rng, &[0.0, 0.05, 0.2, 0.5]),
            conflicts: pick(rng, &[0.0, 0.0, 0.2]),
            bad: pick(rng, &[0.0, 0.0, 0.1]),
            burst_ms,
            calm_at_ms: burst_ms + rng.u64(60_000..=600_000),
            sources: pick(rng, &[1, 1, 2, 3]),
            keys: pick(rng, &[0, 0, 3]),
            id_kind: pick(
                rng,
                &[
                    IdKind::Json,
                    IdKind::Json,
                    IdKind::Json,
                    IdKind::Attribute,
                    IdKind::MessageId,
                ],
            ),
            rule: pick(rng, &[DuplicateRule::Drop, DuplicateRule::Requeue]),
            dedup_window_secs: pick(rng, &[0, 300, 3_600, 3_600]),
            batching_window_secs: pick(rng, &[1, 10, 60, 300]),
            batch_size: pick(rng, &[1, 4, 16, 50, 50_000]),
            shards: pick(rng, &[1, 2, 3, 10]),
            write_concurrency: pick(rng, &[1, 4, 16]),
            verify_delay_secs: pick(rng, &[2, 20, 60]),
            seal_when_drained: pick(apart, &[true, false, false]),
            part_bytes: pick(apart, &[2_048, 64 << 20]),
            // They take a thousand times as long as others to be made, hashed and compared.
            large: pick(apart, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 3]),
            quarantine,
            event_records: pick(rng, &[5, 20, 60]),
            aggregator_timeout_ms,
            processor_timeout_ms: pick(rng, &[10_000, 30_000]),
            aggregators: pick(rng, &[1, 2, 4]),
            invocations: pick(rng, &[1, 1, 3]),
            processors: pick(rng, &[1, 2, 4]),
            receives_max: pick(rng, if quarantine { &[6, 100, 500] } else { &[6, 30] }),
            items_per_request: pick(rng, &[1, 5, 25]),
            page_entries: pick(rng, &[1, 4, 100, 100]),
            shows_what_refused: rng.bool(),
            sweep_every_ms: pick(rng, &[30_000, 300_000]),
            index_lag_ms: pick(rng, &[0, 200, 3_000]),
            index_lag_max_ms: pick(rng, &[10_000, 120_000, 900_000]),
            outage_every_ms: pick(rng, &[0, 0, 0, 60_000]),
            skew_max_ms: SKEW_MAX_MS,
            sink: pick(later, &[SinkKind::Keys, SinkKind::Names]),
            place: 0,
            bodies_alone: later.bool(),
            parts_max: pick(later, &[PARTS_MAX, PARTS_MAX, PARTS_FOR_STRAGGLERS + 2]),
            past_deliveries_max: pick(later, &[PAST_DELIVERIES_MAX, 2]),
            known_claims_max: pick(later, &[KNOWN_CLAIMS_MAX, 3]),
            seats_max: pick(later, &[SEATS_MAX, SEATS_MAX, 25]),
            crosses_sources: later.bool(),
            prefixes_source: later.u8(..) < 50,
            redeploys: Vec::new(),
            sets_aside: pick(later, &[0.0, 0.2, 0.5]),
            operates_early: later.bool(),
            redrives: later.bool(),
            afterlife_days: pick(later, &[None, None, Some(0), Some(1), Some(15), Some(40)]),
            calm,
            faults: if calm { Faults::default() } else { faults },
        };
        if !plan.quarantine {
            plan.sets_aside = 0.0;
            plan.faults.edit = 0.0;
            plan.parts_max = PARTS_MAX;
        }
        if !calm {
            plan.focus(later);
        }
        if plan.parts_max < PARTS_MAX {
            // One event fills a part.
            plan.part_bytes = 512;
        }
        if plan.past_deliveries_max < PAST_DELIVERIES_MAX {
            // A duplicate waits for an older one to be forgotten, and another for that one.
            plan.dedup_window_secs = plan.dedup_window_secs.min(300);
        }
        if !calm && later.u8(..) < 100 {
            plan.redeploys = (0..later.usize(1..4))
                .map(|_| Redeploy {
                    at_ms: later.u64(0..plan.calm_at_ms),
                    change: Change::draw(later),
                })
                .collect();
        }
        plan
    }

    /// Bends six histories in ten towards what seldom comes together by chance.
    fn focus(&mut self, rng: &mut Rng) {
        match rng.u8(..20) {
            // One environment, whose accounts fail and which dies.
            0 => {
                (self.aggregators, self.duplicates) = (1, 0.2);
                self.index_hides(rng);
                let faults = &mut self.faults;
                (faults.kill, faults.stall, faults.deliver_twice) = (0.02, 0.0, 0.5);
            }
            // Several invocations in one environment, batches that fill all the time, seals that fail.
            1 => {
                (self.aggregators, self.invocations) = (1, 3);
                self.batch_size = pick(rng, &[4, 16]);
                self.index_hides(rng);
                self.faults.kill = 0.0;
            }
            // Duplicates that wait for one another, remember few of those before them, and replace orphans.
            2 | 10 | 11 => {
                self.rule = DuplicateRule::Requeue;
                (self.messages, self.duplicates, self.conflicts) = (100, 0.7, 0.0);
                (self.past_deliveries_max, self.dedup_window_secs) = (2, 300);
                self.batch_size = 4;
                self.index_hides(rng);
                let faults = &mut self.faults;
                (faults.ghost, faults.lose_reply, faults.kill) = (0.6, 0.1, 0.01);
                (faults.lose_record, faults.index_lags_long) = (0.7, 0.8);
            }
            // Releases that do not arrive, and batches that end without a second look.
            3 => {
                (self.batch_size, self.dedup_window_secs) = (4, 3_600);
                let faults = &mut self.faults;
                (faults.refuse, faults.unknown_member) = (0.05, 0.0);
                (faults.kill, faults.lose_request, faults.lose_reply) = (0.0, 0.0, 0.0);
                (faults.apply_late, faults.throttle) = (0.0, 0.0);
            }
            // Clocks that are minutes apart: safety rests on none of them.
            4 => {
                self.skew_max_ms = 200_000;
                self.index_hides(rng);
                self.batch_size = pick(rng, &[4, 50]);
                (self.faults.early_ticket, self.faults.repeat_ticket) = (0.5, 0.5);
                self.faults.slow = 0.5;
            }
            // Leases and completions that arrive a second time, late, and claims that nobody counted.
            5 => {
                self.index_hides(rng);
                (self.processors, self.batching_window_secs) = (4, 1);
                let faults = &mut self.faults;
                (faults.late_record, faults.repeat_ticket, faults.kill) = (0.5, 0.5, 0.02);
                (faults.sink_fails_before, faults.sink_refuses) = (0.3, 0.0);
            }
            // Batches that are set aside, whose releases the index hides, and whose events come again at once.
            6 => {
                self.index_hides(rng);
                (self.quarantine, self.operates_early, self.sets_aside) = (true, true, 0.9);
                (self.dedup_window_secs, self.duplicates) = (3_600, 0.3);
                self.afterlife_days = Some(0);
                self.batch_size = pick(rng, &[1, 2, 4]);
                let faults = &mut self.faults;
                (faults.sink_refuses, faults.unknown_member) = (0.7, 0.3);
                (faults.kill, faults.apply_late) = (0.05, 0.1);
            }
            // Bodies that are elsewhere, and claims of which nobody knows whether they are there.
            7 => {
                self.large = 3;
                let faults = &mut self.faults;
                (faults.unknown_member, faults.lose_reply, faults.refuse) = (0.3, 0.2, 0.02);
                (faults.kill, faults.edit) = (0.0, 0.0);
            }
            // One batch of everything, delivered in the smallest parts there are.
            8 => {
                (self.quarantine, self.parts_max) = (true, PARTS_FOR_STRAGGLERS + 2);
                (self.messages, self.burst_ms, self.sources, self.keys) = (160, 5_000, 1, 0);
                (self.duplicates, self.bad, self.write_concurrency) = (0.0, 0.0, 1);
                (self.aggregators, self.batch_size) = (1, 50_000);
                (self.batching_window_secs, self.seal_when_drained) = (300, false);
                let faults = &mut self.faults;
                (faults.kill, faults.throttle, faults.throttle_member) = (0.0, 0.0, 0.0);
                (faults.lose_request, faults.lose_reply, faults.slow) = (0.0, 0.0, 0.0);
                self.redeploys.clear();
            }
            // Releases that are cut off and that the index hides, and events that come again when the window would be
            // over if it had begun with their batch.
            9 => {
                self.index_hides(rng);
                (self.dedup_window_secs, self.batching_window_secs) = (300, 300);
                (self.batch_size, self.burst_ms) = (50_000, 600_000);
                self.calm_at_ms = self.calm_at_ms.max(self.burst_ms + 60_000);
                (self.messages, self.duplicates, self.conflicts) = (160, 0.5, 0.0);
                self.seal_when_drained = false;
                let faults = &mut self.faults;
                (faults.kill, faults.unknown_member, faults.refuse) = (0.05, 0.3, 0.0);
                (faults.sink_refuses, faults.sink_hangs) = (0.0, 0.0);
                self.redeploys.clear();
            }
            _ => {}
        }
    }

    /// Batches end before the index shows what nobody counted, and counting fails.
    fn index_hides(&mut self, rng: &mut Rng) {
        self.batching_window_secs = pick(rng, &[1, 10, 60]);
        self.verify_delay_secs = 2;
        self.index_lag_max_ms = 900_000;
        self.faults.index_lags_long = pick(rng, &[0.3, 0.8]);
        self.faults.lose_record = pick(rng, &[0.3, 0.7]);
    }
}
