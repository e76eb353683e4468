//! Rejected events: `find`, `show`, `list`, `rejects`, and `redrive` of corrected ones.

use std::fs;
use std::path::Path;

use local::bodies::BodiesKind;
use local::stack::{INPUT_DEAD_LETTER_QUEUE, QUARANTINE_QUEUE};
use serde_json::{Value, json};
use tests::files_below;

use super::{Batchctl, YES};
use crate::events::body;
use crate::output::sorted;
use crate::rig::{Rig, Setup, cases};

/// The encoding of the sink has no character for this amount.
const WRONG: &str = r#"{"id":"A1","amount":"東京"}"#;
const CORRECTED: &str = r#"{"id":"A1","amount":"Tokyo"}"#;
/// A record that the sink never takes.
const NEVER: &str = r#"{"id":"A2","amount":"京都"}"#;

/// Returns the bodies that the sink has, sorted.
pub fn bodies_at_sink(directory: &Path) -> Vec<String> {
    let parts = files_below(directory, ".txt").into_iter();
    let texts = parts.map(|path| fs::read_to_string(path).expect("the text is ASCII"));
    sorted(String::from_iter(texts).lines())
}

/// Returns a stack whose batches have four events, and whose sink takes ISO 8859-1 only.
pub async fn in_latin_1(bodies: BodiesKind) -> Rig {
    let setup = Setup::new().window(1).bodies(bodies).batches_of(4);
    let setup = setup.var("SINK_FORMAT", "body");
    let setup = setup.var("SINK_ENCODING", "iso-8859-1");
    setup.one_aggregator_environment().start().await
}

/// Returns such a stack, which has delivered the events `g1` and `g2`, and whose sink rejected `A1` and `A2`.
async fn with_rejects(bodies: BodiesKind) -> Rig {
    let rig = in_latin_1(bodies).await;
    for body in [&body("g1"), WRONG, &body("g2"), NEVER] {
        rig.send(body);
    }
    rig.until_metric("BatchesCompleted", 1).await;
    rig.until_drained().await;
    rig
}

