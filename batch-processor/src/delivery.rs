//! Delivering a part: the sink is called until it has the part, refuses it for good, or the time is over.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use protocol::limits::FINGERPRINT_BYTES_MAX;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use shared::ports::PortError;
use shared::retry::Budget;
use sinks::{Part, Receipt, Sink, SinkError, content_hash};
use tracing::warn;

use crate::lease::cut;
use crate::overflow_bodies::{BodyProblem, OverflowBodies};

/// Completes parts, and calls the sink with them.
pub(crate) struct Delivery {
    sink: Arc<dyn Sink>,
    bodies: Arc<OverflowBodies>,
}

/// Why a part cannot be given to the sink.
#[derive(Debug)]
pub(crate) enum PrepareError {
    /// Another attempt would end the same.
    Permanent(String),
    /// A service could not be reached in time.
    Service(PortError),
}

impl Delivery {
    pub(crate) fn new(sink: Arc<dyn Sink>, bodies: Arc<OverflowBodies>) -> Delivery {
        Delivery { sink, bodies }
    }

    /// Returns which sink and rendering a part is frozen for.
    pub(crate) fn fingerprint(&self) -> String {
        cut(self.sink.fingerprint(), FINGERPRINT_BYTES_MAX)
    }

    /// Fetches the bodies of a part that are not in their items, and compares its content with what was `frozen`.
    pub(crate) async fn prepare(
        &self,
        part: &mut Part,
        frozen: Option<[u8; 32]>,
        budget: &Budget<'_>,
    ) -> Result<(), PrepareError> {
        match self.bodies.fetch_all(&mut part.items, budget).await {
            Ok(()) => {}
            Err(BodyProblem::Unread(source)) => return Err(PrepareError::Service(source)),
            Err(problem) => return Err(PrepareError::Permanent(problem.to_string())),
        }
        if frozen != Some(content_hash(&part.items)) && !planted(Bug::ContentHashNotCompared) {
            let error = format!("content of part {} is not what was frozen", part.number);
            return Err(PrepareError::Permanent(error));
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
            .call_as_told(RetryPolicy::SINK, deliver, retry_after)
            .await
    }

    async fn attempt(&self, part: &Part, budget: &Budget<'_>) -> Result<Receipt, SinkError> {
        let deliver = std::pin::pin!(self.sink.deliver(part));
        let rest = budget.clock.now().until(budget.stop_at);
        let timeout = std::pin::pin!(budget.clock.sleep(rest));
        match select(deliver, timeout).await {
            Either::Left((delivered, _)) => delivered,
            Either::Right(_) => Err(SinkError::Retryable {
                reason: format!("no reply within `{}` s", rest.as_secs()),
            }),
        }
    }
}
