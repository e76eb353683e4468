//! Queues: finding, describing and deleting them. `aws_snapshots/queues.rs` has what AWS was seen to do with them.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName;

use crate::support::{Served, code, served};

#[tokio::test]
async fn a_fifo_queue_is_refused() {
    let Served { client, .. } = served().await;
    let fifo = client
        .create_queue()
        .queue_name("a.fifo")
        .attributes(QueueAttributeName::FifoQueue, "true");
    assert_eq!(
        code(fifo.send().await),
        "AWS.SimpleQueueService.UnsupportedOperation"
    );
}

#[tokio::test]
async fn a_queue_is_found_by_its_name_until_it_is_deleted() {
    let served = served().await;
    let other = served.create("other").await;
    let find = || served.client.get_queue_url().queue_name("other").send();
    assert_eq!(find().await.unwrap().queue_url.as_ref(), Some(&other));
    let delete = served.client.delete_queue().queue_url(&other);
    delete.send().await.unwrap();
    assert_eq!(
        code(find().await),
        "AWS.SimpleQueueService.NonExistentQueue"
    );
    let listed = served.client.list_queues().send().await.unwrap();
    assert_eq!(listed.queue_urls(), std::slice::from_ref(&served.url));
}

#[tokio::test]
async fn only_the_attribute_that_is_named_is_returned() {
    let Served { client, url, .. } = served().await;
    let send = client.send_message().queue_url(&url).message_body("body");
    send.delay_seconds(900).send().await.unwrap();
    let delayed = QueueAttributeName::ApproximateNumberOfMessagesDelayed;
    let get = client.get_queue_attributes().queue_url(&url);
    let described = get.attribute_names(delayed.clone()).send().await.unwrap();
    assert_eq!(
        described.attributes.unwrap(),
        HashMap::from([(delayed, "1".to_owned())])
    );
}
