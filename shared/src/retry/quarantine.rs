//! Sends messages to the quarantine queue in requests of ten, with retries while there is time.

use protocol::limits::SQS_BATCH_ENTRIES_MAX;
use protocol::retry::RetryPolicy;
use tracing::warn;

use super::budget::{Budget, bounded};
use crate::ports::{PortError, QuarantineQueue, Quarantined};

/// Why a message may not be in the quarantine.
#[derive(Debug)]
pub enum Unsent {
    /// The queue refused the message, and would refuse it again.
    Refused(PortError),
    /// The time was over before the queue acknowledged the message.
    OutOfTime,
}

/// Sends messages to the quarantine, `concurrency` requests at once. Returns a result for each message, in order. A
/// message whose reply was lost is sent again, so it may be in the queue twice.
pub async fn send_to_quarantine(
    quarantine: &dyn QuarantineQueue,
    messages: &[Quarantined],
    concurrency: usize,
    budget: &Budget<'_>,
) -> Vec<Result<(), Unsent>> {
    let chunks = messages.chunks(SQS_BATCH_ENTRIES_MAX).enumerate();
    let sends = chunks
        .map(|(index, chunk)| async move { (index, send(quarantine, chunk, budget).await) })
        .collect();
    let mut sent: Vec<(usize, Vec<Result<(), Unsent>>)> = bounded(sends, concurrency).await;
    sent.sort_unstable_by_key(|(index, _)| *index);
    sent.into_iter().flat_map(|(_, sent)| sent).collect()
}

async fn send(
    quarantine: &dyn QuarantineQueue,
    messages: &[Quarantined],
    budget: &Budget<'_>,
) -> Vec<Result<(), Unsent>> {
    let unsent = || Err(Unsent::OutOfTime);
    let mut sent: Vec<Result<(), Unsent>> = messages.iter().map(|_| unsent()).collect();
    let mut open: Vec<usize> = (0..messages.len()).collect();
    let mut attempt = 0;
    while !open.is_empty() && budget.has_time() {
        let chunk: Vec<Quarantined> = open.iter().map(|index| messages[*index].clone()).collect();
        let mut retry = Vec::new();
        for (index, reply) in open.into_iter().zip(quarantine.send(&chunk).await) {
            match reply {
                Ok(()) => sent[index] = Ok(()),
                Err(error) if error.retryable() => retry.push(index),
                Err(error) => {
                    warn!(sqs_message_id = %messages[index].sqs_message_id, %error, "message not quarantined");
                    sent[index] = Err(Unsent::Refused(error));
                }
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
