//! Forms batches: receives messages from a queue and writes them into the JSON of one event.
//!
//! A batch is complete when it has `batch_size` records, when its window since the first record is over, or when the next
//! record would exceed the 6 MB of a payload. That record begins the next batch. With a batch size of at most ten and no
//! window, a batch has the messages of one receive.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::event::{EventSource, EventWriter};
use super::mapping_config::{BATCH_SIZE_WITHOUT_WINDOW_MAX, MappingConfig};
use crate::sqs::Message;

/// Maximum number of messages of one receive request.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html>
const RECEIVE_MESSAGES_MAX: usize = 10;
/// Maximum time that one receive request waits for messages. Source: as above.
const RECEIVE_WAIT_MAX: Duration = Duration::from_secs(20);

/// A complete batch: the event, and what the mapping needs to delete its messages. Ids and handles are in the order of the
/// event.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) event: Bytes,
    pub(super) message_ids: Vec<String>,
    pub(super) receipt_handles: Vec<String>,
}

/// A queue to receive from, with the clock that windows are measured by. Tests implement it with a simulated clock.
pub(super) trait MessageSource {
    fn now(&self) -> Instant;

    /// Waits for messages, at most for `wait`; returns up to `messages_max`. Returns none when the time is over, and none after
    /// an error and a pause.
    fn receive(
        &self,
        messages_max: usize,
        wait: Duration,
    ) -> impl Future<Output = Vec<Message>> + Send;
}

/// Forms one batch after another.
pub(super) struct Batcher {
    source: EventSource,
    batch_size: usize,
    window: Duration,
    event_bytes_max: usize,
    /// Messages that were received and did not fit the previous batch.
    carried: VecDeque<Message>,
    /// Size of the last event, as an estimate for the next one.
    event_bytes_last: usize,
}

impl Batcher {
    pub(super) fn new(
        source: EventSource,
        config: &MappingConfig,
        event_bytes_max: usize,
    ) -> Batcher {
        Batcher {
            source,
            batch_size: config.batch_size,
            window: config.window,
            event_bytes_max,
            carried: VecDeque::new(),
            event_bytes_last: 0,
        }
    }

    /// Returns the number of messages that were received and are not in a batch yet.
    pub(super) fn carried_count(&self) -> usize {
        self.carried.len()
    }

