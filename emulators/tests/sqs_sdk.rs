//! The SQS server against the SDK that the lambdas use, over HTTP on a loopback port.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the report"
)]

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName,
    SendMessageBatchRequestEntry,
};
use emulators::sqs::{QueueAttributes, Sqs};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A served SQS, with one queue named `queue`.
struct Served {
    sqs: Sqs,
    client: Client,
    url: String,
    stop: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn served() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sqs = Sqs::new();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(sqs.clone().serve(listener, async {
        // A test that does not stop its server drops the sender; the server then lives as long as the runtime.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(format!("http://{address}"))
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "static"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let client = Client::from_conf(config);
    let created = client
        .create_queue()
        .queue_name("queue")
        .send()
        .await
        .unwrap();
    let url = created.queue_url.unwrap();
    assert_eq!(url, format!("http://{address}/000000000000/queue"));
    Served {
        sqs,
        client,
        url,
        stop,
        server,
    }
}

fn code<T: std::fmt::Debug, E: ProvideErrorMetadata>(result: Result<T, SdkError<E>>) -> String {
    let error = result.expect_err("the service refuses this");
    assert!(error.message().is_some(), "an error says what is wrong");
    error.code().expect("an error has its code").to_owned()
}

fn entry(id: &str, body: impl Into<String>) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder()
        .id(id)
        .message_body(body)
        .build()
        .unwrap()
}

fn string_attribute(value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder()
        .data_type("String")
        .string_value(value)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_batch_sent_is_received_and_deleted() {
    let Served {
        sqs, client, url, ..
    } = served().await;
    let entries = (0..10)
        .map(|n| entry(&format!("id-{n}"), format!("body {n} \"\\ é \u{1F600}\n")))
        .collect();
    let sent = client
        .send_message_batch()
        .queue_url(&url)
        .set_entries(Some(entries))
        .send()
        .await
        .unwrap();
    assert_eq!((sent.successful.len(), sent.failed.len()), (10, 0));

    let received = client
        .receive_message()
        .queue_url(&url)
        .max_number_of_messages(10)
        .send()
        .await
        .unwrap();
    let messages = received.messages.unwrap();
    let mut bodies: Vec<_> = messages
        .iter()
        .map(|message| message.body.clone().unwrap())
        .collect();
    bodies.sort();
    let expected: Vec<_> = (0..10)
        .map(|n| format!("body {n} \"\\ é \u{1F600}\n"))
        .collect();
    assert_eq!(bodies, expected);
    for (message, sent) in messages.iter().zip(&sent.successful) {
        assert_eq!(message.message_id.as_deref(), Some(sent.message_id()));
        assert_eq!(
            message.md5_of_body.as_deref(),
            Some(sent.md5_of_message_body())
        );
        assert!(
            message.attributes.is_none() && message.message_attributes.is_none(),
            "none were asked for"
        );
    }
    assert_eq!(sqs.depth("queue").unwrap().in_flight, 10);

    let delete = |(n, handle): (usize, Option<String>)| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(n.to_string());
        entry
            .receipt_handle(handle.unwrap_or_else(|| "garbage".to_owned()))
            .build()
            .unwrap()
    };
    let handles = messages
        .iter()
        .skip(1)
        .map(|message| message.receipt_handle.clone());
    let entries = handles.chain([None]).enumerate().map(delete).collect();
    let deleted = client
        .delete_message_batch()
        .queue_url(&url)
        .set_entries(Some(entries))
        .send()
        .await
        .unwrap();
    assert_eq!(deleted.successful.len(), 9);
    assert_eq!(
        (deleted.failed[0].id(), deleted.failed[0].code()),
        ("9", "ReceiptHandleIsInvalid")
    );
    assert!(deleted.failed[0].sender_fault());

    let handle = messages[0].receipt_handle.as_deref().unwrap();
    client
        .delete_message()
        .queue_url(&url)
        .receipt_handle(handle)
        .send()
        .await
        .unwrap();
    assert_eq!(sqs.depth("queue").unwrap().in_flight, 0);
}

#[tokio::test]
async fn attributes_travel_with_the_message_and_are_filtered_by_name() {
    let Served { client, url, .. } = served().await;
    let blob = MessageAttributeValue::builder()
        .data_type("Binary")
        .binary_value(Blob::new([0, 255]))
        .build()
        .unwrap();
    let send = client
        .send_message()
        .queue_url(&url)
        .message_body("body")
        .message_group_id("tenant");
    let send = send
        .message_attributes("trace.id", string_attribute("1"))
        .message_attributes("blob", blob.clone());
    let sent = send.send().await.unwrap();

    let receive = || {
        client
            .receive_message()
            .queue_url(&url)
            .visibility_timeout(0)
    };
    let all = receive()
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::All);
    let message = all.send().await.unwrap().messages.unwrap().remove(0);
    let attributes = message.message_attributes.unwrap();
    assert_eq!(attributes["blob"], blob);
    assert_eq!(attributes["trace.id"], string_attribute("1"));
    assert_eq!(
        message.md5_of_message_attributes,
        sent.md5_of_message_attributes
    );
    let system = message.attributes.unwrap();
    assert_eq!(
        system[&MessageSystemAttributeName::ApproximateReceiveCount],
        "1"
    );
    assert_eq!(
        system[&MessageSystemAttributeName::MessageGroupId],
        "tenant"
    );
    assert_eq!(
        system[&MessageSystemAttributeName::SenderId],
        "000000000000"
    );
    let first_ms: u64 = system[&MessageSystemAttributeName::ApproximateFirstReceiveTimestamp]
        .parse()
        .unwrap();
    let sent_ms: u64 = system[&MessageSystemAttributeName::SentTimestamp]
        .parse()
        .unwrap();
    assert!(sent_ms <= first_ms && sent_ms > 1_600_000_000_000);

    let count = MessageSystemAttributeName::ApproximateReceiveCount;
    let some = receive()
        .message_attribute_names("trace.*")
        .message_system_attribute_names(count.clone());
    let message = some.send().await.unwrap().messages.unwrap().remove(0);
    assert_eq!(
        message
            .message_attributes
            .unwrap()
            .into_keys()
            .collect::<Vec<_>>(),
        ["trace.id"]
    );
    assert_ne!(
        message.md5_of_message_attributes,
        sent.md5_of_message_attributes
    );
    assert_eq!(
        message.attributes.unwrap().into_iter().collect::<Vec<_>>(),
        [(count, "2".to_owned())]
    );
}

#[tokio::test]
async fn delays_and_visibility_hide_messages() {
    let Served {
        sqs, client, url, ..
    } = served().await;
    let send = || client.send_message().queue_url(&url).message_body("body");
    send().delay_seconds(900).send().await.unwrap();
    assert_eq!(sqs.depth("queue").unwrap().delayed, 1);
    assert_eq!(
        code(send().delay_seconds(901).send().await),
        "InvalidParameterValue"
    );
    assert_eq!(
        code(send().delay_seconds(-1).send().await),
        "InvalidParameterValue"
    );

    send().send().await.unwrap();
    let received = client
        .receive_message()
        .queue_url(&url)
        .send()
        .await
        .unwrap();
    let handle = received.messages.unwrap().remove(0).receipt_handle.unwrap();
    let change = |secs| {
        let request = client
            .change_message_visibility()
            .queue_url(&url)
            .receipt_handle(&handle);
        request.visibility_timeout(secs).send()
    };
    assert_eq!(code(change(43_201).await), "InvalidParameterValue");
    change(43_000)
        .await
        .expect("less than twelve hours from the receive");
}

#[tokio::test]
async fn visibility_changes_in_batches_with_an_answer_for_each() {
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
    let failed: Vec<_> = changed
        .failed
        .iter()
        .map(|failed| (failed.id(), failed.code()))
        .collect();
    assert_eq!(
        failed,
        [
            ("again", "AWS.SimpleQueueService.MessageNotInflight"),
            ("bad", "ReceiptHandleIsInvalid")
        ]
    );
    assert_eq!(sqs.depth("queue").unwrap().visible, 1);
}

#[tokio::test]
async fn a_message_received_too_often_is_found_in_the_dead_letter_queue() {
    let Served { client, url, .. } = served().await;
    let dead_url = client
        .create_queue()
        .queue_name("dead")
        .send()
        .await
        .unwrap()
        .queue_url
        .unwrap();
    let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":"2"}"#;
    let set = client
        .set_queue_attributes()
        .queue_url(&url)
        .attributes(QueueAttributeName::RedrivePolicy, policy);
    set.send().await.unwrap();

    let sent = client
        .send_message()
        .queue_url(&url)
        .message_body("poison")
        .send()
        .await
        .unwrap();
    let receive = |url: &str| {
        client
            .receive_message()
            .queue_url(url)
            .visibility_timeout(0)
            .send()
    };
    for _ in 0..2 {
        assert_eq!(receive(&url).await.unwrap().messages.unwrap().len(), 1);
    }
    assert!(receive(&url).await.unwrap().messages.is_none());
    let moved = receive(&dead_url)
        .await
        .unwrap()
        .messages
        .unwrap()
        .remove(0);
    assert_eq!(moved.message_id, sent.message_id);
}

#[tokio::test]
async fn queues_are_created_found_listed_described_and_deleted() {
    let Served { client, url, .. } = served().await;
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

    client
        .send_message()
        .queue_url(&other)
        .message_body("body")
        .send()
        .await
        .unwrap();
    let describe = |name| {
        client
            .get_queue_attributes()
            .queue_url(&other)
            .attribute_names(name)
            .send()
    };
    let all = describe(QueueAttributeName::All)
        .await
        .unwrap()
        .attributes
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
    let named = describe(QueueAttributeName::VisibilityTimeout)
        .await
        .unwrap()
        .attributes
        .unwrap();
    assert_eq!(
        named.into_iter().collect::<Vec<_>>(),
        [(QueueAttributeName::VisibilityTimeout, "30".to_owned())]
    );
    assert_eq!(
        code(describe(QueueAttributeName::from("Colour")).await),
        "InvalidAttributeName"
    );

    client.purge_queue().queue_url(&other).send().await.unwrap();
    let delayed = QueueAttributeName::ApproximateNumberOfMessagesDelayed;
    assert_eq!(
        describe(delayed.clone()).await.unwrap().attributes.unwrap()[&delayed],
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

#[tokio::test]
async fn a_long_poll_wakes_for_a_message_and_ends_when_the_server_shuts_down() {
    let Served {
        sqs,
        client,
        url,
        stop,
        server,
    } = served().await;
    let poll = || {
        let request = client
            .receive_message()
            .queue_url(&url)
            .wait_time_seconds(20)
            .send();
        tokio::spawn(tokio::time::timeout(Duration::from_secs(10), request))
    };
    let woken = poll();
    client
        .send_message()
        .queue_url(&url)
        .message_body("body")
        .send()
        .await
        .unwrap();
    assert_eq!(
        woken
            .await
            .unwrap()
            .expect("it wakes at once")
            .unwrap()
            .messages
            .unwrap()
            .len(),
        1
    );

    let ended = poll();
    // By the time this is answered the poll, begun before it, has most likely reached the server too.
    client.list_queues().send().await.unwrap();
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    if let Ok(received) = ended.await.unwrap().expect("it ends at once") {
        assert!(received.messages.is_none());
    }
    sqs.create_queue("later", QueueAttributes::default())
        .expect("the queues outlive the server");
}
