//! The attributes of messages: which ones a receive returns, and what digests cover.

use std::collections::BTreeSet;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    Message, MessageAttributeValue, MessageSystemAttributeName as SystemAttribute,
    MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
};

use crate::support::{Served, attribute, code, served, string_attribute};

const TRACE_HEADER: &str =
    "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

fn trace_header() -> MessageSystemAttributeValue {
    let value = MessageSystemAttributeValue::builder().data_type("String");
    value.string_value(TRACE_HEADER).build().unwrap()
}

/// Receives the one message of the queue, with the attributes that these names select.
async fn receive(served: &Served, names: &[&str]) -> Message {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let receive = served
        .client
        .receive_message()
        .queue_url(&served.url)
        .visibility_timeout(0)
        .set_message_attribute_names(Some(names));
    receive.send().await.unwrap().messages.unwrap().remove(0)
}

/// Source: `test_receive_message_message_attribute_names_filters` (30 April 2024), digests included.
#[tokio::test]
async fn a_receive_returns_the_attributes_that_it_names_and_their_digest() {
    let served = served().await;
    let send = served.client.send_message().queue_url(&served.url);
    let sent = send
        .message_body("msg")
        .message_attributes("Help.Me", string_attribute("Me"))
        .message_attributes("Hello", string_attribute("There"))
        .message_attributes("General", string_attribute("Kenobi"));
    let sent = sent.send().await.unwrap();
    let all = "4c360f3fdafd970e05fae2f149d997f5";
    assert_eq!(sent.md5_of_message_attributes(), Some(all));
    let of_body = Some("6e2baaf3b97dbeef01c0043275f9a0e7");
    assert_eq!(sent.md5_of_message_body(), of_body);
    let two = Some("fca026605781cb4126a1e9044df24232");
    let hello = Some("a311262e065454b75da111d535b8dacd");
    let prefixed = Some("83fee93c1bcd8b9a5a923ffacdc636c7");
    let every = ["General", "Hello", "Help.Me"];
    let cases: [(&[&str], Option<&str>, &[&str]); 10] = [
        (&[], None, &[]),
        (&["All"], Some(all), &every),
        (&["*"], Some(all), &every),
        (&[".*"], Some(all), &every),
        (&["Foo", "Help"], None, &[]),
        (&["Hello", "General"], two, &["General", "Hello"]),
        (&["Foo", "Hello"], hello, &["Hello"]),
        (&["Hel.*"], prefixed, &["Hello", "Help.Me"]),
        (&["AWS."], None, &[]),
        (&["..foo"], None, &[]),
    ];
    for (names, digest, returned) in cases {
        let message = receive(&served, names).await;
        let received = message.md5_of_message_attributes.as_deref();
        assert_eq!(received, digest, "{names:?}");
        let attributes = message.message_attributes.unwrap_or_default();
        let mut received = Vec::from_iter(attributes.keys());
        received.sort();
        assert_eq!(received, returned, "{names:?}");
    }
}

/// Source: `test_receive_message_message_system_attribute_names_filters`, `test_receive_message_attribute_names_filters`,
/// `test_message_system_attribute_names_with_attribute_names` (4 June 2024).
#[tokio::test]
#[expect(deprecated, reason = "the older parameter is what is tested")]
async fn system_attributes_are_selected_by_either_of_two_parameters() {
    use aws_sdk_sqs::types::QueueAttributeName as OldName;

    let served = served().await;
    served.send("msg").await;
    let receive = || {
        let receive = served.client.receive_message().queue_url(&served.url);
        receive.visibility_timeout(0)
    };
    let names = |message: &Message| -> BTreeSet<String> {
        let attributes = message.attributes.iter().flatten();
        attributes.map(|(name, _)| name.to_string()).collect()
    };
    let every = [
        "ApproximateFirstReceiveTimestamp",
        "ApproximateReceiveCount",
        "SenderId",
        "SentTimestamp",
    ];
    let every: BTreeSet<String> = every.map(str::to_owned).into();
    let sender = BTreeSet::from(["SenderId".to_owned()]);
    let none = BTreeSet::new();
    let old = || Some(vec![OldName::from("SenderId")]);
    let new = Some(vec![SystemAttribute::SenderId]);
    let all = || Some(vec![SystemAttribute::All]);
    for (old, new, expected) in [
        (None, None, &none),
        (Some(vec![OldName::All]), None, &every),
        (None, all(), &every),
        (old(), None, &sender),
        (old(), new, &sender),
        (old(), all(), &every),
    ] {
        let receive = receive().set_attribute_names(old);
        let receive = receive.set_message_system_attribute_names(new);
        let message = receive.send().await.unwrap().messages.unwrap().remove(0);
        assert_eq!(names(&message), *expected);
    }
}

/// Source: `test_system_attributes_have_no_effect_on_attr_md5` (validated), digests included.
#[tokio::test]
async fn the_trace_header_has_a_digest_of_its_own() {
    let served = served().await;
    let send = || {
        let send = served.client.send_message().queue_url(&served.url);
        let timestamp = attribute("Number", "1493147359900");
        let send = send.message_body("test");
        send.message_attributes("timestamp", timestamp)
    };
    let without = send().send().await.unwrap();
    let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
    let with = send().message_system_attributes(name, trace_header());
    let with = with.send().await.unwrap();
    let digest = with.md5_of_message_attributes();
    assert_eq!(without.md5_of_message_attributes(), digest);
    assert_eq!(without.md5_of_message_system_attributes(), None);
    let digest = Some("5ae4d5d7636402d80f4eb6d213245a88");
    assert_eq!(with.md5_of_message_system_attributes(), digest);
}

