//! Periods: each event is in exactly one, by the clock of a time zone.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::batchctl::Batchctl;
use crate::output::{json_of, manifests};
use crate::rig::{Rig, Setup};

const HOUR_MS: u64 = 3_600_000;
/// 28 March 2026, 00:00 in Berlin. The day after it has 23 hours.
const SPRING_MS: u64 = 1_774_652_400_000;
/// 24 October 2026, 00:00 in Berlin. The day after it has 25 hours.
const AUTUMN_MS: u64 = 1_792_792_800_000;

/// Sends two events an hour for three days from `start_ms` on.
fn send_three_days(rig: &Rig, start_ms: u64) -> u64 {
    // Three days, with an hour more or less, end at midnight in Berlin.
    let events = 2 * 3 * 24;
    for number in 0..events {
        let at = start_ms + number * HOUR_MS / 2;
        rig.send(json!({ "id": format!("{at}"), "at": at }).to_string());
    }
    events
}

#[tokio::test]
async fn every_event_is_in_exactly_one_day_when_the_clock_changes_in_either_direction() {
    let setup = Setup::new().window(1).var("CLOSE_TIME", "at");
    let setup = setup.var("CLOSE_AT", "00:00 Europe/Berlin");
    let rig = setup.start().await;
    let sent = send_three_days(&rig, SPRING_MS) + send_three_days(&rig, AUTUMN_MS);
    rig.until_drained().await;

    let mut period_of = BTreeMap::new();
    for manifest in manifests(&rig.stack.out) {
        let manifest = json_of(&manifest);
        let time = |name: &str| manifest["period"][name].as_u64().expect("it has a period");
        let batch = manifest["batchId"].as_str().expect("it names its batch");
        period_of.insert(batch.to_owned(), (time("begins"), time("ends")));
    }
    let mut events: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let delivered = rig.delivered();
    assert_eq!(delivered.len() as u64, sent);
    for line in delivered {
        let at: u64 = line.event_id.parse().expect("the id is the time");
        let (begins, ends) = period_of[&line.batch_id];
        assert!((begins..ends).contains(&at), "{at} in {begins}..{ends}");
        *events.entry((begins, ends)).or_default() += 1;
    }
    let days = |start_ms: u64, hours: [u64; 4]| {
        let mut begins = start_ms;
        hours.map(|hours| {
            let day = (begins, begins + hours * HOUR_MS);
            begins = day.1;
            day
        })
    };
    // In spring, three times 24 hours reach one hour into the fourth day; in autumn they end an hour before the third does.
    let spring = days(SPRING_MS, [24, 23, 24, 24]).into_iter();
    let autumn = days(AUTUMN_MS, [24, 25, 24, 24]).into_iter();
    let expected = spring.zip([48, 46, 48, 2]);
    let expected = expected.chain(autumn.zip([48, 50, 46]));
    assert_eq!(events, expected.collect());
    rig.end().await;
}

#[tokio::test]
async fn a_batch_of_a_period_that_goes_on_stays_open_although_no_ticket_waits_for_it() {
    let setup = Setup::new().window(1).var("BATCH_KEY", "key");
    let setup = setup.var("CLOSE_AT", "00:00, 12:00 UTC");
    let setup = setup.var("CLOSE_AFTER_IDLE", 3);
    let rig = setup.one_aggregator_environment().start().await;
    rig.send(r#"{"id":"a","key":"x"}"#);
    rig.until("a batch is open", async || rig.under_way().await == 1)
        .await;
    let listed = Batchctl::of(&rig).json(0, &["list"]).await;
    let batch = &listed["batches"][0];
    let time = |value: &Value| value.as_u64().expect("it is a time");
    let period = &batch["period"];
    let (begins, ends) = (time(&period["begins"]), time(&period["ends"]));
    let created_at = time(&batch["createdAt"]);
    assert!((begins..ends).contains(&created_at), "{batch}");
    assert!(ends <= time(&batch["closesAt"]), "{batch}");
    assert_eq!(batch["overdue"], false, "{batch}");
    assert!(rig.delivered().is_empty());
    // An event of another key, after a while: the batch was idle for long enough.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    rig.send(r#"{"id":"b","key":"y"}"#);
    let delivered = async || rig.delivered_ids().contains(&"a".to_owned());
    rig.until("it is delivered", delivered).await;
    rig.stack.stop().await;
}
