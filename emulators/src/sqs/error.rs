//! What SQS refuses, and the name each refusal has on the wire.

use thiserror::Error;

/// Why an operation was refused. Only [`SqsError::OverLimit`] can end by itself; the rest fail again if repeated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant and its values are told by its message"
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
    #[error("receipt handle `{handle}` was not given out by this queue")]
    ReceiptHandleIsInvalid { handle: String },
    #[error("message of receipt handle `{handle}` is not in flight")]
    MessageNotInflight { handle: String },
    #[error(
        "value `{handle}` of `ReceiptHandle` is invalid: the message is gone or was received again since"
    )]
    MessageUnavailable { handle: String },
    #[error("queue `{queue}` has {in_flight_max} messages in flight, no more are allowed")]
    OverLimit { queue: String, in_flight_max: usize },
    #[error("value `{value}` of `{parameter}` is invalid: it must be from {min} to {max}")]
    OutOfRange {
        parameter: &'static str,
        value: String,
        min: u64,
        max: u64,
    },
    #[error(
        "value `{value_secs}` of `VisibilityTimeout` is invalid: 43200 s from the receive allow {left_secs} more"
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
    #[error("message has {count} attributes, 10 are allowed")]
    TooManyMessageAttributes { count: usize },
    #[error("message attribute `{name}` is invalid: {fault}")]
    InvalidMessageAttribute { name: String, fault: AttributeFault },
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
    #[error("batch has {count} entries, 10 are allowed")]
    TooManyEntriesInBatchRequest { count: usize },
    #[error("batch entry id `{id}` is repeated")]
    BatchEntryIdsNotDistinct { id: String },
    #[error("batch entry id `{id}` is not 1 to 80 of the characters A-Z a-z 0-9 - _")]
    InvalidBatchEntryId { id: String },
    #[error("batch of {bytes} bytes is longer than the {bytes_max} allowed")]
    BatchRequestTooLong { bytes: usize, bytes_max: usize },
    #[error("not implemented here: {what}")]
    NotImplemented { what: String },
    #[error("request is not what the operation takes: {reason}")]
    Malformed { reason: String },
}

/// What is wrong with a message's attribute.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is told by its message")]
#[non_exhaustive]
pub enum AttributeFault {
    #[error("a name is 1 to 256 of A-Z a-z 0-9 - _ . with no period first, last or twice in a row")]
    Name,
    #[error("names beginning with `AWS.` or `Amazon.` are reserved")]
    NameReserved,
    #[error(
        "a data type is String, Number or Binary, with an optional label after a period, 256 characters in all"
    )]
    DataType,
    #[error(
        "its data type wants exactly one value, not empty: string for String and Number, binary for Binary"
    )]
    Value,
    #[error("its string holds a character that SQS does not allow")]
    Characters,
    #[error("its value is not a number")]
    Number,
}

/// The two names of an error: the shape in the body's `__type`, and the code in the `x-amzn-query-error` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WireCode {
    /// Shape with its namespace.
    pub(super) shape: &'static str,
    /// Code as the older query protocol had it; SDKs report this one, and so do entries of a batch.
    pub(super) query: &'static str,
    /// HTTP status.
    pub(super) status: u16,
}

impl SqsError {
    /// Names the error as AWS does.
    ///
    /// Source: the `awsQueryError` traits of the service's API model; `InvalidParameterValue` and
    /// `MissingParameter` are not in the model and come from AWS's front end.
    pub(super) fn wire_code(&self) -> WireCode {
        let code = |shape, query| WireCode {
            shape,
            query,
            status: 400,
        };
        match self {
            Self::QueueDoesNotExist { .. } => code(
                "com.amazonaws.sqs#QueueDoesNotExist",
                "AWS.SimpleQueueService.NonExistentQueue",
            ),
            Self::QueueNameExists { .. } => {
                code("com.amazonaws.sqs#QueueNameExists", "QueueAlreadyExists")
            }
            Self::ReceiptHandleIsInvalid { .. } => code(
                "com.amazonaws.sqs#ReceiptHandleIsInvalid",
                "ReceiptHandleIsInvalid",
            ),
            Self::MessageNotInflight { .. } => code(
                "com.amazonaws.sqs#MessageNotInflight",
                "AWS.SimpleQueueService.MessageNotInflight",
            ),
            Self::OverLimit { .. } => code("com.amazonaws.sqs#OverLimit", "OverLimit"),
            Self::InvalidQueueName { .. }
            | Self::MessageUnavailable { .. }
            | Self::OutOfRange { .. }
            | Self::VisibilityBeyondLimit { .. }
            | Self::InvalidParameterValue { .. }
            | Self::MessageTooLong { .. }
            | Self::TooManyMessageAttributes { .. }
            | Self::InvalidMessageAttribute { .. } => code(
                "com.amazon.coral.service#InvalidParameterValueException",
                "InvalidParameterValue",
            ),
            Self::MissingParameter { .. } => code(
                "com.amazon.coral.service#MissingRequiredParameterException",
                "MissingParameter",
            ),
            Self::InvalidMessageContents { .. } => code(
                "com.amazonaws.sqs#InvalidMessageContents",
                "InvalidMessageContents",
            ),
            Self::InvalidAttributeName { .. } => code(
                "com.amazonaws.sqs#InvalidAttributeName",
                "InvalidAttributeName",
            ),
            Self::InvalidAttributeValue { .. } => code(
                "com.amazonaws.sqs#InvalidAttributeValue",
                "InvalidAttributeValue",
            ),
            Self::EmptyBatchRequest => code(
                "com.amazonaws.sqs#EmptyBatchRequest",
                "AWS.SimpleQueueService.EmptyBatchRequest",
            ),
            Self::TooManyEntriesInBatchRequest { .. } => code(
                "com.amazonaws.sqs#TooManyEntriesInBatchRequest",
                "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            ),
            Self::BatchEntryIdsNotDistinct { .. } => code(
                "com.amazonaws.sqs#BatchEntryIdsNotDistinct",
                "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
            ),
            Self::InvalidBatchEntryId { .. } => code(
                "com.amazonaws.sqs#InvalidBatchEntryId",
                "AWS.SimpleQueueService.InvalidBatchEntryId",
            ),
            Self::BatchRequestTooLong { .. } => code(
                "com.amazonaws.sqs#BatchRequestTooLong",
                "AWS.SimpleQueueService.BatchRequestTooLong",
            ),
            Self::NotImplemented { .. } => WireCode {
                status: 501,
                ..code(
                    "com.amazonaws.sqs#UnsupportedOperation",
                    "AWS.SimpleQueueService.UnsupportedOperation",
                )
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
        let error = SqsError::OutOfRange {
            parameter: "DelaySeconds",
            value: "901".into(),
            min: 0,
            max: 900,
        };
        assert_eq!(
            error.to_string(),
            "value `901` of `DelaySeconds` is invalid: it must be from 0 to 900"
        );
        let error = SqsError::InvalidMessageContents {
            character: 0,
            at_byte: 3,
        };
        assert!(
            error
                .to_string()
                .starts_with("character U+0000 at byte 3 of the body is not allowed"),
            "{error}"
        );
    }
}
