//! Errors for which the SDK has types, and an operation that this server does not have. `aws_snapshots/refusals.rs` has the other
//! refusals.

use aws_sdk_sqs::error::ProvideErrorMetadata;

use crate::support::{Served, served};

#[tokio::test]
async fn refusals_are_the_sdks_typed_errors() {
    let served = served().await;
    let receive = served.client.receive_message().queue_url("none");
    let missing = receive.send().await.unwrap_err().into_service_error();
    assert!(missing.is_queue_does_not_exist());
    let send = served.client.send_message().queue_url(&served.url);
    let invalid = send.message_body("\u{1}").send().await.unwrap_err();
    assert!(invalid.into_service_error().is_invalid_message_contents());
    let garbage = served.delete("garbage").await.unwrap_err();
    assert!(garbage.into_service_error().is_receipt_handle_is_invalid());
}

#[tokio::test]
async fn an_operation_that_is_not_implemented_is_refused_by_name() {
    let Served { client, url, .. } = served().await;
    let tags = client.list_queue_tags().queue_url(&url).send().await;
    let tags = tags.unwrap_err();
    assert_eq!(tags.raw_response().unwrap().status().as_u16(), 501);
    let message = "not implemented here: operation `ListQueueTags`";
    assert_eq!(tags.message(), Some(message));
}
