//! Why a burst was not sent completely.

use aws_sdk_sqs::error::{DisplayErrorContext, SdkError};
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchError;
use aws_sdk_sqs::types::BatchResultErrorEntry;

use super::send_failure::{self, SendFailure};
use super::state::SendState;

/// Why a burst was not sent completely.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The concurrency is 0, so no request could be sent.
    #[error("send the burst: wrong concurrency: got `{0}`, expected 1 or more")]
    Concurrency(usize),
    /// The recorded arrivals are fewer than the messages.
    #[error(
        "send the burst: too few recorded arrivals: got `{arrivals}` for `{messages}` messages, expected one for each"
    )]
    Arrivals { arrivals: u64, messages: u64 },
    /// The state to continue from is of another burst.
    #[error(
        "send the burst: not a state of this burst: got `{next}` messages begun, expected at most `{messages}`, and only some of \
         those begun listed as left"
    )]
    State {
        /// The number of messages that the state says were begun.
        next: u64,
        /// The number of messages of the burst.
        messages: u64,
    },
    /// A message could not be sent. Sending stopped there, because a burst with missing messages cannot
    /// be audited.
    #[error("send `{unsent}` of `{messages}` messages, the first of them event `{event_id}`")]
    Unsent {
        /// The number of messages that the queue did not acknowledge.
        unsent: u64,
        /// The number of messages of the burst.
        messages: u64,
        /// The event id of the message that failed.
        event_id: String,
        /// Where a later run can continue.
        state: Box<SendState>,
        /// Why that message failed.
        #[source]
        cause: Unsent,
    },
}

/// Why a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum Unsent {
    /// The queue returned an error for the message, at the last attempt or one that no retry can fix.
    #[error("the queue returned the error `{code}`: {message}")]
    Refused { code: String, message: String },
    /// The whole request failed, at the last attempt or with an error that no retry can fix.
    #[error("{}", DisplayErrorContext(.0.as_ref()))]
    Request(Box<SdkError<SendMessageBatchError>>),
    /// The queue's reply has no result for the message.
    #[error("the queue's reply has no result for the message")]
    Unmentioned,
}

impl Unsent {
    /// Returns the error of the first entry that no retry can fix, or else of the first entry.
    pub(super) fn from_entries(entries: &[BatchResultErrorEntry]) -> Self {
        let final_one = entries
            .iter()
            .find(|entry| send_failure::of_entry(entry) == SendFailure::GiveUp);
        match final_one.or(entries.first()) {
            Some(entry) => Self::Refused {
                code: entry.code().to_owned(),
                message: entry.message().unwrap_or("no message").to_owned(),
            },
            None => Self::Unmentioned,
        }
    }
}
