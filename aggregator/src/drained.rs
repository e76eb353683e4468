//! The end of a burst: with nothing left in its queue, what is open of a source need not wait for its window.
//!
//! What a queue says about itself is approximate and late, and no promise rests on it: a batch sealed too early is a
//! smaller batch, and one that is not sealed has its window. So it is asked once, and never instead of a claim.

use std::collections::BTreeMap;

use shared::calls::Budget;
use shared::ids::SourceArn;
use shared::planted::{Bug, planted};
use shared::ports::SourceQueues;
use tracing::{debug, warn};

use crate::handler::{Handler, Ports};

/// How many messages of each source an invocation has in hand: in flight they are until it has answered.
pub type Received<'a> = BTreeMap<&'a SourceArn, u64>;

impl<P: Ports> Handler<P> {
    /// Retires what is open of the sources whose queues hold nothing but these messages; whether there was anything.
    ///
    /// A batch that another invocation of this environment is at work on is left to that one.
    pub async fn retire_drained(
        &self,
        received: &Received<'_>,
        budget: &Budget<'_, P::Clock, P::Entropy>,
    ) -> bool {
        let mut retired = false;
        if !self.config().seal_when_drained {
            return retired;
        }
        for (source, own) in received {
            // A call that would change nothing is not made.
            let has_idle = !self.current().lock().idle(source).is_empty();
            if has_idle && budget.open() && self.is_drained(source, *own).await {
                let mut allocator = self.current().lock();
                for slot in allocator.idle(source) {
                    allocator.retire(&slot);
                    retired = true;
                }
            }
        }
        retired
    }

    async fn is_drained(&self, source: &SourceArn, own: u64) -> bool {
        match self.ports().sources().depth(source).await {
            Ok(depth) => {
                debug!(%source, ?depth, own_count = own, "depth of the source");
                depth.is_drained_but_for(own) && !planted(Bug::DrainedUnnoticed)
            }
            Err(error) => {
                warn!(%source, %error, "whether the source is drained is not known");
                false
            }
        }
    }
}
