//! Errors for which the SDK has types, and an operation that this server does not have. `aws_snapshots/refusals.rs` has the other
//! refusals.

use aws_sdk_sqs::error::ProvideErrorMetadata;

use crate::support::{Served, served};

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
    let invalid = client
        .send_message()
        .queue_url(&url)
        .message_body("\u{1}")
        .send()
        .await
        .unwrap_err();
    assert!(invalid.into_service_error().is_invalid_message_contents());
    let garbage = client
        .delete_message()
        .queue_url(&url)
        .receipt_handle("garbage")
        .send()
        .await
        .unwrap_err();
    assert!(garbage.into_service_error().is_receipt_handle_is_invalid());
}

#[tokio::test]
async fn an_operation_that_is_not_implemented_is_refused_by_name() {
    let Served { client, url, .. } = served().await;
    let tags = client.list_queue_tags().queue_url(&url).send().await;
    let tags = tags.unwrap_err();
    assert_eq!(tags.raw_response().unwrap().status().as_u16(), 501);
    assert_eq!(
        tags.message(),
        Some("not implemented here: operation `ListQueueTags`")
    );
}
