//! The metrics of an invocation with tickets.

use serde_json::Value;

use super::*;

/// Takes the metric lines written so far, without what every line has.
fn measured(processor: &Processor) -> Vec<Value> {
    let lines = processor.fakes.metric_log.take().into_iter();
    let lines = lines.map(|line| {
        let mut line: Value = serde_json::from_str(&line).unwrap();
        let fields = line.as_object_mut().unwrap();
        assert_eq!(fields["source"], "arn:q");
        for name in ["_aws", "function", "source"] {
            fields.remove(name).unwrap();
        }
        line
    });
    lines.collect()
}

fn config_of_batches(items_max: u64) -> Config {
    Config {
        batch_items_max: items_max,
        ..config()
    }
}

#[tokio::test]
async fn a_delivered_batch_is_measured_from_the_sending_of_its_oldest_message() {
    let processor = processor_with(config_of_batches(4));
    sealed(&processor, 3).await;
    processor.fakes.clock.advance(Duration::from_secs(7));
    assert!(!ticket(&processor).await);
    let expected = json!({
        "PartsDelivered": 1, "BatchItems": 3, "DeliveredBytes": 3 * "body 0".len(), "DeliverTime": 0,
        "SendToDeliverTime": 7_000, "Released": 3, "BatchesCompleted": 1, "BatchAge": 67_000, "FillRatio": 75,
    });
    assert_eq!(measured(&processor), [expected]);
    assert!(!ticket(&processor).await, "the batch is complete");
    assert!(measured(&processor).is_empty(), "nothing to measure");
}

#[tokio::test]
async fn rejected_records_are_not_measured_as_delivered() {
    let processor = processor_with(config_of_batches(4));
    *processor.sink.rejects.lock().unwrap() = vec![1];
    sealed(&processor, 3).await;
    assert!(!ticket(&processor).await);
    let line = measured(&processor).remove(0);
    let counts = ["BatchItems", "Rejected", "FillRatio"].map(|name| line[name].clone());
    assert_eq!(counts, [2, 1, 50], "{line}");
}

#[tokio::test]
async fn a_batch_that_the_ticket_of_its_window_finds_open_is_flushed_by_its_window_once() {
    let processor = with_an_open_batch(1).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    // A slot of the batch is a hole.
    let expected = json!({ "FlushedWindow": 1, "Holes": 1 });
    assert_eq!(measured(&processor), [expected]);
    processor.sink.fail(0);
    assert!(!ticket(&processor).await);
    assert_eq!(measured(&processor)[0]["FlushedWindow"], Value::Null);
}

#[tokio::test]
async fn a_batch_of_which_nothing_was_delivered_has_no_fill() {
    let processor = with_an_open_batch(1).await;
    refused(&processor).await;
    measured(&processor);
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!given_back(&processor, &quarantine()).await);
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    let lines = measured(&processor);
    let has = |line: &&Value, name: &str| line[name] != Value::Null;
    let with = |name: &str| lines.iter().filter(|line| has(line, name)).count();
    let counts = ["Quarantined", "BatchesCompleted", "FillRatio"].map(with);
    assert_eq!(counts, [1, 1, 0], "{lines:?}");
}

#[tokio::test]
async fn two_tickets_of_one_invocation_are_counted_in_one_line() {
    let processor = with_a_sealed_batch(1).await;
    let body = Ticket::new(batch(), TicketReason::Window).to_body();
    let record = |id: &str| json!({ "messageId": id, "eventSourceARN": "arn:b", "body": body });
    let event = json!({ "Records": [record("t1"), record("t2")] });
    let failed = invoke(&processor, event, &invocation(&processor)).await;
    assert!(failed.is_empty());
    let lines = measured(&processor);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["BatchesCompleted"], 1);
}
