//! Changes of visibility in batches.

use aws_sdk_sqs::types::ChangeMessageVisibilityBatchRequestEntry;

use crate::support::{Served, served};

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
