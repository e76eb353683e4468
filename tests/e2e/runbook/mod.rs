//! Rehearsals of docs/runbook.md. Each breaks a stack in one way, waits until the alarm of the page goes off, runs the page's own
//! commands, and checks that nothing is lost or repeated.
//!
//! | file | incidents |
//! |---|---|
//! | `page`, `alarms`, `expression` | reads pages and runs their commands; evaluates alarms; metric math |
//! | `sink` | the sink is down; it refuses a batch permanently |
//! | `input` | poison messages; a wrong event id |
//! | `functions` | a batch-processor that is killed; expired credentials; a bad configuration |
//! | `log` | the manifest of the log is lost; a run cannot be read |
//! | `notices` | notices cannot be sent |
//! | `rejects` | the sink rejects records |
//! | `tables` | lost tickets; an index that lags; a throttled table |

mod alarms;
mod expression;
mod functions;
mod input;
mod log;
mod notices;
mod page;
mod rejects;
mod sink;
mod tables;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use loadgen::DuplicateRule;
use serde_json::Value;

use self::alarms::{HOUR, State, Watch, names_without_ages};
use crate::rig::{Setup, workload};

/// Returns the ids of the listed batches.
fn ids(listed: &Value) -> BTreeSet<String> {
    let batches = listed["batches"].as_array().expect("a list");
    let ids = batches.iter().map(|batch| batch["batchId"].as_str());
    ids.map(|id| id.expect("a text").to_owned()).collect()
}

#[tokio::test]
async fn no_alarm_goes_off_while_all_is_well() {
    let mut setup = Setup::new().batches_of(100);
    setup.options.sweep_every = Some(Duration::from_millis(500));
    let rig = setup.start().await;
    let names = names_without_ages();
    assert!(names.len() >= 14, "{names:?}");
    let watches = names.iter().map(|name| (name, Watch::start(&rig, name)));
    let watches = Vec::from_iter(watches);
    let workload = workload(39, 500, 10.0);
    rig.burst(&workload).await;
    let began = Instant::now();
    rig.until("an hour of every alarm is over", async || {
        for (name, watch) in &watches {
            assert_ne!(watch.state(), State::Alarm, "{name}");
        }
        began.elapsed() > HOUR + HOUR / 2
    })
    .await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}
