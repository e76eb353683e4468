//! Gathering of batches: messages from the queue into the JSON of one event.
//!
//! A batch is closed by the first of: `batch_size` records, the window since its first record, the 6 MB of an
//! invocation's payload. The message that no longer fits begins the next batch. With at most ten records and no
//! window, a batch is what one receive gave.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::esm_config::{BATCH_SIZE_WITHOUT_WINDOW_MAX, MappingConfig};
use super::event::{Event, EventSource};
use crate::sqs::Message;

/// Messages one receive call may give, and the longest it may wait.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html>
const RECEIVE_MESSAGES_MAX: usize = 10;
const RECEIVE_WAIT_MAX: Duration = Duration::from_secs(20);

/// A closed batch: the event and what is needed to delete its messages. Bodies are only in the event.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) event: Bytes,
    pub(super) message_ids: Vec<String>,
    pub(super) receipt_handles: Vec<String>,
}

/// Where messages come from, and the clock by which they come: tests have a queue with a clock of its own.
pub(super) trait Receive {
    /// The time now.
    fn now(&self) -> Instant;

    /// Up to `messages_max` messages as soon as there is one; none after `wait`, or after an error and a pause.
    fn receive(
        &self,
        messages_max: usize,
        wait: Duration,
    ) -> impl Future<Output = Vec<Message>> + Send;
}

/// Gathers one batch after the other.
pub(super) struct Gatherer {
    source: EventSource,
    batch_size: usize,
    window: Duration,
    event_bytes_max: usize,
    /// Received but not in a batch yet: what the byte limit cut off.
    carried: VecDeque<Message>,
    /// Bytes of the last event, the best guess at the next.
    event_bytes_last: usize,
}

impl Gatherer {
    pub(super) fn new(
        source: EventSource,
        config: &MappingConfig,
        event_bytes_max: usize,
    ) -> Gatherer {
        Gatherer {
            source,
            batch_size: config.batch_size,
            window: config.window,
            event_bytes_max,
            carried: VecDeque::new(),
            event_bytes_last: 0,
        }
    }

    /// Count of messages received but not in a batch yet.
    pub(super) fn carried_count(&self) -> usize {
        self.carried.len()
    }

    /// Gathers one batch of at least one record, however long that takes. `held` is told how many messages are in
    /// hand whenever that changes.
    ///
    /// Not cancel-safe: messages gathered when the future is dropped become visible again by their timeout.
    pub(super) async fn next(
        &mut self,
        queue: &impl Receive,
        mut held: impl FnMut(usize),
    ) -> Batch {
        let at_once = self.window.is_zero() && self.batch_size <= BATCH_SIZE_WITHOUT_WINDOW_MAX;
        // A little over the last, so that a run of equal batches is written without moving the bytes.
        let mut event = Event::new(
            self.event_bytes_max,
            self.event_bytes_last + self.event_bytes_last / 16,
        );
        let (mut message_ids, mut receipt_handles) = (Vec::new(), Vec::new());
        let mut closes_at = None;
        loop {
            let full = self.fill(&mut event, &mut message_ids, &mut receipt_handles);
            let now = queue.now();
            if event.records_count() > 0 {
                let closes_at = *closes_at.get_or_insert(now + self.window);
                if full || at_once || now >= closes_at {
                    break;
                }
            }
            let wait = closes_at.map_or(RECEIVE_WAIT_MAX, |at: Instant| {
                RECEIVE_WAIT_MAX.min(at - now)
            });
            let messages_max = RECEIVE_MESSAGES_MAX.min(self.batch_size - event.records_count());
            self.carried.extend(queue.receive(messages_max, wait).await);
            held(event.records_count() + self.carried.len());
            // A full queue answers every receive at once: leave the others on this thread their turn.
            tokio::task::consume_budget().await;
        }
        let event = event.finish();
        self.event_bytes_last = event.len();
        Batch {
            event,
            message_ids,
            receipt_handles,
        }
    }

