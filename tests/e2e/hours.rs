//! Hours and rate of deliveries.

use std::fs;
use std::time::{Duration, SystemTime};

use loadgen::DuplicateRule;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::batchctl::Batchctl;
use crate::rig::{MINUTE_MS, Rig, Setup, now_ms, workload};

/// The longest time between the opening and the end of the deliveries.
const OPENING_TIME_MAX: Duration = Duration::from_secs(60);

/// Returns the next full minute that is not too near, and hours of delivery that begin then and last for two hours.
fn next_hours() -> (u64, String) {
    let opening_ms = (now_ms() + 45_000).next_multiple_of(MINUTE_MS);
    let minute_of_day = opening_ms / MINUTE_MS % (24 * 60);
    let clock = |minutes: u64| format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
    let (opens, closes) = (clock(minute_of_day), clock(minute_of_day + 120));
    (opening_ms, format!("{opens}-{closes} UTC"))
}

/// Returns the times at which the files of the sink were written, in epoch milliseconds.
fn written_ms(rig: &Rig) -> Vec<u64> {
    let mut times = Vec::new();
    let batches = fs::read_dir(&rig.stack.out).into_iter().flatten().flatten();
    for file in batches.flat_map(|batch| fs::read_dir(batch.path()).into_iter().flatten().flatten())
    {
        let metadata = file.metadata().expect("the file is there");
        let modified = metadata.modified().expect("the system has times of files");
        let since = modified.duration_since(SystemTime::UNIX_EPOCH);
        times.push(since.expect("it is after 1970").as_millis() as u64);
    }
    times
}

#[tokio::test]
async fn nothing_is_delivered_before_the_hours_and_everything_within_a_minute_of_the_opening() {
    let (opening_ms, hours) = next_hours();
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", 50)
        .var("DELIVERY_HOURS", hours)
        .start()
        .await;
    let workload = workload(51, 400, 10.0);
    rig.burst(&workload).await;
    rig.until("every batch waits", async || {
        rig.all_taken() && rig.logged("part must wait").len() >= 8
    })
    .await;
    assert!(
        now_ms() < opening_ms,
        "the machine is too slow for this test"
    );
    assert_eq!(written_ms(&rig), [0; 0]);
    // A second ticket leases a batch for a moment, in which the batch is due when its lease ends.
    rig.until("every batch is listed as due at the opening", async || {
        let listed = Batchctl::of(&rig).json(0, &["list"]).await;
        let batches = listed["batches"].as_array().expect("a list");
        let is_due = |batch: &Value| batch["dueAt"].as_u64() >= Some(opening_ms);
        let is_overdue = |batch: &Value| batch["overdue"] != false;
        assert!(!batches.iter().any(is_overdue), "{listed}");
        batches.len() >= 8 && batches.iter().all(is_due)
    })
    .await;
    rig.until("a batch is shown to wait for the hours", async || {
        let listed = Batchctl::of(&rig).json(0, &["list"]).await;
        let batch = listed["batches"][0]["batchId"].as_str().expect("an id");
        let shown = Batchctl::of(&rig).json(0, &["show", batch]).await;
        shown["waits"] == json!({"for": "hours", "until": opening_ms})
    })
    .await;
    sleep(Duration::from_millis(opening_ms.saturating_sub(now_ms()))).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    let times = written_ms(&rig);
    let latest_ms = opening_ms + OPENING_TIME_MAX.as_millis() as u64;
    assert!(
        times.iter().all(|at| (opening_ms..latest_ms).contains(at)),
        "{opening_ms}: {times:?}"
    );
    rig.end().await;
}

#[tokio::test]
async fn a_rate_spreads_deliveries_over_all_environments() {
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", 20)
        .var("DELIVERY_MAX_PER_SECOND", 20)
        .one_aggregator_environment()
        .start()
        .await;
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
