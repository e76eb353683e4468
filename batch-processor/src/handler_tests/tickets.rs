use super::*;

#[tokio::test]
async fn tickets_that_cannot_be_processed_are_given_back() {
    let processor = a_processor();
    assert!(ticket(&processor).await, "no such batch");
    assert!(given_back(&processor, "not a ticket").await);
    let later = START + Duration::from_secs(10);
    let open = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 3, START, later);
    processor.fakes.batch_store.create(&open).await.unwrap();
    assert!(ticket(&processor).await, "too early");
    seal(&processor, 0).await;
    leased(&processor, "other", later).await;
    assert!(!ticket(&processor).await, "another one has the lease");
    assert_eq!(record(&processor).attempts, 1);
    processor.fakes.clock.advance(Duration::from_secs(12));
    assert!(!ticket(&processor).await, "its deadline is past");
    assert!(record(&processor).due_at >= later + DUE_GRACE);
}

#[tokio::test]
async fn two_tickets_in_one_event_have_separate_results() {
    let processor = with_a_sealed_batch(1).await;
    let good = Ticket::new(batch(), TicketReason::Sealed).to_body();
    let event = json!({ "Records": [
        { "messageId": "t1", "body": "{}" },
        { "messageId": "t2", "body": good },
        { "messageId": "t3", "body": good },
    ] });
    let failed = invoke(&processor, event, &invocation(&processor)).await;
    assert_eq!(failed, ["t1"]);
    assert_eq!(delivered(&processor).len(), 1);
}

#[tokio::test]
async fn an_invocation_that_begins_within_the_margin_fails_with_both_times() {
    let processor = with_a_sealed_batch(1).await;
    let ticket = Ticket::new(batch(), TicketReason::Sealed).to_body();
    let event = json!({ "Records": [{ "messageId": "t1", "body": ticket }] });
    let invocation = Invocation {
        deadline: processor.fakes.clock.now() + Duration::from_secs(3),
        ..invocation(&processor)
    };
    for event in [serde_json::from_value(event).unwrap(), Event::Sweep] {
        let handled = processor.handler.handle(event, &invocation).await;
        let error = handled.unwrap_err().to_string();
        let words = "`DEADLINE_MARGIN_MS`: as long as the timeout, or longer: got `3000`, expected less than 3000, ";
        assert!(error.starts_with(words), "{error}");
    }
    assert_eq!(delivered(&processor), []);
    assert_eq!(record(&processor).status, Some(Status::Sealed));
}

#[tokio::test]
async fn a_given_back_ticket_comes_back_after_a_growing_backoff() {
    let processor = a_processor();
    let later = START + Duration::from_secs(10);
    for (receives, most) in [(1, 5), (3, 20), (40, TICKET_BACKOFF_MAX.as_secs())] {
        let body = Ticket::new(batch(), TicketReason::Window).to_body();
        assert!(received(&processor, &body, receives).await, "no such batch");
        let [(receipt, delay)] = &processor.fakes.batch_queue.take_retried()[..] else {
            panic!("one ticket comes back");
        };
        assert_eq!(receipt, "receipt");
        let is_within = (1..=most).contains(&delay.as_secs());
        assert!(is_within, "{receives}: {delay:?}");
    }
    let open = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 3, START, later);
    processor.fakes.batch_store.create(&open).await.unwrap();
    assert!(ticket(&processor).await, "too early");
    let retried = processor.fakes.batch_queue.take_retried();
    // After the window and the clock skew.
    assert_eq!(retried[0].1, Duration::from_secs(12));
}
