//! Decides what to do about a request or an entry that failed.
//!
//! These functions do no I/O. They say which failures are worth a retry, how long to wait before it,
//! and whether the messages may be in the queue without an acknowledgement.

use std::time::Duration;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchError;
use aws_sdk_sqs::types::BatchResultErrorEntry;

use crate::mix::mix;

/// The number of attempts to send a message before the burst fails. With the waits below, they take some 25 seconds.
pub(super) const ATTEMPTS_MAX: u32 = 12;

const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What a failure means for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendFailure {
    /// The message is not in the queue, and a retry may succeed.
    Retry,
    /// The reply was lost, so the message may be in the queue. A retry may put it there twice.
    RetryUnsure,
    /// The message is not in the queue, and no retry can succeed.
    GiveUp,
}

pub(super) fn of_request(error: &SdkError<SendMessageBatchError>) -> SendFailure {
    match error {
        SdkError::ConstructionFailure(_) => SendFailure::GiveUp,
        SdkError::DispatchFailure(failure) if failure.is_user() => SendFailure::GiveUp,
        SdkError::ServiceError(failure) => {
            let status = failure.raw().status().as_u16();
            match failure.err().code() {
                Some(code) if is_throttle(code) => SendFailure::Retry,
                _ if status == 429 => SendFailure::Retry,
                _ if status >= 500 => SendFailure::RetryUnsure,
                _ => SendFailure::GiveUp,
            }
        }
        // Timeouts, broken connections, unreadable replies, and kinds that a later SDK may add.
        _ => SendFailure::RetryUnsure,
    }
}

pub(super) fn of_entry(entry: &BatchResultErrorEntry) -> SendFailure {
    match entry.sender_fault() && !is_throttle(entry.code()) {
        true => SendFailure::GiveUp,
        false => SendFailure::Retry,
    }
}

/// Returns whether an error code means throttling: `ThrottlingException`, `RequestThrottled`, `KmsThrottled` and others.
fn is_throttle(code: &str) -> bool {
    [
        "Throttl",
        "TooManyRequests",
        "RequestLimitExceeded",
        "SlowDown",
    ]
    .iter()
    .any(|part| code.contains(part))
}

/// Returns how long to wait after a number of failed attempts. The wait doubles up to a cap, and is between
/// half and all of that, so that tasks which failed together do not retry together.
pub(super) fn wait(failed_attempts: u32, message: u64) -> Duration {
    let doublings = failed_attempts.saturating_sub(1).min(16);
    let full = (WAIT_MIN * 2u32.pow(doublings)).min(WAIT_MAX);
    let share = mix(message ^ u64::from(failed_attempts) << 48) % 1_000;
    full / 2 + full * share as u32 / 2_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_fault_is_final_unless_it_is_throttling() {
        for (code, sender_fault, failure) in [
            ("InvalidMessageContents", true, SendFailure::GiveUp),
            ("RequestThrottled", true, SendFailure::Retry),
            ("InternalError", false, SendFailure::Retry),
        ] {
            let entry = BatchResultErrorEntry::builder().id("0").code(code);
            let entry = entry.sender_fault(sender_fault).build().unwrap();
            assert_eq!(of_entry(&entry), failure, "{code}");
        }
    }

    #[test]
    fn after_a_timeout_the_message_may_be_in_the_queue() {
        let late = of_request(&SdkError::timeout_error("late"));
        assert_eq!(late, SendFailure::RetryUnsure);
        let bad = of_request(&SdkError::construction_failure("bad"));
        assert_eq!(bad, SendFailure::GiveUp);
    }

    #[test]
    fn waits_double_up_to_a_cap_and_differ_between_messages() {
        assert!((25..=50).contains(&(wait(1, 7).as_millis() as u64)));
        assert!((50..=100).contains(&(wait(2, 7).as_millis() as u64)));
        for attempts in [10, 100, u32::MAX] {
            let wait = wait(attempts, 7);
            assert!(wait >= WAIT_MAX / 2 && wait <= WAIT_MAX, "{wait:?}");
        }
        assert_ne!(wait(3, 1), wait(3, 2));
    }
}
