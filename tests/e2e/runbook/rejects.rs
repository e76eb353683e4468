//! The sink takes a part without some of its records.

use super::alarms::State;
use super::page::Rehearsal;
use crate::batchctl::bodies_at_sink;
use crate::events::body;
use crate::rig::Setup;

/// The encoding of the sink has no characters for these amounts.
const WRONG: [&str; 2] = [
    r#"{"id":"A1","amount":"東京"}"#,
    r#"{"id":"A2","amount":"京都"}"#,
];
const CORRECTED: &str = r#"{"id":"A1","amount":"Tokyo"}"#;

#[tokio::test]
async fn rejected_records_are_found_corrected_or_redriven_once_the_sink_takes_them() {
    let setup = Setup::new().quick().batches_of(12);
    let setup = setup.var("SINK_FORMAT", "body");
    let setup = setup.var("SINK_ENCODING", "iso-8859-1");
    let rig = setup.one_aggregator_environment().start().await;
    let mut page = Rehearsal::of(&rig, "The sink rejects records");
    let good: Vec<String> = (0..10).map(|number| body(&format!("g{number}"))).collect();
    let all = good.iter().map(String::as_str).chain(WRONG);
    all.for_each(|body| rig.send(body));
    rig.until_drained().await;
    assert_eq!(bodies_at_sink(&rig.stack.out), good);
    page.until_alarm(State::Alarm).await;

    let rejects = page.looks("rejects").await;
    let listed = rejects["rejects"].as_array().expect("a list");
    assert_eq!(listed.len(), 2, "{rejects}");
    page.set("EVENT_ID", "A1");
    let found = page.looks("find").await;
    assert_eq!(found["state"], "rejected", "{found}");
    page.instead_of_aws("a message of the producer with the corrected body");
    rig.send(CORRECTED);
    rig.until_drained().await;
    let found = page.looks("find").await;
    assert_eq!(found["state"], "delivered", "{found}");

    page.instead_of_aws("a redeploy with another encoding");
    page.deploy(&[("SINK_ENCODING", "utf-8")]);
    let would = page.looks("rejects --redrive").await;
    assert_eq!(would["counts"]["redrive"], 1, "{would}");
    let done = page.changes("rejects --redrive").await;
    assert_eq!(done["counts"]["redriven"], 1, "{done}");
    rig.until_drained().await;
    page.sees_no_batch().await;
    let left = page.looks("rejects --redrive").await;
    let since = "left: delivered since, by another message";
    assert_eq!(left["counts"][since], 2, "{left}");
    page.end_when_ok().await;
    let mut expected = good;
    expected.extend([WRONG[1], CORRECTED].map(str::to_owned));
    expected.sort();
    assert_eq!(bodies_at_sink(&rig.stack.out), expected);
    rig.end().await;
}