/// Source: `test_aws_trace_header_propagation` (27 June 2025).
#[tokio::test]
async fn the_trace_header_of_the_request_becomes_that_of_the_message() {
    let served = served().await;
    let header = "Root=1-3152b799-8954dae64eda91bc9a23a7e8;Parent=7fa8c0f79203be72;Sampled=1";
    let send = served.client.send_message().queue_url(&served.url);
    send.message_body("test")
        .customize()
        .mutate_request(move |request| {
            request.headers_mut().insert("X-Amzn-Trace-Id", header);
        })
        .send()
        .await
        .unwrap();
    let received = served.receive(30).await;
    let attributes = received[0].attributes.as_ref().unwrap();
    assert_eq!(attributes[&SystemAttribute::AwsTraceHeader], header);
}

/// Source: `test_dead_letter_queue_message_attributes` (30 April 2024), `test_dead_letter_queue_max_receive_count` (validated).
#[tokio::test]
async fn a_dead_letter_keeps_its_id_attributes_and_receives_and_names_its_source() {
    let served = served().await;
    let dead = served.create_dead_letter_queue(1).await;
    let send = served.client.send_message().queue_url(&served.url);
    let header = MessageSystemAttributeNameForSends::AwsTraceHeader;
    let sent = send
        .message_body("message-1")
        .message_attributes("MyAttribute", string_attribute("foobar"))
        .message_system_attributes(header, trace_header());
    let sent = sent.send().await.unwrap();
    let before = served.receive(0).await.remove(0);
    assert!(served.receive(0).await.is_empty());
    let after = served.receive_from(&dead, 0).await.remove(0);

    assert_eq!(after.message_id, sent.message_id);
    assert_eq!(after.body, before.body);
    let attributes = before.message_attributes.as_ref().unwrap();
    assert_eq!(attributes["MyAttribute"], string_attribute("foobar"));
    assert_eq!(after.message_attributes, before.message_attributes);
    let digest = Some("adb59cd4678ea5a855436b949cd07ab6");
    assert_eq!(after.md5_of_message_attributes.as_deref(), digest);
    let (before, after) = (before.attributes.unwrap(), after.attributes.unwrap());
    // AWS counts on.
    let receives = SystemAttribute::ApproximateReceiveCount;
    assert_eq!((&*before[&receives], &*after[&receives]), ("1", "2"));
    assert_eq!(after[&SystemAttribute::AwsTraceHeader], TRACE_HEADER);
    let source = SystemAttribute::DeadLetterQueueSourceArn;
    assert_eq!(before.get(&source), None);
    assert_eq!(after[&source], served.sqs.arn("queue"));
}

/// Source: `test_send_message_with_binary_attributes` (30 April 2024), digest included.
#[tokio::test]
async fn a_binary_attribute_is_returned_with_its_digest() {
    let served = served().await;
    let value =
        Blob::new(*b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01");
    let attribute = MessageAttributeValue::builder().data_type("Binary");
    let attribute = attribute.binary_value(value).build().unwrap();
    let send = served.client.send_message().queue_url(&served.url);
    let send = send.message_body("test");
    let sent = send.message_attributes("attr1", attribute.clone());
    sent.send().await.unwrap();
    let message = receive(&served, &["All"]).await;
    assert_eq!(message.message_attributes.unwrap()["attr1"], attribute);
    let digest = Some("8cbe4db156db8a94db8b801b7addb984");
    assert_eq!(message.md5_of_message_attributes.as_deref(), digest);
}

/// Source: `test_send_message_with_invalid_string_attributes`,
/// `test_invalid_string_attributes_cause_invalid_parameter_value_error` (validated),
/// `test_send_message_with_empty_string_attribute` (30 April 2024). AWS accepted the name `attr.1øßä`, which its documentation
/// forbids; this server refuses it.
#[tokio::test]
async fn invalid_attributes_are_refused() {
    let served = served().await;
    let long_type = format!("Number.{}", "L".repeat(256));
    for (name, data_type, value) in [
        ("attr1", "String", "Invalid-\u{8},\u{b}"),
        ("aWs.-Invalid-attr", "String", "Valid"),
        ("AMAZON.-Invalid-attr", "String", "Valid"),
        (".-Invalid-attr", "String", "Valid"),
        ("Invalid-!-attr", "String", "Valid"),
        ("Invalid-§-attr", "String", "Valid"),
        (&"L".repeat(257), "String", "Valid"),
        ("Invalid.", "String", "Valid"),
        ("Attribute_name", "Invalid", "Valid"),
        ("Attribute_name", &long_type, "Valid"),
        ("ErrorDetails", "String", ""),
    ] {
        let send = served.client.send_message().queue_url(&served.url);
        let send = send.message_body("test");
        let sent = send.message_attributes(name, attribute(data_type, value));
        assert_eq!(code(sent.send().await), "InvalidParameterValue", "{name}");
    }
}

/// Source: `test_fair_queue_with_message_group_id` (18 August 2025),
/// `test_send_message_to_standard_queue_with_invalid_message_group_id` (30 July 2025).
#[tokio::test]
async fn a_message_of_a_standard_queue_may_have_a_group_id_of_up_to_128_characters() {
    let served = served().await;
    let send = |group: &str| {
        let send = served.client.send_message().queue_url(&served.url);
        send.message_body("message").message_group_id(group).send()
    };
    for group in ["", "group 123", &"a".repeat(129)] {
        assert_eq!(code(send(group).await), "InvalidParameterValue", "{group}");
    }
    send("test").await.unwrap();
    let received = served.receive(30).await;
    let attributes = received[0].attributes.as_ref().unwrap();
    assert_eq!(attributes[&SystemAttribute::MessageGroupId], "test");
}
