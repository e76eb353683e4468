//! Receipt handles: what a handle can still do after its message became visible again, was received again, or was deleted.

use crate::support::{Served, code, served};

impl Served {
    /// Receives the one message in the queue, which is visible again after `visibility_secs`; returns its receipt handle.
    async fn handle(&self, visibility_secs: i32) -> String {
        let mut messages = self.receive(visibility_secs).await;
        assert_eq!(messages.len(), 1);
        messages.remove(0).receipt_handle.unwrap()
    }
}

/// Source: `test_change_message_visibility_after_visibility_timeout_expiration` (30 April 2024). That the message stays visible
/// is from pull request 9632 of the same repository: "AWS simply sends back an OK and does nothing".
#[tokio::test]
async fn a_change_of_visibility_after_the_timeout_succeeds_and_does_nothing() {
    let served = served().await;
    served.send("foo").await;
    let expired = served.handle(0).await;
    served.change_visibility(&expired, 60).await.unwrap();
    assert_eq!(served.sqs.depth("queue").unwrap().visible, 1);
}

/// Source: `test_terminate_visibility_timeout_after_receive` (validated), and getmoto/moto at 0af643a5 (22 August 2026),
/// `tests/test_sqs/test_sqs.py`, `test_change_message_visibility_on_old_message`: "this is allowed in AWS".
#[tokio::test]
async fn the_handle_of_an_earlier_delivery_changes_the_visibility_of_a_later_one() {
    let served = served().await;
    served.send("foo").await;
    let first = served.handle(0).await;
    served.handle(30).await;
    served.change_visibility(&first, 0).await.unwrap();
    assert_eq!(served.receive(30).await.len(), 1);
}

/// Source: `test_change_visibility_on_deleted_message_raises_invalid_parameter_value`,
/// `test_invalid_receipt_handle_should_return_error_message` (validated).
#[tokio::test]
async fn a_change_of_visibility_is_refused_for_a_deleted_message_and_for_a_handle_that_is_none() {
    let served = served().await;
    served.send("foo").await;
    let handle = served.handle(30).await;
    served.change_visibility(&handle, 42).await.unwrap();
    served.delete(&handle).await.unwrap();
    let deleted = served.change_visibility(&handle, 42).await;
    assert_eq!(code(deleted), "InvalidParameterValue");
    let invalid = served.change_visibility("INVALID", 60).await;
    assert_eq!(code(invalid), "ReceiptHandleIsInvalid");
}

/// Source: `test_change_message_visibility_not_permanent`, `test_delete_message_deletes_with_change_visibility_timeout`,
/// `test_receive_message_with_visibility_timeout_updates_timeout` (validated).
#[tokio::test]
async fn a_visibility_timeout_is_that_of_its_delivery_only() {
    let served = served().await;
    served.send("foo").await;
    let first = served.handle(0).await;
    let second = served.handle(3).await;
    assert_ne!(first, second);
    assert!(served.receive(30).await.is_empty());
    served.change_visibility(&second, 0).await.unwrap();
    let received = served.client.receive_message().queue_url(&served.url);
    assert_eq!(received.send().await.unwrap().messages().len(), 1);
    // The queue's own timeout counts again.
    assert!(served.receive(30).await.is_empty());
}

/// Source: `test_delete_after_visibility_timeout` (28 March 2025), `test_remove_message_with_old_receipt_handle`,
/// `test_delete_message_with_deleted_receipt_handle`, `test_delete_message_with_illegal_receipt_handle` (validated).
#[tokio::test]
async fn a_message_is_deleted_after_its_timeout_too_and_deleting_it_again_succeeds() {
    let served = served().await;
    served.send("foo").await;
    let handle = served.handle(0).await;
    for _ in 0..3 {
        served.delete(&handle).await.unwrap();
    }
    assert!(served.receive(30).await.is_empty());
    let invalid = served.delete("garbage").await;
    assert_eq!(code(invalid), "ReceiptHandleIsInvalid");
}
