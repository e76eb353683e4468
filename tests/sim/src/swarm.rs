//! Draws a plan from a seed: the configuration, the burst, and the rate of each fault.
//!
//! Each history has some of the faults only ("swarm testing"), because a fault that is always on hides bugs that occur
//! only without it. Source: <https://users.cs.utah.edu/~regehr/papers/swarm12.pdf>.

mod focus;
mod log;

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use protocol::bodies::ObjectSizes;
use protocol::claim::DuplicateRule;
use protocol::limits::{PARTS_FOR_STRAGGLERS, PARTS_MAX, PAST_DELIVERIES_MAX};
use protocol::time::Timestamp;

use crate::calendar::{CHANGING, Calendar, Zone};
use crate::pauses::PlannedPause;
use crate::plan::{Faults, IdKind, Plan, SKEW_MAX_MS, SinkKind};
use crate::redeploy::{BodiesKind, Change};

/// The time at which a history begins that crosses no change of a clock.
const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);

/// The kinds of event ids to draw from.
const ID_KINDS: [IdKind; 5] = [
    IdKind::Json,
    IdKind::Json,
    IdKind::Json,
    IdKind::Attribute,
    IdKind::MessageId,
];

/// The lengths of periods to draw from, in minutes.
const PERIODS: [u32; 2] = [10, 30];
/// The dedup windows of days to draw from, in seconds.
const DEDUP_WINDOWS: [u64; 3] = [86_400, 7 * 86_400, 13 * 86_400];
const QUOTAS: [u64; 3] = [1, 5, 20];
/// The rates of deliveries to draw from, in events per second.
const RATES: Range<u64> = 1..20;

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

/// Draws a rate: zero for half of the histories, otherwise mostly small.
fn rate(rng: &mut Rng, max: f64) -> f64 {
    if rng.bool() {
        return 0.0;
    }
    let draw = rng.f64();
    draw * draw * max
}

impl Plan {
    /// Returns the plan of a seed: in half of them, all environments share the batches of a log.
    pub fn of(seed: u64) -> Plan {
        match Rng::with_seed(seed ^ 0x51f0_c417).bool() {
            true => Plan::of_items(seed),
            false => Plan::of_log(seed),
        }
    }

    /// Returns the plan of a seed with bodies in lock items.
    pub fn of_items(seed: u64) -> Plan {
        let mut plan = Plan::drawn(seed);
        plan.leave_quotas_out();
        plan
    }

