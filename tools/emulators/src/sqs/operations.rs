//! The operations of the protocol: translates requests into calls of the engine, and results into responses. Decisions about
//! messages are made in `queue`.

mod move_tasks;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::attributes::{UNSUPPORTED, arn_of_queue};
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
        let attributes = &request.attributes;
        self.sqs.create_queue_from_wire(&name, attributes)?;
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
        let max_results = max.map_or(limits::LIST_QUEUES_MAX, |max| max as usize);
        // One name more than requested tells whether there is a next page.
        let (prefix, after) = (&request.queue_name_prefix, request.next_token.as_deref());
        let mut names = self.sqs.list(prefix, after, max_results + 1);
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
        let queue = queue_of(request.queue_url)?;
        let described = self.sqs.describe(&queue)?;
        let depth = described.depth;
        let mut all = described.attributes.to_wire();
        all.insert("QueueArn", arn_of_queue(&queue));
        let times = [
            ("CreatedTimestamp", described.created_ms),
            ("LastModifiedTimestamp", described.modified_ms),
        ];
        all.extend(times.map(|(name, ms)| (name, (ms / 1000).to_string())));
        let counts = [
            ("ApproximateNumberOfMessages", depth.visible),
            ("ApproximateNumberOfMessagesNotVisible", depth.in_flight),
            ("ApproximateNumberOfMessagesDelayed", depth.delayed),
        ];
        all.extend(counts.map(|(name, count)| (name, count.to_string())));
        let names = &request.attribute_names;
        let known = |name: &str| {
            matches!(name, "All" | "RedrivePolicy")
                || all.contains_key(name)
                || UNSUPPORTED.contains(&name)
        };
        if let Some(unknown) = names.iter().find(|name| !known(name)) {
            let name = unknown.clone();
            return Err(SqsError::InvalidAttributeName { name });
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
        let queue = queue_of(request.queue_url)?;
        self.sqs.set_attributes(&queue, &request.attributes)?;
        Ok(Empty {})
    }

    /// Sends a message. `trace_header` is that of the HTTP request, which a message without one of its own gets.
    pub(super) fn send_message(
        &self,
        request: wire::Single<wire::Payload>,
        trace_header: Option<&str>,
    ) -> Result<wire::SentMessage, SqsError> {
        let queue = queue_of(request.queue_url)?;
        let mut outgoing = outgoing(request.content)?;
        let of_message = outgoing.trace_header.take();
        outgoing.trace_header = of_message.or_else(|| trace_header.map(str::to_owned));
        let mut results = self.sqs.send_batch(&queue, [Ok(outgoing)])?;
        results.remove(0).map(sent)
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
        let mut names = request.message_system_attribute_names;
        names.extend(request.attribute_names);
        let shown = SystemAttributes::requested(names)?;
        let max = request.max_number_of_messages.unwrap_or(1);
        let max = in_range("MaxNumberOfMessages", max, limits::RECEIVE_MESSAGES)? as usize;
        let visibility = request.visibility_timeout;
        let visibility = visibility
            .map(|secs| seconds("VisibilityTimeout", secs, limits::VISIBILITY_SECS))
            .transpose()?;
        let wait = match request.wait_time_seconds {
            Some(secs) => seconds("WaitTimeSeconds", secs, limits::WAIT_SECS)?,
            None => self.sqs.attributes(&queue)?.receive_wait,
        };
        let messages = self.sqs.receive(&queue, max, wait, visibility).await?;
        let names = &request.message_attribute_names;
        let messages = messages.into_iter();
        let messages = messages.map(|message| received(message, &shown, names));
        Ok(wire::ReceivedMessages {
            messages: messages.collect(),
        })
    }

    pub(super) fn delete_message(
        &self,
        request: wire::Single<wire::Handle>,
    ) -> Result<Empty, SqsError> {
        let queue = queue_of(request.queue_url)?;
        let handle = handle(request.content.receipt_handle)?;
        self.sqs.delete(&queue, &handle)?;
        Ok(Empty {})
    }

    pub(super) fn delete_message_batch(
        &self,
        request: wire::Batch<wire::Handle>,
    ) -> Result<BatchResult<Empty>, SqsError> {
        let queue = queue_of(request.queue_url)?;
        let (ids, handles) = entries(request.entries)?;
        let handles = handles.iter().map(|entry| entry.receipt_handle.as_str());
        let results = self.sqs.delete_batch(&queue, &Vec::from_iter(handles))?;
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
        let handle = handle(change.receipt_handle)?;
        self.sqs.change_visibility(queue, &handle, timeout)?;
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
    let given = Some(receipt_handle).filter(|handle| !handle.is_empty());
    required("ReceiptHandle", given)
}

fn in_range(
    parameter: &'static str,
    value: i64,
    range: RangeInclusive<u64>,
) -> Result<u64, SqsError> {
    let checked = u64::try_from(value).ok();
    let checked = checked.filter(|value| range.contains(value));
    checked.ok_or_else(|| SqsError::out_of_range(parameter, value, range))
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
    let entries = entries.into_iter();
    Ok(entries.map(|entry| (entry.id, entry.content)).unzip())
}

fn outgoing(payload: wire::Payload) -> Result<Outgoing, SqsError> {
    if let Some(value) = payload.message_deduplication_id {
        return Err(SqsError::InvalidParameterValue {
            parameter: "MessageDeduplicationId",
            value,
            allowed: "absent: the queue is not FIFO",
        });
    }
    let delay_secs = payload.delay_seconds;
    let delay_secs = delay_secs
        .map(|secs| in_range("DelaySeconds", secs, limits::DELAY_SECS))
        .transpose()?;
    let attributes = payload.message_attributes.into_iter();
    let attributes = attributes.map(|(name, attribute)| Ok((name, attribute.into_domain()?)));
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
        for url in ["http://localhost:1/000000000000/queue", "queue"] {
            assert_eq!(queue_of(Some(url.to_owned())), Ok("queue".to_owned()));
        }
        let parameter = "QueueUrl";
        let missing = SqsError::MissingParameter { parameter };
        assert_eq!(queue_of(None), Err(missing));
    }
}
