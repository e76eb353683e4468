//! A stack of fakes, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws::{BatchCatalogue, Sdk, Summaries};
use protocol::batch::Listing;
use protocol::ids::BatchId;
use protocol::time::Timestamp;
use shared::memory::Fakes;
use shared::ports::{Overdue, PortError};
use shared::retry::RequestPermits;
use stack::Settings;

use crate::service::{REQUESTS_MAX, Service};

/// The catalogue of a stack with these batches of the log, all of them complete.
struct Batches(Vec<BatchId>);

#[async_trait]
impl BatchCatalogue for Batches {
    async fn listed(&self, _: Listing, _: Option<Timestamp>) -> Result<Vec<Overdue>, PortError> {
        Ok(Vec::new())
    }

    async fn summaries(&self, _: &[BatchId]) -> Result<Summaries, PortError> {
        Ok(Summaries::default())
    }

    async fn complete(&self, _: Timestamp) -> Result<Summaries, PortError> {
        Ok(Summaries::default())
    }

    async fn of_log(&self) -> Result<Vec<BatchId>, PortError> {
        Ok(self.0.clone())
    }
}

/// Returns a stack of fakes, with these batches of the log.
pub fn service(fakes: &Fakes, batches: &[BatchId]) -> Service {
    let queue = ("BATCH_QUEUE_URL".to_owned(), "batch-queue".to_owned());
    // The tests send no request with these clients.
    let sdk = Sdk::from_variables(|_| None, 1);
    Service {
        settings: Settings::of_variables("test".to_owned(), BTreeMap::from([queue])),
        connection: None,
        lock_store: fakes.lock_store.clone(),
        lock_items: fakes.lock_store.clone(),
        batch_store: fakes.batch_store.clone(),
        catalogue: Arc::new(Batches(batches.to_vec())),
        object_store: fakes.object_store.clone(),
        named_items: fakes.named_items.clone(),
        overflow_store: fakes.overflow_store.clone(),
        batch_queue: Some(fakes.batch_queue.clone()),
        queues: Arc::new(sdk.sqs(Duration::from_secs(1))),
        clock: fakes.clock.clone(),
        entropy: fakes.entropy.clone(),
        permits: RequestPermits::new(REQUESTS_MAX),
        dedup_window: Duration::from_secs(3_600),
    }
}
