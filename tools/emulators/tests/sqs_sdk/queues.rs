//! Queues: creating, finding, listing, describing, purging and deleting them.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::operation::get_queue_attributes::GetQueueAttributesError;
use aws_sdk_sqs::types::QueueAttributeName;

use crate::support::{Served, code, served};

/// Creates a queue named `other`, whose messages are delayed.
async fn create_other(client: &Client) -> String {
    let created = client
        .create_queue()
        .queue_name("other")
        .attributes(QueueAttributeName::DelaySeconds, "5")
        .send()
        .await
        .unwrap();
    created.queue_url.unwrap()
}

/// Reads one attribute of a queue, or all of them.
async fn describe(
    client: &Client,
    url: &str,
    name: QueueAttributeName,
) -> Result<HashMap<QueueAttributeName, String>, SdkError<GetQueueAttributesError>> {
    let described = client
        .get_queue_attributes()
        .queue_url(url)
        .attribute_names(name)
        .send()
        .await?;
    Ok(described.attributes.unwrap_or_default())
}

#[tokio::test]
async fn creating_a_queue_again_returns_it_if_its_attributes_are_the_same() {
    let Served { client, .. } = served().await;
    let create = |delay: &str| {
        let request = client.create_queue().queue_name("other");
        request
            .attributes(QueueAttributeName::DelaySeconds, delay)
            .send()
    };
    let other = create("5").await.unwrap().queue_url.unwrap();
    assert_eq!(create("5").await.unwrap().queue_url.as_ref(), Some(&other));
    assert_eq!(code(create("6").await), "QueueAlreadyExists");
    assert_eq!(code(create("x").await), "InvalidAttributeValue");
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
async fn queues_are_found_by_name_and_listed_in_pages() {
    let Served { client, url, .. } = served().await;
    let other = create_other(&client).await;
    assert_eq!(
        client
            .get_queue_url()
            .queue_name("other")
            .send()
            .await
            .unwrap()
            .queue_url
            .as_ref(),
        Some(&other)
    );
    let first = client.list_queues().max_results(1).send().await.unwrap();
    assert_eq!(first.queue_urls(), std::slice::from_ref(&other));
    let second = client
        .list_queues()
        .max_results(1)
        .next_token(first.next_token.unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(
        (second.queue_urls(), second.next_token()),
        (std::slice::from_ref(&url), None)
    );
    let prefixed = client
        .list_queues()
        .queue_name_prefix("ot")
        .send()
        .await
        .unwrap();
    assert_eq!(prefixed.queue_urls(), std::slice::from_ref(&other));
}

#[tokio::test]
async fn a_queue_is_described_by_its_attributes() {
    let Served { client, .. } = served().await;
    let other = create_other(&client).await;
    client
        .send_message()
        .queue_url(&other)
        .message_body("body")
        .send()
        .await
        .unwrap();
    let all = describe(&client, &other, QueueAttributeName::All)
        .await
        .unwrap();
    assert_eq!(
        all[&QueueAttributeName::QueueArn],
        "arn:aws:sqs:us-east-1:000000000000:other"
    );
    assert_eq!(all[&QueueAttributeName::DelaySeconds], "5");
    assert_eq!(all[&QueueAttributeName::MaximumMessageSize], "1048576");
    assert_eq!(
        all[&QueueAttributeName::ApproximateNumberOfMessagesDelayed],
        "1"
    );
    let named = describe(&client, &other, QueueAttributeName::VisibilityTimeout)
        .await
        .unwrap();
    assert_eq!(
        named.into_iter().collect::<Vec<_>>(),
        [(QueueAttributeName::VisibilityTimeout, "30".to_owned())]
    );
    assert_eq!(
        code(describe(&client, &other, QueueAttributeName::from("Colour")).await),
        "InvalidAttributeName"
    );
}

#[tokio::test]
async fn queues_are_purged_and_deleted() {
    let Served { client, .. } = served().await;
    let other = create_other(&client).await;
    client
        .send_message()
        .queue_url(&other)
        .message_body("body")
        .send()
        .await
        .unwrap();
    client.purge_queue().queue_url(&other).send().await.unwrap();
    let delayed = QueueAttributeName::ApproximateNumberOfMessagesDelayed;
    assert_eq!(
        describe(&client, &other, delayed.clone()).await.unwrap()[&delayed],
        "0"
    );
    client
        .delete_queue()
        .queue_url(&other)
        .send()
        .await
        .unwrap();
    let missing = client.get_queue_url().queue_name("other").send().await;
    assert_eq!(code(missing), "AWS.SimpleQueueService.NonExistentQueue");
}
