use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use protocol::limits::SQS_DELAY_MAX;

use super::errors::{SQS, port_error};
use crate::ports::{BatchQueue, PortError};
use crate::wire::Ticket;

/// The batch queue on SQS.
#[derive(Clone, Debug)]
pub struct SqsBatchQueue {
    client: Client,
    queue_url: String,
}

impl SqsBatchQueue {
    pub fn new(client: Client, queue_url: impl Into<String>) -> SqsBatchQueue {
        SqsBatchQueue {
            client,
            queue_url: queue_url.into(),
        }
    }
}

#[async_trait]
impl BatchQueue for SqsBatchQueue {
    async fn send(&self, ticket: &Ticket, delay: Duration) -> Result<(), PortError> {
        debug_assert!(delay <= SQS_DELAY_MAX, "delay of {delay:?}");
        // The delay is rounded up, so that the ticket is never early.
        let delay_secs = delay.as_millis().div_ceil(1_000);
        let sent = self
            .client
            .send_message()
            .queue_url(&self.queue_url)
            .message_body(ticket.to_body())
            .delay_seconds(i32::try_from(delay_secs).unwrap_or(i32::MAX))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(()),
            Err(error) => Err(port_error(SQS, &self.queue_url, &error)),
        }
    }

    async fn retry_after(&self, receipt: &str, delay: Duration) -> Result<(), PortError> {
        let delay_secs = delay.as_millis().div_ceil(1_000);
        let sent = self
            .client
            .change_message_visibility()
            .queue_url(&self.queue_url)
            .receipt_handle(receipt)
            .visibility_timeout(i32::try_from(delay_secs).unwrap_or(i32::MAX))
            .send()
            .await;
        sent.map(|_| ())
            .map_err(|error| port_error(SQS, &self.queue_url, &error))
    }
}
