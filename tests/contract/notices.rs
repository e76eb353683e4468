//! The contract of the target of notices: a queue, an event bus, and the fake.

use aws::{EventBus, SqsNoticeQueue};
use emulators::eventbridge::EventBridge;
use shared::memory::MemoryNoticeTarget;
use shared::ports::{NoticeMessage, NoticeTarget};

use crate::dynamo::{PATIENCE, config_of};
use crate::events::{assert_says, ms, source};
use crate::queues::{QUEUE, queue};

const BUS: &str = "arn:aws:events:eu-west-1:123456789012:event-bus/notices";

fn notice(id: &str) -> NoticeMessage {
    NoticeMessage {
        source: source(),
        id: id.to_owned(),
        kind: "complete",
        at: ms(1_500),
        manifest: format!(r#"{{"id":"{id}","parts":["é"]}}"#),
    }
}

/// Checks that every notice arrives as often as it was sent, with its manifest; `received` returns the manifests.
async fn notices_arrive_as_they_were_sent<T: NoticeTarget>(
    target: &T,
    received: impl AsyncFn() -> Vec<String>,
) {
    for id in ["a/complete", "a/complete", "b/error/2"] {
        target.send(&notice(id)).await.unwrap();
    }
    let mut found = received().await;
    found.sort();
    let expected = ["a/complete", "a/complete", "b/error/2"].map(|id| notice(id).manifest);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn notices_arrive_as_they_were_sent_in_memory() {
    let target = MemoryNoticeTarget::default();
    let received = async || {
        let taken = target.take().into_iter();
        taken.map(|notice| notice.manifest).collect()
    };
    notices_arrive_as_they_were_sent(&target, received).await;
}

#[tokio::test]
async fn notices_arrive_as_they_were_sent_on_sqs() {
    let queue = queue().await;
    let target = SqsNoticeQueue::new(queue.client.clone(), &queue.url);
    let received = async || {
        let messages = queue.take().await.into_iter();
        messages.map(|message| message.body.to_string()).collect()
    };
    notices_arrive_as_they_were_sent(&target, received).await;
}

#[tokio::test]
async fn a_notice_to_the_queue_of_its_events_is_refused_and_not_sent() {
    let queue = queue().await;
    let target = SqsNoticeQueue::new(queue.client.clone(), &queue.url);
    let own = NoticeMessage {
        source: queue.sqs.arn(QUEUE).parse().unwrap(),
        ..notice("a/complete")
    };
    assert_says(&target.send(&own).await.unwrap_err(), &["refused by"]);
    assert_eq!(queue.sqs.depth(QUEUE).unwrap().visible, 0);
}

fn event_bus(bridge: &EventBridge) -> EventBus {
    let config = config_of(&bridge.endpoint(), PATIENCE).build();
    EventBus::new(aws_sdk_eventbridge::Client::new(&config), BUS)
}

#[tokio::test]
async fn notices_arrive_as_they_were_sent_on_an_event_bus() {
    let bridge = EventBridge::start().await.unwrap();
    let target = event_bus(&bridge);
    let received = async || {
        let events = bridge.events().into_iter();
        events.map(|event| event.detail).collect()
    };
    notices_arrive_as_they_were_sent(&target, received).await;
    let event = bridge.events().remove(0);
    assert_eq!(event.event_bus_name, BUS);
    assert_eq!(event.source, "unique-event-batch-aggregator");
    assert_eq!(event.detail_type, "Batch Complete");
}

#[tokio::test]
async fn an_entry_that_failed_is_an_error_although_the_request_succeeded() {
    let bridge = EventBridge::start().await.unwrap();
    let target = event_bus(&bridge);
    for (code, kind) in [
        ("ThrottlingException", "throttled by"),
        ("InternalFailure", "no reply from"),
    ] {
        bridge.fail_next(code);
        let error = target.send(&notice("a/complete")).await.unwrap_err();
        assert_says(&error, &[kind]);
    }
    assert_eq!(bridge.events(), []);
}
