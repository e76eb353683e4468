use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use futures::future::join_all;
use protocol::limits::{SQS_BATCH_ENTRIES_MAX, SQS_MESSAGE_BYTES_MAX};
use tracing::warn;

use super::sqs_attributes::to_sqs;
use super::sqs_requests::send_entries;
use crate::ports::{PortError, QuarantineQueue, Quarantined};
use crate::quarantine_attributes::{Packed, packed};

/// The quarantine queue on SQS.
///
/// The body is sent as it was received, with the message group and the message attributes of its producer and those of the service:
/// [`quarantine_attributes`](crate::quarantine_attributes).
#[derive(Clone, Debug)]
pub struct SqsQuarantineQueue {
    client: Client,
    queue_url: String,
}

/// A message with its attributes.
struct Prepared {
    /// The index of the message in the call.
    index: usize,
    packed: Packed,
}

impl SqsQuarantineQueue {
    pub fn new(client: Client, queue_url: impl Into<String>) -> SqsQuarantineQueue {
        SqsQuarantineQueue {
            client,
            queue_url: queue_url.into(),
        }
    }

    /// Sends one request. Returns a result for each message, with the index of the message.
    async fn send_request(
        &self,
        messages: &[Quarantined],
        request: Vec<Prepared>,
    ) -> Vec<(usize, Result<(), PortError>)> {
        let indices: Vec<usize> = request.iter().map(|prepared| prepared.index).collect();
        let entries = request
            .into_iter()
            .map(|prepared| entry(&messages[prepared.index], prepared))
            .collect();
        let sent = send_entries(&self.client, &self.queue_url, entries).await;
        indices.into_iter().zip(sent).collect()
    }
}

#[async_trait]
impl QuarantineQueue for SqsQuarantineQueue {
    async fn send(&self, messages: &[Quarantined]) -> Vec<Result<(), PortError>> {
        debug_assert!(
            messages.len() <= SQS_BATCH_ENTRIES_MAX,
            "{} messages in one call",
            messages.len()
        );
        let requests = split(
            messages
                .iter()
                .enumerate()
                .map(|(index, message)| prepare(index, message)),
        );
        let mut replies: Vec<(usize, Result<(), PortError>)> = join_all(
            requests
                .into_iter()
                .map(|request| self.send_request(messages, request)),
        )
        .await
        .into_iter()
        .flatten()
        .collect();
        replies.sort_by_key(|(index, _)| *index);
        replies.into_iter().map(|(_, reply)| reply).collect()
    }
}

fn entry(message: &Quarantined, prepared: Prepared) -> SendMessageBatchRequestEntry {
    let attributes = to_sqs(prepared.packed.attributes);
    SendMessageBatchRequestEntry::builder()
        .id(prepared.index.to_string())
        .message_body(&*message.body)
        .set_message_attributes(attributes.message_attributes)
        .set_message_group_id(attributes.message_group_id)
        .build()
        .expect("id and body are set above")
}

fn prepare(index: usize, message: &Quarantined) -> Prepared {
    let packed = packed(message);
    if !packed.left_out.is_empty() {
        let names = packed.left_out.join(", ");
        warn!(
            sqs_message_id = %message.sqs_message_id,
            attributes = format_args!("«{names}»"),
            "message attributes left out: no space in the quarantine's message"
        );
    }
    Prepared { index, packed }
}

/// Splits a list into requests within the limits of SQS on entries and bytes, in order.
fn split(messages: impl Iterator<Item = Prepared>) -> Vec<Vec<Prepared>> {
    let mut requests: Vec<Vec<Prepared>> = Vec::new();
    let mut bytes = 0;
    for prepared in messages {
        let message_bytes = prepared.packed.bytes;
        match requests.last_mut() {
            Some(request)
                if request.len() < SQS_BATCH_ENTRIES_MAX
                    && bytes + message_bytes <= SQS_MESSAGE_BYTES_MAX =>
            {
                bytes += message_bytes;
                request.push(prepared);
            }
            Some(_) | None => {
                bytes = message_bytes;
                requests.push(vec![prepared]);
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_attributes::AttributeMap;
    use crate::quarantine_attributes;

    fn message(body_bytes: usize, reason: &str) -> Quarantined {
        quarantine_attributes::tests::message(body_bytes, reason, &AttributeMap::new())
    }

    #[test]
    fn requests_stay_within_the_size_limit_of_sqs() {
        let messages: Vec<Quarantined> = (0..10).map(|_| message(300_000, "bad")).collect();
        let requests = split(
            messages
                .iter()
                .enumerate()
                .map(|(index, message)| prepare(index, message)),
        );
        assert_eq!(
            requests.iter().map(Vec::len).collect::<Vec<_>>(),
            [3, 3, 3, 1]
        );
        let small: Vec<Quarantined> = (0..10).map(|_| message(10, "bad")).collect();
        assert_eq!(
            split(
                small
                    .iter()
                    .enumerate()
                    .map(|(index, message)| prepare(index, message))
            )
            .len(),
            1
        );
    }
}
