//! The JSON of requests and responses, with the field names of AWS. Fields are optional here even if AWS requires them, so
//! that the operation can return an error that names the missing one.
//!
//! Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_Operations.html>

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::error::SqsError;
use super::message_attribute::MessageAttribute;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CreateQueue {
    pub(super) queue_name: Option<String>,
    #[serde(default)]
    pub(super) attributes: BTreeMap<String, String>,
    #[serde(default, rename = "tags")]
    pub(super) tags: BTreeMap<String, String>,
}

/// Request of `GetQueueUrl`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ByName {
    pub(super) queue_name: Option<String>,
}

/// Request of `DeleteQueue`, `PurgeQueue` and `ListDeadLetterSourceQueues`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ByUrl {
    pub(super) queue_url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListQueues {
    #[serde(default)]
    pub(super) queue_name_prefix: String,
    pub(super) max_results: Option<i64>,
    pub(super) next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetQueueAttributes {
    pub(super) queue_url: Option<String>,
    #[serde(default)]
    pub(super) attribute_names: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SetQueueAttributes {
    pub(super) queue_url: Option<String>,
    #[serde(default)]
    pub(super) attributes: BTreeMap<String, String>,
}

/// The fields that `SendMessage` and an entry of `SendMessageBatch` share.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Payload {
    #[serde(default)]
    pub(super) message_body: String,
    pub(super) delay_seconds: Option<i64>,
    #[serde(default)]
    pub(super) message_attributes: BTreeMap<String, Attribute>,
    #[serde(default)]
    pub(super) message_system_attributes: BTreeMap<String, Attribute>,
    pub(super) message_group_id: Option<String>,
    pub(super) message_deduplication_id: Option<String>,
}

/// A batch request. The content of its entries depends on the operation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Batch<T> {
    pub(super) queue_url: Option<String>,
    #[serde(default = "Vec::new")]
    pub(super) entries: Vec<Entry<T>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Entry<T> {
    #[serde(default)]
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) content: T,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceiveMessage {
    pub(super) queue_url: Option<String>,
    pub(super) max_number_of_messages: Option<i64>,
    pub(super) wait_time_seconds: Option<i64>,
    pub(super) visibility_timeout: Option<i64>,
    #[serde(default)]
    pub(super) message_system_attribute_names: Vec<String>,
    /// Older name of `message_system_attribute_names`.
    #[serde(default)]
    pub(super) attribute_names: Vec<String>,
    #[serde(default)]
    pub(super) message_attribute_names: Vec<String>,
}

/// The fields that `DeleteMessage` and an entry of `DeleteMessageBatch` share.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Handle {
    #[serde(default)]
    pub(super) receipt_handle: String,
}

/// The fields that `ChangeMessageVisibility` and an entry of `ChangeMessageVisibilityBatch` share.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Visibility {
    #[serde(default)]
    pub(super) receipt_handle: String,
    pub(super) visibility_timeout: Option<i64>,
}

/// A request with the URL of a queue and one content.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Single<T> {
    pub(super) queue_url: Option<String>,
    #[serde(flatten)]
    pub(super) content: T,
}

/// A message attribute. Binary values are in Base64.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Attribute {
    #[serde(default)]
    pub(super) data_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) string_value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) binary_value: Option<String>,
}

impl Attribute {
    pub(super) fn from_domain(attribute: &MessageAttribute) -> Self {
        let binary_value = attribute.binary_value.as_ref();
        Self {
            data_type: attribute.data_type.clone(),
            string_value: attribute.string_value.clone(),
            binary_value: binary_value.map(|bytes| STANDARD.encode(bytes)),
        }
    }

    pub(super) fn into_domain(self) -> Result<MessageAttribute, SqsError> {
        let decode = |text: String| {
            let malformed = |error| SqsError::Malformed {
                reason: format!("`BinaryValue` is not Base64: {error}"),
            };
            STANDARD.decode(text).map_err(malformed)
        };
        Ok(MessageAttribute {
            data_type: self.data_type,
            string_value: self.string_value,
            binary_value: self.binary_value.map(decode).transpose()?,
        })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueUrl {
    pub(super) queue_url: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueUrls {
    pub(super) queue_urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueAttributeMap {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attributes: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SentMessage {
    pub(super) message_id: String,
    #[serde(rename = "MD5OfMessageBody")]
    pub(super) md5_of_message_body: String,
    #[serde(
        rename = "MD5OfMessageAttributes",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) md5_of_message_attributes: Option<String>,
    #[serde(
        rename = "MD5OfMessageSystemAttributes",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) md5_of_message_system_attributes: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StartMessageMoveTask {
    pub(super) source_arn: Option<String>,
    pub(super) destination_arn: Option<String>,
    pub(super) max_number_of_messages_per_second: Option<i64>,
}

/// Response of `StartMessageMoveTask`, and request of `CancelMessageMoveTask`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MoveTaskHandle {
    pub(super) task_handle: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CancelledMoveTask {
    pub(super) approximate_number_of_messages_moved: usize,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListMessageMoveTasks {
    pub(super) source_arn: Option<String>,
    pub(super) max_results: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MoveTasks {
    pub(super) results: Vec<MoveTask>,
}

/// A task in a listing. Its times are in epoch ms.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MoveTask {
    pub(super) status: &'static str,
    pub(super) source_arn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) destination_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_number_of_messages_per_second: Option<u32>,
    pub(super) approximate_number_of_messages_moved: usize,
    pub(super) approximate_number_of_messages_to_move: usize,
    pub(super) started_timestamp: u64,
    /// Only of a task that is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_handle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure_reason: Option<&'static str>,
}

/// Response of `ListDeadLetterSourceQueues`. It spells its field in lowercase, unlike all others.
#[derive(Debug, Serialize)]
pub(super) struct SourceQueueUrls {
    #[serde(rename = "queueUrls")]
    pub(super) queue_urls: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceivedMessages {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) messages: Vec<ReceivedMessage>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ReceivedMessage {
    pub(super) message_id: String,
    pub(super) receipt_handle: String,
    #[serde(rename = "MD5OfBody")]
    pub(super) md5_of_body: String,
    pub(super) body: Arc<str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attributes: BTreeMap<&'static str, String>,
    #[serde(
        rename = "MD5OfMessageAttributes",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) md5_of_message_attributes: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) message_attributes: BTreeMap<String, Attribute>,
}

/// Response to a batch request. Its HTTP status is 200 even if entries failed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BatchResult<T> {
    pub(super) successful: Vec<Succeeded<T>>,
    pub(super) failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Succeeded<T> {
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) content: T,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Failed {
    pub(super) id: String,
    pub(super) sender_fault: bool,
    pub(super) code: &'static str,
    pub(super) message: String,
}

/// A response without fields.
#[derive(Debug, Serialize)]
pub(super) struct Empty {}

impl<T> BatchResult<T> {
    /// Sorts the results of entries into those that succeeded and those that failed.
    pub(super) fn from_results(
        results: impl Iterator<Item = (String, Result<T, SqsError>)>,
    ) -> Self {
        let mut sorted = Self {
            successful: Vec::new(),
            failed: Vec::new(),
        };
        for (id, result) in results {
            match result {
                Ok(content) => sorted.successful.push(Succeeded { id, content }),
                Err(error) => sorted.failed.push(Failed {
                    id,
                    sender_fault: true,
                    code: error.wire_code().query,
                    message: error.to_string(),
                }),
            }
        }
        sorted
    }
}
