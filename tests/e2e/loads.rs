//! Where bodies are, and batches of which a load is lost.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use local::bodies::BodiesKind;
use local::dynamodb::BATCH_TABLE;
use local::stack::{BATCH_QUEUE, QUARANTINE_QUEUE};
use serde_json::json;
use shared::memory::noise;

use crate::batchctl::Batchctl;
use crate::calls::s3;
use crate::events::{body, order, take};
use crate::rig::{Rig, Setup};
use crate::tables::text;

/// The bucket in the value of [`BodiesKind::LogS3`], which is the prefix too.
const BUCKET: &str = "loads";

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
                place => place.trim_end_matches('/'),
            };
            *batches.entry(bodies.to_owned()).or_default() += 1;
        }
        batches
    }

    /// Returns the names of the slots, and of the objects of the log, in the batch table, in pieces.
    pub async fn objects_in_table(&self) -> Vec<String> {
        let items = self.batch_items().await;
        let ids = items.iter().map(|item| text(item, "batchId").to_owned());
        ids.filter(|id| id.contains('/')).collect()
    }

    /// Returns the keys of the objects of the log in the bucket.
    pub async fn objects_in_bucket(&self) -> Vec<String> {
        let listed = s3(self).list_objects_v2().bucket(BUCKET).send().await;
        let listed = listed.expect("the bucket can be listed");
        let keys = listed.contents().iter().filter_map(|object| object.key());
        keys.map(str::to_owned).collect()
    }

    /// Checks that all batches were opened with `bodies`, and that their bodies are there.
    pub async fn assert_bodies_are_in(&self, bodies: BodiesKind) {
        let batches = self.batches_by_bodies().await;
        assert!(batches.keys().eq([bodies.value()]), "{batches:?}");
        let in_table = self.objects_in_table().await;
        let has_loads = in_table.iter().any(|object| object.starts_with("load/"));
        match bodies {
            BodiesKind::Items => assert!(!has_loads, "{in_table:?}"),
            BodiesKind::LogTable => assert!(has_loads, "{in_table:?}"),
            BodiesKind::LogS3 => {
                assert!(!self.objects_in_bucket().await.is_empty(), "no loads");
            }
        }
    }
}

/// Returns a body whose load is too large for the table if there is a bucket.
fn large(id: &str) -> String {
    json!({ "id": id, "noise": noise(20_000) }).to_string()
}

/// Brings the events `a` and `b` in two invocations, so that each has a load, and loses the first load by `lose`. Returns the rig, with
/// one batch, which is in error, the id of the batch and the name of the lost load.
async fn a_batch_with_a_lost_load(
    bodies: BodiesKind,
    lose: impl AsyncFnOnce(&Rig, &str),
) -> (Rig, String, String) {
    let setup = Setup::new().window(5).bodies(bodies);
    let rig = setup.one_aggregator_environment().start().await;
    assert_eq!(take(&rig, &[("a", &large("a"))]).await, [""; 0]);
    let objects = match bodies {
        BodiesKind::LogS3 => rig.objects_in_bucket().await,
        BodiesKind::Items | BodiesKind::LogTable => rig.objects_in_table().await,
    };
    let load = objects.iter().find(|object| object.contains("load/"));
    let load = load.expect("it has a load").clone();
    assert_eq!(take(&rig, &[("b", &large("b"))]).await, [""; 0]);
    lose(&rig, &load).await;
    rig.until_in_error().await;
    assert!(rig.has_complained("object is lost"));
    assert!(!rig.has_parts(), "`b` does not go without `a`");
    let batch = rig.only_batch().await;
    (rig, batch, load)
}

#[tokio::test]
async fn a_batch_with_a_lost_load_is_delivered_once_the_load_is_back() {
    let mut lost = None;
    let (rig, batch, _) = a_batch_with_a_lost_load(BodiesKind::LogTable, async |rig, load| {
        let table = rig.dynamodb();
        let item = table.get_item().table_name(BATCH_TABLE);
        let item = item.key("batchId", AttributeValue::S(load.to_owned()));
        lost = item.send().await.expect("the table can be read").item;
        let deleted = table.delete_item().table_name(BATCH_TABLE);
        let deleted = deleted.key("batchId", AttributeValue::S(load.to_owned()));
        deleted.send().await.expect("the item can be deleted");
    })
    .await;
    // An operator's ticket changes nothing as long as the load is lost.
    rig.send_to(BATCH_QUEUE, order(&batch, "operator"));
    let tried_again = async || rig.logged("object is lost").len() == 2;
    rig.until("the batch was tried again", tried_again).await;
    let back = rig.dynamodb().put_item().table_name(BATCH_TABLE);
    let back = back.set_item(Some(lost.expect("the load was in the table")));
    back.send().await.expect("the table takes the item");
    rig.send_to(BATCH_QUEUE, order(&batch, "operator"));
    rig.until_metric("BatchesCompleted", 1).await;
    assert_eq!(rig.delivered_ids(), ["a", "b"]);
    rig.end().await;
}

#[tokio::test]
async fn a_batch_with_a_lost_load_is_set_aside_with_a_notice_that_no_redrive_takes_for_an_event() {
    let (rig, batch, load) = a_batch_with_a_lost_load(BodiesKind::LogS3, async |rig, load| {
        let deleted = s3(rig).delete_object().bucket(BUCKET).key(load).send();
        deleted.await.expect("the object can be deleted");
    })
    .await;
    rig.send_to(BATCH_QUEUE, order(&batch, "quarantine"));
    rig.until_metric("BatchesCompleted", 1).await;
    rig.until_depth(QUARANTINE_QUEUE, 2).await;
    let batchctl = Batchctl::of(&rig);
    batchctl.redrive_quarantine(&["--all"], 1).await;
    rig.until_metric("BatchesCompleted", 2).await;
    assert_eq!(rig.delivered_ids(), ["b"]);
    let delivered = rig.delivered();
    assert!(delivered[0].body == *large("b"), "cut or changed");
    let notices = rig.take(QUARANTINE_QUEUE, 1).await;
    let (_, name) = load.split_once('/').expect("it is below a prefix");
    let lost = format!("object `{name}`: missing");
    assert!(notices[0].body.starts_with(&lost), "{}", notices[0].body);

    // The producer sends the lost event again.
    rig.send(body("a"));
    rig.until_metric("BatchesCompleted", 3).await;
    assert_eq!(rig.delivered_ids(), ["a", "b"]);
    rig.end_with_set_aside(1, 0).await;
}
