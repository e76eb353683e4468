//! An SQS event source mapping: polls a queue, invokes a function with batches, and deletes the processed messages.
//!
//! One task forms batches, and up to `concurrency_max` invocations run concurrently. While all of them run, one further batch
//! waits, so batches are as full as the queue allows. Lambda has several pollers and forms more and smaller batches from a
//! slow stream of messages.
//!
//! Messages are deleted before their invocation counts as ended. All work is done when the mapping is idle and the queue is
//! empty.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::batcher::{Batch, Batcher, MessageSource};
use super::event::EventSource;
use super::function::Function;
use super::invocation::{InvokeError, InvokeResponse};
use super::limits::REQUEST_BYTES_MAX;
use super::mapping_config::{MappingConfig, MappingError};
use super::partial_batch_response::{BatchOutcome, partial_batch_response};
use super::stats::{MappingRequests, MappingStats};
use crate::locked::locked;
use crate::sqs::{Message, Sqs};

/// Maximum number of receipt handles of one delete request.
const DELETE_ENTRIES_MAX: usize = 10;

const RECEIVE_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A running mapping. Dropping it stops the polling without waiting for invocations in flight.
pub struct EventSourceMapping {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    poller: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    sqs: Sqs,
    function: Function,
    config: MappingConfig,
    /// Number of messages that are received and not yet part of an invocation.
    gathered: AtomicUsize,
    in_flight: AtomicUsize,
    stats: Mutex<MappingStats>,
    requests: Mutex<MappingRequests>,
}

impl EventSourceMapping {
    /// Starts polling.
    ///
    /// # Errors
    /// [`MappingError`] with all reasons why Lambda would refuse the mapping.
    ///
    /// # Panics
    /// It is called outside of a Tokio runtime.
    pub fn start(
        sqs: Sqs,
        function: Function,
        config: MappingConfig,
    ) -> Result<EventSourceMapping, MappingError> {
        let attributes = sqs.attributes(&config.queue);
        let visibility = attributes.map(|attributes| attributes.visibility_timeout);
        let timeout = function.config().timeout;
        config.validate(timeout, visibility.map_err(|error| error.to_string()))?;
        let shared = Arc::new(Shared {
            sqs,
            function,
            config,
            gathered: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            stats: Mutex::default(),
            requests: Mutex::default(),
        });
        let mapping = EventSourceMapping {
            shared,
            stop: watch::Sender::new(true),
            poller: Mutex::new(None),
        };
        mapping.resume();
        Ok(mapping)
    }

    /// Polls again after a [`stop`](Self::stop), as an event source mapping that is enabled again.
    ///
    /// # Panics
    /// It is called outside of a Tokio runtime.
    pub fn resume(&self) {
        let mut poller = locked(&self.poller);
        if poller.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let source = EventSource::new(&shared.sqs.arn(&shared.config.queue), shared.config.window);
        let batcher = Batcher::new(source, &shared.config, REQUEST_BYTES_MAX);
        self.stop.send_replace(false);
        *poller = Some(tokio::spawn(poll(shared, batcher, self.stop.subscribe())));
    }

    /// Returns whether the mapping holds no messages and no invocation is in flight. To wait until all messages are processed,
    /// also check the depth of the queue, where a message that is being received still counts.
    pub fn idle(&self) -> bool {
        // `in_flight` rises before `gathered` falls, so this order sees a batch that moves from one to the other.
        self.shared.gathered.load(Ordering::SeqCst) == 0
            && self.shared.in_flight.load(Ordering::SeqCst) == 0
    }

    /// Returns the totals so far.
    pub fn stats(&self) -> MappingStats {
        locked(&self.shared.stats).clone()
    }

    /// Returns the number of requests to the queue so far, empty receives included.
    pub fn requests(&self) -> MappingRequests {
        *locked(&self.shared.requests)
    }

    /// Stops polling, and waits for the invocations in flight and their deletes. Messages that were received for a later batch
    /// become visible again after their visibility timeout. May be called more than once.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let poller = locked(&self.poller).take();
        if let Some(poller) = poller {
            propagate(poller.await);
        }
    }
}

