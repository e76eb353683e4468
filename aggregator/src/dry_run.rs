//! The dry run of the aggregator: see [`shared::dry_run`].

use std::sync::Arc;
use std::time::Duration;

use protocol::bodies::Bodies;
use protocol::claim::Overflow;
use protocol::ids::PieceId;
use shared::dry_run::{DryRunFailed, NO_LOAD, Trial, all, called, of_tables};
use shared::ports::{Piece, Ports};
use shared::retry::Budget;

use crate::config::Config;

/// How long the load of a dry run is kept in the batch table.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads from both tables, stores and removes a body in the bucket of large bodies, if there is one, and stores a load where loads go.
pub(crate) async fn dry_run(
    ports: &Ports,
    config: &Config,
    budget: Budget<'_>,
) -> Result<(), DryRunFailed> {
    let mut trials = of_tables(ports, budget);
    let bucket = config.overflow_bucket.as_ref();
    trials.extend(bucket.map(|bucket| of_bucket(ports, bucket, budget)));
    if let Bodies::Log(place) = &config.bodies {
        // From the second time on it exists, if its place has kept it.
        let id = PieceId {
            object: NO_LOAD,
            index: 0,
        };
        let piece = Piece {
            bytes: b"dry run".to_vec(),
            pieces_count: 1,
        };
        let expires_at = ports.clock.now() + KEPT;
        trials.push(Box::pin(async move {
            let put = || ports.object_store.put(place, id, &piece, expires_at);
            called(budget, put).await
        }));
    }
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
