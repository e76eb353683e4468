//! Credentials that expire before their environment ends.

use std::cell::Cell;

use local::faults::Percent;

use crate::events::body;
use crate::output::sorted;
use crate::rig::Setup;

#[tokio::test]
async fn environments_whose_credentials_expire_end_themselves_and_nothing_is_lost_or_repeated() {
    let mut setup = Setup::new().mortal().var("MAX_BATCH_SIZE", 100);
    setup.options.faults.expired_credentials = Percent::ALL;
    let rig = setup.start().await;
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
    rig.until("an environment ends itself", async || {
        expired().ended_themselves > 0
    })
    .await;
    rig.stack.faults.end();
    rig.until_drained().await;
    let all = (1..=sent.get()).map(|number| format!("e{number}"));
    assert_eq!(rig.delivered_ids(), sorted(all));
    rig.stack.stop().await;
}
