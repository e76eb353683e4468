//! Events: `find`, `forget` and `redrive`.

use local::bodies::BodiesKind;
use local::dynamodb::LOCK_TABLE;
use local::stack::{INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE};
use serde_json::Value;

use super::{Batchctl, YES};
use crate::events::{body, take_all};
use crate::rig::{Rig, Setup};

/// Returns a stack in which two events fill a batch, and a third one waits for a minute.
async fn of_pairs() -> Rig {
    let setup = Setup::new().var("EVENT_ID_PREFIX", "{source}/");
    let setup = setup.batches_of(2).window(60);
    setup.one_aggregator_environment().start().await
}

/// Sends a message of each event, and waits until their batch is complete.
pub async fn delivers_a_pair(rig: &Rig, ids: [&str; 2]) {
    let completed = rig.stack.function_logs.sum("BatchesCompleted");
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_metric("BatchesCompleted", completed + 1).await;
}

#[tokio::test]
async fn find_knows_live_delivered_forgotten_and_unknown_events() {
    let rig = of_pairs().await;
    let batchctl = Batchctl::of(&rig);
    delivers_a_pair(&rig, ["d1", "d2"]).await;
    delivers_a_pair(&rig, ["f1", "f2"]).await;
    rig.send(body("live"));
    rig.until_metric("Claimed", 5).await;
    let find = async |id: &str| batchctl.json(0, &["find", id]).await;

    let live = find("live").await;
    assert_eq!(live["state"], "live", "{live}");
    assert_eq!(live["batchStatus"], "open", "{live}");
    assert!(live["seq"].is_number(), "{live}");
    assert!(live["batchId"].is_string(), "{live}");

    let delivered = find("d1").await;
    assert_eq!(delivered["state"], "delivered", "{delivered}");
    let mut lines = rig.delivered().into_iter();
    let line = lines.find(|line| line.body.contains("\"d1\""));
    let line = line.expect("it is delivered");
    assert_eq!(delivered["eventId"], line.event_id.as_str(), "{delivered}");
    assert_eq!(delivered["batchId"], line.batch_id.as_str(), "{delivered}");
    assert_eq!(delivered["parts"], serde_json::json!([0]), "{delivered}");
    let (at, until) = (&delivered["deliveredAt"], &delivered["rememberedUntil"]);
    assert!(until.as_u64() > at.as_u64(), "{delivered}");

    let prefix = format!("{}/", rig.stack.sqs.arn(INPUT_QUEUE));
    let forgotten = find("f1").await;
    assert_eq!(forgotten["state"], "delivered", "{forgotten}");
    let key = ("messageId", &*format!("{prefix}f1"));
    rig.set(LOCK_TABLE, key, "expiresAt", 5).await;
    let forgotten = find("f1").await;
    assert_eq!(forgotten["state"], "forgotten", "{forgotten}");

    let unknown = batchctl.json(3, &["find", "never-sent"]).await;
    assert_eq!(unknown["state"], "unknown", "{unknown}");
    let exact = ["find", "--exact", &*format!("{prefix}d1")];
    let exact = batchctl.json(0, &exact).await;
    assert_eq!(exact["state"], "delivered", "{exact}");
    rig.stack.stop().await;
}

#[tokio::test]
async fn a_forgotten_event_is_delivered_again_and_a_live_one_is_not_forgotten() {
    let rig = of_pairs().await;
    let batchctl = Batchctl::of(&rig);
    delivers_a_pair(&rig, ["a", "b"]).await;
    rig.send(body("live"));
    rig.until_metric("Claimed", 3).await;
    let forget = [&["forget", "live"], &YES[..]].concat();
    let refused = batchctl.text(&forget).await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("live: "), "{refused:?}");

    // Until it is forgotten, it is a duplicate. It takes the second seat, so the batch is full.
    rig.send(body("a"));
    rig.until_metric("Duplicates", 1).await;
    rig.until_metric("BatchesCompleted", 2).await;
    let shown = batchctl.json(4, &["forget", "a"]).await;
    assert_eq!(shown["state"], "delivered", "{shown}");
    assert_eq!(shown["done"], false, "{shown}");
    let done = batchctl.change(&["forget", "a"]).await;
    assert_eq!(done["done"], true);
    delivers_a_pair(&rig, ["a", "c"]).await;
    let ids = rig.delivered_ids();
    let ids = ids.iter().filter_map(|id| id.rsplit('/').next());
    assert_eq!(Vec::from_iter(ids), ["a", "a", "b", "c", "live"]);
    rig.end().await;
}

