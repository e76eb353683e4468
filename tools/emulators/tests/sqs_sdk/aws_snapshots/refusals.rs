//! Requests that AWS refuses, and with which code.

use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, QueueAttributeName,
    SendMessageBatchRequestEntry,
};

use crate::support::{code, entry, served, string_attribute};

fn prefixed(name: &str) -> String {
    format!("AWS.SimpleQueueService.{name}")
}

/// Source: `test_send_receive_max_number_of_messages` (30 April 2024), `test_send_receive_wait_time_seconds`,
/// `test_receive_empty_queue` (10 February 2025).
#[tokio::test]
async fn a_receive_is_refused_out_of_its_ranges_and_an_empty_one_has_no_messages() {
    let served = served().await;
    let receive = || served.client.receive_message().queue_url(&served.url);
    for request in [
        receive().max_number_of_messages(11),
        receive().wait_time_seconds(21),
        receive().wait_time_seconds(-1),
    ] {
        assert_eq!(code(request.send().await), "InvalidParameterValue");
    }
    for secs in [None, Some(0), Some(1)] {
        let received = receive().set_wait_time_seconds(secs).send().await;
        assert_eq!(received.unwrap().messages, None);
    }
}

/// Source: `test_send_empty_message` (22 September 2025), `test_send_message_with_invalid_payload_characters` (validated),
/// `test_send_oversized_message` (19 August 2025), `test_send_message_with_updated_maximum_message_size` (30 April 2024).
#[tokio::test]
async fn a_message_is_refused_if_it_is_empty_too_long_or_has_invalid_characters() {
    let served = served().await;
    let send = |body: String| {
        let send = served.client.send_message().queue_url(&served.url);
        send.message_body(body).send()
    };
    assert_eq!(code(send(String::new()).await), "MissingParameter");
    let invalid = send("Invalid-\0-\u{8}-\u{13}-\u{ffff}".to_owned()).await;
    assert_eq!(code(invalid), "InvalidMessageContents");
    let long = send("a".repeat(1_048_577)).await;
    assert_eq!(code(long), "InvalidParameterValue");
    let set = served.set(QueueAttributeName::MaximumMessageSize, "1024");
    set.await.unwrap();
    assert_eq!(code(send("a".repeat(1_025)).await), "InvalidParameterValue");
}

/// Source: `test_send_batch_message_size`, `test_send_message_batch_with_oversized_contents_with_updated_maximum_message_size`
/// (30 April 2024), `test_send_message_batch_with_oversized_contents` (19 August 2025).
#[tokio::test]
async fn the_maximum_of_a_queue_is_that_of_each_entry_and_one_mebibyte_that_of_a_batch() {
    let served = served().await;
    let set = served.set(QueueAttributeName::MaximumMessageSize, "1024");
    set.await.unwrap();
    let sized = |id, bytes| entry(id, "a".repeat(bytes));
    let entries = vec![sized("long", 1_025), sized("good", 1_024)];
    let sent = served.send_batch(entries).await.unwrap();
    assert_eq!(sent.successful[0].id(), "good");
    let failed = &sent.failed[0];
    assert_eq!((failed.id(), failed.sender_fault()), ("long", true));
    assert_eq!(failed.code(), "InvalidParameterValue");

    let set = served.set(QueueAttributeName::MaximumMessageSize, "2048");
    set.await.unwrap();
    let first = SendMessageBatchRequestEntry::builder()
        .id("1")
        .message_body("a".repeat(2_048 - "k".len() - "String".len() - "x".len()))
        .message_attributes("k", string_attribute("x"));
    // Together they are over 2048.
    let entries = vec![first.build().unwrap(), sized("2", 1)];
    let sent = served.send_batch(entries).await.unwrap();
    assert_eq!((sent.successful.len(), sent.failed.len()), (2, 0));
    let digest = sent.successful[0].md5_of_message_attributes();
    assert_eq!(digest, Some("a45daa70926828a2f0a1db3418e6feb4"));

    let entries = vec![sized("1", 524_288), sized("2", 524_289)];
    let sent = served.send_batch(entries).await;
    assert_eq!(code(sent), prefixed("BatchRequestTooLong"));
}

/// Source: `test_too_many_entries_in_batch_request`, `test_invalid_batch_id`, `test_delete_message_batch_invalid_msg_id`,
/// `test_delete_message_batch_with_too_large_batch`, `test_change_message_visibility_batch_with_too_large_batch`
/// (30 April 2024), `test_send_message_batch_with_empty_list` (validated).
#[tokio::test]
async fn a_batch_with_bad_ids_or_a_bad_number_of_entries_is_refused_whole() {
    let served = served().await;
    let twenty = || (0..20).map(|n| n.to_string());
    let many = twenty().map(|id| entry(&id, "test")).collect();
    let sent = served.send_batch(many).await;
    assert_eq!(code(sent), prefixed("TooManyEntriesInBatchRequest"));
    let sent = served.send_batch(vec![]).await;
    assert_eq!(code(sent), prefixed("EmptyBatchRequest"));

    let to_delete = |id: &str| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(id);
        entry.receipt_handle("handle").build().unwrap()
    };
    let delete = |entries: Vec<_>| {
        let delete = served.client.delete_message_batch().queue_url(&served.url);
        delete.set_entries(Some(entries)).send()
    };
    let deleted = delete(twenty().map(|id| to_delete(&id)).collect()).await;
    assert_eq!(code(deleted), prefixed("TooManyEntriesInBatchRequest"));
    for id in ["", "invalid:id", &"testLongId".repeat(10)] {
        let sent = served.send_batch(vec![entry(id, "test")]).await;
        assert_eq!(code(sent), prefixed("InvalidBatchEntryId"), "{id}");
        let deleted = delete(vec![to_delete(id)]).await;
        assert_eq!(code(deleted), prefixed("InvalidBatchEntryId"), "{id}");
    }

    let to_change = |id: String| {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id);
        entry.receipt_handle("handle").build().unwrap()
    };
    let change = served.client.change_message_visibility_batch();
    let change = change.set_entries(Some(twenty().map(to_change).collect()));
    let changed = change.queue_url(&served.url).send().await;
    assert_eq!(code(changed), prefixed("TooManyEntriesInBatchRequest"));
}

/// Source: `test_batch_send_with_invalid_char_should_succeed` (validated).
#[tokio::test]
async fn an_entry_with_an_invalid_character_fails_alone() {
    let served = served().await;
    let entries = (0..9).map(|n| entry(&n.to_string(), n.to_string()));
    let mut entries = Vec::from_iter(entries);
    entries.push(entry("9", "\u{1}"));
    let sent = served.send_batch(entries).await.unwrap();
    let failed: Vec<_> = sent.failed.iter().map(|e| (e.id(), e.code())).collect();
    assert_eq!(failed, [("9", "InvalidMessageContents")]);
    assert_eq!(served.receive(30).await.len(), 9);
}

/// Source: `test_non_existent_queue` (30 April 2024).
#[tokio::test]
async fn a_queue_that_does_not_exist_has_one_code_by_name_and_by_url() {
    let served = served().await;
    let by_name = served.client.get_queue_url().queue_name("no-such-queue");
    assert_eq!(code(by_name.send().await), prefixed("NonExistentQueue"));
    let url = format!("{}-not", served.url);
    let by_url = served.client.get_queue_attributes().queue_url(url);
    assert_eq!(code(by_url.send().await), prefixed("NonExistentQueue"));
}
