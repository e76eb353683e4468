//! The operations of the protocol: translates requests into calls of the engine, and results into responses. Decisions about
//! messages are made in `queue`.

mod move_tasks;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::attributes::arn_of_queue;
use super::engine::{Sent, Sqs};
use super::error::{AttributeProblem, SqsError};
use super::message::Outgoing;
use super::message_attribute::TRACE_HEADER;
use super::requested_attributes::{SystemAttributes, received};
use super::wire::{self, BatchResult, Empty};
use super::{batch, limits};

/// The operations of one server. Queue URLs begin with its address.
#[derive(Clone)]
pub(super) struct Operations {
    pub(super) sqs: Sqs,
    /// `http://<address>/<account>/`.
    pub(super) url_prefix: String,
}

impl Operations {
    pub(super) fn create_queue(
        &self,
        request: wire::CreateQueue,
    ) -> Result<wire::QueueUrl, SqsError> {
        let name = required("QueueName", request.queue_name)?;
        if !request.tags.is_empty() {
            return Err(SqsError::NotImplemented {
                what: "queue tags".to_owned(),
            });
        }
        self.sqs
            .create_queue_from_wire(&name, &request.attributes)?;
        Ok(self.url(&name))
    }

    pub(super) fn get_queue_url(&self, request: wire::ByName) -> Result<wire::QueueUrl, SqsError> {
        let name = required("QueueName", request.queue_name)?;
        self.sqs.describe(&name)?;
        Ok(self.url(&name))
    }

    pub(super) fn list_queues(
        &self,
        request: wire::ListQueues,
    ) -> Result<wire::QueueUrls, SqsError> {
        let max_range = 1..=limits::LIST_QUEUES_MAX as u64;
        let max = request
            .max_results
            .map(|max| in_range("MaxResults", max, max_range))
            .transpose()?;
        let max_results = max.map_or(limits::LIST_QUEUES_MAX, |max| {
            usize::try_from(max).unwrap_or(usize::MAX)
        });
        // One name more than requested tells whether there is a next page.
        let mut names = self.sqs.list(
            &request.queue_name_prefix,
            request.next_token.as_deref(),
            max_results + 1,
        );
        let more = names.len() > max_results;
        names.truncate(max_results);
        // As in SQS, only requests with `MaxResults` get a token.
        let next_token = names.last().cloned().filter(|_| more && max.is_some());
        Ok(wire::QueueUrls {
            queue_urls: names.iter().map(|name| self.url(name).queue_url).collect(),
            next_token,
        })
    }

    pub(super) fn delete_queue(&self, request: wire::ByUrl) -> Result<Empty, SqsError> {
        self.sqs.delete_queue(&queue_of(request.queue_url)?)?;
        Ok(Empty {})
    }

    pub(super) fn purge_queue(&self, request: wire::ByUrl) -> Result<Empty, SqsError> {
        self.sqs.purge(&queue_of(request.queue_url)?)?;
        Ok(Empty {})
    }

    pub(super) fn get_queue_attributes(
        &self,
        request: wire::GetQueueAttributes,
    ) -> Result<wire::QueueAttributeMap, SqsError> {
        /// Attributes that SQS knows and queues here never have.
        const UNSET: [&str; 9] = [
            "Policy",
            "FifoQueue",
            "ContentBasedDeduplication",
            "KmsMasterKeyId",
            "KmsDataKeyReusePeriodSeconds",
            "DeduplicationScope",
            "FifoThroughputLimit",
            "RedriveAllowPolicy",
            "SqsManagedSseEnabled",
        ];
        let queue = queue_of(request.queue_url)?;
        let described = self.sqs.describe(&queue)?;
        let mut all = described.attributes.to_wire();
        all.extend([
            ("QueueArn", arn_of_queue(&queue)),
            (
                "CreatedTimestamp",
                (described.created_ms / 1000).to_string(),
            ),
            (
                "LastModifiedTimestamp",
                (described.modified_ms / 1000).to_string(),
            ),
            (
                "ApproximateNumberOfMessages",
                described.depth.visible.to_string(),
            ),
            (
                "ApproximateNumberOfMessagesNotVisible",
                described.depth.in_flight.to_string(),
            ),
            (
                "ApproximateNumberOfMessagesDelayed",
                described.depth.delayed.to_string(),
            ),
        ]);
        let names = &request.attribute_names;
        let known = |name: &str| {
            matches!(name, "All" | "RedrivePolicy")
                || all.contains_key(name)
                || UNSET.contains(&name)
        };
        if let Some(unknown) = names.iter().find(|name| !known(name)) {
            return Err(SqsError::InvalidAttributeName {
                name: unknown.clone(),
            });
        }
        if !names.iter().any(|name| name == "All") {
            all.retain(|name, _| names.iter().any(|requested| requested == name));
        }
        Ok(wire::QueueAttributeMap { attributes: all })
    }

