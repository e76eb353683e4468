//! Delivers a part: calls the sink until it has the part, refuses it permanently, or the time is over.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use protocol::limits::FINGERPRINT_BYTES_MAX;
use protocol::retry::RetryPolicy;
use protocol::text::cut;
use protocol::time::Timestamp;
use shared::retry::Budget;
use shared::traces;
use sinks::{Part, Receipt, Sink, SinkError, content_hash};
use tracing::{info, warn};

use crate::metrics::BatchProcessorMetrics;
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
        cut(&self.sink.fingerprint(), FINGERPRINT_BYTES_MAX)
    }

    /// Returns whether the sink needs the numbers of parts.
    pub(crate) fn needs_sequence(&self) -> bool {
        self.sink.needs_sequence()
    }

    /// Fetches the bodies of a part that are not in their items, and compares its content with what was `frozen`.
    pub(crate) async fn prepare(
        &self,
        part: &mut Part,
        frozen: Option<[u8; 32]>,
        budget: &Budget<'_>,
    ) -> Result<(), HandOverError> {
        self.bodies.fetch_all(&mut part.items, budget).await?;
        if frozen != Some(content_hash(&part.items)) {
            let error = format!("part {}: content differs from the freeze", part.part_index);
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
            .inspect_err(|error| {
                traces::failed(match error {
                    SinkError::Busy { .. } | SinkError::Retryable { .. } => "sink_unavailable",
                    SinkError::Permanent { .. } => "sink_refused",
                });
            })
    }

    async fn attempt(&self, part: &Part, budget: &Budget<'_>) -> Result<Receipt, SinkError> {
        // The environment may have been frozen since the last look at the clock, past its deadline or the hours of delivery.
        if !budget.has_time() {
            return Err(SinkError::Retryable {
                reason: "not called: the time for deliveries is over".to_owned(),
            });
        }
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

/// Logs and measures a part that the sink took at `delivered_at`, `elapsed` after the delivery began.
pub(crate) fn report_delivered(
    part: &Part,
    receipt: &Receipt,
    elapsed: Duration,
    delivered_at: Timestamp,
    metrics: &mut BatchProcessorMetrics,
) {
    let items_count = part.items.len();
    let rejected_count = receipt.rejected.len();
    let body_bytes: usize = part.items.iter().map(|item| item.body.len()).sum();
    let oldest = part.items.iter().map(|item| item.sent_at).min();
    let since_sent = oldest.map(|sent_at| delivered_at - sent_at);
    info!(
        batch_id = %part.batch_id,
        part = part.part_index,
        items_count,
        body_bytes,
        elapsed_ms = elapsed.as_millis() as u64,
        since_sent_ms = since_sent.map(|time| time.as_millis() as u64),
        "part delivered"
    );
    metrics.parts_delivered.add(1);
    metrics
        .batch_items
        .add((items_count as u64).saturating_sub(rejected_count));
    metrics.delivered_bytes.add(body_bytes as u64);
    metrics.deliver_time.measured(elapsed);
    if let Some(time) = since_sent {
        metrics.send_to_deliver_time.measured(time);
    }
    if rejected_count > 0 {
        warn!(
            part_key = part.key(),
            rejected_count, "records of a part were rejected"
        );
        metrics.rejected.add(rejected_count);
    }
}
