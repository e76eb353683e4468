//! The hours of delivery.

use std::time::Duration;

use protocol::batch::BatchWrite;
use protocol::ids::BatchId;
use sinks::Part;

use super::World;
use crate::calendar::Hours;
use crate::checks;
use crate::clocks::SKEW_MAX_MS;

/// How long after the opening the delivery of a batch that waited for it begins, in a history without faults.
const OPENING_TIME_MAX: Duration = Duration::from_secs(60);

impl World {
    /// Records that a batch waits for the hours, if it was put back for them.
    pub fn note_waiting(&mut self, batch: BatchId, write: &BatchWrite) {
        let Some(hours) = self.plan.hours else {
            return;
        };
        if !matches!(write, BatchWrite::GiveUp { .. }) || hours.at(self.now()) != Hours::Closed {
            return;
        }
        self.note("waits for the hours", || batch.to_string());
        // Only without faults must deliveries begin soon after an opening, which takes long to find.
        if self.plan.calm
            && let Some(opening) = hours.opening(self.now())
        {
            self.ledger.openings.insert(batch, opening);
        }
    }

    /// Checks that the delivery of a part which begins now is in the hours of delivery, by some clock.
    pub fn check_hours(&mut self, part: &Part) {
        let opening = self.ledger.openings.remove(&part.batch_id);
        // A part with a number may have to wait for another one too, or for its turn, or for the end of a pause.
        let plan = &self.plan;
        let waits = plan.sequence || plan.events_per_second > 0 || !plan.pauses.is_empty();
        let is_prompt = plan.calm && !waits;
        if let Some(opening) = opening.filter(|_| is_prompt) {
            let in_time = self.now() <= opening + OPENING_TIME_MAX;
            self.check(checks::p6_the_hours_open_on_time(part, opening, in_time));
        }
        // Clocks that are too wrong may be in hours that this does not look at.
        let wild = self.plan.skew_max_ms > SKEW_MAX_MS;
        let Some(hours) = self.plan.hours.filter(|_| !wild) else {
            return;
        };
        let now = self.now();
        let skew = Duration::from_millis(self.plan.skew_max_ms as u64);
        self.check(checks::p7_no_delivery_begins_outside_the_hours(
            now,
            hours.may_be_open(now, skew),
        ));
    }
}
