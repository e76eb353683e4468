//! The end of a burst: with nothing left in its queue, what is open of a source need not wait for its window.
//!
//! What a queue says about itself is approximate and late, and no promise rests on it: a batch sealed too early is a
//! smaller batch, and one that is not sealed has its window. So it is asked twice at most, and never instead of a claim.

use std::collections::BTreeMap;

use protocol::ids::SourceArn;
use protocol::limits::DRAINED_LOOKS_APART;
use protocol::planted::{Bug, planted};
use shared::calls::Budget;
use shared::ports::QueueDepth;
use tracing::{debug, warn};

use crate::handler::Handler;

/// How many messages of each source an invocation has in hand: in flight they are until it has answered. No source
/// unless `SEAL_WHEN_DRAINED` is on: nobody else wants to know.
pub type Received<'a> = BTreeMap<&'a SourceArn, u64>;

impl Handler {
    /// Retires what is open of the sources whose queues are drained; whether there was anything.
    ///
    /// A batch that another invocation of this environment is at work on is left to that one.
    pub async fn retire_drained(&self, received: &Received<'_>, budget: &Budget<'_>) -> bool {
        let mut retired = false;
        for (source, own) in received {
            // A call that would change nothing is not made.
            let has_idle = !self.current().lock().idle(source).is_empty();
            if has_idle && budget.open() && self.is_drained(source, *own, budget).await {
                let mut allocator = self.current().lock();
                for slot in allocator.idle(source) {
                    allocator.retire(&slot);
                    retired = true;
                }
            }
        }
        retired
    }

    /// Whether a queue has nothing to receive, and nothing in flight but `own` messages. Where others hold messages
    /// still, it is looked at again: once nobody has received more in the meantime, these are the burst's last, and
    /// whoever holds them seals their batches. Otherwise invocations that end together would each wait for the others.
    async fn is_drained(&self, source: &SourceArn, own: u64, budget: &Budget<'_>) -> bool {
        let Some(first) = self.empty(source).await else {
            return false;
        };
        if first.in_flight <= own {
            return true;
        }
        if budget.clock.now() + DRAINED_LOOKS_APART >= budget.stop_at {
            return false;
        }
        budget.clock.sleep(DRAINED_LOOKS_APART).await;
        let second = self.empty(source).await;
        second.is_some_and(|second| second.in_flight <= first.in_flight)
    }

    /// What a queue with nothing to receive holds.
    async fn empty(&self, source: &SourceArn) -> Option<QueueDepth> {
        match self.source_queues().depth(source).await {
            Ok(depth) => {
                debug!(%source, ?depth, "depth of the source");
                (depth.is_empty() && !planted(Bug::DrainedUnnoticed)).then_some(depth)
            }
            Err(error) => {
                warn!(%source, %error, "whether the source is drained is not known");
                None
            }
        }
    }
}
