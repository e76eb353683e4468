//! What an operator would look at first.

use std::time::Duration;

use protocol::batch::{Listing, Status};

use super::{QUARANTINE_QUEUE, Stack};

impl Stack {
    /// Returns the reason of the batch that is in error longest; if there is none, of a message in the quarantine.
    pub async fn first_trouble(&self) -> anyhow::Result<Option<String>> {
        let errors = self.listed(Listing::Status(Status::Error)).await?;
        if let Some(first) = errors.iter().min_by_key(|batch| batch.due_at) {
            let record = self.record(first.batch_id).await?;
            let error = record.and_then(|record| record.error).unwrap_or_default();
            let batch = first.batch_id;
            return Ok(Some(format!("batch {batch} is in error: {error}")));
        }
        let zero = Duration::ZERO;
        let messages = self.sqs.receive(QUARANTINE_QUEUE, 1, zero, Some(zero));
        Ok(messages.await?.first().map(|message| {
            let reason = message.message_attributes.get("reason");
            let reason = reason.and_then(|reason| reason.string_value.as_deref());
            let (id, reason) = (&message.message_id, reason.unwrap_or_default());
            format!("message {id} is in the quarantine: {reason}")
        }))
    }
}
