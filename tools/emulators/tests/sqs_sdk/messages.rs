//! Sending, receiving, deleting and long polls.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::delete_message_batch::DeleteMessageBatchOutput;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, Message, MessageAttributeValue, MessageSystemAttributeName,
    SendMessageBatchResultEntry,
};
use emulators::sqs::QueueAttributes;

use crate::support::{Served, entry, served, string_attribute};

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

fn check_system_attributes(system: &HashMap<MessageSystemAttributeName, String>) {
    assert_eq!(
        system[&MessageSystemAttributeName::ApproximateReceiveCount],
        "1"
    );
    assert_eq!(
        system[&MessageSystemAttributeName::MessageGroupId],
        "tenant"
    );
    assert_eq!(
        system[&MessageSystemAttributeName::SenderId],
        "000000000000"
    );
    let first_ms: u64 = system[&MessageSystemAttributeName::ApproximateFirstReceiveTimestamp]
        .parse()
        .unwrap();
    let sent_ms: u64 = system[&MessageSystemAttributeName::SentTimestamp]
        .parse()
        .unwrap();
    assert!(sent_ms <= first_ms && sent_ms > 1_600_000_000_000);
}

#[tokio::test]
async fn attributes_are_delivered_with_the_message_and_filtered_by_name() {
    let Served { client, url, .. } = served().await;
    let blob = MessageAttributeValue::builder()
        .data_type("Binary")
        .binary_value(Blob::new([0, 255]))
        .build()
        .unwrap();
    let send = client
        .send_message()
        .queue_url(&url)
        .message_body("body")
        .message_group_id("tenant");
    let send = send
        .message_attributes("trace.id", string_attribute("1"))
        .message_attributes("blob", blob.clone());
    let sent = send.send().await.unwrap();

    let receive = || {
        client
            .receive_message()
            .queue_url(&url)
            .visibility_timeout(0)
    };
    let all = receive()
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::All);
    let message = all.send().await.unwrap().messages.unwrap().remove(0);
    let attributes = message.message_attributes.unwrap();
    assert_eq!(attributes["blob"], blob);
    assert_eq!(attributes["trace.id"], string_attribute("1"));
    assert_eq!(
        message.md5_of_message_attributes,
        sent.md5_of_message_attributes
    );
    check_system_attributes(&message.attributes.unwrap());

    let count = MessageSystemAttributeName::ApproximateReceiveCount;
    let some = receive()
        .message_attribute_names("trace.*")
        .message_system_attribute_names(count.clone());
    let message = some.send().await.unwrap().messages.unwrap().remove(0);
    assert_eq!(
        message
            .message_attributes
            .unwrap()
            .into_keys()
            .collect::<Vec<_>>(),
        ["trace.id"]
    );
    assert_ne!(
        message.md5_of_message_attributes,
        sent.md5_of_message_attributes
    );
    assert_eq!(
        message.attributes.unwrap().into_iter().collect::<Vec<_>>(),
        [(count, "2".to_owned())]
    );
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
