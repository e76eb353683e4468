//! Queues: their attributes, and what becomes of their messages.

use aws_sdk_sqs::types::QueueAttributeName as Name;

use crate::support::{code, served};

/// Source: `test_set_queue_attributes_default_values` (10 December 2025). AWS also returns `SqsManagedSseEnabled`; this server
/// has no encryption.
#[tokio::test]
async fn a_new_queue_has_the_defaults_of_aws() {
    let attributes = served().await.attributes(Name::All).await;
    let expected = [
        (Name::ApproximateNumberOfMessages, "0"),
        (Name::ApproximateNumberOfMessagesDelayed, "0"),
        (Name::ApproximateNumberOfMessagesNotVisible, "0"),
        (Name::DelaySeconds, "0"),
        (Name::MaximumMessageSize, "1048576"),
        (Name::MessageRetentionPeriod, "345600"),
        (Name::QueueArn, "arn:aws:sqs:us-east-1:000000000000:queue"),
        (Name::ReceiveMessageWaitTimeSeconds, "0"),
        (Name::VisibilityTimeout, "30"),
    ];
    for (name, value) in &expected {
        assert_eq!(attributes[name], *value, "{name}");
    }
    for name in [Name::CreatedTimestamp, Name::LastModifiedTimestamp] {
        assert!(attributes.contains_key(&name), "{name}");
    }
    assert_eq!(attributes.len(), expected.len() + 2, "{attributes:?}");
}

/// Source: `test_create_and_update_queue_attributes` (19 August 2025).
#[tokio::test]
async fn attributes_that_are_set_are_returned_and_the_others_stay() {
    let served = served().await;
    let set = served.client.set_queue_attributes().queue_url(&served.url);
    let set = set
        .attributes(Name::MaximumMessageSize, "2048")
        .attributes(Name::VisibilityTimeout, "69")
        .attributes(Name::DelaySeconds, "420");
    set.send().await.unwrap();
    let attributes = served.attributes(Name::All).await;
    for (name, value) in [
        (Name::MaximumMessageSize, "2048"),
        (Name::VisibilityTimeout, "69"),
        (Name::DelaySeconds, "420"),
        (Name::MessageRetentionPeriod, "345600"),
    ] {
        assert_eq!(attributes[&name], value, "{name}");
    }
}

/// Source: `test_create_queue_with_different_attributes_raises_exception` (30 April 2024),
/// `test_create_queue_with_default_arguments_works_with_modified_attributes`, `test_create_queue_after_send` (validated).
#[tokio::test]
async fn creating_a_queue_again_compares_only_the_attributes_that_are_named() {
    let served = served().await;
    let set = served.set(Name::VisibilityTimeout, "2").await;
    set.unwrap();
    served.send("foobar").await;
    let create = |timeout: &str| {
        let create = served.client.create_queue().queue_name("queue");
        create.attributes(Name::VisibilityTimeout, timeout).send()
    };
    assert_eq!(code(create("1").await), "QueueAlreadyExists");
    let same = create("2").await.unwrap().queue_url.unwrap();
    assert_eq!((&same, &served.create("queue").await), (&served.url, &same));
}

/// Source: `test_redrive_policy_attribute_validity`, `test_set_empty_redrive_policy` (validated; the second on 20 August 2024),
/// and `test_invalid_dead_letter_arn_rejected_before_lookup` in the snapshot of 14 November 2023, commit b648df1b.
#[tokio::test]
async fn an_invalid_redrive_policy_is_an_invalid_parameter_and_an_empty_one_removes_it() {
    let served = served().await;
    let arn = served.sqs.arn("dead");
    served.create_dead_letter_queue(42).await;
    for policy in [
        format!(r#"{{"deadLetterTargetArn":"{arn}"}}"#),
        r#"{"maxReceiveCount":"42"}"#.to_owned(),
        format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"invalid"}}"#),
        r#"{"deadLetterTargetArn":"dummy","maxReceiveCount":42}"#.to_owned(),
    ] {
        let set = served.set(Name::RedrivePolicy, &policy).await;
        assert_eq!(code(set), "InvalidParameterValue", "{policy}");
    }
    // A refused policy changes nothing.
    let attributes = served.attributes(Name::All).await;
    assert!(attributes[&Name::RedrivePolicy].contains(&arn));
    let removed = served.set(Name::RedrivePolicy, "").await;
    removed.unwrap();
    let attributes = served.attributes(Name::All).await;
    assert!(!attributes.contains_key(&Name::RedrivePolicy));
}