/// Returns the outcome of a message; an empty text if the report does not have it.
fn outcome<'r>(report: &'r Value, message_id: &str) -> &'r str {
    let mut messages = report["messages"].as_array().expect("messages").iter();
    let message = messages.find(|message| message["messageId"] == message_id);
    let outcome = message.and_then(|message| message["outcome"].as_str());
    outcome.unwrap_or_default()
}

async fn a_redrive_leaves_out_what_was_delivered(bodies: BodiesKind) {
    // With the message id as event id, a redriven message would be another event.
    let setup = Setup::new().bodies(bodies);
    let rig = setup.var("EVENT_ID", "message-id").start().await;
    let batchctl = Batchctl::of(&rig);
    let delivered = rig.send_to(INPUT_DEAD_LETTER_QUEUE, r#"{"kind":"x","n":1}"#);
    let fresh = rig.send_to(INPUT_DEAD_LETTER_QUEUE, r#"{"kind":"x","n":2}"#);
    let other = rig.send_to(INPUT_DEAD_LETTER_QUEUE, r#"{"kind":"y","n":3}"#);
    take_all(&rig, &[(&delivered, r#"{"kind":"x","n":1}"#)]).await;
    rig.until_metric("BatchesCompleted", 1).await;

    let redrive = ["redrive", "--from", "dead-letters"];
    let redrive = [&redrive[..], &["--where", "body.kind == 'x'"]].concat();
    let shown = batchctl.json(4, &redrive).await;
    assert_eq!(outcome(&shown, &fresh), "redrive", "{shown}");
    let left = outcome(&shown, &delivered);
    assert_eq!(left, "left: delivered after all", "{shown}");
    assert_eq!(outcome(&shown, &other), "", "{shown}");
    assert_eq!(rig.depth(INPUT_DEAD_LETTER_QUEUE), 3);

    let done = batchctl.json(0, &[&redrive[..], &["--yes"]].concat()).await;
    assert_eq!(outcome(&done, &fresh), "redriven", "{done}");
    assert_eq!(rig.depth(INPUT_DEAD_LETTER_QUEUE), 2);
    rig.until_drained().await;
    let mut bodies: Vec<String> = rig.delivered().into_iter().map(|line| line.body).collect();
    bodies.sort();
    assert_eq!(bodies, [r#"{"kind":"x","n":1}"#, r#"{"kind":"x","n":2}"#]);
    rig.end_with_set_aside(2, 0).await;
}

#[tokio::test]
async fn a_redrive_leaves_out_what_was_delivered_after_all() {
    for bodies in [BodiesKind::Items, BodiesKind::LogTable] {
        a_redrive_leaves_out_what_was_delivered(bodies).await;
    }
}

#[tokio::test]
async fn a_message_of_the_quarantine_is_redriven_by_its_reason() {
    let rig = Setup::new().start().await;
    let batchctl = Batchctl::of(&rig);
    // Without an event id, it goes to the quarantine. The producer sends it again, fixed, as another message.
    rig.send(r#"{"id":null}"#);
    rig.until_depth(QUARANTINE_QUEUE, 1).await;
    let redrive = ["redrive", "--from", "quarantine", "--where"];
    let conflicts = [&redrive[..], &["contains(reason, 'conflict')"]].concat();
    let none = batchctl.json(3, &conflicts).await;
    assert_eq!(none["messages"], serde_json::json!([]));
    let wanted = ["--where", "contains(reason, 'found nothing')"];
    batchctl.redrive_quarantine(&wanted, 1).await;
    // Nothing was fixed, so it comes back.
    rig.until_metric("Quarantined", 2).await;
    rig.until_depth(QUARANTINE_QUEUE, 1).await;
    rig.end_with_set_aside(1, 0).await;
}
