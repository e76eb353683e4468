//! The contract of the target of notices: a queue, an event bus, and the fake.

use std::time::Duration;

use aws_sdk_eventbridge::config::retry::RetryConfig;
use aws_sdk_eventbridge::config::{BehaviorVersion, Credentials, Region};
use emulators::eventbridge::EventBridge;
use emulators::sqs::{QueueAttributes, Sqs};
use shared::aws::{EventBus, SqsNoticeQueue};
use shared::memory::MemoryNoticeTarget;
use shared::ports::{NoticeMessage, NoticeTarget, PortError};
use tokio::net::TcpListener;

use crate::events::{ms, source};
use crate::queues::client_of;

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

/// Returns an SQS server with the queue `notices`, and its endpoint.
async fn sqs() -> (Sqs, String) {
    let sqs = Sqs::new();
    let created = sqs.create_queue("notices", QueueAttributes::default());
    created.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(sqs.clone().serve(listener, std::future::pending()));
    (sqs, endpoint)
}

#[tokio::test]
async fn notices_arrive_as_they_were_sent_on_sqs() {
    let (sqs, endpoint) = sqs().await;
    let url = format!("{endpoint}/000000000000/notices");
    let target = SqsNoticeQueue::new(client_of(&endpoint), url);
    let received = async || {
        let messages = sqs.receive("notices", 10, Duration::ZERO, None).await;
        let messages = messages.unwrap().into_iter();
        messages.map(|message| message.body.to_string()).collect()
    };
    notices_arrive_as_they_were_sent(&target, received).await;
}

#[tokio::test]
async fn a_notice_to_the_queue_of_its_events_is_refused_and_not_sent() {
    let (sqs, endpoint) = sqs().await;
    let url = format!("{endpoint}/000000000000/notices");
    let target = SqsNoticeQueue::new(client_of(&endpoint), url);
    let own = NoticeMessage {
        source: sqs.arn("notices").parse().unwrap(),
        ..notice("a/complete")
    };
    let error = target.send(&own).await.unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error}");
    assert_eq!(sqs.depth("notices").unwrap().visible, 0);
}

fn event_bus(bridge: &EventBridge) -> EventBus {
    let config = aws_sdk_eventbridge::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .endpoint_url(bridge.endpoint())
        .build();
    EventBus::new(aws_sdk_eventbridge::Client::from_conf(config), BUS)
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
    bridge.fail_next("ThrottlingException");
    let error = target.send(&notice("a/complete")).await.unwrap_err();
    assert!(matches!(error, PortError::Throttled { .. }), "{error}");
    bridge.fail_next("InternalFailure");
    let error = target.send(&notice("a/complete")).await.unwrap_err();
    assert!(matches!(error, PortError::Unknown { .. }), "{error}");
    assert_eq!(bridge.events(), []);
}
