//! The contract of the source queues.

use aws::SqsSourceQueues;
use protocol::ids::SourceArn;
use shared::memory::MemorySourceQueues;
use shared::ports::{QueueDepth, SourceQueues};

use crate::events::{assert_says, source};
use crate::queues::{QUEUE, client_of, queue};
use crate::scripted;

/// Checks that a source returns its depth, and that the error of a missing queue has its name. `arrange` changes the
/// depth of the source, which only grows.
async fn a_source_returns_its_depth(
    queues: &dyn SourceQueues,
    source: &SourceArn,
    arrange: impl AsyncFn(QueueDepth),
) {
    // The order matters: receiving takes all visible messages into flight.
    for (visible, in_flight, delayed) in [(0, 0, 0), (0, 12, 0), (3, 12, 0), (3, 12, 2)] {
        let depth = QueueDepth {
            visible,
            in_flight,
            delayed,
        };
        arrange(depth).await;
        assert_eq!(queues.depth(source).await.unwrap(), depth);
    }
    for name in [
        "unknown",
        "arn:aws:sqs:us-east-1:000000000000:no-such-queue",
    ] {
        let error = queues.depth(&name.parse().unwrap()).await.unwrap_err();
        assert_says(&error, &["refused by", name]);
    }
}

#[tokio::test]
async fn a_source_returns_its_depth_in_memory() {
    let (queues, source) = (MemorySourceQueues::new(), source());
    a_source_returns_its_depth(&queues, &source, async |depth| {
        queues.set(source.clone(), [depth])
    })
    .await;
}

#[tokio::test]
async fn a_source_returns_its_depth_on_sqs() {
    let queue = queue().await;
    let queues = SqsSourceQueues::new(queue.client.clone());
    let source = queue.sqs.arn(QUEUE).parse().unwrap();
    a_source_returns_its_depth(&queues, &source, async |wanted| {
        let there = queue.sqs.depth(QUEUE).unwrap();
        let send = async |count: u64, delay_secs: i32| {
            for _ in 0..count {
                let send = queue.client.send_message().queue_url(&queue.url);
                let send = send.message_body("body").delay_seconds(delay_secs);
                send.send().await.unwrap();
            }
        };
        if there.visible == 0 {
            send(wanted.in_flight - there.in_flight as u64, 0).await;
            queue.take().await;
        }
        send(wanted.visible - there.visible as u64, 0).await;
        send(wanted.delayed - there.delayed as u64, 900).await;
    })
    .await;
}

#[tokio::test]
async fn missing_numbers_are_not_taken_for_zero() {
    let body = r#"{"QueueUrl":"http://localhost/1/queue","Attributes":{
        "ApproximateNumberOfMessages":"0","ApproximateNumberOfMessagesDelayed":"0"}}"#;
    let endpoint = scripted::endpoint(200, body).await;
    let queues = SqsSourceQueues::new(client_of(&endpoint));
    let source = "arn:aws:sqs:eu-west-1:1:queue".parse().unwrap();
    let error = queues.depth(&source).await.unwrap_err();
    assert_says(&error, &["no reply from", "NotVisible"]);
}
