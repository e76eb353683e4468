//! What a later version of the service stored is refused, and nothing is lost: the message or ticket comes back, nothing is
//! changed, and once the later version is deployed again, every event is delivered. Here, what has the later version is changed
//! back instead.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use local::bodies::BodiesKind;
use local::dynamodb::{BATCH_TABLE, LOCK_TABLE};
use protocol::batch::Status;
use protocol::format_version::{FORMAT_VERSION, FORMAT_VERSION_FIELD};
use serde_json::json;

use crate::events::{body, order, process, take, ticket};
use crate::rig::{Rig, Setup};

const IDS: [&str; 3] = ["e1", "e2", "e3"];

/// Starts a stack with one sealed batch, which nothing processes but a test's own tickets. Returns the batch too.
async fn sealed(bodies: BodiesKind) -> (Rig, String) {
    let setup = Setup::new().without_sweep().bodies(bodies);
    let setup = setup.batches_of(IDS.len());
    let rig = setup.one_aggregator_environment().start().await;
    rig.stack.batch_mapping.stop().await;
    IDS.iter().for_each(|id| rig.send(body(id)));
    rig.until_metric("Claimed", IDS.len() as u64).await;
    rig.until_taken().await;
    let batch = rig.only_batch().await;
    // A new environment knows nothing of what the first one claimed, as after an update.
    rig.stack.aggregator.redeploy(&BTreeMap::new());
    (rig, batch)
}

impl Rig {
    /// Says that an item was written by a later version, or takes that back.
    async fn mark(&self, table: &str, key: (&str, &str), later: bool) {
        let (attribute, value) = key;
        let update = self.dynamodb().update_item().table_name(table);
        let update = update.key(attribute, AttributeValue::S(value.to_owned()));
        let update = if later {
            let version = AttributeValue::N((FORMAT_VERSION + 1).to_string());
            update
                .update_expression(format!("SET {FORMAT_VERSION_FIELD} = :later"))
                .expression_attribute_values(":later", version)
        } else {
            update.update_expression(format!("REMOVE {FORMAT_VERSION_FIELD}"))
        };
        update.send().await.expect("the item can be edited");
    }

    /// Invokes the aggregator with another message of an event; returns whether the message is acknowledged.
    async fn take_duplicate(&self, id: &str) -> bool {
        take(self, &[("another", &body(id))]).await.is_empty()
    }

    /// Checks that the log names the later version.
    fn assert_refusal_is_logged(&self) {
        let words = "written by a later version of the service: got `3`, expected at most `2`";
        assert!(self.has_complained(words));
    }

    /// Checks that a ticket now delivers every event once, and ends the test.
    async fn delivers_everything(&self, batch: &str) {
        assert!(process(self, &ticket(batch)).await);
        assert_eq!(self.delivered_ids(), IDS);
        assert!(self.take_duplicate("e1").await);
        assert_eq!(self.delivered_ids(), IDS);
        self.stack.stop().await;
    }
}

#[tokio::test]
async fn a_record_of_a_later_version_is_left_untouched_until_that_version_is_back() {
    let (rig, batch) = sealed(BodiesKind::Items).await;
    let key = ("batchId", &*batch);
    rig.mark(BATCH_TABLE, key, true).await;
    let before = rig.named_item(&batch).await;
    assert!(!process(&rig, &ticket(&batch)).await);
    assert!(!process(&rig, &order(&batch, "quarantine")).await);
    // The resolution of the batch is in its record, so a duplicate of its event may not be dropped either.
    assert!(!rig.take_duplicate("e1").await);
    assert_eq!(rig.named_item(&batch).await, before);
    assert!(rig.delivered().is_empty());
    rig.assert_refusal_is_logged();
    rig.mark(BATCH_TABLE, key, false).await;
    rig.delivers_everything(&batch).await;
}

#[tokio::test]
async fn a_lock_item_of_a_later_version_keeps_its_batch_and_its_messages_waiting() {
    let (rig, batch) = sealed(BodiesKind::Items).await;
    let key = ("messageId", "e2");
    rig.mark(LOCK_TABLE, key, true).await;
    assert!(!process(&rig, &ticket(&batch)).await);
    assert!(!rig.take_duplicate("e2").await);
    assert!(rig.delivered().is_empty());
    rig.assert_refusal_is_logged();
    rig.mark(LOCK_TABLE, key, false).await;
    rig.delivers_everything(&batch).await;
}

#[tokio::test]
async fn a_ticket_of_a_later_version_comes_back_and_changes_nothing() {
    let (rig, batch) = sealed(BodiesKind::Items).await;
    let before = rig.named_item(&batch).await;
    let later = json!({ "batchId": batch, FORMAT_VERSION_FIELD: FORMAT_VERSION + 1 });
    assert!(!process(&rig, &later.to_string()).await);
    assert_eq!(rig.named_item(&batch).await, before);
    rig.assert_refusal_is_logged();
    rig.delivers_everything(&batch).await;
}

#[tokio::test]
async fn a_slot_of_a_later_version_keeps_its_batch_waiting() {
    let (rig, batch) = sealed(BodiesKind::LogTable).await;
    let slots = rig.objects_in_table().await;
    let slot = slots.iter().find(|slot| slot.starts_with(&batch));
    let key = ("batchId", &**slot.expect("the batch has a slot"));
    rig.mark(BATCH_TABLE, key, true).await;
    process(&rig, &ticket(&batch)).await;
    assert!(rig.delivered().is_empty());
    rig.assert_refusal_is_logged();
    rig.mark(BATCH_TABLE, key, false).await;
    // Only what is known to be gone counts as lost: the batch waits, or an operator has it retried.
    assert!(process(&rig, &order(&batch, "operator")).await);
    assert_eq!(rig.delivered_ids(), IDS);
    rig.stack.stop().await;
}

#[tokio::test]
async fn a_manifest_of_a_later_version_is_not_replaced_and_its_part_is_delivered_afterwards() {
    let (rig, batch) = sealed(BodiesKind::Items).await;
    let directory = rig.stack.out.join(&batch);
    std::fs::create_dir_all(&directory).expect("the directory can be made");
    let manifest = directory.join("0.manifest.json");
    let later = json!({ FORMAT_VERSION_FIELD: FORMAT_VERSION + 1 }).to_string();
    std::fs::write(&manifest, &later).expect("the directory takes a file");
    process(&rig, &ticket(&batch)).await;
    assert_eq!(rig.statuses().await[&Status::Error], 1);
    let found = std::fs::read_to_string(&manifest);
    assert_eq!(found.expect("the manifest is there"), later);
    std::fs::remove_file(&manifest).expect("the manifest can be removed");
    assert!(process(&rig, &order(&batch, "operator")).await);
    assert_eq!(rig.delivered_ids(), IDS);
    rig.stack.stop().await;
}
