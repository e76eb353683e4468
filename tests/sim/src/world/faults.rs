//! Draws the faults of requests.

use fastrand::Rng;

use super::World;
use crate::request_outcome::RequestOutcome;

/// How long an outage lasts.
const OUTAGE_MS: u64 = 8_000;

impl World {
    /// Draws the outcome of the next request.
    pub fn draw_outcome(&mut self) -> RequestOutcome {
        let latency = |rng: &mut Rng| {
            if rng.u8(..) < 8 {
                rng.u64(20..300)
            } else {
                rng.u64(1..12)
            }
        };
        let (apply_ms, reply_ms) = (latency(&mut self.rng), latency(&mut self.rng));
        if !self.faulty {
            return RequestOutcome::Answered { apply_ms, reply_ms };
        }
        let faults = self.plan.faults.clone();
        let apply_ms = if self.strikes(faults.slow) {
            self.rng.u64(50..650)
        } else {
            apply_ms
        };
        if self.in_outage() {
            return match self.rng.u8(..3) {
                0 => RequestOutcome::Throttled { after_ms: apply_ms },
                _ => RequestOutcome::Lost {
                    apply_ms: None,
                    notice_ms: 700,
                },
            };
        }
        if self.strikes_as(faults.refuse, "request refused") {
            return RequestOutcome::Refused { after_ms: apply_ms };
        }
        if self.strikes_as(faults.throttle, "throttled") {
            return RequestOutcome::Throttled { after_ms: apply_ms };
        }
        let notice_ms = if self.rng.bool() {
            740
        } else {
            reply_ms + apply_ms
        };
        if self.strikes_as(faults.lose_request, "lost") {
            return RequestOutcome::Lost {
                apply_ms: None,
                notice_ms,
            };
        }
        if self.strikes_as(faults.lose_reply, "lost") {
            return RequestOutcome::Lost {
                apply_ms: Some(apply_ms),
                notice_ms,
            };
        }
        if self.strikes_as(faults.apply_late, "late") {
            let late_ms = if self.rng.bool() { 3_000 } else { 90_000 };
            return RequestOutcome::Lost {
                apply_ms: Some(self.rng.u64(0..late_ms)),
                notice_ms,
            };
        }
        RequestOutcome::Answered { apply_ms, reply_ms }
    }

    /// Draws the outcome of the next write to a batch record.
    pub fn draw_record_outcome(&mut self, by_processor: bool) -> RequestOutcome {
        if by_processor {
            if self.strikes_as(self.plan.faults.late_record, "record late") {
                return RequestOutcome::Lost {
                    apply_ms: Some(self.rng.u64(500..40_000)),
                    notice_ms: 400,
                };
            }
            return self.draw_outcome();
        }
        if self.strikes_as(self.plan.faults.lose_record, "record lost") {
            let apply_ms = self.rng.bool().then(|| self.rng.u64(1..12));
            return RequestOutcome::Lost {
                apply_ms,
                notice_ms: 700,
            };
        }
        self.draw_outcome()
    }

    fn in_outage(&self) -> bool {
        let every = self.plan.outage_every_ms;
        every > 0 && self.faulty && self.now_ms % (every + OUTAGE_MS) >= every
    }
}
