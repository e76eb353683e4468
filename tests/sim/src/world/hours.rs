//! The hours of delivery.

use std::time::Duration;

use super::World;
use crate::checks;

impl World {
    /// Checks that a delivery which begins now is in the hours of delivery, by some clock.
    pub fn check_hours(&mut self) {
        let Some(hours) = &self.hours else {
            return;
        };
        let (now, skew) = (
            self.now(),
            Duration::from_millis(self.plan.skew_max_ms as u64),
        );
        let by_late_clock = hours.closed_until(now.saturating_sub(skew)).is_none();
        let by_early_clock = hours.closed_until(now + skew).is_none();
        self.check(checks::p7_no_delivery_begins_outside_the_hours(
            now,
            by_late_clock || by_early_clock,
        ));
    }
}