async fn a_rejected_event_is_not_delivered_and_its_corrected_body_is(bodies: BodiesKind) {
    let rig = with_rejects(bodies).await;
    let batchctl = Batchctl::of(&rig);
    assert_eq!(bodies_at_sink(&rig.stack.out), [body("g1"), body("g2")]);

    let found = batchctl.json(0, &["find", "A1"]).await;
    assert_eq!(found["state"], "rejected", "{found}");
    assert_eq!(found["deliveredAt"], Value::Null, "{found}");
    assert_eq!(found["parts"], json!([0]), "{found}");
    let batch = found["batchId"].as_str().expect("a batch").to_owned();
    let shown = batchctl.json(0, &["show", &batch]).await;
    let counted = |view: &Value| (view["delivered"].clone(), view["rejected"].clone());
    assert_eq!(counted(&shown), (json!(2), json!(2)), "{shown}");
    assert_eq!(shown["counts"]["setAside"], 0, "{shown}");
    assert_eq!(shown["partList"][0]["rejected"], 2, "{shown}");
    let text = batchctl.text(&["show", &batch]).await.out;
    let words = "4 claimed, 4 in parts, 2 delivered, 2 rejected, 0 set aside";
    assert!(text.contains(words), "{text}");
    let listed = batchctl.json(0, &["list", "--status", "complete"]).await;
    let counted = counted(&listed["batches"][0]);
    assert_eq!(counted, (json!(2), json!(2)), "{listed}");

    let rejects = batchctl.json(0, &["rejects"]).await;
    assert_eq!(ids(&rejects), ["A1", "A2"], "{rejects}");
    for reject in rejects["rejects"].as_array().expect("a list") {
        let reason = reject["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("`iso-8859-1` has no character"), "{reject}");
        assert_eq!(reject["batchId"], batch.as_str(), "{reject}");
    }

    rig.send(CORRECTED);
    rig.until_drained().await;
    let expected = [CORRECTED.to_owned(), body("g1"), body("g2")];
    assert_eq!(bodies_at_sink(&rig.stack.out), expected);
    let found = batchctl.json(0, &["find", "A1"]).await;
    assert_eq!(found["state"], "delivered", "{found}");

    // What was corrected is not redriven. The other one is, and then has a claim of another batch.
    let redrive = ["rejects", &batch, "--redrive"];
    let shown = batchctl.json(4, &redrive).await;
    let left = "left: delivered since, by another message";
    assert_eq!(outcome(&shown, "A1"), left, "{shown}");
    assert_eq!(outcome(&shown, "A2"), "redrive", "{shown}");
    let done = batchctl.json(0, &[&redrive[..], &YES].concat()).await;
    assert_eq!(done["counts"]["redriven"], 1, "{done}");
    rig.until_drained().await;
    let again = batchctl.json(3, &[&redrive[..], &YES].concat()).await;
    let left = "left: claimed again, and rejected again";
    assert_eq!(outcome(&again, "A2"), left, "{again}");
    assert_eq!(bodies_at_sink(&rig.stack.out), expected);
    let notes = batchctl.json(0, &["show", &batch]).await;
    assert_eq!(notes["notes"][0]["action"], "redrive rejects: 1", "{notes}");
    rig.end().await;
}

fn ids(report: &Value) -> Vec<String> {
    let rejects = report["rejects"].as_array().expect("a list").iter();
    sorted(rejects.map(|reject| reject["eventId"].as_str().expect("a text")))
}

/// Returns what became of the rejected event.
fn outcome(report: &Value, id: &str) -> String {
    let mut rejects = report["rejects"].as_array().expect("a list").iter();
    let reject = rejects.find(|reject| reject["eventId"] == id);
    let outcome = reject.and_then(|reject| reject["outcome"].as_str());
    outcome.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_rejected_event_may_be_corrected() {
    for bodies in cases(&[BodiesKind::Items, BodiesKind::LogTable]) {
        a_rejected_event_is_not_delivered_and_its_corrected_body_is(bodies).await;
    }
}

#[tokio::test]
async fn another_body_of_a_delivered_event_is_kept_and_one_of_a_rejected_event_redriven() {
    let rig = with_rejects(BodiesKind::Items).await;
    let batchctl = Batchctl::of(&rig);
    let other = r#"{"id":"g1","other":true}"#;
    for body in [other, &body("g1"), CORRECTED, NEVER] {
        rig.send_to(INPUT_DEAD_LETTER_QUEUE, body);
    }
    let redrive = ["redrive", "--from", "dead-letters", "--all"];
    let shown = batchctl.json(4, &redrive).await;
    for outcome in [
        "left: another body of this id was delivered, and this one was not",
        "left: delivered after all",
        "redrive",
        "left: rejected by the sink with this body; `batchctl rejects` lists and redrives it",
    ] {
        assert_eq!(shown["counts"][outcome], 1, "{outcome}: {shown}");
    }
    for (text, same) in [(other, false), (&*body("g1"), true)] {
        let file = batchctl.directory.path().join("body");
        fs::write(&file, text).expect("the directory takes a file");
        let found = batchctl.json(0, &["find", "g1", "--body", "body"]).await;
        assert_eq!(found["sameBody"], same, "{found}");
        let words = batchctl.text(&["find", "g1", "--body", "body"]).await.out;
        let is_other = words.contains("another body of this id was delivered");
        assert_eq!(is_other, !same, "{words}");
    }
    let done = batchctl.json(0, &[&redrive[..], &["--yes"]].concat()).await;
    assert_eq!(done["counts"]["redriven"], 1, "{done}");
    rig.until_drained().await;
    assert!(bodies_at_sink(&rig.stack.out).contains(&CORRECTED.to_owned()));
    assert_eq!(rig.depth(QUARANTINE_QUEUE), 0);
    rig.end_with_set_aside(3, 0).await;
}
