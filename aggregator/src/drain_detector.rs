//! Notices the end of a burst: the open batches of a source whose queue is empty need not wait for their windows.
//!
//! A queue reports its depth approximately and late, so no promise depends on it: a batch that is sealed too early is
//! smaller, and a batch that is not sealed is processed when its window closes. An invocation reads the depth
//! of a source at most twice, and only after all its claims.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::ids::SourceArn;
use protocol::limits::DRAINED_LOOKS_APART;
use shared::ports::{QueueDepth, SourceQueues};
use shared::retry::Budget;
use tracing::{debug, warn};

/// The number of messages of each source in an invocation's event. SQS counts them as in flight until the invocation
/// returns. Empty unless `SEAL_WHEN_DRAINED` is on.
pub type ReceivedCounts<'a> = BTreeMap<&'a SourceArn, u64>;

/// Reads the depth of sources.
pub struct DrainDetector {
    source_queues: Arc<dyn SourceQueues>,
}

impl DrainDetector {
    pub fn new(source_queues: Arc<dyn SourceQueues>) -> DrainDetector {
        DrainDetector { source_queues }
    }

    /// Returns whether a queue has nothing to receive, and nothing in flight except the `own` messages of this invocation.
    ///
    /// While other invocations have messages in flight, the depth is read a second time. If no more messages are in flight
    /// then, the burst has ended. Without the second look, invocations
    /// that end at the same time would each wait for the others, and none would seal.
    pub async fn is_drained(&self, source: &SourceArn, own: u64, budget: &Budget<'_>) -> bool {
        let Some(first) = self.depth_if_empty(source).await else {
            return false;
        };
        if first.in_flight <= own {
            return true;
        }
        if budget.clock.now() + DRAINED_LOOKS_APART >= budget.stop_at {
            return false;
        }
        budget.clock.sleep(DRAINED_LOOKS_APART).await;
        let second = self.depth_if_empty(source).await;
        second.is_some_and(|second| second.in_flight <= first.in_flight)
    }

    /// Returns the depth of a queue that has nothing to receive; `None` if it has, or if its depth could not be read.
    async fn depth_if_empty(&self, source: &SourceArn) -> Option<QueueDepth> {
        match self.source_queues.depth(source).await {
            Ok(depth) => {
                debug!(%source, ?depth, "depth of the source");
                depth.is_empty().then_some(depth)
            }
            Err(error) => {
                warn!(%source, %error, "depth of the source not read");
                None
            }
        }
    }
}
