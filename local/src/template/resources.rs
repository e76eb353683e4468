//! What a template makes: queues, tables, functions and their mappings.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use emulators::dynamodb::Table;
use emulators::sqs::{QueueAttributes, Redrive};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::text::text;

/// What a template makes of one set of parameters. Every key is a resource's name as [`local_name`] spells it.
#[derive(Clone, Debug)]
pub struct Resources {
    /// The queues.
    pub queues: BTreeMap<String, Queue>,
    /// The tables.
    pub tables: BTreeMap<String, Table>,
    /// The functions, each with its mapping.
    pub functions: BTreeMap<String, Function>,
}

/// A queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Queue {
    /// How long a received message stays invisible, in seconds; none is the service's default.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub visibility_timeout: Option<Duration>,
    /// How long a message is kept, in seconds.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub message_retention_period: Option<Duration>,
    /// How long a receive waits for a first message, in seconds.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub receive_message_wait_time_seconds: Option<Duration>,
    /// Where messages go that came back too often.
    pub redrive_policy: Option<RedrivePolicy>,
}

/// Where messages go that came back too often.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedrivePolicy {
    /// ARN of the dead-letter queue.
    pub dead_letter_target_arn: String,
    /// Receives before that.
    #[serde(deserialize_with = "number")]
    pub max_receive_count: u32,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its environment variables.
    pub variables: BTreeMap<String, String>,
    /// Its memory in MB.
    pub memory_mb: u32,
    /// Its processor, `arm64` or `x86_64`.
    pub architecture: String,
    /// The mapping that feeds it.
    pub mapping: Mapping,
}

/// An event source mapping.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Mapping {
    /// ARN of the queue.
    #[serde(rename = "Queue")]
    pub queue_arn: String,
    /// Most messages of one event.
    #[serde(deserialize_with = "number")]
    pub batch_size: usize,
    /// How long a batch is gathered, in seconds.
    #[serde(
        default,
        rename = "MaximumBatchingWindowInSeconds",
        deserialize_with = "seconds"
    )]
    pub window: Duration,
    /// Kinds of answers that are listened to.
    #[serde(default)]
    pub function_response_types: Vec<String>,
}

impl Resources {
    /// A function by its local name.
    ///
    /// # Errors
    /// When the template has none of that name.
    pub fn function(&self, name: &str) -> anyhow::Result<&Function> {
        self.functions
            .get(name)
            .with_context(|| format!("the template has no function `{name}`"))
    }
}

impl Queue {
    /// What it is created with; what the template leaves open is the service's default.
    pub fn attributes(&self) -> QueueAttributes {
        let default = QueueAttributes::default();
        QueueAttributes {
            visibility_timeout: self
                .visibility_timeout
                .unwrap_or(default.visibility_timeout),
            retention: self.message_retention_period.unwrap_or(default.retention),
            receive_wait: self
                .receive_message_wait_time_seconds
                .unwrap_or(default.receive_wait),
            redrive: self.redrive_policy.as_ref().map(|policy| Redrive {
                dead_letter_queue: queue_of(&policy.dead_letter_target_arn).to_owned(),
                receives_max: policy.max_receive_count,
            }),
            ..default
        }
    }
}

impl Mapping {
    /// Local name of the queue.
    pub fn queue(&self) -> &str {
        queue_of(&self.queue_arn)
    }

    /// Whether the function's answer is looked at.
    pub fn reports_batch_item_failures(&self) -> bool {
        self.function_response_types
            .iter()
            .any(|kind| kind == "ReportBatchItemFailures")
    }
}

fn queue_of(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

/// A number, which is text where it comes from a parameter.
fn number<'de, D, N>(deserializer: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: std::str::FromStr<Err: std::fmt::Display>,
{
    let value = text(&Value::deserialize(deserializer)?);
    value
        .parse()
        .map_err(|error| serde::de::Error::custom(format!("`{value}`: {error}")))
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    number(deserializer).map(Duration::from_secs)
}

fn seconds_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    seconds(deserializer).map(Some)
}
