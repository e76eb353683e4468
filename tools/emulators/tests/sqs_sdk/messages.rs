//! Sending, receiving, deleting and long polls.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::delete_message_batch::DeleteMessageBatchOutput;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName,
    SendMessageBatchResultEntry,
};
use emulators::sqs::QueueAttributes;

use crate::support::{Served, entry, served};

/// Deletes messages in one request; the id of an entry is the position of its handle.
async fn delete(
    client: &Client,
    url: &str,
    handles: impl Iterator<Item = &str>,
) -> DeleteMessageBatchOutput {
    let entry = |(n, handle): (usize, &str)| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(n.to_string());
        entry.receipt_handle(handle).build().unwrap()
    };
    let entries = handles.enumerate().map(entry).collect();
    client
        .delete_message_batch()
        .queue_url(url)
        .set_entries(Some(entries))
        .send()
        .await
        .unwrap()
}

/// A body with characters that JSON escapes.
fn body(n: usize) -> String {
    format!("body {n} \"\\ é \u{1F600}\n")
}

fn check_received(messages: &[Message], sent: &[SendMessageBatchResultEntry]) {
    let bodies = messages.iter().map(|message| message.body.clone().unwrap());
    let expected = (0..10).map(body);
    assert_eq!(
        bodies.collect::<BTreeSet<_>>(),
        expected.collect::<BTreeSet<_>>()
    );
    for (message, sent) in messages.iter().zip(sent) {
        assert_eq!(message.message_id.as_deref(), Some(sent.message_id()));
        assert_eq!(
            message.md5_of_body.as_deref(),
            Some(sent.md5_of_message_body())
        );
        assert!(
            message.attributes.is_none() && message.message_attributes.is_none(),
            "no attributes were requested"
        );
    }
}

#[tokio::test]
async fn a_batch_sent_is_received_and_deleted() {
    let Served {
        sqs, client, url, ..
    } = served().await;
    let entries = (0..10)
        .map(|n| entry(&format!("id-{n}"), body(n)))
        .collect();
    let sent = client
        .send_message_batch()
        .queue_url(&url)
        .set_entries(Some(entries))
        .send()
        .await
        .unwrap();
    assert_eq!((sent.successful.len(), sent.failed.len()), (10, 0));

    let received = client
        .receive_message()
        .queue_url(&url)
        .max_number_of_messages(10)
        .send()
        .await
        .unwrap();
    let messages = received.messages.unwrap();
    check_received(&messages, &sent.successful);
    assert_eq!(sqs.depth("queue").unwrap().in_flight, 10);

    let handles = messages
        .iter()
        .skip(1)
        .map(|message| message.receipt_handle.as_deref().unwrap());
    let deleted = delete(&client, &url, handles.chain(["garbage"])).await;
    assert_eq!(deleted.successful.len(), 9);
    assert_eq!(
        (deleted.failed[0].id(), deleted.failed[0].code()),
        ("9", "ReceiptHandleIsInvalid")
    );
    assert!(deleted.failed[0].sender_fault());

    let handle = messages[0].receipt_handle.as_deref().unwrap();
    client
        .delete_message()
        .queue_url(&url)
        .receipt_handle(handle)
        .send()
        .await
        .unwrap();
    assert_eq!(sqs.depth("queue").unwrap().in_flight, 0);
}

#[tokio::test]
async fn the_sender_is_the_account_and_times_are_in_milliseconds() {
    let served = served().await;
    served.send("body").await;
    let attributes = served.receive(30).await.remove(0).attributes.unwrap();
    assert_eq!(
        attributes[&MessageSystemAttributeName::SenderId],
        "000000000000"
    );
    let ms = |name: MessageSystemAttributeName| -> u64 { attributes[&name].parse().unwrap() };
    let sent_ms = ms(MessageSystemAttributeName::SentTimestamp);
    let first_ms = ms(MessageSystemAttributeName::ApproximateFirstReceiveTimestamp);
    assert!(sent_ms <= first_ms && sent_ms > 1_600_000_000_000);
}

#[tokio::test]
async fn a_long_poll_returns_when_a_message_is_sent_and_when_the_server_shuts_down() {
    let Served {
        sqs,
        client,
        url,
        stop,
        server,
    } = served().await;
    let poll = || {
        let request = client
            .receive_message()
            .queue_url(&url)
            .wait_time_seconds(20)
            .send();
        tokio::spawn(tokio::time::timeout(Duration::from_secs(10), request))
    };
    let woken = poll();
    client
        .send_message()
        .queue_url(&url)
        .message_body("body")
        .send()
        .await
        .unwrap();
    assert_eq!(
        woken
            .await
            .unwrap()
            .expect("the poll returns at once")
            .unwrap()
            .messages
            .unwrap()
            .len(),
        1
    );

    let ended = poll();
    // The poll was started before this request, so it has most likely reached the server when the request returns.
    client.list_queues().send().await.unwrap();
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    if let Ok(received) = ended.await.unwrap().expect("the poll returns at once") {
        assert!(received.messages.is_none());
    }
    sqs.create_queue("later", QueueAttributes::default())
        .expect("the queues outlive the server");
}
