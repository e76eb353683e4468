//! Sends messages to a queue in requests of ten, with retries while there is time.

use futures::FutureExt;
use futures::future::BoxFuture;
use protocol::limits::SQS_BATCH_ENTRIES_MAX;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use tracing::warn;

use super::budget::{Budget, bounded};
use crate::ports::{BatchQueue, PortError, QuarantineQueue, Quarantined};
use crate::wire::Ticket;

/// Why a message may not be in the queue.
#[derive(Debug)]
pub enum Unsent {
    /// The queue refused the message, and would refuse it again.
    Refused(PortError),
    /// The time was over before the queue acknowledged the message.
    OutOfTime,
}

impl From<Unsent> for PortError {
    fn from(unsent: Unsent) -> PortError {
        match unsent {
            Unsent::Refused(error) => error,
            Unsent::OutOfTime => PortError::DeadlineReached,
        }
    }
}

/// Sends one request of messages. Returns a result for each, in order.
type Request<'a, T> = dyn Fn(Vec<T>) -> BoxFuture<'a, Vec<Result<(), PortError>>> + Sync + 'a;

/// Sends messages to the quarantine, `concurrency` requests at once. Returns a result for each message, in order. A
/// message whose reply was lost is sent again, so it may be in the queue twice.
pub async fn send_to_quarantine(
    quarantine: &dyn QuarantineQueue,
    messages: &[Quarantined],
    concurrency: usize,
    budget: &Budget<'_>,
) -> Vec<Result<(), Unsent>> {
    let request = move |ten: Vec<Quarantined>| async move { quarantine.send(&ten).await }.boxed();
    let sent = send_in_tens(messages, &request, concurrency, budget).await;
    for (message, sent) in messages.iter().zip(&sent) {
        if let Err(Unsent::Refused(error)) = sent {
            warn!(sqs_message_id = %message.sqs_message_id, %error, "message not quarantined");
        }
    }
    sent
}

/// Sends tickets, each to arrive at its time, `concurrency` requests at once. Returns a result for each ticket, in order. A ticket
/// whose reply was lost is sent again, so it may be in the queue twice.
pub async fn send_tickets(
    batch_queue: &dyn BatchQueue,
    tickets: &[(Ticket, Timestamp)],
    concurrency: usize,
    budget: &Budget<'_>,
) -> Vec<Result<(), Unsent>> {
    let request = move |ten: Vec<(Ticket, Timestamp)>| {
        let now = budget.clock.now();
        let delayed = ten.into_iter();
        let delayed = delayed.map(|(ticket, at)| (ticket, now.whole_secs_until(at)));
        let delayed = Vec::from_iter(delayed);
        async move { batch_queue.send_all(&delayed).await }.boxed()
    };
    send_in_tens(tickets, &request, concurrency, budget).await
}

async fn send_in_tens<T: Clone + Sync>(
    messages: &[T],
    request: &Request<'_, T>,
    concurrency: usize,
    budget: &Budget<'_>,
) -> Vec<Result<(), Unsent>> {
    let tens = messages.chunks(SQS_BATCH_ENTRIES_MAX).enumerate();
    let sends = tens
        .map(|(index, ten)| async move { (index, send(ten, request, budget).await) })
        .collect();
    let mut sent: Vec<(usize, Vec<Result<(), Unsent>>)> = bounded(sends, concurrency).await;
    sent.sort_unstable_by_key(|(index, _)| *index);
    sent.into_iter().flat_map(|(_, sent)| sent).collect()
}

async fn send<T: Clone>(
    messages: &[T],
    request: &Request<'_, T>,
    budget: &Budget<'_>,
) -> Vec<Result<(), Unsent>> {
    let unsent = || Err(Unsent::OutOfTime);
    let mut sent: Vec<Result<(), Unsent>> = messages.iter().map(|_| unsent()).collect();
    let mut open: Vec<usize> = (0..messages.len()).collect();
    let mut attempt = 0;
    while !open.is_empty() && budget.has_time() {
        let ten = open.iter().map(|index| messages[*index].clone()).collect();
        let mut retry = Vec::new();
        for (index, reply) in open.into_iter().zip(request(ten).await) {
            match reply {
                Ok(()) => sent[index] = Ok(()),
                Err(error) if error.retryable() => retry.push(index),
                Err(error) => sent[index] = Err(Unsent::Refused(error)),
            }
        }
        open = retry;
        attempt += 1;
        if !open.is_empty() && !budget.pause(RetryPolicy::CONTROL, attempt).await {
            break;
        }
    }
    sent
}
