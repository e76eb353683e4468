//! Errors of SQS operations, and their names in the protocol.

use std::ops::RangeInclusive;

use thiserror::Error;

/// Why an operation failed. Only [`SqsError::OverLimit`] is worth a retry.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the message of each variant describes it and its fields"
)]
#[non_exhaustive]
pub enum SqsError {
    #[error("queue `{queue}` does not exist")]
    QueueDoesNotExist { queue: String },
    #[error("queue `{queue}` exists with another value of `{attribute}`")]
    QueueNameExists {
        queue: String,
        attribute: &'static str,
    },
    #[error("queue name `{queue}` is not 1 to 80 of the characters A-Z a-z 0-9 - _")]
    InvalidQueueName { queue: String },
    #[error("receipt handle `{handle}` was not issued by this queue")]
    ReceiptHandleIsInvalid { handle: String },
    #[error("value `{handle}` of `ReceiptHandle` is invalid: the message no longer exists")]
    MessageUnavailable { handle: String },
    #[error("queue `{queue}` has {in_flight_max} messages in flight, which is the most allowed")]
    OverLimit { queue: String, in_flight_max: usize },
    #[error("value `{value}` of `{parameter}` is invalid: it must be from {min} to {max}")]
    OutOfRange {
        parameter: &'static str,
        value: String,
        min: u64,
        max: u64,
    },
    #[error(
        "value `{value_secs}` of `VisibilityTimeout` is invalid: it must be at most {left_secs}, because a message is invisible for at most 43200 s after its receive"
    )]
    VisibilityBeyondLimit { value_secs: u64, left_secs: u64 },
    #[error("parameter `{parameter}` is missing or empty")]
    MissingParameter { parameter: &'static str },
    #[error("value `{value}` of `{parameter}` is invalid: it must be {allowed}")]
    InvalidParameterValue {
        parameter: &'static str,
        value: String,
        allowed: &'static str,
    },
    #[error(
        "character U+{character:04X} at byte {at_byte} of the body is not allowed: \
         allowed are #x9 #xA #xD #x20-#xD7FF #xE000-#xFFFD #x10000-#x10FFFF"
    )]
    InvalidMessageContents { character: u32, at_byte: usize },
    #[error("message of {bytes} bytes with its attributes is longer than the {bytes_max} allowed")]
    MessageTooLong { bytes: usize, bytes_max: usize },
    #[error("message has {count} attributes, at most 10 are allowed")]
    TooManyMessageAttributes { count: usize },
    #[error("message attribute `{name}` is invalid: {problem}")]
    InvalidMessageAttribute {
        name: String,
        problem: AttributeProblem,
    },
    #[error("queue or message attribute `{name}` is unknown")]
    InvalidAttributeName { name: String },
    #[error("value `{value}` of queue attribute `{name}` is invalid: it must be {allowed}")]
    InvalidAttributeValue {
        name: &'static str,
        value: String,
        allowed: String,
    },
    #[error("batch has no entries")]
    EmptyBatchRequest,
    #[error("batch has {count} entries, at most 10 are allowed")]
    TooManyEntriesInBatchRequest { count: usize },
    #[error("batch entry id `{id}` is used more than once")]
    BatchEntryIdsNotDistinct { id: String },
    #[error("batch entry id `{id}` is not 1 to 80 of the characters A-Z a-z 0-9 - _")]
    InvalidBatchEntryId { id: String },
    #[error("batch of {bytes} bytes is longer than the {bytes_max} allowed")]
    BatchRequestTooLong { bytes: usize, bytes_max: usize },
    #[error("`{parameter}`: got `{value}`, which does not exist")]
    ResourceNotFound {
        parameter: &'static str,
        value: String,
    },
    #[error("not implemented here: {what}")]
    NotImplemented { what: String },
    #[error("request is not valid JSON of the operation: {reason}")]
    Malformed { reason: String },
}

/// Why a message attribute is refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[non_exhaustive]
pub enum AttributeProblem {
    #[error(
        "a name has 1 to 256 of the characters A-Z a-z 0-9 - _ . and no period at its start, at its end or after another period"
    )]
    Name,
    #[error("names beginning with `AWS.` or `Amazon.` are reserved")]
    NameReserved,
    #[error(
        "a data type is String, Number or Binary, with an optional label after a period, 256 characters in all"
    )]
    DataType,
    #[error(
        "it must have exactly one value, not empty: a string for String and Number, a binary value for Binary"
    )]
    Value,
    #[error("its value contains a character that SQS does not allow")]
    Characters,
    #[error("its value is not a number")]
    Number,
}

