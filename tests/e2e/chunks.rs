//! Bodies in chunks: where they are, and batches of which a chunk is lost.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use emulators::sqs::Message;
use local::bodies::BodiesKind;
use local::dynamodb::BATCH_TABLE;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE};
use protocol::batch::Status;
use serde_json::json;
use shared::memory::noise;

use crate::calls::s3;
use crate::events::{body, event, failures};
use crate::rig::{Rig, Setup};
use crate::tables::text;

/// The bucket in the value of [`BodiesKind::S3`], which is the prefix too.
const BUCKET: &str = "chunks";

impl Rig {
    /// Returns how many batches were opened with each value of `BODIES`.
    pub async fn batches_by_bodies(&self) -> BTreeMap<String, usize> {
        let mut batches = BTreeMap::new();
        for item in self.batch_items().await {
            if text(&item, "batchId").contains(['/', '#']) {
                continue;
            }
            let bodies = match text(&item, "bodies") {
                "" => "items",
                in_chunks => in_chunks.trim_end_matches('/'),
            };
            *batches.entry(bodies.to_owned()).or_default() += 1;
        }
        batches
    }

    /// Returns the names of the chunks in the batch table, in pieces.
    pub async fn chunks_in_table(&self) -> Vec<String> {
        let items = self.batch_items().await;
        let ids = items.iter().map(|item| text(item, "batchId").to_owned());
        ids.filter(|id| id.contains('/')).collect()
    }

    /// Returns the keys of the chunks in the bucket.
    pub async fn chunks_in_bucket(&self) -> Vec<String> {
        let listed = s3(self).list_objects_v2().bucket(BUCKET).send().await;
        let listed = listed.expect("the bucket can be listed");
        let keys = listed.contents().iter().filter_map(|object| object.key());
        keys.map(str::to_owned).collect()
    }

    /// Checks that all batches were opened with `bodies`, and that their bodies are there.
    pub async fn assert_bodies_are_in(&self, bodies: BodiesKind) {
        let batches = self.batches_by_bodies().await;
        assert!(batches.keys().eq([bodies.value()]), "{batches:?}");
        let in_table = self.chunks_in_table().await;
        match bodies {
            BodiesKind::Items => assert!(in_table.is_empty(), "{in_table:?}"),
            BodiesKind::Table | BodiesKind::LogTable => assert!(!in_table.is_empty(), "no chunks"),
            BodiesKind::S3 | BodiesKind::LogS3 => {
                assert!(!self.chunks_in_bucket().await.is_empty(), "no chunks");
            }
        }
    }
}

/// Returns a body whose chunk is too large for the table if there is a bucket.
fn large(id: &str) -> String {
    json!({ "id": id, "noise": noise(20_000) }).to_string()
}

/// Claims the events `a` and `b` in two invocations, so that each has a chunk, and loses the first chunk by `lose`. Returns
/// the rig, with one batch, which is in error, and the id of the batch.
async fn a_batch_with_a_lost_chunk(
    bodies: BodiesKind,
    lose: impl AsyncFnOnce(&Rig, &str),
) -> (Rig, String) {
    let rig = Setup::new()
        .window(5)
        .bodies(bodies)
        .one_aggregator_environment()
        .start()
        .await;
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    for id in ["a", "b"] {
        let claimed = event(&source, &[(id, &large(id))]);
        assert_eq!(
            failures(&rig, &rig.stack.aggregator, claimed).await,
            [""; 0]
        );
    }
    rig.assert_bodies_are_in(bodies).await;
    let batch = &rig.only_batch().await;
    lose(&rig, &format!("{batch}/0")).await;
    rig.until("the batch is in error", async || {
        rig.statuses().await[&Status::Error] == 1
    })
    .await;
    assert!(rig.has_complained("chunk is lost"));
    assert!(!rig.has_parts(), "`b` does not go without `a`");
    let batch = batch.clone();
    (rig, batch)
}

fn send_order(rig: &Rig, batch: &str, reason: &str) {
    let order = json!({ "batchId": batch, "reason": reason });
    rig.send_to(BATCH_QUEUE, order.to_string());
}

#[tokio::test]
async fn a_batch_with_a_lost_chunk_is_delivered_once_the_chunk_is_back() {
    let mut lost = None;
    let (rig, batch) = a_batch_with_a_lost_chunk(BodiesKind::Table, async |rig, chunk| {
        let table = rig.dynamodb();
        let item = table.get_item().table_name(BATCH_TABLE);
        let item = item.key("batchId", AttributeValue::S(chunk.to_owned()));
        lost = item.send().await.expect("the table can be read").item;
        let deleted = table.delete_item().table_name(BATCH_TABLE);
        let deleted = deleted.key("batchId", AttributeValue::S(chunk.to_owned()));
        deleted.send().await.expect("the item can be deleted");
    })
    .await;
    // An operator's ticket changes nothing as long as the chunk is lost.
    send_order(&rig, &batch, "operator");
    rig.until("the batch was tried again", async || {
        rig.logged("chunk is lost").len() == 2
    })
    .await;
    let back = rig.dynamodb().put_item().table_name(BATCH_TABLE);
    let back = back.set_item(Some(lost.expect("the chunk was in the table")));
    back.send().await.expect("the table takes the item");
    send_order(&rig, &batch, "operator");
    rig.until_metric("BatchesCompleted", 1).await;
    assert_eq!(rig.delivered_ids(), ["a", "b"]);
    rig.end().await;
}

#[tokio::test]
async fn a_batch_with_a_lost_chunk_is_set_aside_with_a_message_about_the_chunk() {
    let (rig, batch) = a_batch_with_a_lost_chunk(BodiesKind::S3, async |rig, chunk| {
        let key = format!("{BUCKET}/{chunk}");
        let deleted = s3(rig).delete_object().bucket(BUCKET).key(key).send().await;
        deleted.expect("the object can be deleted");
    })
    .await;
    send_order(&rig, &batch, "quarantine");
    let messages = rig.take(QUARANTINE_QUEUE, 2).await;
    let event_id = |message: &Message| {
        let id = message.message_attributes.get("eventId")?;
        id.string_value.clone()
    };
    let (events, notices): (Vec<_>, Vec<_>) = messages
        .iter()
        .partition(|message| event_id(message).is_some());
    assert_eq!(events.len(), 1, "{messages:?}");
    assert_eq!(event_id(events[0]).as_deref(), Some("b"));
    assert!(*events[0].body == *large("b"), "cut or changed");
    let lost = format!("chunk `{batch}/0`: missing");
    assert!(notices[0].body.starts_with(&lost), "{}", notices[0].body);
    rig.until_metric("BatchesCompleted", 1).await;

    // The producer sends the lost event again.
    rig.send(body("a"));
    rig.until_metric("BatchesCompleted", 2).await;
    assert_eq!(rig.delivered_ids(), ["a"]);
    rig.end_with_set_aside(2, 0).await;
}
