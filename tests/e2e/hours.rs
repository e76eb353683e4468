//! Hours and rate of deliveries.

use std::fs;
use std::time::SystemTime;

use loadgen::DuplicateRule;
use serde_json::{Value, json};
use tests::files_below;

use crate::batchctl::Batchctl;
use crate::rig::{Rig, Setup, now_ms, owned, workload};

const MINUTE_MS: u64 = 60_000;

/// Returns the time twelve hours from now, epoch ms, as a full minute, and hours of delivery that begin then and last for two hours.
fn far_hours() -> (u64, String) {
    let opening_ms = now_ms().next_multiple_of(MINUTE_MS) + 12 * 60 * MINUTE_MS;
    let minute_of_day = opening_ms / MINUTE_MS % (24 * 60);
    let clock = |minutes: u64| format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
    let (opens, closes) = (clock(minute_of_day), clock(minute_of_day + 120));
    (opening_ms, format!("{opens}-{closes} UTC"))
}

/// Returns the times at which the files of the sink were written, in epoch milliseconds.
fn written_ms(rig: &Rig) -> Vec<u64> {
    let files = files_below(&rig.stack.out, "").into_iter();
    let times = files.map(|file| {
        let metadata = fs::metadata(file).expect("the file is there");
        let modified = metadata.modified().expect("the system has times of files");
        let since = modified.duration_since(SystemTime::UNIX_EPOCH);
        since.expect("it is after 1970").as_millis() as u64
    });
    times.collect()
}

#[tokio::test]
async fn nothing_is_delivered_outside_the_hours_and_everything_once_they_are_open() {
    let (opening_ms, hours) = far_hours();
    let setup = Setup::new().batches_of(50);
    let rig = setup.var("DELIVERY_HOURS", hours).start().await;
    let workload = workload(51, 400, 10.0);
    rig.burst(&workload).await;
    let batchctl = Batchctl::of(&rig);
    // A second ticket leases a batch for a moment, in which the batch is due when its lease ends.
    rig.until("every batch is listed as due at the opening", async || {
        let listed = batchctl.json(0, &["list"]).await;
        let batches = listed["batches"].as_array().expect("a list");
        let is_due = |batch: &Value| batch["dueAt"].as_u64() >= Some(opening_ms);
        let is_overdue = |batch: &Value| batch["overdue"] != false;
        assert!(!batches.iter().any(is_overdue), "{listed}");
        rig.all_taken() && batches.len() >= 8 && batches.iter().all(is_due)
    })
    .await;
    assert!(rig.has_logged("why=Hours"));
    assert!(!rig.has_parts());
    rig.until("a batch is shown to wait for the hours", async || {
        let listed = batchctl.json(0, &["list"]).await;
        let batch = listed["batches"][0]["batchId"].as_str().expect("an id");
        let shown = batchctl.json(0, &["show", batch]).await;
        shown["waits"] == json!({"for": "hours", "until": opening_ms})
    })
    .await;
    // The hours become those of the whole day, and an operator has the batches looked at again.
    let always = owned(&[("DELIVERY_HOURS", "")]);
    rig.stack.batch_processor.redeploy(&always);
    batchctl.change(&["retry", "--status", "processing"]).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test]
async fn a_rate_spreads_deliveries_over_all_environments() {
    let setup = Setup::new().var("DELIVERY_MAX_PER_SECOND", 20);
    let setup = setup.batches_of(20).one_aggregator_environment();
    let rig = setup.start().await;
    let workload = workload(52, 200, 0.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    let mut times = written_ms(&rig);
    times.sort_unstable();
    // Ten parts of a second each; the first goes at once.
    let took_ms = times.last().expect("there are files") - times[0];
    assert!(took_ms >= 8_000, "{times:?}");
    rig.end().await;
}
