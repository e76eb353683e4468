//! Delivers a part: calls the sink until it has the part, refuses it permanently, or the time is over.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use protocol::limits::FINGERPRINT_BYTES_MAX;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use shared::metrics::Metrics;
use shared::retry::Budget;
use sinks::{Part, Receipt, Sink, SinkError, content_hash};
use tracing::{info, warn};

use crate::lease::cut;
use crate::overflow_bodies::OverflowBodies;
use crate::reading::HandOverError;

/// Completes parts, and calls the sink with them.
pub(crate) struct Delivery {
    sink: Arc<dyn Sink>,
    bodies: Arc<OverflowBodies>,
}

impl Delivery {
    pub(crate) fn new(sink: Arc<dyn Sink>, bodies: Arc<OverflowBodies>) -> Delivery {
        Delivery { sink, bodies }
    }

    /// Returns the sink fingerprint, cut to the length that a batch record keeps.
    pub(crate) fn fingerprint(&self) -> String {
        cut(self.sink.fingerprint(), FINGERPRINT_BYTES_MAX)
    }

    /// Fetches the bodies of a part that are not in their items, and compares its content with what was `frozen`.
    pub(crate) async fn prepare(
        &self,
        part: &mut Part,
        frozen: Option<[u8; 32]>,
        budget: &Budget<'_>,
    ) -> Result<(), HandOverError> {
        self.bodies.fetch_all(&mut part.items, budget).await?;
        if frozen != Some(content_hash(&part.items)) && !planted(Bug::ContentHashNotCompared) {
            let error = format!("content of part {} is not what was frozen", part.number);
            return Err(HandOverError::Permanent(error));
        }
        Ok(())
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

/// Logs and measures a part that the sink has taken.
pub(crate) fn report_delivered(
    part: &Part,
    receipt: &Receipt,
    elapsed: Duration,
    metrics: &mut Metrics,
) {
    info!(batch_id = %part.batch_id, part = part.number, items_count = part.items.len(), elapsed_ms = elapsed.as_millis() as u64, "part delivered");
    metrics.count("PartsDelivered", 1);
    metrics.count("BatchItems", part.items.len() as u64);
    if receipt.rejected > 0 {
        let rejected_count = receipt.rejected;
        warn!(
            part_key = part.key(),
            rejected_count, "records of a part were rejected"
        );
        metrics.count("Rejected", rejected_count);
    }
    metrics.milliseconds("DeliverTime", elapsed.as_millis());
}
