//! Batches of the log, which all environments share.

use futures::future::join_all;
use local::bodies::BodiesKind;
use local::stack::QUARANTINE_QUEUE;
use serde_json::json;
use shared::memory::noise;

use crate::bad_input::attribute;
use crate::events::take;
use crate::output::sorted;
use crate::rig::Setup;

const INVOCATIONS: usize = 6;
const MESSAGES: usize = 10;

/// Returns a body. The load of an invocation is too large for the table if there is a bucket.
fn body(id: &str) -> String {
    json!({ "id": id, "noise": noise(20_000) }).to_string()
}

#[tokio::test]
async fn all_environments_fill_one_batch_and_duplicates_are_found_when_it_closes() {
    for bodies in [BodiesKind::LogTable, BodiesKind::LogS3] {
        // Only the last reservation fills the batch.
        let mut setup = Setup::new().bodies(bodies).window(600);
        setup = setup.batches_of(INVOCATIONS * MESSAGES);
        setup.options.aggregators = INVOCATIONS as u32;
        let rig = setup.start().await;
        let message = |number: usize| {
            let body = match number {
                // Messages of two invocations carry the first event, and another has the id of the second with another body.
                58 => body("e0"),
                59 => json!({ "id": "e1", "other": true }).to_string(),
                _ => body(&format!("e{number}")),
            };
            (format!("m{number}"), body)
        };
        let messages = Vec::from_iter((0..INVOCATIONS * MESSAGES).map(message));
        let invocations = messages.chunks(MESSAGES).map(|messages| {
            let messages = messages.iter().map(|(id, body)| (&**id, &**body));
            let (rig, messages) = (&rig, Vec::from_iter(messages));
            async move { take(rig, &messages).await }
        });
        for failed in join_all(invocations).await {
            assert_eq!(failed, [""; 0]);
        }
        assert!(rig.stack.aggregator.stats().cold_starts > 1);
        rig.until_metric("BatchesCompleted", 1).await;
        let expected: Vec<_> = (0..58).map(|number| format!("e{number}")).collect();
        assert_eq!(sorted(rig.delivered_ids()), sorted(expected));
        let quarantined = rig.take(QUARANTINE_QUEUE, 1).await;
        let reason = attribute(&quarantined[0], "reason").unwrap_or_default();
        assert!(reason.contains("conflict"), "{reason}");
        assert_eq!(rig.batches_by_bodies().await.len(), 1);
        rig.assert_bodies_are_in(bodies).await;
        rig.end_with_set_aside(1, 0).await;
    }
}
