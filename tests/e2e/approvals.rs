//! Batches that wait until somebody has looked at what the sink would get.

use std::fs;

use emulators::sqs::Message;
use local::bodies::BodiesKind;
use local::stack::QUARANTINE_QUEUE;
use protocol::batch::Status;

use crate::batchctl::Batchctl;
use crate::output::{json_of, manifests};
use crate::rig::Setup;

const COLUMNS: &str = r#"[{"name":"id","json":"id"},{"name":"amount","json":"amount","type":"decimal(9,2)","format":"implied"}]"#;

fn setup(bodies: BodiesKind) -> Setup {
    let setup = Setup::new().quick().bodies(bodies);
    let setup = setup.one_aggregator_environment().batches_of(20);
    let setup = setup.var("APPROVE_ABOVE", 10);
    let setup = setup.var("SINK_FORMAT", "csv");
    let setup = setup.var("SINK_COLUMNS", COLUMNS);
    let setup = setup.var("SINK_PATH", "{sequence:06}.csv");
    setup.var("SINK_TRAILER_RECORD", "{count},{sum:amount:.2}")
}

async fn is_previewed_and_delivered_once_it_is_approved(bodies: BodiesKind) {
    let rig = setup(bodies).start().await;
    for number in 0..20 {
        let amount = if number == 7 { "x" } else { "0.10" };
        rig.send(format!(r#"{{"id":"e{number}","amount":"{amount}"}}"#));
    }
    rig.until_in_error().await;
    assert!(!rig.has_parts());
    let batch = rig.batch_with(Status::Error).await;
    let batchctl = Batchctl::of(&rig);
    let preview = batchctl
        .json(0, &["preview", &batch, "--file", "next"])
        .await;
    assert_eq!(preview["waitsForApproval"], true, "{preview}");
    assert_eq!(preview["name"], "000001.csv");
    assert_eq!(preview["records"], 19);
    assert_eq!(preview["totals"][0]["sum"], "1.90");
    let reason = preview["rejects"][0]["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("column `amount`: `decimal(9,2)`: got `x`"),
        "{preview}"
    );
    let text = batchctl.text(&["preview", &batch]).await;
    assert!(text.out.contains("sum       amount 1.90"), "{text:?}");
    // A retry is no approval.
    batchctl.change(&["retry", &batch]).await;
    let tried = batchctl.json(0, &["show", &batch]).await;
    assert_eq!(tried["notes"][0]["action"], "retry", "{tried}");
    rig.until_in_error().await;
    assert!(!rig.has_parts());

    let approved = batchctl.change(&["approve", &batch]).await;
    assert_eq!(approved["batches"][0]["outcome"], "sent", "{approved}");
    rig.until_drained().await;
    let manifests = manifests(&rig.stack.out);
    let [manifest] = &manifests[..] else {
        panic!("{manifests:?}");
    };
    let manifest = json_of(manifest);
    assert_eq!(manifest["hash"], preview["hash"], "{manifest}");
    let delivered = fs::read(rig.stack.out.join("000001.csv")).expect("it is there");
    let next = fs::read(batchctl.directory.path().join("next")).expect("it is there");
    assert_eq!(delivered, next);
    assert!(delivered.ends_with(b"19,1.90\n"), "{delivered:?}");
    let nothing = batchctl.text(&["preview", &batch]).await;
    assert_eq!(nothing.code, Some(3), "{nothing:?}");
    assert!(nothing.err.contains("no part is ready"), "{nothing:?}");
    rig.end().await;
}

#[tokio::test]
async fn a_large_batch_of_items_is_previewed_and_delivered_once_it_is_approved() {
    is_previewed_and_delivered_once_it_is_approved(BodiesKind::Items).await;
}

#[tokio::test]
async fn a_large_batch_of_the_log_is_previewed_and_delivered_once_it_is_approved() {
    is_previewed_and_delivered_once_it_is_approved(BodiesKind::LogTable).await;
}

#[tokio::test]
async fn a_large_batch_that_nobody_approves_can_be_discarded_and_a_small_one_needs_nobody() {
    let rig = setup(BodiesKind::Items).start().await;
    (0..20).for_each(|number| rig.send(format!(r#"{{"id":"e{number}","amount":"1"}}"#)));
    rig.until_in_error().await;
    let batch = rig.batch_with(Status::Error).await;
    Batchctl::of(&rig).change(&["discard", &batch]).await;
    let aside: Vec<Message> = rig.take(QUARANTINE_QUEUE, 20).await;
    assert_eq!(aside.len(), 20);
    assert!(!rig.has_parts());
    rig.send(r#"{"id":"small","amount":"1"}"#);
    rig.until_metric("BatchesCompleted", 2).await;
    let delivered = fs::read_to_string(rig.stack.out.join("000001.csv"));
    assert_eq!(
        delivered.expect("it is there"),
        "id,amount\nsmall,100\n1,1.00\n"
    );
    rig.end_with_set_aside(20, 0).await;
}
