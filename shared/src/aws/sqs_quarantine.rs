use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, MessageAttributeValue, SendMessageBatchRequestEntry,
};
use futures::future::join_all;
use protocol::limits::{SQS_BATCH_ENTRIES_MAX, SQS_MESSAGE_BYTES_MAX};

use super::errors::{Meaning, SQS, meaning, port_error, repeated};
use crate::ports::{PortError, QuarantineQueue, Quarantined};
use crate::sqs_text::sqs_text;

/// Longest `reason`, in bytes; a longer one is cut.
const REASON_BYTES_MAX: usize = 1_024;
/// Longest `eventId` and `source`, in bytes: the length limit of these ids, so they are cut only if the message is
/// large.
const ID_BYTES_MAX: usize = 2_048;
/// The type of every attribute. SQS counts it as part of the message.
const ATTRIBUTE_TYPE: &str = "String";

/// The quarantine queue on SQS.
///
/// The body is sent as it was received, with the message attributes `reason`, `eventId` and `source`. If the body is
/// close to the size limit of a message, the last attributes are cut or left out first, so that every message that
/// arrived fits.
#[derive(Clone, Debug)]
pub struct SqsQuarantineQueue {
    client: Client,
    queue_url: String,
}

/// A message with the attributes that fit.
struct Prepared {
    /// The index of the message in the call.
    index: usize,
    bytes: usize,
    attributes: Vec<(&'static str, String)>,
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
        let sent = self
            .client
            .send_message_batch()
            .queue_url(&self.queue_url)
            .set_entries(Some(entries))
            .send()
            .await;
        let output = match sent {
            Ok(output) => output,
            Err(error) => {
                let error = port_error(SQS, &self.queue_url, &error);
                return indices
                    .into_iter()
                    .map(|index| (index, Err(repeated(&error))))
                    .collect();
            }
        };
        let reply = |index: usize| {
            let id = index.to_string();
            if let Some(failed) = output.failed.iter().find(|entry| entry.id == id) {
                return Err(self.entry_error(failed));
            }
            if output.successful.iter().any(|entry| entry.id == id) {
                return Ok(());
            }
            Err(PortError::Unknown {
                service: SQS,
                message: format!("{}: entry not in the reply", self.queue_url),
            })
        };
        indices
            .into_iter()
            .map(|index| (index, reply(index)))
            .collect()
    }

    fn entry_error(&self, failed: &BatchResultErrorEntry) -> PortError {
        let message = failed.message.as_deref().unwrap_or("no message");
        let message = format!("{}: {}: {message}", self.queue_url, failed.code);
        match meaning(&failed.code, None) {
            // The code is unknown, so the entry's `SenderFault` decides.
            Meaning::Refused if !failed.sender_fault => Meaning::Unknown.error(SQS, message),
            meaning => meaning.error(SQS, message),
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
    let value = |text: String| {
        MessageAttributeValue::builder()
            .data_type(ATTRIBUTE_TYPE)
            .string_value(text)
            .build()
            .expect("the type is set above")
    };
    let attributes = prepared
        .attributes
        .into_iter()
        .map(|(name, text)| (name.to_owned(), value(text)))
        .collect();
    SendMessageBatchRequestEntry::builder()
        .id(prepared.index.to_string())
        .message_body(&*message.body)
        .set_message_attributes(Some(attributes))
        .build()
        .expect("id and body are set above")
}

/// Returns a message with its attributes, as far as they fit.
fn prepare(index: usize, message: &Quarantined) -> Prepared {
    let mut bytes = message.body.len();
    let mut attributes = Vec::new();
    let reason = if message.reason.is_empty() {
        "unknown"
    } else {
        &message.reason
    };
    for (name, value, bytes_max) in [
        ("reason", Some(reason), REASON_BYTES_MAX),
        (
            "eventId",
            message.event_id.as_ref().map(|id| id.as_str()),
            ID_BYTES_MAX,
        ),
        ("source", Some(message.source.as_str()), ID_BYTES_MAX),
    ] {
        let Some(value) = value else { continue };
        let around = name.len() + ATTRIBUTE_TYPE.len();
        let room = SQS_MESSAGE_BYTES_MAX
            .saturating_sub(bytes + around)
            .min(bytes_max);
        let value = sqs_text(value);
        let value = &value[..value.floor_char_boundary(room)];
        // SQS refuses empty values.
        if !value.is_empty() {
            bytes += around + value.len();
            attributes.push((name, value.to_owned()));
        }
    }
    Prepared {
        index,
        bytes,
        attributes,
    }
}

/// Splits a list into requests within the limits of SQS on entries and bytes, in order.
fn split(messages: impl Iterator<Item = Prepared>) -> Vec<Vec<Prepared>> {
    let mut requests: Vec<Vec<Prepared>> = Vec::new();
    let mut bytes = 0;
    for prepared in messages {
        match requests.last_mut() {
            Some(request)
                if request.len() < SQS_BATCH_ENTRIES_MAX
                    && bytes + prepared.bytes <= SQS_MESSAGE_BYTES_MAX =>
            {
                bytes += prepared.bytes;
                request.push(prepared);
            }
            Some(_) | None => {
                bytes = prepared.bytes;
                requests.push(vec![prepared]);
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body_bytes: usize, reason: &str) -> Quarantined {
        Quarantined {
            sqs_message_id: "m".parse().unwrap(),
            event_id: Some("e".repeat(100).parse().unwrap()),
            source: "arn:aws:sqs:eu-west-1:1:q".parse().unwrap(),
            reason: reason.to_owned(),
            body: "x".repeat(body_bytes).into(),
        }
    }

    fn names(prepared: &Prepared) -> Vec<&'static str> {
        prepared.attributes.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn a_body_close_to_the_limit_is_kept_and_its_attributes_are_cut() {
        let uncut = prepare(0, &message(SQS_MESSAGE_BYTES_MAX - 1_000, "bad"));
        assert_eq!(names(&uncut), ["reason", "eventId", "source"]);
        let cut = prepare(0, &message(SQS_MESSAGE_BYTES_MAX - 40, "bad"));
        assert_eq!(names(&cut), ["reason", "eventId"]);
        assert_eq!(cut.bytes, SQS_MESSAGE_BYTES_MAX);
        let bare = prepare(0, &message(SQS_MESSAGE_BYTES_MAX, "bad"));
        assert_eq!((names(&bare).len(), bare.bytes), (0, SQS_MESSAGE_BYTES_MAX));
    }

    #[test]
    fn a_value_is_cut_between_characters_and_has_no_characters_that_sqs_refuses() {
        let reason = format!("\u{1}{}", "ä".repeat(REASON_BYTES_MAX));
        let (_, value) = &prepare(0, &message(1, &reason)).attributes[0];
        assert!(
            value.starts_with('\u{fffd}')
                && value.ends_with('ä')
                && value.len() <= REASON_BYTES_MAX
        );
        assert_eq!(prepare(0, &message(1, "")).attributes[0].1, "unknown");
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