/// Source: `test_purge_queue_deletes_inflight_messages`, `test_purge_queue_deletes_delayed_messages` (validated).
#[tokio::test]
async fn a_purge_deletes_messages_in_flight_and_delayed_ones() {
    let served = served().await;
    served.send("in flight").await;
    served.receive(30).await;
    let delayed = served.client.send_message().queue_url(&served.url);
    let delayed = delayed.message_body("delayed").delay_seconds(2);
    delayed.send().await.unwrap();
    served.send("visible").await;
    let purge = served.client.purge_queue().queue_url(&served.url);
    purge.send().await.unwrap();
    let depth = served.sqs.depth("queue").unwrap();
    assert_eq!((depth.visible, depth.in_flight, depth.delayed), (0, 0, 0));
}

/// Source: `test_approximate_number_of_messages_not_visible` (25 September 2025).
#[tokio::test]
async fn counts_are_of_visible_messages_and_of_those_in_flight() {
    let served = served().await;
    for _ in 0..6 {
        served.send("message").await;
    }
    let receive = served.client.receive_message().queue_url(&served.url);
    let receive = receive.max_number_of_messages(1).visibility_timeout(60);
    receive.send().await.unwrap();
    let attributes = served.attributes(Name::All).await;
    for (name, count) in [
        (Name::ApproximateNumberOfMessages, "5"),
        (Name::ApproximateNumberOfMessagesNotVisible, "1"),
        (Name::ApproximateNumberOfMessagesDelayed, "0"),
    ] {
        assert_eq!(attributes[&name], count, "{name}");
    }
}

/// Source: `test_list_queues_pagination` (19 March 2025).
#[tokio::test]
async fn only_a_listing_with_a_maximum_has_pages() {
    let served = served().await;
    let mut urls = Vec::new();
    for n in 0..10 {
        urls.push(served.create(&format!("test-queue-{n}")).await);
    }
    let list = || served.client.list_queues().queue_name_prefix("test-");
    let all = list().send().await.unwrap();
    assert_eq!((all.queue_urls(), all.next_token()), (&*urls, None));
    let two = list().max_results(2).send().await.unwrap();
    assert_eq!(two.queue_urls(), &urls[..2]);
    let token = two.next_token.unwrap();
    let rest = list().max_results(10).next_token(token).send().await;
    let rest = rest.unwrap();
    assert_eq!((rest.queue_urls(), rest.next_token()), (&urls[2..], None));
}

/// Source: `test_posting_to_queue_via_queue_name`, `test_message_with_carriage_return` (validated).
#[tokio::test]
async fn a_queue_is_found_by_its_name_instead_of_its_url_and_a_body_is_returned_unchanged() {
    let served = served().await;
    let body = "{\r\n\"machineID\" : \"d357006e26ff47439e1ef894225d4307\"}";
    let send = served.client.send_message().queue_url("queue");
    let sent = send.message_body(body).send().await.unwrap();
    let received = served.receive(30).await.remove(0);
    assert_eq!(received.md5_of_body, sent.md5_of_message_body);
    assert_eq!(received.body.as_deref(), Some(body));
}

/// Source: `test_dead_letter_queue_list_sources` (validated).
#[tokio::test]
async fn a_dead_letter_queue_lists_its_sources() {
    let served = served().await;
    let dead = served.create_dead_letter_queue(50).await;
    let list = |url: &str| {
        let list = served.client.list_dead_letter_source_queues();
        list.queue_url(url).send()
    };
    let sources = list(&dead).await.unwrap();
    assert_eq!(sources.queue_urls(), std::slice::from_ref(&served.url));
    assert!(list(&served.url).await.unwrap().queue_urls().is_empty());
}
