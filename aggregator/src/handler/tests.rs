mod batches;
mod chunks;
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
use serde_json::{Value, json};
use shared::memory::{Fakes, MemorySourceQueues};
use shared::ports::Clock;

use super::*;
use crate::config::tests_support::config;

const START: Timestamp = Timestamp::from_ms(1_000_000);

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
    let mut variables = variables.to_vec();
    variables.push(("EVENT_ID", "json:id"));
    let config = config(&variables);
    let current = Arc::new(SharedAllocator::new(config.limits));
    let source_queues = Arc::new(MemorySourceQueues::new());
    Aggregator {
        handler: Handler::new(config, ports(&fakes), source_queues.clone(), current),
        fakes,
        source_queues,
    }
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
    try_invoke_until(aggregator, messages, deadline)
        .await
        .unwrap()
}

async fn try_invoke_until(
    aggregator: &Aggregator,
    messages: &[(&str, &str, &str)],
    deadline: Timestamp,
) -> Result<Vec<String>, HandlerError> {
    let records: Vec<Value> = messages
        .iter()
        .map(|(message, event, content)| {
            json!({
                "messageId": message,
                "eventSourceARN": "arn:q",
                "body": json!({ "id": event, "content": content }).to_string(),
            })
        })
        .collect();
    let event = serde_json::from_value(json!({ "Records": records })).unwrap();
    let invocation = Invocation {
        function: "aggregator".to_owned(),
        deadline,
    };
    let response = aggregator.handler.handle(event, &invocation).await?;
    let failures = response.batch_item_failures.into_iter();
    Ok(failures.map(|failure| failure.item_identifier).collect())
}

fn only_batch(aggregator: &Aggregator) -> BatchRecord {
    let records = aggregator.fakes.batch_store.records();
    assert_eq!(records.len(), 1, "{records:?}");
    records[0].clone()
}
