//! The periods of batches, held against the times of their events.

use protocol::period::Period;
use sinks::Part;

use crate::checks;
use crate::environment::{Environment, lock};

impl Environment {
    /// Checks that all events of a part are in the period of its batch.
    pub fn check_period(&self, part: &Part) {
        let world = &mut *lock(self.world());
        let times = part.items.iter().filter_map(|item| {
            let index = world.ledger.by_id.get(&item.sqs_message_id)?;
            Some(world.ledger.messages[*index].time())
        });
        let times: Vec<_> = times.collect();
        let plan = &world.plan;
        let is_in = |period: Period| times.iter().all(|at| period.contains(*at));
        let as_planned =
            !plan.keeps_periods() || times.iter().all(|at| plan.period_of(*at) == part.period);
        let check = checks::p10_a_part_is_of_one_period(
            part,
            as_planned && part.period.is_none_or(is_in),
            &times,
        );
        world.check(check);
    }
}
