//! Delivers parts in tests.

pub(crate) use forms::tests_support::{BATCH, assert_has, part, rendering};

use forms::Part;

use crate::sink::{Sink, SinkError};

/// Returns the reason of an error, which is `permanent` or else retryable.
pub(crate) fn reason(error: SinkError, permanent: bool) -> String {
    match error {
        SinkError::Permanent { reason } if permanent => reason,
        SinkError::Retryable { reason } if !permanent => reason,
        other => panic!("{other}"),
    }
}

/// Delivers a part; returns the reason why it is refused, permanently or else until a retry.
pub(crate) async fn refused(sink: &impl Sink, part: &Part, permanent: bool) -> String {
    reason(sink.deliver(part).await.unwrap_err(), permanent)
}
