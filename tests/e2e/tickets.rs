//! Tickets for unknown batches, and tickets that come twice, early or late.

use local::stack::{BATCH_DEAD_LETTER_QUEUE, BATCH_QUEUE};
use protocol::batch::Status;

use crate::events::{body, event, failures, ticket};
use crate::output::sorted;
use crate::rig::{Rig, Setup};

fn ids(count: usize) -> Vec<String> {
    sorted((0..count).map(|number| format!("e{number}")))
}

/// Returns a ticket for a batch that does not exist.
fn unknown_ticket() -> String {
    ticket(&uuid::Uuid::now_v7().to_string())
}

async fn ticket_failures(rig: &Rig, tickets: &[(&str, &str)]) -> Vec<String> {
    let source = rig.stack.sqs.arn(BATCH_QUEUE);
    failures(rig, &rig.stack.batch_processor, event(&source, tickets)).await
}

#[tokio::test]
async fn useless_tickets_end_as_dead_letters_while_a_batch_is_processed() {
    let ids = ids(50);
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", ids.len())
        .quick()
        .redeliver(BATCH_QUEUE, 2)
        .one_aggregator_environment()
        .start()
        .await;
    let useless = [
        unknown_ticket(),
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
    let letters = rig.take(BATCH_DEAD_LETTER_QUEUE, useless.len()).await;
    let letters = sorted(letters.iter().map(|letter| letter.body.to_string()));
    assert_eq!(letters, sorted(useless));
    rig.end_with_set_aside(6, 0).await;
}

#[tokio::test]
async fn a_ticket_for_a_completed_batch_is_acknowledged_however_often_it_comes() {
    let ids = ids(20);
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", ids.len())
        .one_aggregator_environment()
        .start()
        .await;
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_metric("BatchesCompleted", 1).await;
    let delivered = rig.delivered();
    let batch = ticket(&delivered[0].batch_id);
    let unknown = unknown_ticket();
    let tickets = [
        ("t1", batch.as_str()),
        ("t2", unknown.as_str()),
        ("t3", batch.as_str()),
        ("t4", "{}"),
    ];
    assert_eq!(ticket_failures(&rig, &tickets).await, ["t2", "t4"]);
    // The ticket of the window still comes, although the batch was sealed long before.
    rig.until_depth(BATCH_QUEUE, 0).await;
    assert_eq!(rig.delivered(), delivered);
    rig.end().await;
}

#[tokio::test]
async fn an_early_ticket_is_given_back_and_repeated_ones_deliver_once() {
    let ids = ids(30);
    let rig = Setup::new()
        .window(15)
        .redeliver(BATCH_QUEUE, 100)
        .one_aggregator_environment()
        .start()
        .await;
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_metric("Claimed", ids.len() as u64).await;
    let batches = rig.batch_ids().await;
    assert_eq!(rig.statuses().await[&Status::Open], batches.len());
    for batch in &batches {
        let early = ticket(batch);
        assert_eq!(ticket_failures(&rig, &[("t1", &early)]).await, ["t1"]);
        assert!(!rig.has_parts(), "nothing is delivered early");
        // Ten more tickets, which come back until the window has ended, and then all at once.
        for _ in 0..10 {
            rig.send_to(BATCH_QUEUE, &early);
        }
    }
    rig.until_drained().await;
    rig.until_depth(BATCH_QUEUE, 0).await;
    assert_eq!(rig.delivered_ids(), ids);
    assert_eq!(
        rig.stack.function_logs.sum("PartsDelivered"),
        batches.len() as u64
    );
    rig.end().await;
}
