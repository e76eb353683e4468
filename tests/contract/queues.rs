//! The contracts of the batch queue and the quarantine queue.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws::{SqsBatchQueue, SqsQuarantineQueue};
use aws_sdk_sqs::Client;
use emulators::sqs::{Message, QueueAttributes, Sqs};
use protocol::limits::SQS_MESSAGE_BYTES_MAX;
use shared::memory::{MemoryBatchQueue, MemoryQuarantineQueue};
use shared::message_attributes::{AttributeMap, MessageAttribute, MessageAttributes};
use shared::ports::{BatchQueue, QuarantineQueue, Quarantined, QueueDepth};
use shared::quarantine_attributes::of_producer;
use shared::traces::Links;
use shared::wire::{Ticket, TicketReason};
use tokio::net::TcpListener;

use crate::dynamo::{PATIENCE, config_of};
use crate::events::{ATTRIBUTES, assert_says, batch, source};
use crate::scripted;

pub fn client_of(endpoint: &str) -> Client {
    Client::new(&config_of(endpoint, PATIENCE).build())
}

/// A queue on its own embedded SQS, with a client over HTTP.
pub struct Queue {
    pub sqs: Sqs,
    pub client: Client,
    pub url: String,
}

pub const QUEUE: &str = "queue";

pub async fn queue() -> Queue {
    let sqs = Sqs::new();
    sqs.create_queue(QUEUE, QueueAttributes::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(sqs.clone().serve(listener, std::future::pending()));
    Queue {
        sqs,
        client: client_of(&endpoint),
        url: format!("{endpoint}/000000000000/{QUEUE}"),
    }
}

impl Queue {
    fn batch_queue(&self) -> SqsBatchQueue {
        SqsBatchQueue::new(self.client.clone(), &self.url)
    }

    fn quarantine(&self) -> SqsQuarantineQueue {
        SqsQuarantineQueue::new(self.client.clone(), &self.url)
    }

    /// Receives and deletes the visible messages.
    pub async fn take(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let more = self.sqs.receive(QUEUE, 10, Duration::ZERO, None).await;
            let more = more.unwrap();
            if more.is_empty() {
                return messages;
            }
            messages.extend(more);
        }
    }
}

fn tickets() -> Vec<Ticket> {
    let mut hinted = Ticket::new(batch(2), TicketReason::Sealed);
    hinted.source = Some(source());
    hinted.shards = Some(10);
    let bare = Ticket {
        batch_id: batch(3),
        source: None,
        shards: None,
        reason: None,
        accept: None,
        is_ahead: true,
        traces: Links::default(),
    };
    vec![Ticket::new(batch(1), TicketReason::Window), hinted, bare]
}

/// Checks that every ticket arrives as it was sent, alone and with others; `received` returns the visible tickets.
async fn tickets_arrive_as_they_were_sent<Q: BatchQueue>(
    queue: &Q,
    received: impl AsyncFn() -> Vec<Ticket>,
) {
    for ticket in tickets() {
        queue.send(&ticket, Duration::ZERO).await.unwrap();
        assert_eq!(received().await, [ticket]);
    }
    let mut all = tickets();
    all.extend((10..17).map(|number| Ticket::new(batch(number), TicketReason::Sweep)));
    let delayed = |ticket| (ticket, Duration::ZERO);
    let delayed = Vec::from_iter(all.iter().cloned().map(delayed));
    let replies = queue.send_all(&delayed).await;
    assert_eq!(replies.len(), 10);
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    let mut there = received().await;
    there.sort_by_key(|ticket| ticket.batch_id);
    assert_eq!(there, all);
}

#[tokio::test]
async fn tickets_arrive_as_they_were_sent_in_memory() {
    let queue = MemoryBatchQueue::new();
    let received = async || queue.take().into_iter().map(|(ticket, _)| ticket).collect();
    tickets_arrive_as_they_were_sent(&queue, received).await;
}

#[tokio::test]
async fn tickets_arrive_as_they_were_sent_on_sqs() {
    let queue = queue().await;
    let ticket = |message: &Message| Ticket::from_body(&message.body).unwrap();
    let received = async || queue.take().await.iter().map(ticket).collect();
    tickets_arrive_as_they_were_sent(&queue.batch_queue(), received).await;
}

