//! Credentials that expire before their environment ends.

use std::cell::Cell;
use std::time::Duration;

use loadgen::DuplicateRule;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};

use crate::events::body;
use crate::rig::{Rig, Setup, workload};

async fn started(percent: &str) -> Rig {
    let mut setup = Setup::new()
        .var("MAX_BATCH_SIZE", 100)
        .redeliver(INPUT_QUEUE, Duration::from_secs(5), 1_000)
        .redeliver(BATCH_QUEUE, Duration::from_secs(5), 1_000);
    setup.options.batch_size = 100;
    setup.options.faults.expired_credentials = percent.parse().expect("the value is a percentage");
    setup.start().await
}

#[tokio::test]
async fn requests_with_expired_credentials_are_refused() {
    let rig = started("100").await;
    let expired = || {
        let report = rig.stack.faults.report().expect("the fault is on");
        report.expired_credentials.expect("the fault is on")
    };
    let sent = Cell::new(0);
    rig.until("the aggregator is refused requests", async || {
        // There is still work to do when the credentials expire.
        sent.set(sent.get() + 1);
        rig.send(body(&format!("e{}", sent.get())));
        expired().requests_refused > 10
    })
    .await;
    rig.until("it says so", async || rig.has_complained("ExpiredToken"))
        .await;
    assert!(expired().environments > 0, "{:?}", expired());
    rig.stack.stop().await;
}

#[tokio::test]
async fn environments_whose_credentials_expire_end_themselves_and_nothing_is_lost_or_repeated() {
    let rig = started("60").await;
    let workload = workload(22, 600, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    let report = rig.stack.faults.report().expect("the fault is on");
    eprintln!("{report}");
    let expired = report.expired_credentials.expect("the fault is on");
    assert!(expired.environments > 0, "{report}");
    assert_eq!(expired.ended_themselves, expired.environments, "{report}");
    rig.stack.stop().await;
}
