//! What to do about a request or an entry that did not succeed.
//!
//! Pure: which failures are worth another attempt, how long to wait for it, and whether the
//! messages may be in the queue although nobody said so.

use std::time::Duration;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchError;
use aws_sdk_sqs::types::BatchResultErrorEntry;

use crate::body::mix;

/// Attempts at one message before the burst is given up: with the waits below, some 25 seconds.
pub(super) const ATTEMPTS_MAX: u32 = 12;

const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What a failure says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendFailure {
    /// Not in the queue; another attempt may succeed.
    Retry,
    /// Perhaps in the queue: the reply is missing. Another attempt may put it there twice.
    RetryUnsure,
    /// Not in the queue, and no attempt will change that.
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
        // Timed out, broken connection, unreadable reply; and whatever the SDK may add.
        _ => SendFailure::RetryUnsure,
    }
}

pub(super) fn of_entry(entry: &BatchResultErrorEntry) -> SendFailure {
    match entry.sender_fault() && !is_throttle(entry.code()) {
        true => SendFailure::GiveUp,
        false => SendFailure::Retry,
    }
}

/// `ThrottlingException`, `RequestThrottled`, `KmsThrottled`, `AWS.SimpleQueueService.…` and kin.
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

/// The wait after the given number of failed attempts: doubling, capped, and between half and all
/// of that, so that tasks which failed together do not come back together.
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
    fn an_entry_the_queue_blames_on_us_is_final_unless_it_is_throttled() {
        let entry = |code: &str, sender_fault| {
            BatchResultErrorEntry::builder()
                .id("0")
                .code(code)
                .sender_fault(sender_fault)
                .build()
                .unwrap()
        };
        assert_eq!(
            of_entry(&entry("InvalidMessageContents", true)),
            SendFailure::GiveUp
        );
        assert_eq!(
            of_entry(&entry("RequestThrottled", true)),
            SendFailure::Retry
        );
        assert_eq!(of_entry(&entry("InternalError", false)), SendFailure::Retry);
    }

    #[test]
    fn a_timeout_leaves_us_unsure() {
        assert_eq!(
            of_request(&SdkError::timeout_error("late")),
            SendFailure::RetryUnsure
        );
        assert_eq!(
            of_request(&SdkError::construction_failure("bad")),
            SendFailure::GiveUp
        );
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
