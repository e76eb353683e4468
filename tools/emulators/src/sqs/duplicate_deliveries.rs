//! The fault that delivers a message again although its visibility timeout has not ended. A standard queue may do that at any
//! time.

use std::sync::Arc;
use std::time::Duration;

use super::millis::ms;
use crate::{Counter, Percent, RandomStream};

/// Longest time until the duplicate, short enough that the consumer still works on the first delivery.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// Which deliveries of a queue are duplicated.
#[derive(Debug)]
pub struct DuplicateDeliveries {
    percent: Percent,
    draws: RandomStream,
    duplicated: Arc<Counter>,
}

impl DuplicateDeliveries {
    /// Makes a fault that draws, for `percent` of the deliveries, a time within 2 s after which the message is delivered again.
    /// `duplicated` counts the duplicates that a consumer really received.
    pub fn new(
        percent: Percent,
        draws: RandomStream,
        duplicated: Arc<Counter>,
    ) -> DuplicateDeliveries {
        DuplicateDeliveries {
            percent,
            draws,
            duplicated,
        }
    }

    /// Draws after how many milliseconds a message that is being delivered becomes visible again; `None` if only after its
    /// visibility timeout.
    pub(super) fn again_after_ms(&self) -> Option<u64> {
        self.draws
            .happens(self.percent)
            .then(|| ms(self.draws.duration_up_to(AGAIN_WITHIN)))
    }

    pub(super) fn duplicated(&self) {
        self.duplicated.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::attributes::QueueAttributes;
    use super::super::queue::tests::{queue, receive_one, send};
    use super::*;

    #[test]
    fn a_message_in_flight_is_delivered_again_and_only_its_newest_receipt_deletes_it() {
        let duplicated = Arc::new(Counter::default());
        let fault = |percent| {
            let draws = RandomStream::new(1, "deliveries");
            DuplicateDeliveries::new(percent, draws, Arc::clone(&duplicated))
        };
        let mut queue = queue(QueueAttributes::default());
        queue.duplicate_deliveries = Some(fault(Percent::ALL));
        send(&mut queue, 0, "id");
        let first = receive_one(&mut queue, 0);
        assert_eq!(duplicated.get(), 0);
        let within_ms = ms(AGAIN_WITHIN);
        // Without the fault it would stay invisible for 30 s.
        queue.duplicate_deliveries = Some(fault(Percent::default()));
        let second = receive_one(&mut queue, within_ms);
        assert_eq!(duplicated.get(), 1);
        queue.delete(within_ms, &first.receipt_handle).unwrap();
        assert_eq!(queue.depth(within_ms).in_flight, 1);
        queue.delete(within_ms, &second.receipt_handle).unwrap();
        assert_eq!(queue.depth(within_ms).in_flight, 0);
    }
}
