mod batches;
mod drained;
mod duplicates;
mod idle;
mod log;
mod metrics;
#[cfg(feature = "full")]
mod overflow;
mod periods;
mod quarantine;
mod quotas;
mod redeliveries;
mod reports;
mod urgent;

use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::bodies::ObjectPlace;
use protocol::ids::{ObjectId, PieceId, SlotId};
use protocol::slot::{ClaimCounts, Slot};
use serde_json::{Value, json};
use shared::memory::{Fakes, MemorySourceQueues};
use shared::ports::{Clock, ObjectStore, Piece};

use super::*;
use crate::config::tests_support::config;

const START: Timestamp = Timestamp::from_ms(1_000_000);

const QUARANTINE: (&str, &str) = (
    "QUARANTINE_SQS_URL",
    "https://sqs.eu-west-1.amazonaws.com/1/q",
);

/// An aggregator over fakes.
struct Aggregator {
    handler: Handler,
    fakes: Fakes,
    source_queues: Arc<MemorySourceQueues>,
}

fn aggregator_with(variables: &[(&str, &str)]) -> Aggregator {
    aggregator_over(variables, Fakes::ports)
}

fn aggregator_over(variables: &[(&str, &str)], ports: impl FnOnce(&Fakes) -> Ports) -> Aggregator {
    let fakes = Fakes::at(START);
    let ports = ports(&fakes);
    environment(config_of(variables), fakes, ports)
}

/// Returns a configuration in which the event id is a field of the body.
fn config_of(variables: &[(&str, &str)]) -> Config {
    config(&[variables, &[("EVENT_ID", "json:id")]].concat())
}

/// Returns an environment that remembers nothing.
fn environment(config: Config, fakes: Fakes, ports: Ports) -> Aggregator {
    let source_queues = Arc::new(MemorySourceQueues::new());
    Aggregator {
        handler: Handler::new(config, ports, source_queues.clone(), Arc::default()),
        fakes,
        source_queues,
    }
}

/// Returns another environment over the same services.
fn another(aggregator: &Aggregator, variables: &[(&str, &str)]) -> Aggregator {
    let fakes = aggregator.fakes.clone();
    let ports = fakes.ports();
    environment(config_of(variables), fakes, ports)
}

/// Invokes with (message id, event id, other content); returns the message ids that are reported as failed.
async fn invoke(aggregator: &Aggregator, messages: &[(&str, &str, &str)]) -> Vec<String> {
    let deadline = aggregator.fakes.clock.now() + Duration::from_secs(15);
    invoke_until(aggregator, messages, deadline).await
}

async fn invoke_until(
    aggregator: &Aggregator,
    messages: &[(&str, &str, &str)],
    deadline: Timestamp,
) -> Vec<String> {
    let failed = try_invoke_until(aggregator, messages, deadline).await;
    failed.unwrap()
}

async fn try_invoke_until(
    aggregator: &Aggregator,
    messages: &[(&str, &str, &str)],
    deadline: Timestamp,
) -> Result<Vec<String>, HandlerError> {
    let record = |(message, event, content): &(&str, &str, &str)| {
        json!({
            "messageId": message,
            "eventSourceARN": "arn:q",
            "body": json!({ "id": event, "content": content }).to_string(),
        })
    };
    let records = messages.iter().map(record).collect();
    invoke_with(aggregator, records, deadline).await
}

async fn invoke_with(
    aggregator: &Aggregator,
    records: Vec<Value>,
    deadline: Timestamp,
) -> Result<Vec<String>, HandlerError> {
    let event = serde_json::from_value(json!({ "Records": records })).unwrap();
    let invocation = Invocation {
        function: "aggregator".to_owned(),
        deadline,
    };
    let response = aggregator.handler.handle(event, &invocation).await?;
    let failures = response.batch_item_failures.into_iter();
    Ok(failures.map(|failure| failure.item_identifier).collect())
}

/// Takes the reasons of the messages in the quarantine.
fn reasons(aggregator: &Aggregator) -> Vec<String> {
    let quarantined = aggregator.fakes.quarantine_queue.take();
    let reasons = quarantined.into_iter().map(|message| message.reason);
    reasons.collect()
}

/// Puts a hole into the next slot of the only batch, as its closer does.
async fn close_next_slot(aggregator: &Aggregator) -> BatchRecord {
    let record = only_batch(aggregator);
    let batch = record.batch_id;
    let object = ObjectId::Slot(SlotId {
        batch,
        number: record.reservations.as_ref().unwrap().slots,
    });
    let hole = Piece {
        bytes: serde_json::to_vec(&Slot::Hole).unwrap(),
        pieces_count: 1,
    };
    let id = PieceId { object, index: 0 };
    let store = &aggregator.fakes.object_store;
    let put = store.put(&ObjectPlace::Table, id, &hole, START);
    put.await.unwrap();
    record
}

/// Returns what the slots of a batch say of its claims.
fn counts(aggregator: &Aggregator, record: &BatchRecord) -> ClaimCounts {
    let slots = record.reservations.as_ref().map_or(0, |one| one.slots);
    let slot = |number| {
        let slot = SlotId {
            batch: record.batch_id,
            number,
        };
        let bytes = aggregator.fakes.object_store.bytes(&record.bodies, slot)?;
        Some(serde_json::from_slice(&bytes).unwrap())
    };
    let slots: Vec<Option<Slot>> = (0..slots).map(slot).collect();
    ClaimCounts::of(&slots)
}

/// Returns how many claims the slots of a batch have counted.
fn confirmed_in(aggregator: &Aggregator, record: &BatchRecord) -> u64 {
    counts(aggregator, record).confirmed
}

/// Returns how many claims the slots of all batches have counted.
fn confirmed(aggregator: &Aggregator) -> u64 {
    let records = aggregator.fakes.batch_store.records();
    let counted = records
        .iter()
        .map(|record| confirmed_in(aggregator, record));
    counted.sum()
}

fn only_batch(aggregator: &Aggregator) -> BatchRecord {
    let records = aggregator.fakes.batch_store.records();
    assert_eq!(records.len(), 1, "{records:?}");
    records[0].clone()
}
