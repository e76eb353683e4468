use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws::{BatchCatalogue, DynamoLockStore, Sdk, Summaries};
use protocol::batch::Listing;
use protocol::bodies::ObjectSizes;
use protocol::ids::{BatchId, ObjectId};
use shared::compression::compress_bytes;
use shared::config::WriteMode;
use shared::memory::Fakes;
use shared::ports::{Overdue, PortError};
use shared::retry::{ObjectRules, RequestPermits, store_object};
use stack::Settings;

use super::*;
use crate::service::REQUESTS_MAX;

/// The catalogue of a stack without batches.
struct Nothing;

#[async_trait]
impl BatchCatalogue for Nothing {
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
        Ok(Vec::new())
    }
}

fn service(fakes: &Fakes) -> Service {
    let queue = ("BATCH_QUEUE_URL".to_owned(), "batch-queue".to_owned());
    // A rebuild sends no request with these clients.
    let sdk = Sdk::from_variables(|_| None, 1);
    let dynamodb = sdk.dynamodb(Duration::from_secs(1));
    let locks = DynamoLockStore::new(dynamodb, "", "", WriteMode::Put);
    Service {
        settings: Settings::of_variables("test".to_owned(), BTreeMap::from([queue])),
        connection: None,
        lock_store: fakes.lock_store.clone(),
        lock_items: Arc::new(locks),
        batch_store: fakes.batch_store.clone(),
        catalogue: Arc::new(Nothing),
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

async fn rebuild(service: &Service) -> Result<Done, Failure> {
    let args = RebuildArgs {
        bodies: None,
        change: ChangeArgs {
            yes: true,
            why: Some("lost".to_owned()),
            by: Some("me".to_owned()),
        },
    };
    run(service, &args, &Interrupt::never(), Output::Nothing).await
}

#[tokio::test]
async fn a_list_that_may_not_be_read_is_not_taken_for_a_lost_one() {
    let fakes = Fakes::at(Timestamp::from_ms(1_000_000_000));
    let service = service(&fakes);
    let budget = service.budget();
    let index = store(&service, &budget);
    let bodies: Bodies = "log:table".parse().unwrap();
    let open = index.open(&bodies).await.unwrap();
    let list = RunList::default();
    assert!(index.commit(&open, &bodies, &list).await.unwrap());
    let manifest = async || index.read().await.unwrap().unwrap().manifest;
    let before = manifest().await;
    let list = ObjectId::RunList(before.value.list.unwrap());

    fakes.object_store.deny(list, true);
    let error = rebuild(&service).await.unwrap_err().to_string();
    assert!(error.contains("access denied"), "{error}");
    assert_eq!(manifest().await, before);

    fakes.object_store.deny(list, false);
    fakes.object_store.remove(list);
    let of_later_version = compress_bytes(br#"{"formatVersion":9,"runs":[]}"#).unwrap();
    let rules = ObjectRules {
        bodies: bodies.clone(),
        sizes: ObjectSizes::default(),
        retention: Duration::from_secs(60),
    };
    let (objects, permits) = (&*fakes.object_store, &service.permits);
    let stored = store_object(objects, &rules, list, &of_later_version, permits, &budget);
    stored.await.unwrap();
    let error = rebuild(&service).await.unwrap_err().to_string();
    assert!(error.contains("written by a later version"), "{error}");
    assert_eq!(manifest().await, before);

    fakes.object_store.remove(list);
    assert_eq!(rebuild(&service).await.unwrap(), Done::Yes);
    assert_ne!(manifest().await.value.list, before.value.list);
}