    pub(super) fn set_queue_attributes(
        &self,
        request: wire::SetQueueAttributes,
    ) -> Result<Empty, SqsError> {
        self.sqs
            .set_attributes(&queue_of(request.queue_url)?, &request.attributes)?;
        Ok(Empty {})
    }

    /// Sends a message. `trace_header` is that of the HTTP request, which a message without one of its own gets.
    pub(super) fn send_message(
        &self,
        request: wire::SendMessage,
        trace_header: Option<&str>,
    ) -> Result<wire::SentMessage, SqsError> {
        let queue = queue_of(request.queue_url)?;
        let mut outgoing = outgoing(request.payload)?;
        let of_message = outgoing.trace_header.take();
        outgoing.trace_header = of_message.or_else(|| trace_header.map(str::to_owned));
        self.sqs
            .send_batch(&queue, [Ok(outgoing)])?
            .remove(0)
            .map(sent)
    }

    pub(super) fn send_message_batch(
        &self,
        request: wire::Batch<wire::Payload>,
    ) -> Result<BatchResult<wire::SentMessage>, SqsError> {
        let queue = queue_of(request.queue_url)?;
        let (ids, entries) = entries(request.entries)?;
        let outgoing: Vec<_> = entries.into_iter().map(outgoing).collect();
        batch::check_bytes(outgoing.iter().flatten().map(Outgoing::bytes).sum())?;
        let results = self.sqs.send_batch(&queue, outgoing)?;
        let responses = results.into_iter().map(|result| result.map(sent));
        Ok(BatchResult::from_results(ids.into_iter().zip(responses)))
    }

    pub(super) async fn receive_message(
        &self,
        request: wire::ReceiveMessage,
    ) -> Result<wire::ReceivedMessages, SqsError> {
        let queue = queue_of(request.queue_url)?;
        let shown = SystemAttributes::requested(
            [
                request.message_system_attribute_names,
                request.attribute_names,
            ]
            .concat(),
        )?;
        let max_range =
            *limits::RECEIVE_MESSAGES.start() as u64..=*limits::RECEIVE_MESSAGES.end() as u64;
        let max = in_range(
            "MaxNumberOfMessages",
            request.max_number_of_messages.unwrap_or(1),
            max_range,
        )?;
        let visibility = request.visibility_timeout;
        let visibility = visibility
            .map(|secs| seconds("VisibilityTimeout", secs, limits::VISIBILITY_SECS))
            .transpose()?;
        let wait = match request.wait_time_seconds {
            Some(secs) => seconds("WaitTimeSeconds", secs, limits::WAIT_SECS)?,
            None => self.sqs.attributes(&queue)?.receive_wait,
        };
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let messages = self.sqs.receive(&queue, max, wait, visibility).await?;
        let names = &request.message_attribute_names;
        let messages = messages
            .into_iter()
            .map(|message| received(message, &shown, names))
            .collect();
        Ok(wire::ReceivedMessages { messages })
    }

    pub(super) fn delete_message(
        &self,
        request: wire::Single<wire::Handle>,
    ) -> Result<Empty, SqsError> {
        let queue = queue_of(request.queue_url)?;
        self.sqs
            .delete(&queue, &handle(request.content.receipt_handle)?)?;
        Ok(Empty {})
    }

    pub(super) fn delete_message_batch(
        &self,
        request: wire::Batch<wire::Handle>,
    ) -> Result<BatchResult<Empty>, SqsError> {
        let queue = queue_of(request.queue_url)?;
        let (ids, handles) = entries(request.entries)?;
        let handles: Vec<&str> = handles
            .iter()
            .map(|entry| entry.receipt_handle.as_str())
            .collect();
        let results = self.sqs.delete_batch(&queue, &handles)?;
        let responses = results.into_iter().map(|result| result.map(|()| Empty {}));
        Ok(BatchResult::from_results(ids.into_iter().zip(responses)))
    }

    pub(super) fn change_message_visibility(
        &self,
        request: wire::Single<wire::Visibility>,
    ) -> Result<Empty, SqsError> {
        let queue = queue_of(request.queue_url)?;
        self.change_visibility(&queue, request.content)
    }

    pub(super) fn change_message_visibility_batch(
        &self,
        request: wire::Batch<wire::Visibility>,
    ) -> Result<BatchResult<Empty>, SqsError> {
        let queue = queue_of(request.queue_url)?;
        self.sqs.describe(&queue)?;
        let (ids, changes) = entries(request.entries)?;
        let results = changes
            .into_iter()
            .map(|change| self.change_visibility(&queue, change));
        Ok(BatchResult::from_results(ids.into_iter().zip(results)))
    }

