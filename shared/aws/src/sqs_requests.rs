//! Requests to SQS that several adapters send.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{BatchResultErrorEntry, QueueAttributeName, SendMessageBatchRequestEntry};
use shared::ports::{PortError, QueueDepth};

use crate::errors::{Meaning, SQS, meaning, port_error};

/// Sends up to 10 messages in one request. Returns a result for each entry, in order.
pub(crate) async fn send_entries(
    client: &Client,
    queue_url: &str,
    entries: Vec<SendMessageBatchRequestEntry>,
) -> Vec<Result<(), PortError>> {
    let ids: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
    let sent = client
        .send_message_batch()
        .queue_url(queue_url)
        .set_entries(Some(entries))
        .send()
        .await;
    let output = match sent {
        Ok(output) => output,
        Err(error) => {
            let error = port_error(SQS, queue_url, &error);
            return ids.iter().map(|_| Err(error.clone())).collect();
        }
    };
    let reply = |id: String| {
        if let Some(failed) = output.failed.iter().find(|entry| entry.id == id) {
            return Err(entry_error(queue_url, failed));
        }
        if output.successful.iter().any(|entry| entry.id == id) {
            return Ok(());
        }
        let message = format!("{queue_url}: entry not in the reply");
        Err(PortError::unknown(SQS, message))
    };
    ids.into_iter().map(reply).collect()
}

fn entry_error(queue_url: &str, failed: &BatchResultErrorEntry) -> PortError {
    let message = failed.message.as_deref().unwrap_or("no message");
    let message = format!("{queue_url}: {}: {message}", failed.code);
    match meaning(&failed.code, None) {
        // The code is unknown, so the entry's `SenderFault` decides.
        Meaning::Refused if !failed.sender_fault => Meaning::Unknown.error(SQS, message),
        meaning => meaning.error(SQS, message),
    }
}

/// Returns how many messages a queue holds.
pub(crate) async fn depth(client: &Client, queue_url: &str) -> Result<QueueDepth, PortError> {
    let reply = client
        .get_queue_attributes()
        .queue_url(queue_url)
        .attribute_names(QueueAttributeName::ApproximateNumberOfMessages)
        .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)
        .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesDelayed)
        .send()
        .await
        .map_err(|error| port_error(SQS, queue_url, &error))?;
    let number = |name: QueueAttributeName| {
        let text = reply.attributes().and_then(|all| all.get(&name));
        text.and_then(|text| text.parse().ok()).ok_or_else(|| {
            let message = format!("{queue_url}: no number `{name}` in the reply");
            PortError::unknown(SQS, message)
        })
    };
    Ok(QueueDepth {
        visible: number(QueueAttributeName::ApproximateNumberOfMessages)?,
        in_flight: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)?,
        delayed: number(QueueAttributeName::ApproximateNumberOfMessagesDelayed)?,
    })
}
