//! The hours of delivery.

use std::time::Duration;

use protocol::batch::BatchWrite;
use protocol::ids::BatchId;
use sinks::Part;

use super::World;
use crate::checks;
use crate::clocks::SKEW_MAX_MS;

/// How long after the opening the delivery of a batch that waited for it begins, in a history without faults.
const OPENING_TIME_MAX: Duration = Duration::from_secs(60);

impl World {
    /// Records that a batch waits for the hours, if it was put back for them.
    pub fn note_waiting(&mut self, batch: BatchId, write: &BatchWrite) {
        let opening = self
            .hours
            .as_ref()
            .and_then(|hours| hours.closed_until(self.now()));
        if let (BatchWrite::GiveUp { .. }, Some(opening)) = (write, opening) {
            self.note("waits for the hours", || format!("{batch}, {opening}"));
            self.ledger.openings.insert(batch, opening);
        }
    }

    /// Checks that the delivery of a part which begins now is in the hours of delivery, by some clock.
    pub fn check_hours(&mut self, part: &Part) {
        let opening = self.ledger.openings.remove(&part.batch_id);
        // A part with a number may have to wait for another one too.
        let is_prompt = self.plan.calm && !self.plan.sequence;
        if let Some(opening) = opening.filter(|_| is_prompt) {
            let in_time = self.now() <= opening + OPENING_TIME_MAX;
            self.check(checks::p6_the_hours_open_on_time(part, opening, in_time));
        }
        // Clocks that are too wrong may be in hours that this does not look at.
        let wild = self.plan.skew_max_ms > SKEW_MAX_MS;
        let Some(hours) = self.hours.as_ref().filter(|_| !wild) else {
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
