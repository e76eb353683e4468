//! Facts about the behaviour of SQS in the tests of moto. Facts of its wording are left out, as this server has its own.
//! `docs/emulators.md` lists the tests of what this server does not model.
//!
//! Source: the repository `getmoto/moto` at 0af643a5 (22 August 2026), `tests/test_sqs/test_sqs.py` and
//! `test_sqs_message_attributes.py`. Those marked `aws_verified` were run against AWS; the others say what moto believes.

use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};

use crate::support::{Served, attribute, code, entry, served, string_attribute};

/// Source: `test_send_message_batch_errors` (`aws_verified`): "only the first duplicated Id is reported".
#[tokio::test]
async fn of_two_repeated_ids_the_one_repeated_first_is_reported() {
    let served = served().await;
    let entries = ["id_1", "id_2", "id_2", "id_1"].map(|id| entry(id, "body"));
    let refused = served.send_batch(entries.into()).await;
    let error = refused.unwrap_err().into_service_error();
    assert!(error.is_batch_entry_ids_not_distinct());
    let message = error.to_string() + error.meta().message().unwrap();
    let names = ["id_1", "id_2"].map(|id| message.contains(id));
    assert_eq!(names, [false, true], "{message}");
}

/// Source: `test_send_message_batch_errors`, `test_delete_message_batch_with_zero_entries`,
/// `test_delete_message_from_unknown_url`, `test_delete_queue_error_not_exists` (`aws_verified`).
#[tokio::test]
async fn requests_to_an_unknown_queue_and_empty_batches_are_refused() {
    let Served { client, url, .. } = served().await;
    let unknown = format!("{url}-not-existing");
    let missing = "AWS.SimpleQueueService.NonExistentQueue";
    let send = client.send_message_batch().queue_url(&unknown);
    let sent = send.entries(entry("id_1", "body_1")).send().await;
    assert_eq!(code(sent), missing);
    let delete = client.delete_message().queue_url(&unknown);
    assert_eq!(code(delete.receipt_handle("unknown").send().await), missing);
    let delete = client.delete_queue().queue_url(&unknown);
    assert_eq!(code(delete.send().await), missing);
    let empty = client.delete_message_batch().queue_url(&url);
    let refused = code(empty.set_entries(Some(vec![])).send().await);
    assert_eq!(refused, "AWS.SimpleQueueService.EmptyBatchRequest");
}

/// Source: `test_message_send_with_attributes`, `test_message_with_string_attributes`,
/// `test_message_with_attributes_have_labels`, digests included.
#[tokio::test]
async fn digests_of_attributes_cover_labels_of_types() {
    let Served { client, url, .. } = served().await;
    let number = attribute("Number", "1493147359900");
    let long = |value| ("timestamp", attribute("Number.java.lang.Long", value));
    let id = string_attribute("2018fc74-4f77-1a5a-1be0-c2d037d5052b");
    let json = string_attribute("application/json");
    let number = vec![("SOME_Valid.attribute-Name", number)];
    let labelled = vec![long("1493147359900")];
    let three = vec![("id", id), ("contentType", json), long("1602845432024")];
    let cases = [
        (number, "36655e7e9d7c0e8479fa3f3f42247ae7"),
        (labelled, "2e2e4876d8e0bd6b8c2c8f556831c349"),
        (three, "b12289320bb6e494b18b645ef562b4a9"),
    ];
    for (attributes, digest) in cases {
        let mut send = client.send_message().queue_url(&url).message_body("derp");
        for (name, attribute) in attributes {
            send = send.message_attributes(name, attribute);
        }
        let sent = send.send().await.unwrap();
        assert_eq!(sent.md5_of_message_attributes(), Some(digest));
        let of_body = Some("58fd9edd83341c29f1aebba81c31e257");
        assert_eq!(sent.md5_of_message_body(), of_body);
    }
}

