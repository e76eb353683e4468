//! Messages delivered again although they are in flight and their visibility timeout is far: what a standard queue may
//! do at any time.

use std::sync::Arc;
use std::time::Duration;

use super::queue::ms;
use crate::faults::{Counter, Draws, Percent};

/// Soon enough to come in the middle of the work on the first delivery.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// Which deliveries of a queue are repeated.
#[derive(Debug)]
pub struct Repeats {
    percent: Percent,
    draws: Draws,
    repeated: Arc<Counter>,
}

impl Repeats {
    /// This share of the deliveries; each that is really repeated is counted.
    pub(crate) fn new(percent: Percent, draws: Draws, repeated: Arc<Counter>) -> Repeats {
        Repeats {
            percent,
            draws,
            repeated,
        }
    }

    /// After how many milliseconds a message that is being delivered comes again, if it does.
    pub(super) fn again_after_ms(&self) -> Option<u64> {
        self.draws
            .strikes(self.percent)
            .then(|| ms(self.draws.within(AGAIN_WITHIN)))
    }

    /// A message has come again.
    pub(super) fn repeated(&self) {
        self.repeated.add(1);
    }
}
