//! Tests of the set of queues. The tests set the time; only long polls wait for milliseconds of real time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const LONG: Duration = Duration::from_secs(20);

fn with_queue() -> Sqs {
    let sqs = Sqs::new();
    sqs.create_queue("queue", QueueAttributes::default())
        .unwrap();
    sqs
}

fn send(sqs: &Sqs, queue: &str, body: &str) -> String {
    sqs.send(queue, body.to_owned(), None, BTreeMap::new())
        .unwrap()
}

/// Starts a long poll; returns when it waits.
async fn waiting(sqs: &Sqs) -> tokio::task::JoinHandle<Result<Vec<Message>, SqsError>> {
    let polling = sqs.clone();
    let poll = tokio::spawn(async move { polling.receive("queue", 1, LONG, None).await });
    tokio::task::yield_now().await;
    poll
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future)
        .await
        .expect("the long poll returns long before its wait ends")
}

#[test]
fn a_queue_is_created_once_and_again_only_with_equal_attributes() {
    let sqs = with_queue();
    sqs.create_queue("queue", QueueAttributes::default())
        .unwrap();
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
        let error = SqsError::InvalidQueueName {
            queue: name.to_owned(),
        };
        assert_eq!(
            sqs.create_queue(name, QueueAttributes::default()),
            Err(error)
        );
    }
    let error = sqs
        .create_queue("a.fifo", QueueAttributes::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "not implemented here: FIFO queue `a.fifo`"
    );
}

#[tokio::test]
async fn the_oldest_message_counts_until_it_is_deleted() {
    let now = Arc::new(AtomicU64::new(1_000));
    let clock = Arc::clone(&now);
    let sqs = Sqs::with_clock(move || clock.load(Ordering::Relaxed));
    sqs.create_queue("queue", QueueAttributes::default())
        .unwrap();
    let age = || sqs.oldest_age("queue").unwrap();
    assert_eq!(age(), None);
    send(&sqs, "queue", "first");
    now.store(3_000, Ordering::Relaxed);
    send(&sqs, "queue", "second");
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
    let policy = format!(
        r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":1}}"#,
        sqs.arn("queue")
    );
    sqs.set_attributes(
        "queue",
        &BTreeMap::from([("RedrivePolicy".to_owned(), policy)]),
    )
    .unwrap();
    send(&sqs, "queue", "poison");
    for expected in [1, 0, 1] {
        let received = sqs
            .receive("queue", 10, Duration::ZERO, Some(Duration::ZERO))
            .await
            .unwrap();
        assert_eq!(received.len(), expected);
    }
}

#[tokio::test]
async fn a_long_poll_wakes_when_a_message_is_sent() {
    let sqs = with_queue();
    let poll = waiting(&sqs).await;
    let id = send(&sqs, "queue", "body");
    assert_eq!(soon(poll).await.unwrap().unwrap()[0].message_id, id);
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
        assert_eq!(soon(poll).await.unwrap().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_long_poll_wakes_when_a_delay_ends() {
    let sqs = with_queue();
    let poll = waiting(&sqs).await;
    sqs.send(
        "queue",
        "body".to_owned(),
        Some(Duration::from_millis(5)),
        BTreeMap::new(),
    )
    .unwrap();
    assert_eq!(soon(poll).await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn a_long_poll_wakes_when_visibility_ends_by_timeout_or_by_change() {
    let sqs = with_queue();
    send(&sqs, "queue", "body");
    sqs.receive("queue", 1, Duration::ZERO, Some(Duration::from_millis(5)))
        .await
        .unwrap();
    let again = soon(waiting(&sqs).await).await.unwrap().unwrap();
    let poll = waiting(&sqs).await;
    sqs.change_visibility("queue", &again[0].receipt_handle, Duration::ZERO)
        .unwrap();
    assert_eq!(soon(poll).await.unwrap().unwrap()[0].receive_count, 3);
}

#[tokio::test]
async fn a_dropped_long_poll_wakes_another() {
    let sqs = with_queue();
    let (first, second) = (waiting(&sqs).await, waiting(&sqs).await);
    send(&sqs, "queue", "body");
    first.abort();
    let first = first.await;
    let second = match first {
        Ok(received) => received.unwrap(),
        Err(_) => soon(second).await.unwrap().unwrap(),
    };
    assert_eq!(second.len(), 1);
}

#[tokio::test]
async fn when_the_long_poll_that_sleeps_until_the_due_time_is_dropped_another_wakes() {
    let sqs = with_queue();
    let (first, second) = (waiting(&sqs).await, waiting(&sqs).await);
    // Wakes `first`, which then sleeps until the message is due. `second` still sleeps until its own wait ends.
    sqs.send(
        "queue",
        "body".to_owned(),
        Some(Duration::from_millis(50)),
        BTreeMap::new(),
    )
    .unwrap();
    tokio::task::yield_now().await;
    first.abort();
    assert_eq!(soon(second).await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn a_long_poll_of_a_deleted_queue_ends_with_an_error() {
    let sqs = with_queue();
    let poll = waiting(&sqs).await;
    sqs.delete_queue("queue").unwrap();
    assert_eq!(soon(poll).await.unwrap(), Err(does_not_exist("queue")));
}
