//! Attributes of a queue: defaults, ranges, and their names and formats in the protocol.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;

use super::error::SqsError;
use super::limits;

/// Attributes of a queue. The defaults are those of AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAttributes {
    /// How long a received message is invisible: 0 s to 12 h.
    pub visibility_timeout: Duration,
    /// How long a message is kept, counted from when it was sent: 60 s to 14 days.
    pub retention: Duration,
    /// Delay of messages that are sent without one: 0 s to 900 s.
    pub delay: Duration,
    /// Largest message, attributes included: 1 KiB to 1 MiB.
    pub message_size_max_bytes: usize,
    /// Wait of a receive over HTTP that names none: 0 s to 20 s.
    pub receive_wait: Duration,
    /// Dead-letter queue of the queue, if it has one.
    pub redrive: Option<Redrive>,
}

/// The redrive policy: when messages are moved to which dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redrive {
    /// Name of the dead-letter queue. It must exist.
    pub dead_letter_queue: String,
    /// Number of deliveries of a message, 1 to 1,000. The next receive moves the message instead of delivering it.
    pub receives_max: u32,
}

impl Default for QueueAttributes {
    fn default() -> Self {
        Self {
            visibility_timeout: Duration::from_secs(30),
            retention: Duration::from_secs(4 * 24 * 3600),
            delay: Duration::ZERO,
            message_size_max_bytes: 1024 * 1024,
            receive_wait: Duration::ZERO,
            redrive: None,
        }
    }
}

impl QueueAttributes {
    /// Checks the range of every attribute.
    ///
    /// # Errors
    /// `InvalidAttributeValue` for the first attribute out of its range.
    pub fn check(&self) -> Result<(), SqsError> {
        check_duration(
            "VisibilityTimeout",
            self.visibility_timeout,
            limits::VISIBILITY_SECS,
        )?;
        check_duration(
            "MessageRetentionPeriod",
            self.retention,
            limits::RETENTION_SECS,
        )?;
        check_duration("DelaySeconds", self.delay, limits::DELAY_SECS)?;
        check_duration(
            "ReceiveMessageWaitTimeSeconds",
            self.receive_wait,
            limits::WAIT_SECS,
        )?;
        let bytes = u64::try_from(self.message_size_max_bytes).unwrap_or(u64::MAX);
        if !limits::MESSAGE_SIZE_BYTES.contains(&bytes) {
            return Err(out_of_range(
                "MaximumMessageSize",
                bytes.to_string(),
                limits::MESSAGE_SIZE_BYTES,
            ));
        }
        if let Some(redrive) = &self.redrive
            && !limits::RECEIVES_MAX.contains(&redrive.receives_max)
        {
            let allowed = "a policy with a maxReceiveCount from 1 to 1000".to_owned();
            return Err(invalid(
                "RedrivePolicy",
                redrive.receives_max.to_string(),
                allowed,
            ));
        }
        Ok(())
    }

