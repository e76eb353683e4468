//! `BYPASS`.

use protocol::batch::Status;
use shared::wire::TicketReason;

use super::*;

/// The events with this content are urgent.
const BYPASS: (&str, &str) = ("BYPASS", "content == 'now'");

#[tokio::test]
async fn the_batch_of_an_urgent_event_starts_at_once() {
    let aggregator = aggregator_with(&[BYPASS]);
    invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
    assert_eq!(only_batch(&aggregator).status, Some(Status::Open));
    aggregator.fakes.batch_queue.take();
    let urgent = [("m3", "e3", "now"), ("m4", "e4", "")];
    assert!(invoke(&aggregator, &urgent).await.is_empty());
    let sealed = only_batch(&aggregator);
    assert_eq!(
        (sealed.status, confirmed(&aggregator)),
        (Some(Status::Sealed), 4)
    );
    let tickets = aggregator.fakes.batch_queue.take();
    let reasons = tickets.iter().map(|(ticket, _)| ticket.reason);
    assert_eq!(Vec::from_iter(reasons), [Some(TicketReason::Sealed)]);
    let line = aggregator.fakes.metric_log.take().pop().unwrap();
    assert!(line.contains(r#""FlushedUrgent":1"#), "{line}");
    // Its duplicate starts nothing: the event is in a batch already.
    invoke(&aggregator, &[("m5", "e5", ""), ("m6", "e3", "now")]).await;
    let records = aggregator.fakes.batch_store.records();
    let is_open = |record: &&BatchRecord| record.status == Some(Status::Open);
    assert_eq!(records.iter().filter(is_open).count(), 1);
}

#[tokio::test]
async fn an_urgent_message_that_comes_again_starts_its_batch_too() {
    // As if the claim of the urgent event had no reply: nobody retired its batch.
    let mut aggregator = aggregator_with(&[]);
    let (fakes, queues) = (aggregator.fakes.clone(), aggregator.source_queues.clone());
    let handler = |variables: &[(&str, &str)]| {
        let (config, queues) = (config_of(variables), queues.clone());
        Handler::new(config, fakes.ports(), queues, Arc::default())
    };
    aggregator.handler = handler(&[]);
    let claimed = [("m3", "e3", "now")];
    invoke(&aggregator, &claimed).await;
    assert_eq!(only_batch(&aggregator).status, Some(Status::Open));
    aggregator.handler = handler(&[BYPASS]);
    assert!(invoke(&aggregator, &claimed).await.is_empty());
    assert_eq!(only_batch(&aggregator).status, Some(Status::Sealed));
}

#[tokio::test]
async fn a_body_that_bypass_cannot_be_evaluated_on_is_not_urgent() {
    let variables = [("BYPASS", "abs(content)"), ("EVENT_ID", "message-id")];
    let aggregator = aggregator_with(&variables);
    assert!(invoke(&aggregator, &[("m1", "e1", "now")]).await.is_empty());
    assert_eq!(only_batch(&aggregator).status, Some(Status::Open));
}
