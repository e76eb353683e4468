//! Tickets that can never be processed.

use local::stack::{BATCH_DEAD_LETTER_QUEUE, BATCH_QUEUE};

use crate::events::{body, ticket};
use crate::output::sorted;
use crate::rig::Setup;

#[tokio::test]
async fn useless_tickets_end_as_dead_letters_while_a_batch_is_processed() {
    let ids = sorted((0..50).map(|number| format!("e{number}")));
    let setup = Setup::new().batches_of(ids.len()).quick();
    let setup = setup.redeliver(BATCH_QUEUE, 2);
    let rig = setup.one_aggregator_environment().start().await;
    let useless = [
        // A batch that does not exist.
        ticket(&uuid::Uuid::now_v7().to_string()),
        "not json".to_owned(),
        "{}".to_owned(),
        ticket("no uuid"),
        "null".to_owned(),
        r#"{"batchId":7}"#.to_owned(),
    ];
    for one in &useless {
        rig.send_to(BATCH_QUEUE, one);
    }
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), ids);
    let letters = rig.take_bodies(BATCH_DEAD_LETTER_QUEUE, useless.len());
    assert_eq!(letters.await, sorted(useless));
    rig.end_with_set_aside(6, 0).await;
}