    /// Returns the name of the first attribute that differs; `None` if all are equal.
    pub(super) fn first_difference(&self, other: &Self) -> Option<&'static str> {
        let pairs = [
            (
                self.visibility_timeout == other.visibility_timeout,
                "VisibilityTimeout",
            ),
            (self.retention == other.retention, "MessageRetentionPeriod"),
            (self.delay == other.delay, "DelaySeconds"),
            (
                self.message_size_max_bytes == other.message_size_max_bytes,
                "MaximumMessageSize",
            ),
            (
                self.receive_wait == other.receive_wait,
                "ReceiveMessageWaitTimeSeconds",
            ),
            (self.redrive == other.redrive, "RedrivePolicy"),
        ];
        pairs
            .into_iter()
            .find(|(equal, _)| !equal)
            .map(|(_, name)| name)
    }

    /// Sets the attributes that `wire` names, as `CreateQueue` and `SetQueueAttributes` do. An empty redrive policy removes the
    /// policy.
    ///
    /// # Errors
    /// `InvalidAttributeName`, `InvalidAttributeValue`, or `NotImplemented` for an attribute that this server does not have.
    pub(super) fn set(&mut self, wire: &BTreeMap<String, String>) -> Result<(), SqsError> {
        for (name, value) in wire {
            match name.as_str() {
                "VisibilityTimeout" => {
                    self.visibility_timeout = seconds("VisibilityTimeout", value)?
                }
                "MessageRetentionPeriod" => {
                    self.retention = seconds("MessageRetentionPeriod", value)?
                }
                "DelaySeconds" => self.delay = seconds("DelaySeconds", value)?,
                "MaximumMessageSize" => {
                    let bytes = number("MaximumMessageSize", value)?;
                    self.message_size_max_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                }
                "ReceiveMessageWaitTimeSeconds" => {
                    self.receive_wait = seconds("ReceiveMessageWaitTimeSeconds", value)?;
                }
                "RedrivePolicy" if value.is_empty() => self.redrive = None,
                "RedrivePolicy" => self.redrive = Some(Redrive::from_wire(value)?),
                "FifoQueue"
                | "ContentBasedDeduplication"
                | "DeduplicationScope"
                | "FifoThroughputLimit"
                | "KmsMasterKeyId"
                | "KmsDataKeyReusePeriodSeconds"
                | "SqsManagedSseEnabled"
                | "Policy"
                | "RedriveAllowPolicy" => {
                    return Err(SqsError::NotImplemented {
                        what: format!("queue attribute `{name}`"),
                    });
                }
                _ => return Err(SqsError::InvalidAttributeName { name: name.clone() }),
            }
        }
        self.check()
    }

    /// Returns the attributes by their names in the protocol.
    pub(super) fn to_wire(&self) -> BTreeMap<&'static str, String> {
        let mut wire = BTreeMap::from([
            (
                "VisibilityTimeout",
                self.visibility_timeout.as_secs().to_string(),
            ),
            (
                "MessageRetentionPeriod",
                self.retention.as_secs().to_string(),
            ),
            ("DelaySeconds", self.delay.as_secs().to_string()),
            (
                "MaximumMessageSize",
                self.message_size_max_bytes.to_string(),
            ),
            (
                "ReceiveMessageWaitTimeSeconds",
                self.receive_wait.as_secs().to_string(),
            ),
        ]);
        if let Some(redrive) = &self.redrive {
            wire.insert("RedrivePolicy", redrive.to_wire());
        }
        wire
    }
}

impl Redrive {
    /// Parses the JSON of a `RedrivePolicy`. `maxReceiveCount` may be a number or a string.
    fn from_wire(json: &str) -> Result<Self, SqsError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Policy {
            dead_letter_target_arn: String,
            max_receive_count: Count,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Count {
            Number(u32),
            Text(String),
        }
        let allowed =
            "{\"deadLetterTargetArn\": ARN of a queue here, \"maxReceiveCount\": 1 to 1000}";
        let refused = || invalid("RedrivePolicy", json.to_owned(), allowed.to_owned());
        let policy: Policy = serde_json::from_str(json).map_err(|_| refused())?;
        let receives_max = match policy.max_receive_count {
            Count::Number(count) => count,
            Count::Text(text) => text.parse().map_err(|_| refused())?,
        };
        let name = queue_of_arn(&policy.dead_letter_target_arn).ok_or_else(refused)?;
        Ok(Self {
            dead_letter_queue: name.to_owned(),
            receives_max,
        })
    }

    fn to_wire(&self) -> String {
        let arn = arn_of_queue(&self.dead_letter_queue);
        serde_json::json!({ "deadLetterTargetArn": arn, "maxReceiveCount": self.receives_max })
            .to_string()
    }
}

/// Returns `arn:aws:sqs:<region>:<account>:<name>`.
pub(super) fn arn_of_queue(name: &str) -> String {
    format!("arn:aws:sqs:{}:{}:{name}", limits::REGION, limits::ACCOUNT)
}

/// Returns the name in the ARN of a queue of this region and account.
pub(super) fn queue_of_arn(arn: &str) -> Option<&str> {
    let rest = arn
        .strip_prefix("arn:aws:sqs:")?
        .strip_prefix(limits::REGION)?
        .strip_prefix(':')?;
    rest.strip_prefix(limits::ACCOUNT)?.strip_prefix(':')
}

fn seconds(name: &'static str, value: &str) -> Result<Duration, SqsError> {
    number(name, value).map(Duration::from_secs)
}

fn number(name: &'static str, value: &str) -> Result<u64, SqsError> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = value.parse().ok().filter(|_| digits);
    parsed.ok_or_else(|| invalid(name, value.to_owned(), "a whole number".to_owned()))
}

