//! Messages that cannot be processed: to the quarantine with a reason, or back to the queue.

use shared::calls::Budget;
use shared::ports::Quarantined;
use shared::quarantine::send_to_quarantine;
use tracing::warn;

use crate::handler::Handler;

impl Handler {
    /// Sends messages to the quarantine; answers which of them are there. None, where there is no quarantine.
    pub async fn quarantine(&self, messages: &[Quarantined], budget: &Budget<'_>) -> Vec<bool> {
        for message in messages {
            let event_id = message
                .event_id
                .as_ref()
                .map(|id| id.as_str())
                .unwrap_or_default();
            warn!(sqs_message_id = %message.sqs_message_id, event_id, reason = message.reason, "message cannot be processed");
        }
        let Some(quarantine) = self.ports().quarantine_queue.as_deref() else {
            return vec![false; messages.len()];
        };
        let concurrency = self.config().common.write_concurrency;
        let sent = send_to_quarantine(quarantine, messages, concurrency, budget).await;
        sent.into_iter().map(|sent| sent.is_ok()).collect()
    }
}
