//! The resources of a template: queues, tables, functions and their mappings.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::text::text;
use crate::dynamodb::Table;
use crate::sqs::{QueueAttributes, Redrive};

/// The resources of a template with one set of parameters, by their [local names](super::local_name).
#[derive(Clone, Debug)]
pub struct Resources {
    /// Resources of type `AWS::SQS::Queue`.
    pub queues: BTreeMap<String, Queue>,
    /// Resources of type `AWS::DynamoDB::Table`.
    pub tables: BTreeMap<String, Table>,
    /// Resources of type `AWS::Serverless::Function`.
    pub functions: BTreeMap<String, Function>,
}

/// The properties of a queue. The service's default applies to those that are `None`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Queue {
    /// How long a received message stays invisible.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub visibility_timeout: Option<Duration>,
    /// How long a message is kept.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub message_retention_period: Option<Duration>,
    /// How long a receive waits for a first message.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub receive_message_wait_time_seconds: Option<Duration>,
    /// The dead-letter queue, and when messages go there.
    pub redrive_policy: Option<RedrivePolicy>,
}

/// Where messages go that were received too often.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedrivePolicy {
    /// The ARN of the dead-letter queue.
    pub dead_letter_target_arn: String,
    /// Receives after which a message goes there.
    #[serde(deserialize_with = "number")]
    pub max_receive_count: u32,
}

/// The properties of a function.
#[derive(Clone, Debug)]
pub struct Function {
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
    /// The memory size in MB.
    pub memory_mb: u32,
    /// The instruction set, `arm64` or `x86_64`.
    pub architecture: String,
    /// The event source mapping that invokes it.
    pub mapping: Mapping,
}

/// The properties of an event source mapping.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Mapping {
    /// The ARN of the queue.
    #[serde(rename = "Queue")]
    pub queue_arn: String,
    /// Maximum number of messages in one event.
    #[serde(deserialize_with = "number")]
    pub batch_size: usize,
    /// How long the mapping gathers messages for one event.
    #[serde(
        default,
        rename = "MaximumBatchingWindowInSeconds",
        deserialize_with = "seconds"
    )]
    pub window: Duration,
    /// The kinds of responses that the mapping reads.
    #[serde(default)]
    pub function_response_types: Vec<String>,
}

impl Resources {
    /// Returns a function by its local name.
    ///
    /// # Errors
    /// The template has no function with this name.
    pub fn function(&self, name: &str) -> anyhow::Result<&Function> {
        let function = self.functions.get(name);
        function.with_context(|| format!("function `{name}`: not in the template"))
    }
}

impl Queue {
    /// Returns the attributes with which to create the queue.
    pub fn attributes(&self) -> QueueAttributes {
        let default = QueueAttributes::default();
        let wait = self.receive_message_wait_time_seconds;
        let timeout = self.visibility_timeout;
        QueueAttributes {
            visibility_timeout: timeout.unwrap_or(default.visibility_timeout),
            retention: self.message_retention_period.unwrap_or(default.retention),
            receive_wait: wait.unwrap_or(default.receive_wait),
            redrive: self.redrive_policy.as_ref().map(|policy| Redrive {
                dead_letter_queue: queue_of(&policy.dead_letter_target_arn).to_owned(),
                receives_max: policy.max_receive_count,
            }),
            ..default
        }
    }
}

impl Mapping {
    /// Returns the local name of the queue.
    pub fn queue(&self) -> &str {
        queue_of(&self.queue_arn)
    }

    /// Returns whether the mapping reads from the function's response which messages failed.
    pub fn reports_batch_item_failures(&self) -> bool {
        let mut kinds = self.function_response_types.iter();
        kinds.any(|kind| kind == "ReportBatchItemFailures")
    }
}

fn queue_of(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

/// Deserializes a number. One that comes from a parameter is a text.
fn number<'de, D, N>(deserializer: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: std::str::FromStr<Err: std::fmt::Display>,
{
    let value = text(&Value::deserialize(deserializer)?);
    let parsed = value.parse();
    parsed.map_err(|error| serde::de::Error::custom(format!("`{value}`: {error}")))
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    number(deserializer).map(Duration::from_secs)
}

fn seconds_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    seconds(deserializer).map(Some)
}
