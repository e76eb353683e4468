//! Messages delivered again although they are in flight and their visibility timeout is far: what a standard queue may
//! do at any time.

use std::sync::Arc;
use std::time::Duration;

use super::millis::ms;
use crate::{Counter, Draws, Percent};

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
    pub fn new(percent: Percent, draws: Draws, repeated: Arc<Counter>) -> Repeats {
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

#[cfg(test)]
mod tests {
    use super::super::message::Outgoing;
    use super::super::queue::{Queue, Take};
    use super::*;

    #[test]
    fn a_message_comes_again_in_flight_and_only_the_newest_receipt_deletes_it() {
        let repeated = Arc::new(Counter::default());
        let draws = Draws::new(1, "deliveries");
        let mut queue = Queue::new("queue", 1, Default::default(), 0);
        queue.repeats = Some(Repeats::new(Percent::ALL, draws, Arc::clone(&repeated)));
        let outgoing = Outgoing {
            body: "body".to_owned(),
            ..Outgoing::default()
        };
        let content = outgoing.into_content("id".to_owned()).unwrap();
        queue.send(0, content, None).unwrap();
        let receive = |queue: &mut Queue, now_ms| {
            let take = Take {
                max: 1,
                visibility_ms: None,
                redrivable: true,
                long_poll: true,
            };
            queue.receive(now_ms, take).unwrap().messages.remove(0)
        };
        let first = receive(&mut queue, 0);
        assert_eq!(repeated.get(), 0);
        let within_ms = ms(AGAIN_WITHIN);
        // Without the repeats it would be in flight for 30 s.
        queue.repeats = Some(Repeats::new(
            Percent::default(),
            Draws::new(1, "none"),
            Arc::clone(&repeated),
        ));
        let second = receive(&mut queue, within_ms);
        assert_eq!(repeated.get(), 1);
        queue.delete(within_ms, &first.receipt_handle).unwrap();
        assert_eq!(queue.depth(within_ms).in_flight, 1);
        queue.delete(within_ms, &second.receipt_handle).unwrap();
        assert_eq!(queue.depth(within_ms).in_flight, 0);
    }
}
