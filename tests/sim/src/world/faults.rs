//! Draws the faults of requests.

use fastrand::Rng;
use shared::ports::PortError;

use super::World;
use crate::request_outcome::{RequestOutcome, refused, throttled, unanswered};

const OUTAGE_MS: u64 = 8_000;

impl World {
    pub fn draw_outcome(&mut self) -> RequestOutcome {
        let latency = |rng: &mut Rng| match rng.u8(..) {
            0..8 => rng.u64(20..300),
            _ => rng.u64(1..12),
        };
        let (mut apply_ms, reply_ms) = (latency(&mut self.rng), latency(&mut self.rng));
        if !self.faulty {
            return RequestOutcome::Answered { apply_ms, reply_ms };
        }
        let faults = self.plan.faults.clone();
        if self.strikes(faults.slow) {
            apply_ms = self.rng.u64(50..650);
        }
        if self.in_outage() {
            return match self.rng.u8(..3) {
                0 => RequestOutcome::rejected(apply_ms, throttled),
                _ => RequestOutcome::lost(None, 700),
            };
        }
        if self.strikes_as(faults.refuse, "request refused") {
            return RequestOutcome::rejected(apply_ms, refused);
        }
        if self.strikes_as(faults.throttle, "throttled") {
            return RequestOutcome::rejected(apply_ms, throttled);
        }
        let is_late = self.rng.bool();
        let notice_ms = if is_late { 740 } else { reply_ms + apply_ms };
        if self.strikes_as(faults.lose_request, "lost") {
            return RequestOutcome::lost(None, notice_ms);
        }
        if self.strikes_as(faults.lose_reply, "lost") {
            return RequestOutcome::lost(Some(apply_ms), notice_ms);
        }
        if self.strikes_as(faults.apply_late, "late") {
            let late_ms = if self.rng.bool() { 3_000 } else { 90_000 };
            let apply_ms = self.rng.u64(0..late_ms);
            return RequestOutcome::lost(Some(apply_ms), notice_ms);
        }
        RequestOutcome::Answered { apply_ms, reply_ms }
    }

    pub fn draw_record_outcome(&mut self, by_processor: bool) -> RequestOutcome {
        if by_processor && self.strikes_as(self.plan.faults.late_record, "record late") {
            let apply_ms = self.rng.u64(500..40_000);
            return RequestOutcome::lost(Some(apply_ms), 400);
        }
        if !by_processor && self.strikes_as(self.plan.faults.lose_record, "record lost") {
            let apply_ms = self.rng.bool().then(|| self.rng.u64(1..12));
            return RequestOutcome::lost(apply_ms, 700);
        }
        self.draw_outcome()
    }

    /// Has one member of a request to a queue arrive. It may fail alone, before it arrives or after that.
    pub fn arrive(&mut self, arrives: impl FnOnce(&mut World)) -> Result<(), PortError> {
        if self.strikes(self.plan.faults.throttle_member) {
            return Err(throttled());
        }
        arrives(self);
        match self.strikes(self.plan.faults.unknown_member) {
            true => Err(unanswered()),
            false => Ok(()),
        }
    }

    /// Applies one member of a request to the lock table. It may fail alone; without a reply, it may be applied.
    pub fn member<T>(&mut self, apply: impl FnOnce(&mut World) -> T) -> Result<T, PortError> {
        if self.strikes(self.plan.faults.throttle_member) {
            return Err(throttled());
        }
        let lost = self.strikes(self.plan.faults.unknown_member);
        if lost && self.rng.bool() {
            return Err(unanswered());
        }
        let reply = apply(self);
        match lost {
            true => Err(unanswered()),
            false => Ok(reply),
        }
    }

    fn in_outage(&self) -> bool {
        let every = self.plan.outage_every_ms;
        every > 0 && self.faulty && self.now_ms % (every + OUTAGE_MS) >= every
    }
}
