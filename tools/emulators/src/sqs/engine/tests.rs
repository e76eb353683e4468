//! Tests of the set of queues. The tests set the time; only long polls wait for milliseconds of real time.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinHandle;

use super::*;

type Received = Result<Vec<Message>, SqsError>;

const LONG: Duration = Duration::from_secs(20);

fn with_queue() -> Sqs {
    let sqs = Sqs::new();
    create(&sqs, "queue").unwrap();
    sqs
}

fn create(sqs: &Sqs, name: &str) -> Result<(), SqsError> {
    sqs.create_queue(name, QueueAttributes::default())
}

fn send(sqs: &Sqs, delay: Option<Duration>) {
    let sent = sqs.send("queue", "body".to_owned(), delay, BTreeMap::new());
    sent.unwrap();
}

/// Starts a long poll; returns when it waits.
async fn waiting(sqs: &Sqs) -> JoinHandle<Received> {
    let polling = sqs.clone();
    let poll = tokio::spawn(async move { polling.receive("queue", 1, LONG, None).await });
    tokio::task::yield_now().await;
    poll
}

/// Returns the result of a long poll that ends long before its wait does.
async fn soon(poll: JoinHandle<Received>) -> Received {
    let ended = tokio::time::timeout(Duration::from_secs(10), poll).await;
    ended.expect("the long poll ends").unwrap()
}

#[test]
fn a_queue_is_created_once_and_again_only_with_equal_attributes() {
    let sqs = with_queue();
    create(&sqs, "queue").unwrap();
    let other = QueueAttributes {
        delay: Duration::from_secs(1),
        ..QueueAttributes::default()
    };
    let error = SqsError::QueueNameExists {
        queue: "queue".to_owned(),
        attribute: "DelaySeconds",
    };
    assert_eq!(sqs.create_queue("queue", other), Err(error));
}

#[test]
fn queue_names_are_checked_and_fifo_is_refused() {
    let sqs = Sqs::new();
    for name in ["", "a.b", "é", &"n".repeat(81)] {
        let queue = name.to_owned();
        let invalid = SqsError::InvalidQueueName { queue };
        assert_eq!(create(&sqs, name), Err(invalid));
    }
    let error = create(&sqs, "a.fifo").unwrap_err().to_string();
    assert_eq!(error, "not implemented here: FIFO queue `a.fifo`");
}

#[tokio::test]
async fn the_oldest_message_counts_until_it_is_deleted() {
    let now = Arc::new(AtomicU64::new(1_000));
    let clock = Arc::clone(&now);
    let sqs = Sqs::with_clock(move || clock.load(Ordering::Relaxed));
    create(&sqs, "queue").unwrap();
    let age = || sqs.oldest_age("queue").unwrap();
    assert_eq!(age(), None);
    send(&sqs, None);
    now.store(3_000, Ordering::Relaxed);
    send(&sqs, None);
    now.store(4_000, Ordering::Relaxed);
    assert_eq!(age(), Some(Duration::from_secs(3)));
    let received = sqs.receive("queue", 1, Duration::ZERO, None).await.unwrap();
    assert_eq!(age(), Some(Duration::from_secs(3)), "it is in flight");
    sqs.delete("queue", &received[0].receipt_handle).unwrap();
    assert_eq!(age(), Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn a_queue_may_be_its_own_dead_letter_queue() {
    let sqs = with_queue();
    let arn = sqs.arn("queue");
    let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}"#);
    let attributes = BTreeMap::from([("RedrivePolicy".to_owned(), policy)]);
    sqs.set_attributes("queue", &attributes).unwrap();
    send(&sqs, None);
    for expected in [1, 0, 1] {
        let at_once = Duration::ZERO;
        let received = sqs.receive("queue", 10, at_once, Some(at_once)).await;
        assert_eq!(received.unwrap().len(), expected);
    }
}

#[tokio::test]
async fn every_long_poll_gets_its_message() {
    let sqs = with_queue();
    let mut polls = Vec::new();
    for _ in 0..50 {
        polls.push(waiting(&sqs).await);
    }
    let batch = (0..50).map(|n| {
        Ok(Outgoing {
            body: n.to_string(),
            ..Outgoing::default()
        })
    });
    sqs.send_batch("queue", batch).unwrap();
    for poll in polls {
        assert_eq!(soon(poll).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_long_poll_wakes_when_a_delay_ends() {
    let sqs = with_queue();
    let poll = waiting(&sqs).await;
    send(&sqs, Some(Duration::from_millis(5)));
    assert_eq!(soon(poll).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_long_poll_wakes_when_visibility_ends_by_timeout_or_by_change() {
    let sqs = with_queue();
    send(&sqs, None);
    let timeout = Some(Duration::from_millis(5));
    let received = sqs.receive("queue", 1, Duration::ZERO, timeout).await;
    received.unwrap();
    let again = soon(waiting(&sqs).await).await.unwrap();
    let poll = waiting(&sqs).await;
    let handle = &again[0].receipt_handle;
    let changed = sqs.change_visibility("queue", handle, Duration::ZERO);
    changed.unwrap();
    assert_eq!(soon(poll).await.unwrap()[0].receive_count, 3);
}

#[tokio::test]
async fn a_dropped_long_poll_wakes_another() {
    let sqs = with_queue();
    let (first, second) = (waiting(&sqs).await, waiting(&sqs).await);
    send(&sqs, None);
    first.abort();
    let received = match first.await {
        Ok(received) => received.unwrap(),
        Err(_) => soon(second).await.unwrap(),
    };
    assert_eq!(received.len(), 1);
}

#[tokio::test]
async fn when_the_long_poll_that_sleeps_until_the_due_time_is_dropped_another_wakes() {
    let sqs = with_queue();
    let (first, second) = (waiting(&sqs).await, waiting(&sqs).await);
    // Wakes `first`, which then sleeps until the message is due. `second` still sleeps until its own wait ends.
    send(&sqs, Some(Duration::from_millis(50)));
    tokio::task::yield_now().await;
    first.abort();
    assert_eq!(soon(second).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_long_poll_of_a_deleted_queue_ends_with_an_error() {
    let sqs = with_queue();
    let poll = waiting(&sqs).await;
    sqs.delete_queue("queue").unwrap();
    assert_eq!(soon(poll).await, Err(does_not_exist("queue")));
}
