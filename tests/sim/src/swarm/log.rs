//! Plans with the batches of a log.

use fastrand::Rng;
use protocol::bodies::ObjectSizes;
use protocol::claim::DuplicateRule;
use protocol::limits::PAST_DELIVERIES_MAX;

use super::pick;
use crate::plan::{Denial, Plan};
use crate::redeploy::{BodiesKind, Change};

/// The places of loads to draw from.
const LOGS: [BodiesKind; 3] = [BodiesKind::Log, BodiesKind::LogS3(0), BodiesKind::LogS3(1)];

impl Plan {
    /// Returns the plan of a seed with the batches of a log, which all environments share.
    pub fn of_log(seed: u64) -> Plan {
        let mut plan = Plan::drawn(seed);
        let rng = &mut Rng::with_seed(seed ^ 0x0010_60f5);
        plan.bodies = pick(rng, &LOGS);
        plan.aggregators = plan.aggregators.max(rng.usize(1..6));
        plan.object_sizes = ObjectSizes {
            small_bytes_max: pick(rng, &[0, 200, 8 << 10]),
            item_bytes_max: pick(rng, &[400, 350 << 10]),
        };
        // An attempt reads all loads of a batch, here one after the other.
        if plan.write_concurrency == 1 {
            plan.processor_timeout_ms = 30_000;
        }
        // What a log does not have, or not yet.
        plan.quarantine = true;
        plan.rule = DuplicateRule::Drop;
        (plan.large, plan.reports_duplicates) = (0, false);
        plan.faults.edit = 0.0;
        plan.redeploys
            .retain(|(_, change)| !matches!(change, Change::Bodies(_) | Change::Rule(_)));
        if !plan.calm {
            // A fifth of the plans has a subject that concerns the log alone.
            if Rng::with_seed(seed ^ 0x0f0c_0105).u8(..10) < 2 {
                plan.focus_on_unfinished_batches();
            }
            let has_days = Rng::with_seed(seed ^ 0x0da7_0da7).u8(..) < 16;
            if has_days {
                plan.focus_on_periods_of_a_day();
            }
            plan.draw_faults_of_the_log(rng);
            let [there, back] = [0x5317_c4ed, 0xbac4_17e5].map(|salt| seed ^ salt);
            // A switch would wait for the end of the day.
            if !has_days {
                plan.draw_switch(&mut Rng::with_seed(there), &mut Rng::with_seed(back));
            }
        }
        plan
    }

    /// Has some histories of the log change the place of loads while batches are open, deny a place for a time, stand still for days,
    /// lose the manifest, and forget events.
    fn draw_faults_of_the_log(&mut self, rng: &mut Rng) {
        for _ in 0..rng.usize(0..3) {
            let at_ms = rng.u64(0..self.calm_at_ms);
            let change = Change::Bodies(pick(rng, &LOGS));
            self.redeploys.push((at_ms, change));
        }
        self.standstill_days = pick(rng, &[None, None, None, None, Some(9), Some(11), Some(25)]);
        self.denial = (rng.u8(..) < 50).then(|| Denial {
            prefix: rng.u8(0..2),
            from_ms: rng.u64(0..self.calm_at_ms),
            ends: rng.bool(),
        });
        // What comes again would be set aside again, a day later.
        self.redrives &= self.denial.is_none_or(|denial| denial.ends);
        let lost = rng.u8(..) < 40;
        self.manifest_lost_at_ms = lost.then(|| rng.u64(0..self.calm_at_ms));
        let forgets = 0..rng.usize(0..4);
        self.forgets_at_ms = forgets.map(|_| rng.u64(0..self.calm_at_ms)).collect();
    }

    /// Has one history of the log in six begin with `items`, and one of the others in six end with them.
    fn draw_switch(&mut self, there: &mut Rng, back: &mut Rng) {
        let at_ms = 0..self.calm_at_ms;
        self.switch = if there.u8(..) <= 40 {
            let log = std::mem::replace(&mut self.bodies, BodiesKind::Items);
            Some((there.u64(at_ms), log))
        } else if back.u8(..) <= 40 {
            // What the index remembers outlasts the dedup window, and duplicates would wait for its end.
            self.past_deliveries_max = PAST_DELIVERIES_MAX;
            Some((back.u64(at_ms), BodiesKind::Items))
        } else {
            return;
        };
        self.redeploys
            .retain(|(_, change)| !matches!(change, Change::Bodies(_)));
        self.leave_quotas_out();
        // What was primed is not made anew with a lost manifest, and the way back needs an index that nobody else changes.
        self.manifest_lost_at_ms = None;
        self.forgets_at_ms.clear();
        self.standstill_days = None;
        if self.forgets_to_prime() {
            // DynamoDB removes an item days after its end. What it removed cannot be primed.
            self.faults.ttl = 0.0;
        }
    }
}
