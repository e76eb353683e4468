//! The dry run of the aggregator: see [`shared::dry_run`].

use std::sync::Arc;

use protocol::claim::Overflow;
use shared::dry_run::{DryRunFailed, Trial, all, called, of_tables};
use shared::ports::Ports;
use shared::retry::Budget;

/// Reads from both tables, and stores and removes a body in the bucket of large bodies, if there is one.
pub(crate) async fn dry_run(
    ports: &Ports,
    overflow_bucket: Option<&Arc<str>>,
    budget: Budget<'_>,
) -> Result<(), DryRunFailed> {
    let mut trials = of_tables(ports, budget);
    trials.extend(overflow_bucket.map(|bucket| of_bucket(ports, bucket, budget)));
    all(trials).await
}

fn of_bucket<'a>(ports: &'a Ports, bucket: &Arc<str>, budget: Budget<'a>) -> Trial<'a> {
    let object = Overflow {
        bucket: bucket.clone(),
        key: "dry-run".to_owned(),
        bytes: 0,
    };
    Box::pin(async move {
        let body = Arc::from("");
        called(budget, || ports.overflow_store.put(&object, &body)).await?;
        called(budget, || ports.overflow_store.remove(&object)).await
    })
}