    /// Moves carried messages into the event; true if it takes no more.
    fn fill(
        &mut self,
        event: &mut Event,
        message_ids: &mut Vec<String>,
        receipt_handles: &mut Vec<String>,
    ) -> bool {
        while event.records_count() < self.batch_size {
            let Some(message) = self.carried.pop_front() else {
                return false;
            };
            match event.push(&self.source, &message) {
                Ok(()) => {
                    message_ids.push(message.message_id);
                    receipt_handles.push(message.receipt_handle);
                }
                Err(_) if event.records_count() > 0 => {
                    self.carried.push_front(message);
                    return true;
                }
                // Over the limit all by itself: no invocation can ever carry it, redrive has to take it.
                Err(error) => {
                    tracing::error!(sqs_message_id = message.message_id, %error, "message does not fit an invocation");
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const ARN: &str = "arn:aws:sqs:us-east-1:000000000000:input";

    #[tokio::test]
    async fn a_full_batch_is_closed_before_its_window_and_never_asks_for_more_than_fits() {
        let queue = Script::new((0..30).map(|n| (Duration::ZERO, n)));
        let mut gatherer = gatherer(25, Duration::from_secs(5), usize::MAX);
        let started = queue.now();
        assert_eq!(gathered(&mut gatherer, &queue).await.len(), 25);
        assert_eq!(queue.now() - started, Duration::ZERO);
        assert_eq!(*queue.asked.lock().unwrap(), [10, 10, 5]);
        assert_eq!(gatherer.carried_count(), 0);
    }

    #[tokio::test]
    async fn the_window_counts_from_the_first_record() {
        let seconds = Duration::from_secs;
        let queue = Script::new([
            (seconds(60), 0),
            (seconds(62), 1),
            (seconds(64), 2),
            (seconds(66), 3),
        ]);
        let mut gatherer = gatherer(100, seconds(5), usize::MAX);
        let started = queue.now();
        assert_eq!(gathered(&mut gatherer, &queue).await, [0, 1, 2]);
        assert_eq!(queue.now() - started, seconds(65));
        assert_eq!(gathered(&mut gatherer, &queue).await, [3]);
        assert_eq!(queue.now() - started, seconds(71));
    }

    #[tokio::test]
    async fn without_a_window_a_batch_is_what_one_receive_gave() {
        let queue = Script::new([
            (Duration::ZERO, 0),
            (Duration::ZERO, 1),
            (Duration::from_secs(1), 2),
        ]);
        let mut gatherer = gatherer(10, Duration::ZERO, usize::MAX);
        assert_eq!(gathered(&mut gatherer, &queue).await, [0, 1]);
        assert_eq!(gathered(&mut gatherer, &queue).await, [2]);
        assert_eq!(*queue.asked.lock().unwrap(), [10, 10]);
    }

    #[tokio::test]
    async fn what_does_not_fit_the_payload_begins_the_next_batch_in_order() {
        let queue = Script::new((0..21).map(|n| (Duration::ZERO, n)));
        let three = {
            let mut event = Event::new(usize::MAX, 0);
            (0..3).for_each(|n| event.push(&EventSource::new(ARN), &message(n)).unwrap());
            event.finish().len()
        };
        let mut gatherer = gatherer(100, Duration::from_secs(1), three + 5);
        let mut batches = Vec::new();
        let mut held_max = 0;
        while batches.iter().map(Vec::len).sum::<usize>() < 21 {
            let batch = gatherer
                .next(&queue, |held| held_max = held_max.max(held))
                .await;
            assert!(batch.event.len() <= three + 5);
            batches.push(numbers(&batch));
        }
        assert_eq!(batches.concat(), (0..21).collect::<Vec<_>>());
        // Numbers of two digits make longer records, of which only two fit.
        assert!(
            batches.iter().all(|batch| (2..=3).contains(&batch.len())),
            "{batches:?}"
        );
        assert_eq!(batches[0], [0, 1, 2]);
        assert!((10..20).contains(&held_max));
    }

    #[tokio::test]
    async fn a_message_over_the_limit_by_itself_is_left_to_the_queue() {
        let queue = Script::new([
            (Duration::ZERO, 0),
            (Duration::ZERO, 1_000_000),
            (Duration::ZERO, 2),
        ]);
        let alone = {
            let mut event = Event::new(usize::MAX, 0);
            event.push(&EventSource::new(ARN), &message(0)).unwrap();
            event.finish().len()
        };
        let mut gatherer = gatherer(100, Duration::from_secs(1), alone);
        assert_eq!(gathered(&mut gatherer, &queue).await, [0]);
        assert_eq!(gathered(&mut gatherer, &queue).await, [2]);
    }

    #[tokio::test]
    async fn receipts_stand_beside_their_ids() {
        let queue = Script::new((0..3).map(|n| (Duration::ZERO, n)));
        let batch = gatherer(3, Duration::from_secs(1), usize::MAX)
            .next(&queue, |_| ())
            .await;
        assert_eq!(batch.message_ids, ["0", "1", "2"]);
        assert_eq!(
            batch.receipt_handles,
            ["receipt-0", "receipt-1", "receipt-2"]
        );
    }

    /// A queue that has each message from its time on, and whose clock is moved by waiting for it alone.
    struct Script {
        started: Instant,
        elapsed: Mutex<Duration>,
        messages: Mutex<VecDeque<(Duration, u32)>>,
        asked: Mutex<Vec<usize>>,
    }

    impl Script {
        fn new(messages: impl IntoIterator<Item = (Duration, u32)>) -> Script {
            let messages = Mutex::new(messages.into_iter().collect());
            Script {
                started: Instant::now(),
                elapsed: Mutex::default(),
                messages,
                asked: Mutex::default(),
            }
        }
    }

    impl Receive for Script {
        fn now(&self) -> Instant {
            self.started + *self.elapsed.lock().unwrap()
        }

        async fn receive(&self, messages_max: usize, wait: Duration) -> Vec<Message> {
            assert!(wait <= RECEIVE_WAIT_MAX);
            let (mut elapsed, mut messages) =
                (self.elapsed.lock().unwrap(), self.messages.lock().unwrap());
            let waited = *elapsed + wait;
            *elapsed = messages
                .front()
                .map_or(waited, |(at, _)| (*at).clamp(*elapsed, waited));
            let mut received = Vec::new();
            while received.len() < messages_max
                && let Some((_, number)) = messages.pop_front_if(|(at, _)| *at <= *elapsed)
            {
                received.push(message(number));
            }
            if !received.is_empty() {
                self.asked.lock().unwrap().push(messages_max);
            }
            received
        }
    }

    fn gatherer(batch_size: usize, window: Duration, event_bytes_max: usize) -> Gatherer {
        let config = MappingConfig {
            queue: "input".into(),
            batch_size,
            window,
            concurrency_max: 2,
            report_batch_item_failures: true,
        };
        Gatherer::new(EventSource::new(ARN), &config, event_bytes_max)
    }

    async fn gathered(gatherer: &mut Gatherer, queue: &Script) -> Vec<u32> {
        numbers(&gatherer.next(queue, |_| ()).await)
    }

    fn numbers(batch: &Batch) -> Vec<u32> {
        batch
            .message_ids
            .iter()
            .map(|id| id.parse().unwrap())
            .collect()
    }

    fn message(number: u32) -> Message {
        Message {
            message_id: number.to_string(),
            receipt_handle: format!("receipt-{number}"),
            body: number.to_string().into(),
            md5_of_body: "beef".into(),
            message_attributes: Arc::default(),
            md5_of_message_attributes: None,
            receive_count: 1,
            sent_ms: 0,
            first_receive_ms: 0,
            sender_id: "AIDA".into(),
            message_group_id: None,
        }
    }
}
