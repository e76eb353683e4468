//! The dry run of the batch-processor: see [`shared::dry_run`].

use std::time::Duration;

use protocol::batch::{Listing, Status};
use protocol::ids::{BatchShard, SeatKey};
use shared::dry_run::{DryRunFailed, NO_BATCH, TIME, all, called, no_event, of_tables};
use shared::ports::{ListShard, PortError, Ports, Release, ReleaseReply};
use shared::retry::Budget;
use sinks::Sink;

use crate::answers::Answers;

/// Reads from both tables and their indexes, and tries out a release, the queue of tickets, the sink, and the place of answers.
pub(crate) async fn dry_run(
    ports: &Ports,
    sink: &dyn Sink,
    answers: Option<&Answers>,
    dedup_window: Duration,
    budget: Budget<'_>,
) -> Result<(), DryRunFailed> {
    let mut trials = of_tables(ports, budget);
    let shard = BatchShard {
        batch: NO_BATCH,
        shard: 0,
    };
    trials.push(Box::pin(async move {
        called(budget, || ports.lock_store.index(shard, None)).await
    }));
    trials.push(Box::pin(async move {
        // No claim has that seat, so nothing is written. A release that is forbidden says so first.
        let claims = [(no_event()?, SeatKey { shard, seq: 0 })];
        let as_delivered = Release::of_delivered(ports.clock.now(), dedup_window);
        let release = || async {
            let replies = ports.lock_store.release(&claims, as_delivered).await;
            let failed = replies.into_iter().find_map(|reply| match reply {
                ReleaseReply::Released => None,
                ReleaseReply::Error(error) => Some(error),
            });
            failed.map_or(Ok(()), Err)
        };
        called(budget, release).await
    }));
    trials.push(Box::pin(async move {
        let list = ListShard {
            listing: Listing::Status(Status::Error),
            shard: 0,
        };
        let now = ports.clock.now();
        let overdue = || ports.batch_store.overdue(list, now, None);
        called(budget, overdue).await
    }));
    trials.push(Box::pin(async move {
        let again = || async {
            let queue = &ports.batch_queue;
            match queue.retry_after("dry-run", Duration::ZERO).await {
                // No message has that receipt. A queue that is missing or forbidden says so first.
                Err(PortError::Refused { message, .. }) if is_about_receipt(&message) => Ok(()),
                replied => replied,
            }
        };
        called(budget, again).await
    }));
    trials.push(Box::pin(async move {
        let Ok(tried) = tokio::time::timeout(TIME, sink.dry_run()).await else {
            return Err(format!("sink: no reply within {} s", TIME.as_secs()));
        };
        match tried {
            Ok(()) => Ok(()),
            // Nothing is retried here, so not the words of the error.
            Err(error) => Err(format!("sink: {}", error.into_reason())),
        }
    }));
    if let Some(answers) = answers {
        trials.push(Box::pin(async move {
            let Ok(tried) = tokio::time::timeout(TIME, answers.dry_run(ports)).await else {
                return Err(format!("answers: no reply within {} s", TIME.as_secs()));
            };
            tried.map_err(|reason| format!("answers: {reason}"))
        }));
    }
    all(trials).await
}

/// Returns whether SQS refuses a receipt and nothing else.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html#API_ChangeMessageVisibility_Errors>
/// (2026-11).
fn is_about_receipt(message: &str) -> bool {
    ["ReceiptHandleIsInvalid", "InvalidParameterValue"]
        .iter()
        .any(|code| message.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_receipt_shows_that_the_queue_is_there() {
        assert!(is_about_receipt("queue: ReceiptHandleIsInvalid: no"));
        assert!(!is_about_receipt("AccessDenied: no"));
        let missing = "AWS.SimpleQueueService.NonExistentQueue: no";
        assert!(!is_about_receipt(missing));
    }
}
