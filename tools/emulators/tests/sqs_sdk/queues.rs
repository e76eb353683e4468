//! Queues: finding, describing and deleting them. `aws_snapshots/queues.rs` has what AWS was seen to do with them.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName;

use crate::support::{code, served};

#[tokio::test]
async fn a_fifo_queue_is_refused() {
    let served = served().await;
    let create = served.client.create_queue().queue_name("a.fifo");
    let create = create.attributes(QueueAttributeName::FifoQueue, "true");
    let unsupported = "AWS.SimpleQueueService.UnsupportedOperation";
    assert_eq!(code(create.send().await), unsupported);
}

#[tokio::test]
async fn a_queue_is_found_by_its_name_until_it_is_deleted() {
    let served = served().await;
    let other = served.create("other").await;
    let find = || served.client.get_queue_url().queue_name("other").send();
    assert_eq!(find().await.unwrap().queue_url.as_ref(), Some(&other));
    let delete = served.client.delete_queue().queue_url(&other);
    delete.send().await.unwrap();
    let missing = "AWS.SimpleQueueService.NonExistentQueue";
    assert_eq!(code(find().await), missing);
    let listed = served.client.list_queues().send().await.unwrap();
    assert_eq!(listed.queue_urls(), std::slice::from_ref(&served.url));
}

#[tokio::test]
async fn only_the_attribute_that_is_named_is_returned() {
    let served = served().await;
    let send = served.client.send_message().queue_url(&served.url);
    let send = send.message_body("body").delay_seconds(900);
    send.send().await.unwrap();
    let delayed = QueueAttributeName::ApproximateNumberOfMessagesDelayed;
    let attributes = served.attributes(delayed.clone()).await;
    assert_eq!(attributes, HashMap::from([(delayed, "1".to_owned())]));
}
