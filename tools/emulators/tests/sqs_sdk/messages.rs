//! Sending, receiving, deleting, changes of visibility in batches, and long polls.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_sqs::operation::delete_message_batch::DeleteMessageBatchOutput;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageSystemAttributeName, SendMessageBatchResultEntry,
};
use emulators::sqs::QueueAttributes;

use crate::support::{Served, entry, served};

/// Deletes messages in one request; the id of an entry is the position of its handle.
async fn delete(served: &Served, handles: impl Iterator<Item = &str>) -> DeleteMessageBatchOutput {
    let entry = |(n, handle): (usize, &str)| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(n.to_string());
        entry.receipt_handle(handle).build().unwrap()
    };
    let delete = served.client.delete_message_batch().queue_url(&served.url);
    let delete = delete.set_entries(Some(handles.enumerate().map(entry).collect()));
    delete.send().await.unwrap()
}

/// A body with characters that JSON escapes.
fn body(n: usize) -> String {
    format!("body {n} \"\\ é \u{1F600}\n")
}

fn check_received(messages: &[Message], sent: &[SendMessageBatchResultEntry]) {
    let bodies = messages.iter().map(|message| message.body.clone().unwrap());
    let expected = (0..10).map(body);
    let expected = expected.collect::<BTreeSet<_>>();
    assert_eq!(bodies.collect::<BTreeSet<_>>(), expected);
    for (message, sent) in messages.iter().zip(sent) {
        assert_eq!(message.message_id.as_deref(), Some(sent.message_id()));
        let digest = Some(sent.md5_of_message_body());
        assert_eq!(message.md5_of_body.as_deref(), digest);
        // No attributes were requested.
        assert!(message.attributes.is_none() && message.message_attributes.is_none());
    }
}

#[tokio::test]
async fn a_batch_sent_is_received_and_deleted() {
    let served = served().await;
    let in_flight = || served.sqs.depth("queue").unwrap().in_flight;
    let entries = (0..10).map(|n| entry(&format!("id-{n}"), body(n)));
    let sent = served.send_batch(entries.collect()).await.unwrap();
    assert_eq!((sent.successful.len(), sent.failed.len()), (10, 0));

    let receive = served.client.receive_message().queue_url(&served.url);
    let receive = receive.max_number_of_messages(10);
    let messages = receive.send().await.unwrap().messages.unwrap();
    check_received(&messages, &sent.successful);
    assert_eq!(in_flight(), 10);

    let handles = messages.iter().map(|one| one.receipt_handle().unwrap());
    let deleted = delete(&served, handles.skip(1).chain(["garbage"])).await;
    assert_eq!(deleted.successful.len(), 9);
    let failed = &deleted.failed[0];
    assert_eq!((failed.id(), failed.sender_fault()), ("9", true));
    assert_eq!(failed.code(), "ReceiptHandleIsInvalid");

    let handle = messages[0].receipt_handle().unwrap();
    served.delete(handle).await.unwrap();
    assert_eq!(in_flight(), 0);
}

#[tokio::test]
async fn the_sender_is_the_account_and_times_are_in_milliseconds() {
    let served = served().await;
    served.send("body").await;
    let attributes = served.receive(30).await.remove(0).attributes.unwrap();
    let sender = &attributes[&MessageSystemAttributeName::SenderId];
    assert_eq!(sender, "000000000000");
    let ms = |name: MessageSystemAttributeName| -> u64 { attributes[&name].parse().unwrap() };
    let sent_ms = ms(MessageSystemAttributeName::SentTimestamp);
    let first_ms = ms(MessageSystemAttributeName::ApproximateFirstReceiveTimestamp);
    assert!(sent_ms <= first_ms && sent_ms > 1_600_000_000_000);
}

#[tokio::test]
async fn a_long_poll_returns_when_a_message_is_sent_and_when_the_server_shuts_down() {
    let served = served().await;
    let poll = || {
        let receive = served.client.receive_message().queue_url(&served.url);
        let request = receive.wait_time_seconds(20).send();
        tokio::spawn(tokio::time::timeout(Duration::from_secs(10), request))
    };
    let woken = poll();
    served.send("body").await;
    let woken = woken.await.unwrap().expect("the poll returns at once");
    assert_eq!(woken.unwrap().messages.unwrap().len(), 1);

    let ended = poll();
    // The poll was started before this request, so it has most likely reached the server when the request returns.
    served.client.list_queues().send().await.unwrap();
    served.stop.send(()).unwrap();
    served.server.await.unwrap().unwrap();
    if let Ok(received) = ended.await.unwrap().expect("the poll returns at once") {
        assert!(received.messages.is_none());
    }
    let created = served.sqs.create_queue("later", QueueAttributes::default());
    created.expect("the queues outlive the server");
}

#[tokio::test]
async fn visibility_changes_in_batches_with_a_result_for_each() {
    let served = served().await;
    served.send("body").await;
    let handle = served.receive(30).await.remove(0).receipt_handle.unwrap();
    let entry = |id: &str, handle: &str| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id);
        let entry = entry.receipt_handle(handle).visibility_timeout(0);
        entry.build().unwrap()
    };
    let change = served.client.change_message_visibility_batch();
    let change = change.queue_url(&served.url);
    let change = change.entries(entry("good", &handle));
    let change = change.entries(entry("again", &handle));
    let change = change.entries(entry("bad", "garbage"));
    let changed = change.send().await.unwrap();
    let succeeded = changed.successful.iter().map(|one| one.id());
    assert_eq!(Vec::from_iter(succeeded), ["good", "again"]);
    let failed = changed.failed.iter().map(|one| (one.id(), one.code()));
    let invalid = ("bad", "ReceiptHandleIsInvalid");
    assert_eq!(Vec::from_iter(failed), [invalid]);
    assert_eq!(served.sqs.depth("queue").unwrap().visible, 1);
}
