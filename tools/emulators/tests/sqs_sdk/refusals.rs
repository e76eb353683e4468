//! Tests of requests that are refused, completely or in part.

use aws_sdk_sqs::error::ProvideErrorMetadata;

use crate::support::{Served, code, entry, served};

#[tokio::test]
async fn refusals_are_the_sdks_typed_errors() {
    let Served { client, url, .. } = served().await;
    let missing = client
        .receive_message()
        .queue_url(format!("{url}-not"))
        .send()
        .await
        .unwrap_err();
    assert!(missing.into_service_error().is_queue_does_not_exist());
    let send = |body: &str| {
        client
            .send_message()
            .queue_url(&url)
            .message_body(body)
            .send()
    };
    assert!(
        send("\u{1}")
            .await
            .unwrap_err()
            .into_service_error()
            .is_invalid_message_contents()
    );
    assert_eq!(code(send("").await), "MissingParameter");
    assert_eq!(
        code(send(&"x".repeat(1_048_577)).await),
        "InvalidParameterValue"
    );
    send(&"x".repeat(1_048_576)).await.unwrap();
    let garbage = client
        .delete_message()
        .queue_url(&url)
        .receipt_handle("garbage")
        .send()
        .await;
    assert!(
        garbage
            .unwrap_err()
            .into_service_error()
            .is_receipt_handle_is_invalid()
    );
    let eleven = client
        .receive_message()
        .queue_url(&url)
        .max_number_of_messages(11)
        .send()
        .await;
    assert_eq!(code(eleven), "InvalidParameterValue");
    let tags = client
        .list_queue_tags()
        .queue_url(&url)
        .send()
        .await
        .unwrap_err();
    assert_eq!(tags.raw_response().unwrap().status().as_u16(), 501);
    assert_eq!(
        tags.message(),
        Some("not implemented here: operation `ListQueueTags`")
    );
}

#[tokio::test]
async fn a_bad_batch_is_refused_whole_and_a_bad_entry_alone() {
    let Served { client, url, .. } = served().await;
    let send = |entries: Vec<_>| {
        client
            .send_message_batch()
            .queue_url(&url)
            .set_entries(Some(entries))
            .send()
    };
    let eleven = (0..11).map(|n| entry(&n.to_string(), "body")).collect();
    let prefixed = |name: &str| format!("AWS.SimpleQueueService.{name}");
    assert_eq!(code(send(vec![]).await), prefixed("EmptyBatchRequest"));
    assert_eq!(
        code(send(eleven).await),
        prefixed("TooManyEntriesInBatchRequest")
    );
    assert_eq!(
        code(send(vec![entry("a", "1"), entry("a", "2")]).await),
        prefixed("BatchEntryIdsNotDistinct")
    );
    assert_eq!(
        code(send(vec![entry("a b", "1")]).await),
        prefixed("InvalidBatchEntryId")
    );
    let half = "x".repeat(524_289);
    assert_eq!(
        code(send(vec![entry("a", &half), entry("b", &half)]).await),
        prefixed("BatchRequestTooLong")
    );

    let sent = send(vec![
        entry("good", "1"),
        entry("empty", ""),
        entry("control", "\u{0}"),
    ])
    .await
    .unwrap();
    assert_eq!(sent.successful[0].id(), "good");
    let failed: Vec<_> = sent
        .failed
        .iter()
        .map(|failed| (failed.id(), failed.code()))
        .collect();
    assert_eq!(
        failed,
        [
            ("empty", "MissingParameter"),
            ("control", "InvalidMessageContents")
        ]
    );
}
