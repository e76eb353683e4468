//! Delays, visibility timeouts and the dead-letter queue.

use aws_sdk_sqs::types::{ChangeMessageVisibilityBatchRequestEntry, QueueAttributeName};

use crate::support::{Served, code, served};

#[tokio::test]
async fn delays_and_visibility_hide_messages() {
    let Served {
        sqs, client, url, ..
    } = served().await;
    let send = || client.send_message().queue_url(&url).message_body("body");
    send().delay_seconds(900).send().await.unwrap();
    assert_eq!(sqs.depth("queue").unwrap().delayed, 1);
    assert_eq!(
        code(send().delay_seconds(901).send().await),
        "InvalidParameterValue"
    );
    assert_eq!(
        code(send().delay_seconds(-1).send().await),
        "InvalidParameterValue"
    );

    send().send().await.unwrap();
    let received = client
        .receive_message()
        .queue_url(&url)
        .send()
        .await
        .unwrap();
    let handle = received.messages.unwrap().remove(0).receipt_handle.unwrap();
    let change = |secs| {
        let request = client
            .change_message_visibility()
            .queue_url(&url)
            .receipt_handle(&handle);
        request.visibility_timeout(secs).send()
    };
    assert_eq!(code(change(43_201).await), "InvalidParameterValue");
    change(43_000)
        .await
        .expect("less than twelve hours from the receive");
}

#[tokio::test]
async fn visibility_changes_in_batches_with_a_result_for_each() {
    let Served {
        sqs, client, url, ..
    } = served().await;
    client
        .send_message()
        .queue_url(&url)
        .message_body("body")
        .send()
        .await
        .unwrap();
    let received = client
        .receive_message()
        .queue_url(&url)
        .send()
        .await
        .unwrap();
    let handle = received.messages.unwrap().remove(0).receipt_handle.unwrap();
    let entry = |id: &str, handle: &str| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(id)
            .receipt_handle(handle);
        entry.visibility_timeout(0).build().unwrap()
    };
    let entries = vec![
        entry("good", &handle),
        entry("again", &handle),
        entry("bad", "garbage"),
    ];
    let request = client
        .change_message_visibility_batch()
        .queue_url(&url)
        .set_entries(Some(entries));
    let changed = request.send().await.unwrap();
    assert_eq!(changed.successful[0].id(), "good");
    assert_eq!(changed.successful[1].id(), "again");
    let failed: Vec<_> = changed
        .failed
        .iter()
        .map(|failed| (failed.id(), failed.code()))
        .collect();
    assert_eq!(failed, [("bad", "ReceiptHandleIsInvalid")]);
    assert_eq!(sqs.depth("queue").unwrap().visible, 1);
}

#[tokio::test]
async fn a_message_received_too_often_is_found_in_the_dead_letter_queue() {
    let Served { client, url, .. } = served().await;
    let dead_url = client
        .create_queue()
        .queue_name("dead")
        .send()
        .await
        .unwrap()
        .queue_url
        .unwrap();
    let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":"2"}"#;
    let set = client
        .set_queue_attributes()
        .queue_url(&url)
        .attributes(QueueAttributeName::RedrivePolicy, policy);
    set.send().await.unwrap();

    let sent = client
        .send_message()
        .queue_url(&url)
        .message_body("poison")
        .send()
        .await
        .unwrap();
    let receive = |url: &str| {
        client
            .receive_message()
            .queue_url(url)
            .visibility_timeout(0)
            .send()
    };
    for _ in 0..2 {
        assert_eq!(receive(&url).await.unwrap().messages.unwrap().len(), 1);
    }
    assert!(receive(&url).await.unwrap().messages.is_none());
    let moved = receive(&dead_url)
        .await
        .unwrap()
        .messages
        .unwrap()
        .remove(0);
    assert_eq!(moved.message_id, sent.message_id);
}
