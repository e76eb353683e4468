use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use protocol::limits::SQS_DELAY_MAX;
use shared::ports::{BatchQueue, PortError, QueueDepth};
use shared::wire::Ticket;

use crate::errors::{SQS, port_error};
use crate::sqs_requests::{depth, send_entries};

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
        let sent = self
            .client
            .send_message()
            .queue_url(&self.queue_url)
            .message_body(ticket.to_body())
            .delay_seconds(delay_secs(delay))
            .send()
            .await;
        sent.map_err(|error| port_error(SQS, &self.queue_url, &error))?;
        Ok(())
    }

    async fn send_all(&self, tickets: &[(Ticket, Duration)]) -> Vec<Result<(), PortError>> {
        let entry = |(index, (ticket, delay)): (usize, &(Ticket, Duration))| {
            SendMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .message_body(ticket.to_body())
                .delay_seconds(delay_secs(*delay))
                .build()
                .expect("id and body are set above")
        };
        let entries = tickets.iter().enumerate().map(entry).collect();
        send_entries(&self.client, &self.queue_url, entries).await
    }

    async fn depth(&self) -> Result<QueueDepth, PortError> {
        depth(&self.client, &self.queue_url).await
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
        sent.map_err(|error| port_error(SQS, &self.queue_url, &error))?;
        Ok(())
    }
}

/// Returns the delay of a ticket in seconds, rounded up, so that the ticket is never early.
fn delay_secs(delay: Duration) -> i32 {
    debug_assert!(delay <= SQS_DELAY_MAX, "delay of {delay:?}");
    i32::try_from(delay.as_millis().div_ceil(1_000)).unwrap_or(i32::MAX)
}