/// Source: `test_message_delay_is_more_than_15_minutes`. moto takes a deduplication id on a standard queue; this server refuses
/// it.
#[tokio::test]
async fn an_entry_with_too_long_a_delay_fails_alone() {
    let served = served().await;
    let delayed = |id: &str, secs: i32| {
        let entry = SendMessageBatchRequestEntry::builder().id(id);
        let entry = entry.message_body("body").delay_seconds(secs);
        entry.build().unwrap()
    };
    let entries = vec![delayed("id_1", 1), delayed("id_2", 1800)];
    let sent = served.send_batch(entries).await.unwrap();
    let (good, bad) = (&sent.successful[0], &sent.failed[0]);
    assert_eq!((good.id(), good.sequence_number()), ("id_1", None));
    assert_eq!((bad.id(), bad.code()), ("id_2", "InvalidParameterValue"));
    assert_eq!(served.sqs.depth("queue").unwrap().delayed, 1);
}

/// Source: `test_delete_message_batch_with_duplicates`.
#[tokio::test]
async fn a_refused_batch_of_deletes_deletes_nothing() {
    let served = served().await;
    served.send("coucou").await;
    let handle = served.receive(0).await.remove(0).receipt_handle.unwrap();
    let entry = aws_sdk_sqs::types::DeleteMessageBatchRequestEntry::builder();
    let entry = entry.id("id").receipt_handle(handle).build().unwrap();
    let delete = served.client.delete_message_batch().queue_url(&served.url);
    let deleted = delete.entries(entry.clone()).entries(entry).send().await;
    let repeated = "AWS.SimpleQueueService.BatchEntryIdsNotDistinct";
    assert_eq!(code(deleted), repeated);
    assert_eq!(served.receive(0).await.len(), 1);
}

/// Source: `test_message_attributes_should_not_include_system_attributes`,
/// `test_no_empty_message_attributes_without_all_parameter` in `test_sqs_message_attributes.py`.
#[tokio::test]
async fn a_message_without_attributes_is_returned_without_the_field() {
    let served = served().await;
    served.send("Hello").await;
    let message = served.receive(30).await.remove(0);
    assert!(message.attributes.is_some());
    assert_eq!(message.message_attributes, None);
    assert_eq!(message.md5_of_message_attributes, None);
}

/// Source: `test_redrive_policy_available`, `test_redrive_policy_set_attributes_with_string_value`,
/// `test_redrive_policy_non_existent_queue`.
#[tokio::test]
async fn a_redrive_policy_is_returned_with_a_number_and_needs_its_queue() {
    let served = served().await;
    served.create("dead").await;
    let policy = |queue: &str| {
        let arn = served.sqs.arn(queue);
        format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"1"}}"#)
    };
    let set = |policy: String| {
        let served = &served;
        async move { served.set(QueueAttributeName::RedrivePolicy, &policy).await }
    };
    let refused = set(policy("no-queue")).await;
    refused.expect_err("the queue does not exist");
    let create = served.client.create_queue().queue_name("other");
    let create = create.attributes(QueueAttributeName::RedrivePolicy, policy("no-queue"));
    create.send().await.expect_err("the queue does not exist");
    set(policy("dead")).await.unwrap();
    let name = QueueAttributeName::RedrivePolicy;
    let returned = &served.attributes(name.clone()).await[&name];
    let returned: serde_json::Value = serde_json::from_str(returned).unwrap();
    assert_eq!(returned["maxReceiveCount"], 1);
}

/// Source: `test_maximum_message_size_attribute_fails_for_invalid_values`, `test_get_queue_attributes_errors`.
#[tokio::test]
async fn a_maximum_size_out_of_range_is_an_invalid_value_and_an_unknown_attribute_an_invalid_name()
{
    let served = served().await;
    for value in ["1023", "1048577"] {
        let set = served.set(QueueAttributeName::MaximumMessageSize, value);
        assert_eq!(code(set.await), "InvalidAttributeValue", "{value}");
    }
    let get = served.client.get_queue_attributes().queue_url(&served.url);
    let get = get.attribute_names(QueueAttributeName::from("QueueArn-Invalid"));
    assert_eq!(code(get.send().await), "InvalidAttributeName");
}
