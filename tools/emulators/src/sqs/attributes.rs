//! Attributes of a queue: defaults, ranges, and their names and formats in the protocol.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;

use super::error::SqsError;
use super::limits;

/// Attributes that SQS knows and queues here never have.
pub(super) const UNSUPPORTED: [&str; 9] = [
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
        let (timeout, wait) = (self.visibility_timeout, self.receive_wait);
        check_duration("VisibilityTimeout", timeout, limits::VISIBILITY_SECS)?;
        let range = limits::RETENTION_SECS;
        check_duration("MessageRetentionPeriod", self.retention, range)?;
        check_duration("DelaySeconds", self.delay, limits::DELAY_SECS)?;
        check_duration("ReceiveMessageWaitTimeSeconds", wait, limits::WAIT_SECS)?;
        let bytes = self.message_size_max_bytes as u64;
        let range = limits::MESSAGE_SIZE_BYTES;
        if !range.contains(&bytes) {
            return Err(out_of_range("MaximumMessageSize", bytes.to_string(), range));
        }
        if let Some(redrive) = &self.redrive
            && !limits::RECEIVES_MAX.contains(&redrive.receives_max)
        {
            let allowed = "a policy with a maxReceiveCount from 1 to 1000".to_owned();
            let count = redrive.receives_max.to_string();
            return Err(invalid("RedrivePolicy", count, allowed));
        }
        Ok(())
    }

    /// Returns the name of the first attribute that differs; `None` if all are equal.
    pub(super) fn first_difference(&self, other: &Self) -> Option<&'static str> {
        let timeout = self.visibility_timeout == other.visibility_timeout;
        let size = self.message_size_max_bytes == other.message_size_max_bytes;
        let wait = self.receive_wait == other.receive_wait;
        let pairs = [
            (timeout, "VisibilityTimeout"),
            (self.retention == other.retention, "MessageRetentionPeriod"),
            (self.delay == other.delay, "DelaySeconds"),
            (size, "MaximumMessageSize"),
            (wait, "ReceiveMessageWaitTimeSeconds"),
            (self.redrive == other.redrive, "RedrivePolicy"),
        ];
        let different = pairs.into_iter().find(|(equal, _)| !equal);
        different.map(|(_, name)| name)
    }

    /// Sets the attributes that `wire` names, as `CreateQueue` and `SetQueueAttributes` do. An empty redrive policy removes the
    /// policy.
    ///
    /// # Errors
    /// `InvalidAttributeName`, `InvalidAttributeValue`, or `NotImplemented` for an attribute that this server does not have.
    pub(super) fn set(&mut self, wire: &BTreeMap<String, String>) -> Result<(), SqsError> {
        for (name, value) in wire {
            let seconds = |name| number(name, value).map(Duration::from_secs);
            match name.as_str() {
                "VisibilityTimeout" => self.visibility_timeout = seconds("VisibilityTimeout")?,
                "MessageRetentionPeriod" => self.retention = seconds("MessageRetentionPeriod")?,
                "DelaySeconds" => self.delay = seconds("DelaySeconds")?,
                "MaximumMessageSize" => {
                    self.message_size_max_bytes = number("MaximumMessageSize", value)? as usize;
                }
                "ReceiveMessageWaitTimeSeconds" => {
                    self.receive_wait = seconds("ReceiveMessageWaitTimeSeconds")?;
                }
                "RedrivePolicy" if value.is_empty() => self.redrive = None,
                "RedrivePolicy" => self.redrive = Some(Redrive::from_wire(value)?),
                name if UNSUPPORTED.contains(&name) => {
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
        let secs = |duration: Duration| duration.as_secs().to_string();
        let bytes_max = self.message_size_max_bytes.to_string();
        let mut wire = BTreeMap::from([
            ("VisibilityTimeout", secs(self.visibility_timeout)),
            ("MessageRetentionPeriod", secs(self.retention)),
            ("DelaySeconds", secs(self.delay)),
            ("MaximumMessageSize", bytes_max),
            ("ReceiveMessageWaitTimeSeconds", secs(self.receive_wait)),
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
        let (arn, count) = (arn_of_queue(&self.dead_letter_queue), self.receives_max);
        format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{count}}}"#)
    }
}

/// Returns `arn:aws:sqs:<region>:<account>:<name>`.
pub(super) fn arn_of_queue(name: &str) -> String {
    format!("arn:aws:sqs:{}:{}:{name}", limits::REGION, limits::ACCOUNT)
}

/// Returns the name in the ARN of a queue of this region and account.
pub(super) fn queue_of_arn(arn: &str) -> Option<&str> {
    arn.strip_prefix(&arn_of_queue(""))
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
    let [min, max] = [*secs.start(), *secs.end()].map(Duration::from_secs);
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(out_of_range(name, value.as_secs_f64().to_string(), secs))
}

fn out_of_range(name: &'static str, value: String, range: RangeInclusive<u64>) -> SqsError {
    let allowed = format!("from {} to {}", range.start(), range.end());
    invalid(name, value, allowed)
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
        let pairs = pairs.iter();
        let wire = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut attributes = QueueAttributes::default();
        attributes.set(&wire.collect()).map(|()| attributes)
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
        let pairs = wire.iter().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(set(&Vec::from_iter(pairs)), Ok(attributes));
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
            let expected = invalid(name, value.to_owned(), range.to_owned());
            assert_eq!(set(&[(name, value)]), Err(expected));
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
            match set(&[("RedrivePolicy", &policy)]).unwrap_err() {
                SqsError::InvalidAttributeValue { name, .. } => assert_eq!(name, "RedrivePolicy"),
                other => panic!("{policy}: {other}"),
            }
        }
    }

    #[test]
    fn unknown_and_unsupported_attributes_are_refused_by_name() {
        let name = "Colour".to_owned();
        let unknown = Err(SqsError::InvalidAttributeName { name });
        assert_eq!(set(&[("Colour", "1")]), unknown);
        let error = set(&[("FifoQueue", "true")]).unwrap_err();
        let unsupported = "not implemented here: queue attribute `FifoQueue`";
        assert_eq!(error.to_string(), unsupported);
    }
}
