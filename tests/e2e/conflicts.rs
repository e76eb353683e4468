//! Messages with one event id and different content: none is dropped as a duplicate.

use std::collections::BTreeSet;

use emulators::sqs::Message;
use local::stack::{INPUT_QUEUE, QUARANTINE_QUEUE};

use crate::bad_input::attribute;
use crate::rig::Setup;

const REASON: &str = "event id: conflict: another message has the same event id and another body";

fn version(id: &str, version: u32) -> String {
    format!(r#"{{"id":"{id}","version":{version}}}"#)
}

/// Checks that a message in the quarantine has its reason, its source and its event id.
fn assert_says_why(message: &Message, source: &str) {
    assert_eq!(attribute(message, "reason"), Some(REASON));
    assert_eq!(attribute(message, "source"), Some(source));
    let id = attribute(message, "eventId").expect("the event id is known");
    assert!(message.body.contains(id), "{id}: {}", message.body);
}

#[tokio::test]
async fn conflicting_content_is_quarantined_whether_the_first_is_claimed_delivered_or_a_neighbour()
{
    let setup = Setup::new().window(5).batches_of(2);
    let rig = setup.one_aggregator_environment().start().await;
    // Delivered.
    rig.send(version("delivered", 1));
    rig.send(version("good", 1));
    rig.until_metric("BatchesCompleted", 1).await;
    rig.send(version("delivered", 2));
    rig.until_metric("Quarantined", 1).await;
    // Claimed: the event waits alone in an open batch.
    rig.send(version("claimed", 1));
    rig.until_metric("Claimed", 3).await;
    rig.send(version("claimed", 2));
    rig.until_metric("Quarantined", 2).await;
    // Two messages in one event of the function; the queue decides which one is first.
    rig.send(version("neighbour", 1));
    rig.send(version("neighbour", 2));

    let quarantined = rig.take(QUARANTINE_QUEUE, 3).await;
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    for message in &quarantined {
        assert_says_why(message, &source);
    }
    rig.until_drained().await;
    let delivered = rig.delivered();
    let ids = Vec::from_iter(delivered.iter().map(|line| &line.event_id));
    assert_eq!(ids, ["claimed", "delivered", "good", "neighbour"]);
    // The first one is delivered.
    for line in delivered.iter().filter(|line| line.event_id != "neighbour") {
        assert_eq!(line.body, version(&line.event_id, 1));
    }
    // No version is lost: each is delivered or in the quarantine.
    let all = delivered.iter().map(|line| line.body.as_str());
    let all = all.chain(quarantined.iter().map(|message| &*message.body));
    assert_eq!(BTreeSet::from_iter(all).len(), 7);
    rig.end_with_set_aside(3, 0).await;
}
