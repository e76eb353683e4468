//! Plans with combinations of faults and settings that seldom come together by chance.

use fastrand::Rng;
use protocol::claim::DuplicateRule;
use protocol::limits::PARTS_FOR_STRAGGLERS;

use super::pick;
use crate::plan::{IdKind, Plan};
use crate::redeploy::{BodiesKind, Change};

/// A period of a day, in minutes.
const DAY: u32 = 24 * 60;
/// How much longer the messages of a history with periods of a day come.
const DAYS_MS: u64 = 36 * 3_600_000;

impl Plan {
    /// Returns the plan of a seed with many small batches of one sequence, which are set aside by processors that often die.
    pub fn of_discarded_numbers(seed: u64) -> Plan {
        let mut plan = Plan::of_items(seed);
        (plan.calm, plan.quarantine, plan.operates_early) = (false, true, true);
        (plan.sequence, plan.sets_aside) = (true, 0.9);
        (plan.sources, plan.keys, plan.batch_size) = (1, 0, 4);
        (plan.processors, plan.messages) = (4, 100);
        (plan.hours, plan.events_per_second) = (None, 0);
        plan.pauses.clear();
        let faults = &mut plan.faults;
        (faults.sink_refuses, faults.sink_fails_before) = (0.5, 0.0);
        (faults.kill, faults.lose_record) = (0.03, 0.5);
        (faults.apply_late, faults.late_record) = (0.0, 0.0);
        plan
    }

    /// Returns the plan of a seed whose messages arrive twice, at aggregators that often die before their claims are counted.
    pub fn of_uncounted_claims(seed: u64) -> Plan {
        let mut plan = Plan::of_items(seed);
        plan.calm = false;
        plan.focus_on_dying_environments(&mut Rng::with_seed(seed));
        (plan.aggregators, plan.invocations) = (3, 3);
        let faults = &mut plan.faults;
        (faults.kill, faults.deliver_twice) = (0.05, 0.9);
        (faults.lose_record, faults.index_lags_long) = (0.7, 0.8);
        plan
    }

    /// Returns the plan of a seed of the log whose first manifest is lost soon, while writes of it are still on their way.
    pub fn of_lost_manifests(seed: u64) -> Plan {
        let mut plan = Plan::of_log(seed);
        (plan.calm, plan.standstill_days) = (false, None);
        if plan.switch.is_none() {
            plan.manifest_lost_at_ms = Some(0);
        }
        plan.faults.apply_late = 0.2;
        plan
    }

    /// Returns the plan of a seed with few messages in batches that fill up long before their windows end. They are set aside and sent back
    /// before these windows end, to environments that had nothing to do since.
    pub fn of_early_redrives(seed: u64) -> Plan {
        let mut plan = Plan::of_items(seed);
        (plan.calm, plan.quarantine) = (false, true);
        (plan.operates_early, plan.sets_aside) = (true, 0.9);
        (plan.redrives, plan.redrives_early) = (true, true);
        (plan.sources, plan.keys, plan.close_every) = (1, 0, None);
        (plan.batch_size, plan.batching_window_secs) = (4, 300);
        (plan.aggregators, plan.invocations, plan.event_records) = (4, 1, 5);
        (plan.messages, plan.burst_ms) = (16, 1_000);
        plan.pauses.clear();
        (plan.hours, plan.seal_when_drained) = (None, false);
        let faults = &mut plan.faults;
        (faults.sink_refuses, faults.sink_fails_before) = (0.7, 0.0);
        plan
    }

    /// Returns the plan of a seed whose duplicates wait for one another, and replace orphans.
    pub fn of_waiting_duplicates(seed: u64) -> Plan {
        let mut plan = Plan::of_items(seed);
        plan.calm = false;
        plan.focus_on_waiting_duplicates(&mut Rng::with_seed(seed));
        plan
    }

    /// Returns the plan of a seed of the log whose operator often has events forgotten that come again.
    pub fn of_forgets(seed: u64) -> Plan {
        let mut plan = Plan::of_log(seed);
        plan.stay_with_the_log();
        (plan.batch_size, plan.duplicates, plan.conflicts) = (4, 0.7, 0.0);
        (plan.dedup_window_secs, plan.afterlife_days) = (3_600, Some(0));
        let rng = &mut Rng::with_seed(seed);
        plan.forgets_at_ms = (0..10).map(|_| rng.u64(..plan.calm_at_ms)).collect();
        plan
    }

