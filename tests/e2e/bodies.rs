//! Unusual but valid messages: they are delivered as they were sent.

use std::collections::BTreeMap;

use local::bodies::BodiesKind;
use serde_json::json;
use shared::memory::noise;

use crate::events::body;
use crate::output::sorted;
use crate::rig::{Setup, cases};

#[tokio::test]
async fn a_message_that_fits_an_item_once_it_is_compressed_is_delivered_whole() {
    let setup = Setup::new().var("EVENT_ID", "body-hash").batches_of(3);
    let rig = setup.one_aggregator_environment().start().await;
    // The longest message that SQS takes, and two messages that only just fit an item of 400 KB.
    let bodies = ["x".repeat(1_048_576), noise(480_000), noise(470_000)];
    bodies.iter().for_each(|body| rig.send(body.as_str()));
    rig.until_drained().await;
    let delivered = rig.delivered().into_iter().map(|line| line.body);
    assert!(sorted(delivered) == sorted(bodies), "other bodies");
    rig.end().await;
}

#[tokio::test]
async fn messages_larger_than_an_item_are_delivered_among_small_ones() {
    for bodies in cases(&[BodiesKind::Items, BodiesKind::LogTable, BodiesKind::LogS3]) {
        large_messages_are_delivered(bodies, 10, 200).await;
    }
}

#[tokio::test]
#[ignore = "takes minutes: `cargo xtask test --all`"]
async fn a_hundred_messages_larger_than_an_item_are_delivered_among_ten_thousand_small_ones() {
    large_messages_are_delivered(BodiesKind::Items, 100, 10_000).await;
}

async fn large_messages_are_delivered(bodies: BodiesKind, large_count: usize, small_count: usize) {
    let mut setup = Setup::new().bodies(bodies).batches_of(small_count / 2);
    if bodies == BodiesKind::Items {
        setup = setup.var("OVERFLOW_BUCKET", "overflow");
    }
    let rig = setup.start().await;
    // Bodies of 0.5 to 1 MiB that do not fit an item even when compressed.
    let noise = noise(1_048_000);
    let large = (0..large_count).map(|number| {
        let id = format!("large-{number}");
        let bytes = 524_288 + number * (1_048_000 - 524_288) / large_count;
        let body = json!({ "id": id, "noise": noise[noise.len() - bytes..] });
        (id, body.to_string())
    });
    let large = BTreeMap::from_iter(large);
    let mut large_bodies = large.values();
    for number in 0..small_count {
        rig.send(body(&format!("small-{number}")));
        if number % (small_count / large_count) == 0 {
            rig.send(large_bodies.next().expect("there are as many").as_str());
        }
    }
    rig.until_drained().await;
    let delivered = rig.delivered();
    assert_eq!(delivered.len(), large_count + small_count);
    let mut found = 0;
    for line in delivered {
        match large.get(&line.event_id) {
            Some(sent) => {
                found += 1;
                assert!(line.body == *sent, "`{}` came out otherwise", line.event_id);
            }
            None => assert_eq!(line.body, body(&line.event_id)),
        }
    }
    assert_eq!(found, large_count);
    rig.assert_bodies_are_in(bodies).await;
    if bodies == BodiesKind::Items {
        // The bucket has no lifecycle here; the test checks only that the function looked it up.
        assert!(rig.has_logged("lifecycle of the overflow bucket not read"));
    }
    rig.end().await;
}

#[tokio::test]
async fn any_text_that_a_queue_takes_is_delivered_unchanged() {
    let bodies = [
        "line\nbreak\r\n",
        "\ttab",
        " ",
        "\"quoted\" \\ back",
        "\u{1f980} \u{e9} \u{fffd} \u{2028}",
        "{}",
        "null",
        "0",
    ];
    let setup = Setup::new().var("EVENT_ID", "message-id");
    let setup = setup.batches_of(bodies.len());
    let rig = setup.one_aggregator_environment().start().await;
    bodies.iter().for_each(|body| rig.send(*body));
    rig.until_drained().await;
    let delivered = rig.delivered();
    let found = sorted(delivered.iter().map(|line| line.body.as_str()));
    assert_eq!(found, sorted(bodies));
    for line in delivered {
        assert_eq!(line.event_id, line.sqs_message_id);
    }
    rig.end().await;
}
