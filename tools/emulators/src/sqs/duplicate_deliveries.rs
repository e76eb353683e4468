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

    /// Counts a duplicate delivery.
    pub(super) fn duplicated(&self) {
        self.duplicated.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Outgoing;
    use super::super::queue::{Queue, ReceiveOptions};
    use super::*;

    #[test]
    fn a_message_in_flight_is_delivered_again_and_only_its_newest_receipt_deletes_it() {
        let duplicated = Arc::new(Counter::default());
        let draws = RandomStream::new(1, "deliveries");
        let mut queue = Queue::new("queue", 1, Default::default(), 0);
        queue.duplicate_deliveries = Some(DuplicateDeliveries::new(
            Percent::ALL,
            draws,
            Arc::clone(&duplicated),
        ));
        let outgoing = Outgoing {
            body: "body".to_owned(),
            ..Outgoing::default()
        };
        let content = outgoing.into_content("id".to_owned()).unwrap();
        queue.send(0, content, None).unwrap();
        let receive = |queue: &mut Queue, now_ms| {
            let options = ReceiveOptions {
                max: 1,
                visibility_ms: None,
                redrivable: true,
                long_poll: true,
            };
            queue.receive(now_ms, options).unwrap().messages.remove(0)
        };
        let first = receive(&mut queue, 0);
        assert_eq!(duplicated.get(), 0);
        let within_ms = ms(AGAIN_WITHIN);
        // Without the fault it would stay invisible for 30 s.
        queue.duplicate_deliveries = Some(DuplicateDeliveries::new(
            Percent::default(),
            RandomStream::new(1, "none"),
            Arc::clone(&duplicated),
        ));
        let second = receive(&mut queue, within_ms);
        assert_eq!(duplicated.get(), 1);
        queue.delete(within_ms, &first.receipt_handle).unwrap();
        assert_eq!(queue.depth(within_ms).in_flight, 1);
        queue.delete(within_ms, &second.receipt_handle).unwrap();
        assert_eq!(queue.depth(within_ms).in_flight, 0);
    }
}