    /// Returns the plan of a seed of the log with few places in each quota, for events that are set aside and come again, some of them
    /// in another quota, and for batches that commit at the same time.
    pub fn of_places(seed: u64) -> Plan {
        let mut plan = Plan::of_log(seed);
        plan.stay_with_the_log();
        plan.id_kind = IdKind::Json;
        (plan.keys, plan.accounts, plan.event_times) = (3, 3, true);
        plan.quota_max = Some(1 + seed % 4);
        (plan.messages, plan.batch_size, plan.processors) = (100, 4, 4);
        (plan.duplicates, plan.conflicts) = (0.5, 0.3);
        (plan.redrives, plan.redrives_early) = (true, true);
        (plan.operates_early, plan.sets_aside) = (true, 0.9);
        (plan.hours, plan.events_per_second) = (None, 0);
        plan.afterlife_days = None;
        plan.pauses.clear();
        plan.redeploys.clear();
        plan.forgets_at_ms.clear();
        let faults = &mut plan.faults;
        (faults.sink_refuses, faults.sink_fails_before) = (0.5, 0.0);
        plan
    }

    /// Leaves out a switch of the layout, and all that loses the index or what it was made from.
    fn stay_with_the_log(&mut self) {
        if self.switch.take().is_some() {
            self.bodies = BodiesKind::Log;
        }
        (self.calm, self.denial) = (false, None);
        (self.standstill_days, self.manifest_lost_at_ms) = (None, None);
    }

    /// Leaves out quotas, which only the log has.
    pub(super) fn leave_quotas_out(&mut self) {
        self.quota_max = None;
        let is_other = |change: &Change| !matches!(change, Change::QuotaMax(_));
        self.redeploys.retain(|(_, change)| is_other(change));
    }

    /// Changes six plans in ten to one of ten subjects.
    pub(super) fn focus(&mut self, rng: &mut Rng) {
        match rng.u8(..20) {
            0 => self.focus_on_dying_environments(rng),
            1 => self.focus_on_sharing_invocations(rng),
            2 | 10 | 11 => self.focus_on_waiting_duplicates(rng),
            3 => self.focus_on_lost_releases(),
            4 => self.focus_on_wrong_clocks(rng),
            5 => self.focus_on_late_leases(rng),
            6 => self.focus_on_setting_aside(rng),
            7 => self.focus_on_overflow(),
            8 => self.focus_on_small_parts(),
            9 => self.focus_on_forgotten_deliveries(rng),
            _ => {}
        }
    }

    /// Batches whose first parts are delivered long before their last ones, and duplicates of delivered events that arrive
    /// after their short window.
    pub(super) fn focus_on_unfinished_batches(&mut self) {
        self.rule = DuplicateRule::Drop;
        (self.messages, self.duplicates, self.conflicts) = (120, 0.5, 0.0);
        (self.dedup_window_secs, self.batching_window_secs) = (60, 10);
        (self.batch_size, self.part_bytes, self.burst_ms) = (16, 512, 600_000);
        self.aggregator_timeout_ms = 10_000;
        self.calm_at_ms = self.calm_at_ms.max(self.burst_ms + 60_000);
        let faults = &mut self.faults;
        (faults.sink_fails_before, faults.sink_refuses) = (0.7, 0.0);
        (faults.throttle, faults.lose_request, faults.slow) = (0.0, 0.0, 0.0);
    }

    /// One environment, which dies and whose counts fail.
    fn focus_on_dying_environments(&mut self, rng: &mut Rng) {
        (self.aggregators, self.duplicates) = (1, 0.2);
        self.index_hides(rng);
        let faults = &mut self.faults;
        (faults.kill, faults.stall, faults.deliver_twice) = (0.02, 0.0, 0.5);
    }

    /// Several invocations in one environment, batches that fill up all the time, and seals that fail.
    fn focus_on_sharing_invocations(&mut self, rng: &mut Rng) {
        (self.aggregators, self.invocations) = (1, 3);
        self.batch_size = pick(rng, &[4, 16]);
        self.index_hides(rng);
        self.faults.kill = 0.0;
    }