    /// Waits for messages and returns a batch of at least one record. Calls `held` with the number of received messages
    /// whenever it changes.
    ///
    /// Not cancel-safe: if the future is dropped, the messages received so far become visible again after their visibility
    /// timeout.
    pub(super) async fn next(
        &mut self,
        queue: &impl MessageSource,
        mut held: impl FnMut(usize),
    ) -> Batch {
        let at_once = self.window.is_zero() && self.batch_size <= BATCH_SIZE_WITHOUT_WINDOW_MAX;
        // Slightly more than the last event, so that events of similar size are written without a reallocation.
        let capacity = self.event_bytes_last + self.event_bytes_last / 16;
        let mut event = EventWriter::new(self.event_bytes_max, capacity);
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
            let left = closes_at.map_or(RECEIVE_WAIT_MAX, |at: Instant| at - now);
            let wait = RECEIVE_WAIT_MAX.min(left);
            let messages_max = RECEIVE_MESSAGES_MAX.min(self.batch_size - event.records_count());
            self.carried.extend(queue.receive(messages_max, wait).await);
            held(event.records_count() + self.carried.len());
            // Receives from a full queue return at once, so yield to other tasks of this thread from time to time.
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

    /// Moves carried messages into the event; returns whether the event is full.
    fn fill(
        &mut self,
        event: &mut EventWriter,
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
                // No invocation can carry this message. It stays in the queue until redrive or retention removes it.
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
    use std::sync::Mutex;

    use super::*;

    const ARN: &str = "arn:aws:sqs:us-east-1:000000000000:input";

    #[tokio::test]
    async fn a_full_batch_is_complete_before_its_window_ends_and_never_requests_more_than_fits() {
        let queue = ScriptedQueue::full(0..30);
        let mut batcher = batcher(25, Duration::from_secs(5), usize::MAX);
        let started = queue.now();
        assert_eq!(next_batch(&mut batcher, &queue).await.len(), 25);
        assert_eq!(queue.now() - started, Duration::ZERO);
        assert_eq!(*queue.asked.lock().unwrap(), [10, 10, 5]);
        assert_eq!(batcher.carried_count(), 0);
    }

    #[tokio::test]
    async fn the_window_counts_from_the_first_record() {
        let seconds = Duration::from_secs;
        let queue = ScriptedQueue::new([60, 62, 64, 66].map(seconds).into_iter().zip(0..));
        let mut batcher = batcher(100, seconds(5), usize::MAX);
        let started = queue.now();
        assert_eq!(next_batch(&mut batcher, &queue).await, [0, 1, 2]);
        assert_eq!(queue.now() - started, seconds(65));
        assert_eq!(next_batch(&mut batcher, &queue).await, [3]);
        assert_eq!(queue.now() - started, seconds(71));
    }

    #[tokio::test]
    async fn without_a_window_a_batch_has_the_messages_of_one_receive() {
        let queue = ScriptedQueue::new([0, 0, 1].map(Duration::from_secs).into_iter().zip(0..));
        let mut batcher = batcher(10, Duration::ZERO, usize::MAX);
        assert_eq!(next_batch(&mut batcher, &queue).await, [0, 1]);
        assert_eq!(next_batch(&mut batcher, &queue).await, [2]);
        assert_eq!(*queue.asked.lock().unwrap(), [10, 10]);
    }

    #[tokio::test]
    async fn a_message_that_does_not_fit_begins_the_next_batch_in_order() {
        let queue = ScriptedQueue::full(0..21);
        let three = event_bytes(3);
        let mut batcher = batcher(100, Duration::from_secs(1), three + 5);
        let mut batches = Vec::new();
        let mut held_max = 0_usize;
        while batches.iter().map(Vec::len).sum::<usize>() < 21 {
            let held = |held: usize| held_max = held_max.max(held);
            let batch = batcher.next(&queue, held).await;
            assert!(batch.event.len() <= three + 5);
            batches.push(numbers(&batch));
        }
        assert_eq!(batches.concat(), (0..21).collect::<Vec<_>>());
        // Records with numbers of two digits are longer, so that only two fit.
        assert!(
            batches.iter().all(|batch| (2..=3).contains(&batch.len())),
            "{batches:?}"
        );
        assert_eq!(batches[0], [0, 1, 2]);
        assert!((10..20).contains(&held_max));
    }

    #[tokio::test]
    async fn a_message_that_exceeds_the_payload_alone_stays_in_the_queue() {
        let queue = ScriptedQueue::full([0, 1_000_000, 2]);
        let mut batcher = batcher(100, Duration::from_secs(1), event_bytes(1));
        assert_eq!(next_batch(&mut batcher, &queue).await, [0]);
        assert_eq!(next_batch(&mut batcher, &queue).await, [2]);
    }

    #[tokio::test]
    async fn receipt_handles_are_in_the_order_of_message_ids() {
        let queue = ScriptedQueue::full(0..3);
        let mut batcher = batcher(3, Duration::from_secs(1), usize::MAX);
        let batch = batcher.next(&queue, |_| ()).await;
        assert_eq!(batch.message_ids, ["0", "1", "2"]);
        let handles = ["receipt-0", "receipt-1", "receipt-2"];
        assert_eq!(batch.receipt_handles, handles);
    }

    /// A queue in which each message appears at a given time. Only waiting receives advance its clock.
    struct ScriptedQueue {
        started: Instant,
        elapsed: Mutex<Duration>,
        messages: Mutex<VecDeque<(Duration, u32)>>,
        asked: Mutex<Vec<usize>>,
    }

    impl ScriptedQueue {
        fn full(messages: impl IntoIterator<Item = u32>) -> ScriptedQueue {
            ScriptedQueue::new(messages.into_iter().map(|n| (Duration::ZERO, n)))
        }

        fn new(messages: impl IntoIterator<Item = (Duration, u32)>) -> ScriptedQueue {
            ScriptedQueue {
                started: Instant::now(),
                elapsed: Mutex::default(),
                messages: Mutex::new(messages.into_iter().collect()),
                asked: Mutex::default(),
            }
        }
    }

    impl MessageSource for ScriptedQueue {
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

    fn batcher(batch_size: usize, window: Duration, event_bytes_max: usize) -> Batcher {
        let config = MappingConfig {
            queue: "input".into(),
            batch_size,
            window,
            concurrency_max: 2,
            report_batch_item_failures: true,
        };
        Batcher::new(EventSource::new(ARN, window), &config, event_bytes_max)
    }

    async fn next_batch(batcher: &mut Batcher, queue: &ScriptedQueue) -> Vec<u32> {
        numbers(&batcher.next(queue, |_| ()).await)
    }

    fn numbers(batch: &Batch) -> Vec<u32> {
        let ids = batch.message_ids.iter();
        ids.map(|id| id.parse().unwrap()).collect()
    }

    fn event_bytes(count: u32) -> usize {
        let source = EventSource::new(ARN, Duration::from_secs(1));
        let mut event = EventWriter::new(usize::MAX, 0);
        (0..count).for_each(|n| event.push(&source, &message(n)).unwrap());
        event.finish().len()
    }

    fn message(number: u32) -> Message {
        Message {
            message_id: number.to_string(),
            receipt_handle: format!("receipt-{number}"),
            body: number.to_string().into(),
            ..Message::default()
        }
    }
}
