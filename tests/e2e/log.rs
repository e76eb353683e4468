//! Batches of the log, which all environments share.

use futures::future::join_all;
use local::bodies::BodiesKind;
use local::stack::{INPUT_QUEUE, QUARANTINE_QUEUE};
use serde_json::json;
use shared::memory::noise;

use crate::events::{event, failures};
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
        let mut setup = Setup::new()
            .bodies(bodies)
            .window(600)
            .var("MAX_BATCH_SIZE", INVOCATIONS * MESSAGES);
        setup.options.aggregators = INVOCATIONS as u32;
        let rig = setup.start().await;
        let source = rig.stack.sqs.arn(INPUT_QUEUE);
        let of_event = |number: usize| match number {
            // Messages of two invocations carry the first event, and another has the id of the second with another body.
            58 => ("e0".to_owned(), body("e0")),
            59 => (
                "e1".to_owned(),
                json!({ "id": "e1", "other": true }).to_string(),
            ),
            _ => (format!("e{number}"), body(&format!("e{number}"))),
        };
        let events: Vec<_> = (0..INVOCATIONS * MESSAGES).map(of_event).collect();
        let messages: Vec<(String, &str)> = (0..)
            .zip(&events)
            .map(|(number, (_, body))| (format!("m{number}"), body.as_str()))
            .collect();
        let invocations = messages.chunks(MESSAGES).map(|messages| {
            let messages: Vec<_> = messages.iter().map(|(id, body)| (&**id, *body)).collect();
            let event = event(&source, &messages);
            failures(&rig, &rig.stack.aggregator, event)
        });
        for failed in join_all(invocations).await {
            assert_eq!(failed, [""; 0]);
        }
        assert!(rig.stack.aggregator.stats().cold_starts > 1);
        rig.until_metric("BatchesCompleted", 1).await;
        let expected: Vec<_> = (0..58).map(|number| format!("e{number}")).collect();
        assert_eq!(sorted(rig.delivered_ids()), sorted(expected));
        let quarantined = rig.take(QUARANTINE_QUEUE, 1).await;
        let reason = quarantined[0].message_attributes["reason"]
            .string_value
            .clone();
        assert!(reason.is_some_and(|reason| reason.contains("conflict")));
        assert_eq!(rig.batches_by_bodies().await.len(), 1);
        rig.assert_bodies_are_in(bodies).await;
        rig.end_with_set_aside(1, 0).await;
    }
}