    /// Duplicates that wait for one another, remember few earlier deliveries, and replace orphans.
    fn focus_on_waiting_duplicates(&mut self, rng: &mut Rng) {
        self.rule = DuplicateRule::Requeue;
        (self.messages, self.duplicates, self.conflicts) = (100, 0.7, 0.0);
        (self.past_deliveries_max, self.dedup_window_secs) = (2, 300);
        self.batch_size = 4;
        self.index_hides(rng);
        let faults = &mut self.faults;
        (faults.ghost, faults.lose_reply, faults.kill) = (0.6, 0.1, 0.01);
        (faults.lose_record, faults.index_lags_long) = (0.7, 0.8);
    }

    /// Releases that do not arrive, and batches that end without a second look.
    fn focus_on_lost_releases(&mut self) {
        (self.batch_size, self.dedup_window_secs) = (4, 3_600);
        let faults = &mut self.faults;
        (faults.refuse, faults.unknown_member) = (0.05, 0.0);
        (faults.kill, faults.lose_request, faults.lose_reply) = (0.0, 0.0, 0.0);
        (faults.apply_late, faults.throttle) = (0.0, 0.0);
    }

    /// Clocks that differ by minutes, because no promise about loss depends on clocks.
    fn focus_on_wrong_clocks(&mut self, rng: &mut Rng) {
        self.skew_max_ms = 200_000;
        self.index_hides(rng);
        self.batch_size = pick(rng, &[4, 50]);
        (self.faults.early_ticket, self.faults.repeat_ticket) = (0.5, 0.5);
        self.faults.slow = 0.5;
    }

    /// Leases and completions that arrive twice, late, and claims that were not counted.
    fn focus_on_late_leases(&mut self, rng: &mut Rng) {
        self.index_hides(rng);
        (self.processors, self.batching_window_secs) = (4, 1);
        let faults = &mut self.faults;
        (faults.late_record, faults.repeat_ticket, faults.kill) = (0.5, 0.5, 0.02);
        (faults.sink_fails_before, faults.sink_refuses) = (0.3, 0.0);
    }

    /// Batches that are set aside, whose releases the index hides, and whose events are sent again at once.
    fn focus_on_setting_aside(&mut self, rng: &mut Rng) {
        self.index_hides(rng);
        (self.quarantine, self.operates_early, self.sets_aside) = (true, true, 0.9);
        (self.dedup_window_secs, self.duplicates) = (3_600, 0.3);
        self.afterlife_days = Some(0);
        self.batch_size = pick(rng, &[1, 2, 4]);
        let faults = &mut self.faults;
        (faults.sink_refuses, faults.unknown_member) = (0.7, 0.3);
        (faults.kill, faults.apply_late) = (0.05, 0.1);
    }

    /// Bodies in the overflow store, and claims whose write has no reply.
    fn focus_on_overflow(&mut self) {
        self.large = 3;
        let faults = &mut self.faults;
        (faults.unknown_member, faults.lose_reply, faults.refuse) = (0.3, 0.2, 0.02);
        (faults.kill, faults.edit) = (0.0, 0.0);
    }

    /// One batch of all events, delivered in the smallest possible parts.
    fn focus_on_small_parts(&mut self) {
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

    /// Releases that are cut off and that the index hides, and events that are sent again at a time when the dedup
    /// window would be over if it began when the batch was opened.
    fn focus_on_forgotten_deliveries(&mut self, rng: &mut Rng) {
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

    /// Batches that stay open for a day and longer. Those that are full or urgent are delivered early, and their events come again on the
    /// same day and on the next one.
    pub(super) fn focus_on_periods_of_a_day(&mut self) {
        self.close_every = Some(DAY);
        self.redeploys
            .retain(|(_, change)| !matches!(change, Change::CloseEvery(_)));
        self.burst_ms += DAYS_MS;
        self.calm_at_ms += DAYS_MS;
        self.sweep_every_ms = 300_000;
        // An operator comes every two minutes. What cannot be delivered would be redriven a thousand times.
        self.redrives_early = false;
    }

    /// Makes batches end before the index shows their claims, and counts fail.
    fn index_hides(&mut self, rng: &mut Rng) {
        self.batching_window_secs = pick(rng, &[1, 10, 60]);
        self.verify_delay_secs = 2;
        self.index_lag_max_ms = 900_000;
        self.faults.index_lags_long = pick(rng, &[0.3, 0.8]);
        self.faults.lose_record = pick(rng, &[0.3, 0.7]);
    }
}
