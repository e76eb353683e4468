//! Sending messages to the quarantine queue: in requests of ten, each repeated while there is time.

use tracing::warn;

use crate::calls::{Budget, bounded};
use crate::limits::SQS_BATCH_ENTRIES_MAX;
use crate::ports::{Clock, Entropy, Quarantine, Quarantined};
use crate::protocol::retry::RetryPolicy;

/// Sends messages to the quarantine, `concurrency` requests at once; returns which of them are there, in order. One whose
/// reply was lost is sent again, and may be there twice.
pub async fn send_to_quarantine<Q: Quarantine, C: Clock, E: Entropy>(
    quarantine: &Q,
    messages: &[Quarantined],
    concurrency: usize,
    budget: &Budget<'_, C, E>,
) -> Vec<bool> {
    let chunks = messages.chunks(SQS_BATCH_ENTRIES_MAX).enumerate();
    let sends = chunks
        .map(|(index, chunk)| async move { (index, send(quarantine, chunk, budget).await) })
        .collect();
    let mut sent: Vec<(usize, Vec<bool>)> = bounded(sends, concurrency).await;
    sent.sort_unstable_by_key(|(index, _)| *index);
    sent.into_iter().flat_map(|(_, sent)| sent).collect()
}

async fn send<Q: Quarantine, C: Clock, E: Entropy>(
    quarantine: &Q,
    messages: &[Quarantined],
    budget: &Budget<'_, C, E>,
) -> Vec<bool> {
    let mut sent = vec![false; messages.len()];
    let mut open: Vec<usize> = (0..messages.len()).collect();
    let mut attempt = 0;
    while !open.is_empty() && budget.open() {
        let chunk: Vec<Quarantined> = open.iter().map(|index| messages[*index].clone()).collect();
        let mut repeat = Vec::new();
        for (index, reply) in open.into_iter().zip(quarantine.send(&chunk).await) {
            match reply {
                Ok(()) => sent[index] = true,
                Err(error) if error.retryable() => repeat.push(index),
                Err(error) => {
                    warn!(sqs_message_id = %messages[index].sqs_message_id, %error, "message not quarantined");
                }
            }
        }
        open = repeat;
        attempt += 1;
        if !open.is_empty() && !budget.pause(RetryPolicy::CONTROL, attempt).await {
            break;
        }
    }
    sent
}