    fn change_visibility(&self, queue: &str, change: wire::Visibility) -> Result<Empty, SqsError> {
        let timeout_secs = required("VisibilityTimeout", change.visibility_timeout)?;
        let timeout = seconds("VisibilityTimeout", timeout_secs, limits::VISIBILITY_SECS)?;
        self.sqs
            .change_visibility(queue, &handle(change.receipt_handle)?, timeout)?;
        Ok(Empty {})
    }

    fn url(&self, queue: &str) -> wire::QueueUrl {
        wire::QueueUrl {
            queue_url: format!("{}{queue}", self.url_prefix),
        }
    }
}

/// Returns the queue name at the end of a queue URL. The host is ignored, because a client may use any name of this machine.
fn queue_of(url: Option<String>) -> Result<String, SqsError> {
    let url = required("QueueUrl", url)?;
    let (_, name) = url.rsplit_once('/').unwrap_or(("", &url));
    Ok(name.to_owned())
}

fn required<T>(parameter: &'static str, value: Option<T>) -> Result<T, SqsError> {
    value.ok_or(SqsError::MissingParameter { parameter })
}

fn handle(receipt_handle: String) -> Result<String, SqsError> {
    required(
        "ReceiptHandle",
        Some(receipt_handle).filter(|handle| !handle.is_empty()),
    )
}

fn in_range(
    parameter: &'static str,
    value: i64,
    range: RangeInclusive<u64>,
) -> Result<u64, SqsError> {
    let (min, max) = (*range.start(), *range.end());
    let checked = u64::try_from(value)
        .ok()
        .filter(|value| range.contains(value));
    checked.ok_or_else(|| SqsError::OutOfRange {
        parameter,
        value: value.to_string(),
        min,
        max,
    })
}

fn seconds(
    parameter: &'static str,
    value: i64,
    range: RangeInclusive<u64>,
) -> Result<Duration, SqsError> {
    in_range(parameter, value, range).map(Duration::from_secs)
}

/// Checks the ids of a batch, and splits its entries into ids and contents.
fn entries<T>(entries: Vec<wire::Entry<T>>) -> Result<(Vec<String>, Vec<T>), SqsError> {
    batch::check_ids(entries.iter().map(|entry| entry.id.as_str()))?;
    Ok(entries
        .into_iter()
        .map(|entry| (entry.id, entry.content))
        .unzip())
}

fn outgoing(payload: wire::Payload) -> Result<Outgoing, SqsError> {
    if let Some(value) = payload.message_deduplication_id {
        let allowed = "absent: the queue is not FIFO";
        return Err(SqsError::InvalidParameterValue {
            parameter: "MessageDeduplicationId",
            value,
            allowed,
        });
    }
    let delay_secs = payload.delay_seconds;
    let delay_secs = delay_secs
        .map(|secs| in_range("DelaySeconds", secs, limits::DELAY_SECS))
        .transpose()?;
    let attributes = payload
        .message_attributes
        .into_iter()
        .map(|(name, attribute)| Ok((name, attribute.into_domain()?)));
    Ok(Outgoing {
        body: payload.message_body,
        attributes: attributes.collect::<Result<_, SqsError>>()?,
        delay_ms: delay_secs.map(|secs| secs * 1000),
        group_id: payload.message_group_id,
        trace_header: trace_header(payload.message_system_attributes)?,
    })
}

/// Returns the trace header among the system attributes that a sender sets.
///
/// # Errors
/// `InvalidParameterValue` for any other system attribute, `InvalidMessageAttribute` for a trace header that is not a string.
fn trace_header(
    system_attributes: BTreeMap<String, wire::Attribute>,
) -> Result<Option<String>, SqsError> {
    let mut header = None;
    for (name, attribute) in system_attributes {
        if name != TRACE_HEADER {
            return Err(SqsError::InvalidParameterValue {
                parameter: "MessageSystemAttributes",
                value: name,
                allowed: TRACE_HEADER,
            });
        }
        let attribute = attribute.into_domain()?;
        let checked = attribute.check(&name).and_then(|()| {
            let is_string = attribute.data_type == "String";
            is_string.then_some(()).ok_or(AttributeProblem::DataType)
        });
        checked.map_err(|problem| SqsError::InvalidMessageAttribute { name, problem })?;
        header = attribute.string_value;
    }
    Ok(header)
}

fn sent(sent: Sent) -> wire::SentMessage {
    wire::SentMessage {
        message_id: sent.message_id,
        md5_of_message_body: sent.md5_of_body,
        md5_of_message_attributes: sent.md5_of_attributes,
        md5_of_message_system_attributes: sent.md5_of_system_attributes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_url_is_read_by_its_last_part() {
        assert_eq!(
            queue_of(Some("http://localhost:1/000000000000/queue".to_owned())),
            Ok("queue".to_owned())
        );
        assert_eq!(queue_of(Some("queue".to_owned())), Ok("queue".to_owned()));
        assert_eq!(
            queue_of(None),
            Err(SqsError::MissingParameter {
                parameter: "QueueUrl"
            })
        );
    }
}