#[tokio::test]
async fn a_delayed_ticket_is_not_visible_yet_however_short_the_delay() {
    let queue = queue().await;
    let sender = queue.batch_queue();
    // A delay of less than a second is rounded up to one second; the longest delay of SQS is accepted.
    let delays = [Duration::from_millis(1), Duration::from_secs(900)];
    for delay in delays {
        sender.send(&tickets()[0], delay).await.unwrap();
    }
    let delayed = delays.map(|delay| (tickets().remove(0), delay));
    assert!(sender.send_all(&delayed).await.iter().all(Result::is_ok));
    assert_eq!(sender.depth().await.unwrap().delayed, 4);
    assert!(queue.take().await.is_empty());
}

async fn a_batch_queue_returns_its_depth<Q: BatchQueue>(queue: &Q) {
    let (minute, longest) = (Duration::from_secs(60), Duration::from_secs(900));
    for delay in [Duration::ZERO, minute, longest] {
        queue.send(&tickets()[0], delay).await.unwrap();
    }
    let expected = QueueDepth {
        visible: 1,
        in_flight: 0,
        delayed: 2,
    };
    assert_eq!(queue.depth().await.unwrap(), expected);
}

#[tokio::test]
async fn a_batch_queue_returns_its_depth_in_memory() {
    a_batch_queue_returns_its_depth(&MemoryBatchQueue::new()).await;
}

#[tokio::test]
async fn a_batch_queue_returns_its_depth_on_sqs() {
    let queue = queue().await;
    a_batch_queue_returns_its_depth(&queue.batch_queue()).await;
}

fn quarantined(number: usize, body: impl Into<Arc<str>>) -> Quarantined {
    Quarantined {
        sqs_message_id: format!("m{number}").parse().unwrap(),
        event_id: number
            .is_multiple_of(2)
            .then(|| format!("e{number}").parse().unwrap()),
        source: source(),
        reason: format!("reason {number}"),
        body: body.into(),
        attributes: number
            .is_multiple_of(3)
            .then(|| MessageAttributes::read(ATTRIBUTES).unwrap().unwrap()),
    }
}

/// Body and attributes of a quarantined message.
type Seen = (String, Option<String>, String, Arc<str>, Option<Arc<str>>);

fn seen(message: &Quarantined) -> Seen {
    let event_id = message.event_id.as_ref().map(ToString::to_string);
    (
        message.reason.clone(),
        event_id,
        message.source.to_string(),
        message.body.clone(),
        message.attributes.as_ref().map(|all| all.as_text().clone()),
    )
}

fn seen_on_sqs(message: &Message) -> Seen {
    let text = |name: &str| message.message_attributes.get(name)?.string_value.clone();
    (
        text("reason").unwrap_or_default(),
        text("eventId"),
        text("source").unwrap_or_default(),
        message.body.clone(),
        MessageAttributes::of(of_producer(&attributes_of(message)))
            .map(|all| all.as_text().clone()),
    )
}

/// Returns the attributes of a message on SQS.
fn attributes_of(message: &Message) -> AttributeMap {
    let attribute = |(name, one): (&String, &emulators::sqs::MessageAttribute)| {
        let (text, binary) = (one.string_value.clone(), one.binary_value.clone());
        let attribute = MessageAttribute::new(Some(one.data_type.clone()), text, binary);
        (name.clone(), attribute)
    };
    message.message_attributes.iter().map(attribute).collect()
}

async fn everything_is_quarantined<Q: QuarantineQueue>(
    quarantine: &Q,
    received: impl AsyncFn() -> Vec<Seen>,
) {
    assert!(quarantine.send(&[]).await.is_empty());
    // 4 MB is more than one request carries.
    for bytes in [10, 400_000] {
        let message = |n| quarantined(n, "x".repeat(bytes + n));
        let messages: Vec<Quarantined> = (0..10).map(message).collect();
        let answers = quarantine.send(&messages).await;
        assert_eq!(answers.len(), messages.len());
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let mut found = received().await;
        found.sort();
        let mut expected = Vec::from_iter(messages.iter().map(seen));
        expected.sort();
        assert!(found == expected, "{} messages arrived", found.len());
    }
}

#[tokio::test]
async fn everything_is_quarantined_in_memory() {
    let quarantine = MemoryQuarantineQueue::default();
    let received = async || quarantine.take().iter().map(seen).collect();
    everything_is_quarantined(&quarantine, received).await;
}

#[tokio::test]
async fn everything_is_quarantined_on_sqs() {
    let queue = queue().await;
    let received = async || queue.take().await.iter().map(seen_on_sqs).collect();
    everything_is_quarantined(&queue.quarantine(), received).await;
}

