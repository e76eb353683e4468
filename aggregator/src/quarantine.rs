//! Messages that cannot be processed: to the quarantine with a reason, or back to the queue.

use shared::calls::{Budget, bounded};
use shared::limits::SQS_BATCH_ENTRIES_MAX;
use shared::ports::{Clock, Entropy, Quarantine, Quarantined};
use shared::protocol::retry::RetryPolicy;
use tracing::warn;

use crate::handler::{Handler, Ports};

impl<P: Ports> Handler<P> {
    /// Sends messages to the quarantine; answers which of them are there. None, where there is no quarantine.
    pub async fn quarantine(
        &self,
        messages: &[Quarantined],
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> Vec<bool> {
        for message in messages {
            let event_id = message
                .event_id
                .as_ref()
                .map(|id| id.as_str())
                .unwrap_or_default();
            warn!(sqs_message_id = %message.sqs_message_id, event_id, reason = message.reason, "message cannot be processed");
        }
        let Some(quarantine) = self.ports().quarantine() else {
            return vec![false; messages.len()];
        };
        let chunks = messages.chunks(SQS_BATCH_ENTRIES_MAX).enumerate();
        let sends = chunks
            .map(|(index, chunk)| async move { (index, send(quarantine, chunk, budget).await) })
            .collect();
        let mut sent: Vec<(usize, Vec<bool>)> =
            bounded(sends, self.config().common.write_concurrency).await;
        sent.sort_unstable_by_key(|(index, _)| *index);
        sent.into_iter().flat_map(|(_, sent)| sent).collect()
    }
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