fn check_duration(
    name: &'static str,
    value: Duration,
    secs: RangeInclusive<u64>,
) -> Result<(), SqsError> {
    let (min, max) = (
        Duration::from_secs(*secs.start()),
        Duration::from_secs(*secs.end()),
    );
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(out_of_range(name, value.as_secs_f64().to_string(), secs))
}

fn out_of_range(name: &'static str, value: String, range: RangeInclusive<u64>) -> SqsError {
    invalid(
        name,
        value,
        format!("from {} to {}", range.start(), range.end()),
    )
}

fn invalid(name: &'static str, value: String, allowed: String) -> SqsError {
    SqsError::InvalidAttributeValue {
        name,
        value,
        allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Result<QueueAttributes, SqsError> {
        let wire = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut attributes = QueueAttributes::default();
        attributes.set(&wire).map(|()| attributes)
    }

    #[test]
    fn attributes_read_back_from_the_wire_as_written() {
        let attributes = QueueAttributes {
            visibility_timeout: Duration::from_secs(1),
            retention: Duration::from_secs(60),
            delay: Duration::from_secs(900),
            message_size_max_bytes: 1024,
            receive_wait: Duration::from_secs(20),
            redrive: Some(Redrive {
                dead_letter_queue: "dead".to_owned(),
                receives_max: 5,
            }),
        };
        let wire = attributes.to_wire();
        let pairs: Vec<_> = wire
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        assert_eq!(set(&pairs), Ok(attributes));
    }

    #[test]
    fn receive_count_of_a_redrive_policy_is_a_number_or_a_string() {
        for count in ["3", "\"3\""] {
            let policy = format!(
                r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":{count}}}"#,
                arn_of_queue("dead")
            );
            let redrive = set(&[("RedrivePolicy", &policy)]).unwrap().redrive.unwrap();
            assert_eq!(
                (redrive.dead_letter_queue.as_str(), redrive.receives_max),
                ("dead", 3)
            );
        }
        assert_eq!(set(&[("RedrivePolicy", "")]).unwrap().redrive, None);
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_range() {
        let cases = [
            ("VisibilityTimeout", "43201", "from 0 to 43200"),
            ("MessageRetentionPeriod", "59", "from 60 to 1209600"),
            ("DelaySeconds", "901", "from 0 to 900"),
            ("MaximumMessageSize", "1048577", "from 1024 to 1048576"),
            ("ReceiveMessageWaitTimeSeconds", "21", "from 0 to 20"),
            ("DelaySeconds", "x", "a whole number"),
            ("DelaySeconds", "-1", "a whole number"),
            ("DelaySeconds", "+1", "a whole number"),
        ];
        for (name, value, range) in cases {
            let error = set(&[(name, value)]).unwrap_err();
            let SqsError::InvalidAttributeValue {
                name: named,
                value: given,
                allowed,
            } = error
            else {
                panic!("{error}")
            };
            assert_eq!(
                (named, given.as_str(), allowed.as_str()),
                (name, value, range)
            );
        }
    }

    #[test]
    fn bad_redrive_policies_are_refused() {
        let arn = arn_of_queue("dead");
        let foreign = "arn:aws:sqs:eu-west-1:000000000000:dead";
        for policy in [
            "not json".to_owned(),
            format!(r#"{{"deadLetterTargetArn":"{arn}"}}"#),
            format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":0}}"#),
            format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"1001"}}"#),
            format!(r#"{{"deadLetterTargetArn":"{foreign}","maxReceiveCount":3}}"#),
        ] {
            let error = set(&[("RedrivePolicy", &policy)]).unwrap_err();
            assert!(
                matches!(
                    error,
                    SqsError::InvalidAttributeValue {
                        name: "RedrivePolicy",
                        ..
                    }
                ),
                "{policy}: {error}"
            );
        }
    }

    #[test]
    fn unknown_and_unsupported_attributes_are_refused_by_name() {
        assert_eq!(
            set(&[("Colour", "1")]),
            Err(SqsError::InvalidAttributeName {
                name: "Colour".to_owned()
            })
        );
        let error = set(&[("FifoQueue", "true")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not implemented here: queue attribute `FifoQueue`"
        );
    }
}
