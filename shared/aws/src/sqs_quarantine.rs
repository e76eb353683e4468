use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use futures::future::join_all;
use protocol::limits::{SQS_BATCH_ENTRIES_MAX, SQS_MESSAGE_BYTES_MAX};
use shared::ports::{PortError, QuarantineQueue, Quarantined};
use shared::quarantine_attributes::{Packed, packed};
use tracing::warn;

use crate::sqs_attributes::to_sqs;
use crate::sqs_requests::send_entries;

/// The quarantine queue on SQS.
///
/// The body is sent as it was received, with the message group and the message attributes of its producer and those of the service:
/// [`quarantine_attributes`](shared::quarantine_attributes).
#[derive(Clone, Debug)]
pub struct SqsQuarantineQueue {
    client: Client,
    queue_url: String,
}

/// A message with its attributes.
struct Prepared<'a> {
    message: &'a Quarantined,
    packed: Packed,
}

impl SqsQuarantineQueue {
    pub fn new(client: Client, queue_url: impl Into<String>) -> SqsQuarantineQueue {
        SqsQuarantineQueue {
            client,
            queue_url: queue_url.into(),
        }
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
        let requests = split(messages).into_iter().map(|request| {
            let entries = request.into_iter().enumerate().map(entry).collect();
            send_entries(&self.client, &self.queue_url, entries)
        });
        let sent = join_all(requests).await;
        sent.into_iter().flatten().collect()
    }
}

fn entry((index, prepared): (usize, Prepared<'_>)) -> SendMessageBatchRequestEntry {
    let attributes = to_sqs(prepared.packed.attributes);
    SendMessageBatchRequestEntry::builder()
        .id(index.to_string())
        .message_body(&*prepared.message.body)
        .set_message_attributes(attributes.message_attributes)
        .set_message_group_id(attributes.message_group_id)
        .build()
        .expect("id and body are set above")
}

fn prepare(message: &Quarantined) -> Prepared<'_> {
    let packed = packed(message);
    if !packed.left_out.is_empty() {
        let names = packed.left_out.join(", ");
        warn!(
            sqs_message_id = %message.sqs_message_id,
            attributes = format_args!("«{names}»"),
            "message attributes left out: no space in the quarantine's message"
        );
    }
    Prepared { message, packed }
}

/// Splits a list into requests within the limits of SQS on entries and bytes, in order.
fn split(messages: &[Quarantined]) -> Vec<Vec<Prepared<'_>>> {
    let mut requests: Vec<Vec<Prepared<'_>>> = Vec::new();
    let mut bytes = 0;
    for prepared in messages.iter().map(prepare) {
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

    fn message(body_bytes: usize) -> Quarantined {
        Quarantined {
            sqs_message_id: "m".parse().unwrap(),
            event_id: Some("e".repeat(100).parse().unwrap()),
            source: "arn:aws:sqs:eu-west-1:1:q".parse().unwrap(),
            reason: "bad".to_owned(),
            body: "x".repeat(body_bytes).into(),
            attributes: None,
        }
    }

    /// Returns how many messages each request carries, if ten messages have bodies of this size.
    fn messages_per_request(body_bytes: usize) -> Vec<usize> {
        let messages = Vec::from_iter((0..10).map(|_| message(body_bytes)));
        let requests = split(&messages);
        requests.iter().map(Vec::len).collect()
    }

    #[test]
    fn requests_stay_within_the_size_limit_of_sqs() {
        assert_eq!(messages_per_request(300_000), [3, 3, 3, 1]);
        assert_eq!(messages_per_request(10), [10]);
    }
}