    /// Returns the plan of a seed with bodies in lock items, and perhaps with quotas, which only the log has.
    fn drawn(seed: u64) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        // Draws that were added later have generators of their own: a new draw from `rng` would change every history.
        let apart = &mut Rng::with_seed(seed ^ 0xd2a1_4ed0);
        let later = &mut Rng::with_seed(seed ^ 0x6c8e_944d);
        let calm = rng.u8(..) < 12;
        let faults = Faults::draw(rng, apart, later);
        let faults = if calm { Faults::default() } else { faults };
        let mut plan = Plan::draw(seed, calm, faults, [rng, apart, later]);
        plan.adjust(later);
        plan.draw_pauses(&mut Rng::with_seed(seed ^ 0x9a05_e5ed));
        plan.draw_hours(&mut Rng::with_seed(seed ^ 0x0f1c_e402));
        plan.draw_periods(&mut Rng::with_seed(seed ^ 0x9e71_0d50));
        plan.draw_quota(&mut Rng::with_seed(seed ^ 0x400a_7a5e));
        plan.draw_notices(&mut Rng::with_seed(seed ^ 0x0711_ce05));
        // The parts of one history of four have numbers.
        plan.sequence = Rng::with_seed(seed ^ 0x5e90_e9ce).u8(..) < 64;
        // The sink rejects events in one history of four.
        let rejects = &mut Rng::with_seed(seed ^ 0x4e1e_c7ed);
        if rejects.u8(..) < 64 {
            plan.rejects = pick(rejects, &[0.05, 0.3]);
        }
        plan.draw_zone(&mut Rng::with_seed(seed ^ 0x2070_ec4a));
        plan.draw_more(&mut Rng::with_seed(seed ^ 0x3074_ed42));
        plan
    }

    /// Returns the plan of a seed with everything on that legacy systems ask for: hours and a rate of deliveries, periods, quotas,
    /// numbers and notices.
    pub fn with_everything(seed: u64) -> Plan {
        let mut plan = Plan::of(seed);
        let rng = &mut Rng::with_seed(seed ^ 0xe7e7_a110);
        plan.quarantine = true;
        plan.keys = plan.keys.max(3);
        plan.hours = plan.hours.or_else(|| Some(plan.hours(rng)));
        plan.close_every = plan.close_every.or_else(|| Some(pick(rng, &PERIODS)));
        if plan.bodies.is_log() && plan.switch.is_none() {
            plan.quota_max = plan.quota_max.or_else(|| Some(pick(rng, &QUOTAS)));
        }
        (plan.event_times, plan.sequence, plan.notices) = (true, true, true);
        plan.rejects = plan.rejects.max(0.1);
        plan.draw_zone(&mut Rng::with_seed(seed ^ 0x2070_ec4a));
        if !plan.calm && plan.events_per_second == 0 {
            plan.events_per_second = rng.u64(RATES);
        }
        plan
    }

    fn draw(seed: u64, calm: bool, faults: Faults, [rng, apart, later]: [&mut Rng; 3]) -> Plan {
        let burst_ms = rng.u64(1_000..=600_000);
        let quarantine = rng.u8(..) < 220;
        let aggregator_timeout_ms = pick(rng, &[10_000, 20_000, 60_000]);
        Plan {
            seed,
            start: START,
            messages: rng.usize(20..=160),
            duplicates: pick(rng, &[0.0, 0.05, 0.2, 0.5]),
            conflicts: pick(rng, &[0.0, 0.0, 0.2]),
            bad: pick(rng, &[0.0, 0.0, 0.1]),
            rejects: 0.0,
            burst_ms,
            calm_at_ms: burst_ms + rng.u64(60_000..=600_000),
            sources: pick(rng, &[1, 1, 2, 3]),
            keys: pick(rng, &[0, 0, 3]),
            id_kind: pick(rng, &ID_KINDS),
            rule: pick(rng, &[DuplicateRule::Drop, DuplicateRule::Requeue]),
            dedup_window_secs: pick(rng, &[0, 300, 3_600, 3_600]),
            batching_window_secs: pick(rng, &[1, 10, 60, 300]),
            batch_size: pick(rng, &[1, 4, 16, 50, 50_000]),
            shards: pick(rng, &[1, 2, 3, 10]),
            write_concurrency: pick(rng, &[1, 4, 16]),
            verify_delay_secs: pick(rng, &[2, 20, 60]),
            seal_when_drained: pick(apart, &[true, false, false]),
            bodies: BodiesKind::Items,
            part_bytes: pick(apart, &[2_048, 64 << 20]),
            // Large bodies take a thousand times as long to make, hash and compare.
            large: pick(apart, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 3]),
            quarantine,
            notices: false,
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
            destination: 0,
            bodies_alone: later.bool(),
            sequence: false,
            parts_max: pick(later, &[PARTS_MAX, PARTS_MAX, PARTS_FOR_STRAGGLERS + 2]),
            past_deliveries_max: pick(later, &[PAST_DELIVERIES_MAX, 2]),
            crosses_sources: later.bool(),
            prefixes_source: later.u8(..) < 50,
            redeploys: Vec::new(),
            hours: None,
            close_every: None,
            event_times: false,
            close_after_idle_secs: 0,
            quota_max: None,
            events_per_second: 0,
            pauses: Vec::new(),
            sets_aside: pick(later, &[0.0, 0.2, 0.5]),
            operates_early: later.bool(),
            redrives: later.bool(),
            redrives_early: false,
            afterlife_days: pick(later, &[None, None, Some(0), Some(1), Some(15), Some(40)]),
            object_sizes: ObjectSizes::default(),
            denial: None,
            standstill_days: None,
            manifest_lost_at_ms: None,
            forgets_at_ms: Vec::new(),
            switch: None,
            urgent: 0.0,
            reports_duplicates: false,
            accounts: 0,
            calm,
            faults,
        }
    }

    /// Draws hours of delivery. Short ones often end while a batch is worked on. Where clocks are too wrong, rare hours are longer than the
    /// error: a clock that is always ahead would miss every opening.
    fn hours(&self, rng: &mut Rng) -> Calendar {
        let every = pick(rng, &[6, 120]);
        let (first, open) = (rng.u32(..every), rng.u32(1..every));
        let error = (2 * self.skew_max_ms / 60_000 + 1) as u32;
        let length = if every > error { open.max(error) } else { open };
        Calendar {
            every,
            first,
            length,
            zone: Zone::Utc,
        }
    }

    /// Gives the hours of one history of two a time zone whose clock changes while it runs.
    fn draw_zone(&mut self, rng: &mut Rng) {
        let Some(hours) = self.hours.as_mut().filter(|_| rng.bool()) else {
            return;
        };
        hours.zone = pick(rng, &CHANGING);
        let changes = hours.zone.changes_in(rng.i64(2024..2029));
        let changes = changes.expect("the clock of the zone changes");
        let before = Duration::from_millis(rng.u64(..self.calm_at_ms + 3_600_000));
        self.start = pick(rng, &changes).saturating_sub(before);
    }

    /// Gives deliveries hours in one history of eight, and a rate in as many.
    fn draw_hours(&mut self, rng: &mut Rng) {
        if rng.u8(..) < 32 {
            self.hours = Some(self.hours(rng));
        }
        // With a rate, a history without faults would not begin every batch at once.
        if !self.calm && rng.u8(..) < 32 {
            self.events_per_second = rng.u64(RATES);
        }
    }

    /// Has periods in one history of four, and in some of these changes them while batches are open. Closes batches that are idle in one
    /// history of eight.
    fn draw_periods(&mut self, rng: &mut Rng) {
        if rng.u8(..) < 32 {
            self.close_after_idle_secs = rng.u64(1..120);
        }
        if rng.u8(..) >= 64 {
            return;
        }
        self.close_every = Some(pick(rng, &PERIODS));
        self.event_times = rng.bool();
        if !self.calm && rng.u8(..) < 100 {
            let at_ms = rng.u64(0..self.calm_at_ms);
            let change = Change::CloseEvery(pick(rng, &[None, Some(20)]));
            self.redeploys.push((at_ms, change));
        }
    }

    /// Has urgent events, reports of duplicates, and long dedup windows in one history of eight each; a rate without faults, and quotas of
    /// other keys than those of batches, in some.
    fn draw_more(&mut self, rng: &mut Rng) {
        let may_be_urgent = rng.u8(..) < 32 || self.calm && rng.bool();
        if may_be_urgent && self.id_kind == IdKind::Json {
            self.urgent = pick(rng, &[0.02, 0.2]);
            self.keys = if rng.bool() { 3 } else { self.keys };
        }
        self.reports_duplicates = rng.u8(..) < 32;
        if rng.u8(..) < 32 && self.past_deliveries_max == PAST_DELIVERIES_MAX {
            self.dedup_window_secs = pick(rng, &DEDUP_WINDOWS);
        }
        if rng.u8(..) < 64 && self.id_kind != IdKind::MessageId && self.quarantine {
            self.accounts = 4;
            self.quota_max = self
                .quota_max
                .or_else(|| rng.bool().then(|| pick(rng, &QUOTAS)));
            self.event_times |= self.quota_max.is_some();
        }
        if rng.bool()
            && let Some(pause) = self.pauses.first_mut()
        {
            // The first pause is about a source and a key, and holds many batches.
            self.keys = 3;
            (pause.at_ms, pause.length_ms) = (rng.u64(..self.burst_ms), 900_000);
            (pause.source, pause.key) = (Some(0), "k0".parse().ok());
            pause.resumed_after_ms = rng.bool().then_some(600_000);
        }
        if self.calm {
            self.part_bytes = pick(rng, &[512, 2_048, 64 << 20]);
        }
        if self.calm && rng.bool() {
            self.events_per_second = rng.u64(1..5);
            self.batch_size = pick(rng, &[4, 16, 50]);
            self.burst_ms = self.burst_ms.min(60_000);
            if rng.u8(..) < 64 {
                // More than turns are taken ahead for.
                (self.messages, self.events_per_second) = (1_500, 1);
            }
        }
    }

    /// Gives each batch key a quota in every second history that has keys. In some of them many events are set aside, and come again
    /// while there are faults.
    fn draw_quota(&mut self, rng: &mut Rng) {
        if self.keys == 0 || !self.quarantine || rng.bool() {
            return;
        }
        self.quota_max = Some(pick(rng, &QUOTAS));
        self.event_times = true;
        if !self.calm && rng.u8(..) < 64 {
            let at_ms = rng.u64(0..self.calm_at_ms);
            let change = Change::QuotaMax(rng.u64(1..20));
            self.redeploys.push((at_ms, change));
        }
        self.redrives_early = rng.bool();
        if !self.calm && rng.u8(..) < 100 {
            (self.redrives, self.redrives_early) = (true, true);
            (self.operates_early, self.sets_aside) = (true, 0.9);
            self.quota_max = Some(pick(rng, &[1, 3]));
            (self.faults.sink_refuses, self.faults.sink_fails_before) = (0.5, 0.0);
        }
    }

    /// Sets `COMPLETION` in one history of four. In some of them it is set later, or removed and set again: at the end it is set, so
    /// that every notice which is in a record must be sent.
    fn draw_notices(&mut self, rng: &mut Rng) {
        self.notices = rng.u8(..) < 64;
        if self.calm || !self.notices || rng.u8(..) > 100 {
            return;
        }
        let set_at_ms = rng.u64(0..self.calm_at_ms);
        self.redeploys.push((set_at_ms, Change::Notices(true)));
        self.notices = rng.bool();
        if self.notices {
            let removed_at_ms = rng.u64(0..=set_at_ms);
            self.redeploys.push((removed_at_ms, Change::Notices(false)));
        }
    }

    /// Has an operator pause deliveries in one history of eight.
    fn draw_pauses(&mut self, rng: &mut Rng) {
        if rng.u8(..) < 32 {
            let count = rng.usize(1..4);
            let draw = |_| PlannedPause::draw(rng, self.calm_at_ms, self.sources, self.keys);
            self.pauses = (0..count).map(draw).collect();
        }
    }

    /// Makes the drawn values fit together, and draws what depends on them.
    fn adjust(&mut self, later: &mut Rng) {
        if !self.quarantine {
            self.sets_aside = 0.0;
            self.faults.edit = 0.0;
            self.parts_max = PARTS_MAX;
        }
        if !self.calm {
            self.focus(later);
        }
        if self.large > 0 {
            // Such a load would have thousands of small pieces.
            self.object_sizes.item_bytes_max = ObjectSizes::default().item_bytes_max;
        }
        if self.parts_max < PARTS_MAX {
            // One event fills a part.
            self.part_bytes = 512;
        }
        if self.past_deliveries_max < PAST_DELIVERIES_MAX {
            // Duplicates wait for one another: each until an older delivery is no longer remembered.
            self.dedup_window_secs = self.dedup_window_secs.min(300);
        }
        if !self.calm && later.u8(..) < 100 {
            let count = later.usize(1..4);
            let draw = |_| (later.u64(0..self.calm_at_ms), Change::draw(later));
            self.redeploys = (0..count).map(draw).collect();
        }
    }
}

impl Faults {
    fn draw(rng: &mut Rng, apart: &mut Rng, later: &mut Rng) -> Faults {
        Faults {
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
            // Some sinks are down until the faults stop.
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
        }
    }
}