async fn poll(shared: Arc<Shared>, mut batcher: Batcher, mut stopped: watch::Receiver<bool>) {
    let slots = Arc::new(Semaphore::new(shared.config.concurrency_max as usize));
    let mut invocations = JoinSet::new();
    loop {
        let gather = async {
            let held = |held| shared.gathered.store(held, Ordering::SeqCst);
            let batch = batcher.next(&*shared, held).await;
            let slot = Arc::clone(&slots).acquire_owned().await;
            (batch, slot.expect("the semaphore is never closed"))
        };
        let (batch, slot) = tokio::select! {
            biased;
            // Fails if the mapping was dropped, which ends the polling too.
            _ = stopped.wait_for(|stopped| *stopped) => break,
            gathered = gather => gathered,
        };
        let in_flight = InFlight::new(Arc::clone(&shared));
        let carried = batcher.carried_count();
        shared.gathered.store(carried, Ordering::SeqCst);
        invocations.spawn(async move {
            in_flight.shared.process(batch).await;
            drop((in_flight, slot));
        });
        while let Some(ended) = invocations.try_join_next() {
            propagate(ended);
        }
    }
    shared.gathered.store(0, Ordering::SeqCst);
    while let Some(ended) = invocations.join_next().await {
        propagate(ended);
    }
}

/// Resumes a panic of a task: a bug of the mapping must not look like a slow queue.
fn propagate(ended: Result<(), tokio::task::JoinError>) {
    if let Err(failed) = ended
        && failed.is_panic()
    {
        std::panic::resume_unwind(failed.into_panic());
    }
}

impl MessageSource for Shared {
    fn now(&self) -> Instant {
        Instant::now()
    }

    async fn receive(&self, messages_max: usize, wait: Duration) -> Vec<Message> {
        let queue = &self.config.queue;
        match self.sqs.receive(queue, messages_max, wait, None).await {
            Ok(messages) => {
                let bytes = messages.iter().map(|message| message.body.len()).sum();
                locked(&self.requests).receives.add(bytes);
                messages
            }
            Err(error) => {
                tracing::warn!(queue, %error, "receive failed");
                tokio::time::sleep(RECEIVE_RETRY_PAUSE.min(wait)).await;
                Vec::new()
            }
        }
    }
}

impl Shared {
    /// Invokes the function with a batch, and deletes the records that the outcome allows to delete.
    async fn process(&self, batch: Batch) {
        let Batch {
            event,
            message_ids,
            receipt_handles,
        } = batch;
        let event_bytes = event.len();
        let response = self.function.invoke(event).await;
        let report = self.config.report_batch_item_failures;
        let outcome = partial_batch_response(&response, &message_ids, report);
        if !outcome.to_return.is_empty() {
            self.log_returned(&outcome, &response);
        }
        let deleted = self.delete(&outcome.to_delete, &receipt_handles);
        let (records, returned) = (message_ids.len() as u64, outcome.to_return.len() as u64);
        let mut stats = locked(&self.stats);
        stats.invocations += 1;
        stats.records += records;
        stats.deleted += deleted;
        if returned > 0 {
            stats.returned += returned;
            *stats.returned_by.entry(outcome.reason).or_default() += returned;
        }
        stats.batch_records_max = stats.batch_records_max.max(records);
        stats.batch_bytes_max = stats.batch_bytes_max.max(event_bytes as u64);
    }

    /// Deletes messages in requests of ten; returns the number deleted. A failed delete is not retried: the message is delivered
    /// again, which a standard queue may do anyway.
    fn delete(&self, positions: &[usize], receipt_handles: &[String]) -> u64 {
        let queue = &self.config.queue;
        let mut deleted = 0;
        for positions in positions.chunks(DELETE_ENTRIES_MAX) {
            let receipts = positions.iter().map(|at| receipt_handles[*at].as_str());
            let receipts = Vec::from_iter(receipts);
            locked(&self.requests).deletes.add(0);
            match self.sqs.delete_batch(queue, &receipts) {
                Ok(results) => {
                    deleted += results.iter().filter(|result| result.is_ok()).count() as u64
                }
                Err(error) => tracing::warn!(queue, %error, "delete failed"),
            }
        }
        deleted
    }

    fn log_returned(&self, outcome: &BatchOutcome, response: &Result<InvokeResponse, InvokeError>) {
        let config = self.function.config();
        let (function, reason) = (&*config.name, outcome.reason.name());
        let returned_count = outcome.to_return.len();
        match response {
            Ok(InvokeResponse::Ok(_)) => {
                tracing::info!(
                    function,
                    reason,
                    returned_count,
                    "records return to the queue"
                )
            }
            Ok(InvokeResponse::FunctionError {
                error_type,
                message,
            }) => {
                tracing::warn!(
                    function,
                    reason,
                    returned_count,
                    error_type,
                    message,
                    "records return to the queue"
                );
            }
            Err(error) => {
                tracing::warn!(function, reason, returned_count, %error, "records return to the queue")
            }
        }
    }
}

/// Counts an invocation as in flight until it is dropped.
struct InFlight {
    shared: Arc<Shared>,
}

impl InFlight {
    fn new(shared: Arc<Shared>) -> InFlight {
        shared.in_flight.fetch_add(1, Ordering::SeqCst);
        InFlight { shared }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shared.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}