#[tokio::test]
async fn a_message_of_the_largest_size_is_quarantined_with_the_attributes_that_fit() {
    let queue = queue().await;
    let body = |room: usize| "x".repeat(SQS_MESSAGE_BYTES_MAX - room);
    let messages = [0, 40, 1_000].map(|room| quarantined(2, body(room)));
    let answers = queue.quarantine().send(&messages).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let room_and_attributes = |message: &Message| {
        let room = SQS_MESSAGE_BYTES_MAX - message.body.len();
        (room, message.message_attributes.len())
    };
    let found: BTreeSet<_> = queue.take().await.iter().map(room_and_attributes).collect();
    assert_eq!(found, [(0, 0), (40, 2), (1_000, 3)].into());
}

#[tokio::test]
async fn characters_that_sqs_refuses_are_replaced_in_the_reason() {
    let queue = queue().await;
    let mut odd = quarantined(1, "body");
    odd.reason = format!("\0 not json: {}", "\u{e4}".repeat(100_000));
    let mut none = quarantined(1, "body");
    none.reason = String::new();
    let answers = queue.quarantine().send(&[odd, none]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let messages = queue.take().await;
    let reasons = messages.iter().map(|message| seen_on_sqs(message).0);
    let mut reasons: Vec<String> = reasons.collect();
    reasons.sort_by_key(String::len);
    assert_eq!(reasons[0], "unknown");
    assert!(reasons[1].starts_with("\u{fffd} not json: \u{e4}"));
}

#[tokio::test]
async fn only_the_message_that_sqs_refuses_fails() {
    let queue = queue().await;
    let bodies = ["fine", "not \0 allowed", "fine too"];
    let messages = bodies.map(|body| quarantined(0, body));
    let answers = queue.quarantine().send(&messages).await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_says(answers[1].as_ref().unwrap_err(), &["refused by SQS"]);
    assert_eq!(queue.take().await.len(), 2);
}

#[tokio::test]
async fn a_missing_queue_is_refused_by_name() {
    let mut queue = queue().await;
    queue.url = queue.url.replace(QUEUE, "no-such-queue");
    let batch_queue = queue.batch_queue();
    let ticket = batch_queue.send(&tickets()[0], Duration::ZERO).await;
    let depth = batch_queue.depth().await.map(|_| ());
    let messages = [0, 1].map(|number| quarantined(number, "body"));
    let quarantined = queue.quarantine().send(&messages).await;
    assert_eq!(quarantined.len(), 2);
    for answer in quarantined.into_iter().chain([ticket, depth]) {
        let error = answer.unwrap_err();
        assert_says(&error, &["refused by SQS", "no-such-queue"]);
    }
}

#[tokio::test]
async fn entries_of_a_request_have_separate_results() {
    let body = r#"{"Successful":[{"Id":"0","MessageId":"m","MD5OfMessageBody":"d"}],"Failed":[
        {"Id":"1","SenderFault":false,"Code":"InternalError","Message":"oh"},
        {"Id":"2","SenderFault":true,"Code":"InvalidMessageContents","Message":"no"},
        {"Id":"3","SenderFault":true,"Code":"RequestThrottled","Message":"slow"},
        {"Id":"4","SenderFault":false,"Code":"SomethingNew","Message":"oh"}]}"#;
    let endpoint = scripted::endpoint(200, body).await;
    let url = format!("{endpoint}/000000000000/{QUEUE}");
    let quarantine = SqsQuarantineQueue::new(client_of(&endpoint), &url);
    let batch_queue = SqsBatchQueue::new(client_of(&endpoint), url);
    let messages: Vec<Quarantined> = (0..6).map(|n| quarantined(n, "body")).collect();
    let tickets = (0..6).map(|number| Ticket::new(batch(number), TicketReason::Sweep));
    let tickets = Vec::from_iter(tickets.map(|ticket| (ticket, Duration::ZERO)));
    for answers in [
        quarantine.send(&messages).await,
        batch_queue.send_all(&tickets).await,
    ] {
        assert_eq!(answers.len(), 6);
        assert!(answers[0].is_ok(), "{answers:?}");
        let unknown = "no reply from";
        let expected = [unknown, "refused by", "throttled by", unknown, unknown];
        for (answer, kind) in answers.into_iter().skip(1).zip(expected) {
            assert_says(&answer.unwrap_err(), &[kind]);
        }
    }
}
