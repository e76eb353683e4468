//! The dry run of the batch-processor: see [`shared::dry_run`].

use std::time::Duration;

use protocol::batch::{Listing, Status};
use protocol::ids::BatchShard;
use shared::dry_run::{DryRunFailed, NO_BATCH, all, called, of_tables};
use shared::ports::{PortError, Ports};
use shared::retry::Budget;
use sinks::{Sink, SinkError};

/// Reads from both tables and their indexes, and tries out the queue of tickets and the sink.
pub(crate) async fn dry_run(
    ports: &Ports,
    sink: &dyn Sink,
    budget: Budget<'_>,
) -> Result<(), DryRunFailed> {
    let mut trials = of_tables(ports, budget);
    trials.push(Box::pin(async move {
        let shard = BatchShard {
            batch: NO_BATCH,
            shard: 0,
        };
        called(budget, || ports.lock_store.index(shard, None)).await
    }));
    trials.push(Box::pin(async move {
        let listing = Listing::Status(Status::Error);
        let overdue = || ports.batch_store.overdue(listing, ports.clock.now(), 1);
        called(budget, overdue).await
    }));
    trials.push(Box::pin(async move {
        let again = || async {
            match ports
                .batch_queue
                .retry_after("dry-run", Duration::ZERO)
                .await
            {
                // No message has that receipt. The queue is there.
                Err(PortError::Refused { .. }) => Ok(()),
                replied => replied,
            }
        };
        called(budget, again).await
    }));
    trials.push(Box::pin(async move {
        match sink.dry_run().await {
            Ok(()) => Ok(()),
            // Nothing is retried here, so not the words of the error.
            Err(
                SinkError::Retryable { reason }
                | SinkError::Busy { reason, .. }
                | SinkError::Permanent { reason },
            ) => Err(format!("sink: {reason}")),
        }
    }));
    all(trials).await
}