/// The names of an error in the protocol: the shape in the field `__type` of the body, and the code in the header
/// `x-amzn-query-error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WireCode {
    /// Shape with its namespace.
    pub(super) shape: &'static str,
    /// Code of the older query protocol. SDKs report this one, and entries of a batch have it.
    pub(super) query: &'static str,
    /// HTTP status.
    pub(super) status: u16,
}

impl SqsError {
    /// Makes the error of a parameter that is out of its range.
    pub(super) fn out_of_range(
        parameter: &'static str,
        value: impl ToString,
        range: RangeInclusive<u64>,
    ) -> SqsError {
        SqsError::OutOfRange {
            parameter,
            value: value.to_string(),
            min: *range.start(),
            max: *range.end(),
        }
    }

    /// Returns the names that AWS gives the error.
    ///
    /// Source: the `awsQueryError` traits of the service's API model; `InvalidParameterValue` and
    /// `MissingParameter` are not in the model and come from AWS's front end.
    pub(super) fn wire_code(&self) -> WireCode {
        let code = |shape, query| WireCode {
            shape,
            query,
            status: 400,
        };
        macro_rules! sqs {
            ($name:literal) => {
                sqs!($name, $name)
            };
            (prefixed $name:literal) => {
                sqs!($name, concat!("AWS.SimpleQueueService.", $name))
            };
            ($name:literal, $query:expr) => {
                code(concat!("com.amazonaws.sqs#", $name), $query)
            };
        }
        match self {
            Self::QueueDoesNotExist { .. } => sqs!(
                "QueueDoesNotExist",
                "AWS.SimpleQueueService.NonExistentQueue"
            ),
            Self::QueueNameExists { .. } => sqs!("QueueNameExists", "QueueAlreadyExists"),
            Self::ReceiptHandleIsInvalid { .. } => sqs!("ReceiptHandleIsInvalid"),
            Self::OverLimit { .. } => sqs!("OverLimit"),
            Self::InvalidQueueName { .. }
            | Self::MessageUnavailable { .. }
            | Self::OutOfRange { .. }
            | Self::VisibilityBeyondLimit { .. }
            | Self::InvalidParameterValue { .. }
            | Self::MessageTooLong { .. }
            | Self::TooManyMessageAttributes { .. }
            | Self::InvalidMessageAttribute { .. }
            // SQS has its own code for values of all attributes but this one.
            | Self::InvalidAttributeValue {
                name: "RedrivePolicy",
                ..
            } => code(
                "com.amazon.coral.service#InvalidParameterValueException",
                "InvalidParameterValue",
            ),
            Self::MissingParameter { .. } => code(
                "com.amazon.coral.service#MissingRequiredParameterException",
                "MissingParameter",
            ),
            Self::InvalidMessageContents { .. } => sqs!("InvalidMessageContents"),
            Self::InvalidAttributeName { .. } => sqs!("InvalidAttributeName"),
            Self::InvalidAttributeValue { .. } => sqs!("InvalidAttributeValue"),
            Self::EmptyBatchRequest => sqs!(prefixed "EmptyBatchRequest"),
            Self::TooManyEntriesInBatchRequest { .. } => {
                sqs!(prefixed "TooManyEntriesInBatchRequest")
            }
            Self::BatchEntryIdsNotDistinct { .. } => sqs!(prefixed "BatchEntryIdsNotDistinct"),
            Self::InvalidBatchEntryId { .. } => sqs!(prefixed "InvalidBatchEntryId"),
            Self::BatchRequestTooLong { .. } => sqs!(prefixed "BatchRequestTooLong"),
            Self::ResourceNotFound { .. } => WireCode {
                status: 404,
                ..sqs!("ResourceNotFoundException")
            },
            Self::NotImplemented { .. } => WireCode {
                status: 501,
                ..sqs!(prefixed "UnsupportedOperation")
            },
            Self::Malformed { .. } => code(
                "com.amazon.coral.service#SerializationException",
                "MalformedInput",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_thing_the_value_and_what_is_allowed() {
        let error = SqsError::out_of_range("DelaySeconds", 901, 0..=900).to_string();
        let expected = "value `901` of `DelaySeconds` is invalid: it must be from 0 to 900";
        assert_eq!(error, expected);
        let (character, at_byte) = (0, 3);
        let error = SqsError::InvalidMessageContents { character, at_byte }.to_string();
        let expected = "character U+0000 at byte 3 of the body is not allowed";
        assert!(error.starts_with(expected), "{error}");
    }
}
