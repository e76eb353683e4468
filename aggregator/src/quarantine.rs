//! Sends messages that cannot be processed to the quarantine, with a reason.

use std::sync::Arc;

use shared::ports::{Ports, QuarantineQueue, Quarantined};
use shared::retry::{Budget, send_to_quarantine};
use tracing::warn;

use crate::config::Config;

/// Sends messages to the quarantine queue, if one is configured.
pub struct Quarantine {
    queue: Option<Arc<dyn QuarantineQueue>>,
    concurrency: usize,
}

impl Quarantine {
    pub fn new(config: &Config, ports: &Ports) -> Quarantine {
        Quarantine {
            queue: ports.quarantine_queue.clone(),
            concurrency: config.common.write_concurrency,
        }
    }

    /// Sends messages to the quarantine queue. Returns for each whether the queue acknowledged it; without a queue, `false`
    /// for all.
    pub async fn send(&self, messages: &[Quarantined], budget: &Budget<'_>) -> Vec<bool> {
        for message in messages {
            let event_id = message.event_id.as_ref().map(|id| id.as_str());
            warn!(
                sqs_message_id = %message.sqs_message_id,
                event_id = event_id.unwrap_or_default(),
                reason = message.reason,
                "message cannot be processed"
            );
        }
        let Some(queue) = self.queue.as_deref() else {
            return vec![false; messages.len()];
        };
        let sent = send_to_quarantine(queue, messages, self.concurrency, budget).await;
        sent.into_iter().map(|sent| sent.is_ok()).collect()
    }
}
