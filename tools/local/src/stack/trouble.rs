//! What an operator would look at first.

use std::time::Duration;

use anyhow::Context;
use protocol::batch::{Listing, Status};
use shared::aws::BatchCatalogue;
use shared::ports::BatchStore;

use super::{QUARANTINE_QUEUE, Stack};

impl Stack {
    /// Returns the reason of the batch that is in error longest; if there is none, of a message in the quarantine.
    ///
    /// # Errors
    /// The batch table or the queue cannot be read.
    pub async fn first_trouble(&self) -> anyhow::Result<Option<String>> {
        let errors = Listing::Status(Status::Error);
        let errors = self.catalogue.listed(errors, None);
        let errors = errors.await.context("read the batch table")?;
        if let Some(first) = errors.iter().min_by_key(|batch| batch.due_at) {
            let record = self.batches.read(first.batch_id).await;
            let record = record.context("read the batch table")?;
            let error = record.and_then(|record| record.error).unwrap_or_default();
            return Ok(Some(format!(
                "batch {} is in error: {error}",
                first.batch_id
            )));
        }
        let zero = Duration::ZERO;
        let messages = self.sqs.receive(QUARANTINE_QUEUE, 1, zero, Some(zero));
        Ok(messages.await?.first().map(|message| {
            let reason = message.message_attributes.get("reason");
            let reason = reason.and_then(|reason| reason.string_value.as_deref());
            let id = &message.message_id;
            format!(
                "message {id} is in the quarantine: {}",
                reason.unwrap_or_default()
            )
        }))
    }
}
