//! Delivers a part: calls the sink until it has the part, refuses it permanently, or the time is over.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use protocol::limits::FINGERPRINT_BYTES_MAX;
use protocol::retry::RetryPolicy;
use shared::retry::Budget;
use sinks::{Part, Receipt, Sink, SinkError};
use tracing::warn;

use crate::lease::cut;

/// Calls the sink.
pub(crate) struct Delivery {
    sink: Arc<dyn Sink>,
}

impl Delivery {
    pub(crate) fn new(sink: Arc<dyn Sink>) -> Delivery {
        Delivery { sink }
    }

    /// Returns the sink fingerprint, cut to the length that a batch record keeps.
    pub(crate) fn fingerprint(&self) -> String {
        cut(self.sink.fingerprint(), FINGERPRINT_BYTES_MAX)
    }

    /// Calls the sink with a part, and again after errors that are not permanent, until the budget ends.
    pub(crate) async fn deliver(
        &self,
        part: &Part,
        budget: &Budget<'_>,
    ) -> Result<Receipt, SinkError> {
        let retry_after = |error: &SinkError| match error {
            SinkError::Busy { retry_after, .. } => Some(*retry_after),
            SinkError::Retryable { .. } => Some(Duration::ZERO),
            SinkError::Permanent { .. } => None,
        };
        let deliver = |attempt| async move {
            let delivered = self.attempt(part, budget).await;
            delivered.inspect_err(
                |error| warn!(part_key = part.key(), attempt, %error, "part not delivered"),
            )
        };
        budget
            .call_with_retry_after(RetryPolicy::SINK, deliver, retry_after)
            .await
    }

    async fn attempt(&self, part: &Part, budget: &Budget<'_>) -> Result<Receipt, SinkError> {
        let deliver = std::pin::pin!(self.sink.deliver(part));
        let time_left = budget.clock.now().until(budget.stop_at);
        let timeout = std::pin::pin!(budget.clock.sleep(time_left));
        match select(deliver, timeout).await {
            Either::Left((delivered, _)) => delivered,
            Either::Right(_) => Err(SinkError::Retryable {
                reason: format!("no reply within `{}` s", time_left.as_secs()),
            }),
        }
    }
}
