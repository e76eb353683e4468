//! The simulated stack as `batchctl` uses it. An operator's commands run unchanged, with ports of this world.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws::{BatchCatalogue, Summaries};
use batchctl::failure::Failure;
use batchctl::ports::{MessageQueue, MessageQueues, Received, Sent};
use batchctl::service::{REQUESTS_MAX, Service};
use protocol::batch::Listing;
use protocol::claim::LockItem;
use protocol::ids::{BatchId, EventId, Seq};
use protocol::limits::STATUS_SHARDS;
use protocol::time::Timestamp;
use shared::message_attributes::AttributeMap;
use shared::ports::{ListShard, LockItems, Overdue, PortError};
use shared::retry::RequestPermits;
use stack::Settings;

use crate::environment::Environment;
use crate::plan::Plan;
use crate::queue::OperatorQueue;
use crate::sources::source;
use crate::world::World;

/// The settings of a stack that the commands read, besides its queues.
const VARIABLES: [&str; 8] = [
    "DDB_LOCK_TABLE",
    "DDB_BATCH_TABLE",
    "BATCH_QUEUE_URL",
    "EVENT_ID",
    "EVENT_ID_PREFIX",
    "DEDUP_WINDOW",
    "QUARANTINE_SQS_URL",
    "DELIVERY_HOURS",
];

/// Returns the stack of a source, as an operator's environment reaches it.
pub fn service(environment: &Arc<Environment>, plan: &Plan, number: usize) -> Service {
    let variable = |name: &&str| Some(((*name).to_owned(), plan.variable(name)?));
    let mut values: BTreeMap<String, String> = VARIABLES.iter().filter_map(variable).collect();
    let mut add = |name: &str, value: String| values.insert(name.to_owned(), value);
    add("INPUT_QUEUE_ARN", source(number).to_string());
    add("INPUT_QUEUE_URL", format!("input/{number}"));
    let dead_letters = format!("dead-letters/{number}");
    add("INPUT_DEAD_LETTER_QUEUE_URL", dead_letters);
    Service {
        settings: Settings::of_variables("simulation".to_owned(), values),
        connection: None,
        lock_store: environment.clone(),
        lock_items: environment.clone(),
        batch_store: environment.clone(),
        catalogue: environment.clone(),
        object_store: environment.clone(),
        named_items: environment.clone(),
        overflow_store: environment.clone(),
        batch_queue: Some(environment.clone()),
        queues: Arc::new(Queues(environment.clone())),
        clock: environment.clone(),
        entropy: environment.clone(),
        permits: RequestPermits::new(REQUESTS_MAX),
        dedup_window: Duration::from_secs(plan.dedup_window_secs),
    }
}

#[async_trait]
impl LockItems for Environment {
    async fn last_seat(&self, id: &EventId) -> Result<Option<(BatchId, Seq)>, PortError> {
        let id = id.clone();
        self.request(move |world| world.ledger.last_released(&id))
            .await
    }

    async fn remove(&self, _: &EventId, _: &LockItem) -> Result<bool, PortError> {
        unreachable!("only events of the log are forgotten, which have no lock items")
    }

    async fn remember(
        &self,
        id: &EventId,
        item: &LockItem,
        _: Option<(BatchId, Seq)>,
        expected: Option<&LockItem>,
    ) -> Result<bool, PortError> {
        let (id, item, expected) = (id.clone(), item.clone(), expected.cloned());
        self.request(move |world| world.remember(id, item, expected.as_ref()))
            .await
    }

    async fn scan(
        &self,
        each: &mut (dyn FnMut(EventId, LockItem) + Send),
    ) -> Result<(), PortError> {
        let items = self.request(|world| world.locks.items()).await?;
        items.into_iter().for_each(|(id, item)| each(id, item));
        Ok(())
    }
}

#[async_trait]
impl BatchCatalogue for Environment {
    async fn listed(
        &self,
        listing: Listing,
        due_before: Option<Timestamp>,
    ) -> Result<Vec<Overdue>, PortError> {
        let before = due_before.unwrap_or(Timestamp::FAR_FUTURE);
        self.request(move |world| {
            let shards = (0..STATUS_SHARDS).map(|shard| ListShard { listing, shard });
            shards.flat_map(|list| world.listed(list, before)).collect()
        })
        .await
    }

    async fn summaries(&self, ids: &[BatchId]) -> Result<Summaries, PortError> {
        let ids = ids.to_vec();
        self.request(move |world| world.summaries(&ids)).await
    }

    async fn complete(&self, _: Timestamp) -> Result<Summaries, PortError> {
        unreachable!("no operator of a history looks for complete batches")
    }

    async fn of_log(&self) -> Result<Vec<BatchId>, PortError> {
        self.request(move |world| {
            let records = world.batches.records().into_iter();
            let of_log = records.filter(|record| record.bodies.is_log());
            of_log.map(|record| record.batch_id).collect()
        })
        .await
    }
}

struct Queues(Arc<Environment>);

impl MessageQueues for Queues {
    fn queue(&self, url: String) -> Box<dyn MessageQueue> {
        let (kind, number) = url.rsplit_once('/').unwrap_or((&url, ""));
        let number = number.parse();
        let queue = match (kind, number) {
            ("input", Ok(number)) => OperatorQueue::Input(number),
            ("dead-letters", Ok(number)) => OperatorQueue::DeadLetters(number),
            _ => OperatorQueue::Quarantine,
        };
        Box::new(ReachedQueue {
            environment: self.0.clone(),
            queue,
        })
    }
}

/// A queue as an operator's environment reaches it.
struct ReachedQueue {
    environment: Arc<Environment>,
    queue: OperatorQueue,
}

#[async_trait]
impl MessageQueue for ReachedQueue {
    async fn receive(&self, invisible_for: Duration) -> Result<Vec<Received>, Failure> {
        let queue = self.queue;
        let receive = move |world: &mut World| world.receive(queue, invisible_for);
        Ok(self.environment.request(receive).await?)
    }

    async fn send(&self, body: &str, attributes: AttributeMap) -> Result<Sent, Failure> {
        let (queue, body) = (self.queue, body.to_owned());
        let send = move |world: &mut World| world.send_by_operator(queue, &body, &attributes);
        match self.environment.request(send).await {
            Ok(true) => Ok(Sent::Yes),
            Ok(false) => Ok(Sent::Unknown("no reply".to_owned())),
            Err(error) => Ok(Sent::Unknown(error.to_string())),
        }
    }

    async fn delete(&self, receipt: &str) -> Result<(), Failure> {
        let queue = self.queue;
        let receipt = receipt.parse().expect("the receipt of a simulated message");
        let delete = move |world: &mut World| world.delete_by_operator(queue, receipt);
        Ok(self.environment.request(delete).await?)
    }

    async fn give_back(&self, receipt: &str) {
        let queue = self.queue;
        let receipt = receipt.parse().expect("the receipt of a simulated message");
        let give_back = move |world: &mut World| world.give_back(queue, receipt);
        // The message becomes visible later.
        let _ = self.environment.request(give_back).await;
    }
}
