use super::*;

#[tokio::test]
async fn only_an_operators_ticket_sets_a_batch_in_error_aside() {
    let processor = with_a_sealed_batch(2).await;
    // The batch is not in error.
    assert!(!given_back(&processor, &quarantine()).await);
    assert!(processor.fakes.quarantine_queue.take().is_empty() && delivered(&processor).is_empty());
    assert_eq!(record(&processor).status, Some(Status::Sealed));

    let processor = a_processor();
    opened(&processor, &[0, 1], 0).await;
    refused(&processor).await;
    // The batch was closed before an aggregator could fill its slot.
    let witness = BatchWrite::Witness {
        witnessed: [2].into_iter().collect(),
        witnesses: record(&processor).witnesses,
    };
    write(&processor, witness).await;
    claim(&processor, 2).await;
    assert!(!given_back(&processor, &quarantine()).await);
    let quarantined = processor.fakes.quarantine_queue.take();
    let of = |message: &Quarantined| {
        let id = message.event_id.clone().unwrap();
        (id.to_string(), message.body.to_string())
    };
    let sent: Vec<_> = quarantined.iter().map(of).collect();
    let expected = [0, 1, 2].map(|seq| (format!("e{seq}"), format!("body {seq}")));
    assert_eq!(sent, expected, "the frozen part and later claims are sent");
    let mut reasons = quarantined.iter().map(|message| &*message.reason);
    assert!(reasons.all(|reason| reason == "no such customer"));
    let ended = record(&processor);
    assert_eq!(ended.set_aside, (0..3).collect());
    assert_eq!(ended.parts[0].state, PartState::SetAside);
    assert!(live(&processor).is_empty());
    assert_eq!(delivered(&processor).len(), 1, "not called again");
}

#[tokio::test]
async fn message_attributes_go_to_the_quarantine() {
    const ATTRIBUTES: &str = r#"{"eid":{"dataType":"String","stringValue":"e"}}"#;
    let processor = with_an_open_batch(0).await;
    for (seq, attributes) in [(0, Some(ATTRIBUTES)), (1, None)] {
        let mut claim = a_claim(seq);
        claim.candidate.attributes = attributes.map(Into::into);
        processor.fakes.lock_store.claim(&[claim]).await;
    }
    seal(&processor, 2).await;
    refused(&processor).await;
    assert!(!given_back(&processor, &quarantine()).await);
    let quarantined = processor.fakes.quarantine_queue.take();
    let attributes = quarantined.iter().map(|one| one.attributes.as_ref());
    let texts = attributes.map(|all| all.map(|all| &**all.as_text()));
    assert_eq!(Vec::from_iter(texts), [Some(ATTRIBUTES), None]);
}

#[tokio::test]
async fn another_message_may_claim_an_event_that_was_set_aside_and_the_same_message_may_not() {
    let processor = with_an_open_batch(1).await;
    refused(&processor).await;
    assert!(!given_back(&processor, &quarantine()).await);
    let items = processor.fakes.lock_store.items();
    let [(_, item)] = &items[..] else {
        panic!("one item: {items:?}");
    };
    let rules = ClaimRules {
        on_duplicate: DuplicateRule::Drop,
        dedup_window: Duration::from_secs(3_600),
        past_deliveries_max: 4,
    };
    let classify = |message: &str, item: &LockItem| {
        let mut candidate = a_claim(0).candidate;
        candidate.sqs_message_id = message.parse().unwrap();
        // The clock of the claimer is as far behind as clocks may be.
        let now = processor.fakes.clock.now();
        let now = now.saturating_sub(Duration::from_secs(2));
        classify(&candidate, None, item, &rules, now)
    };
    let again = classify("m0", item);
    assert_eq!(again, Decision::Done(Outcome::RedeliveredLate));
    assert!(matches!(classify("m9", item), Decision::Replace { .. }));
}

#[tokio::test]
async fn the_next_processor_continues_setting_aside_and_delivers_nothing() {
    let processor = with_an_open_batch(2).await;
    refused(&processor).await;
    delivered(&processor);
    // The processor of the operator's ticket dies right after taking the lease.
    let lease = Lease {
        owner: "dead".parse().unwrap(),
        until: START.saturating_sub(Duration::from_secs(5)),
    };
    let operator = Some(protocol::batch::OperatorDecision::Quarantine);
    let take = BatchWrite::Lease {
        lease,
        at: START,
        operator,
    };
    write(&processor, take).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor), []);
    assert_eq!(processor.fakes.quarantine_queue.take().len(), 2);
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn repro_unquarantinable_event_resent_the_others() {
    let processor = with_an_open_batch(1).await;
    refused(&processor).await;
    claim(&processor, 1).await;
    let mut bad = a_claim(2);
    bad.candidate.body = "not \0 allowed".into();
    bad.candidate.body_hash = BodyHash::of(bad.candidate.body.as_bytes());
    processor.fakes.lock_store.claim(&[bad]).await;
    assert!(!given_back(&processor, &quarantine()).await);
    assert_eq!(processor.fakes.quarantine_queue.take().len(), 2);
    let failed = record(&processor);
    assert_eq!(failed.status, Some(Status::Error));
    let error = failed.error.unwrap();
    assert!(error.contains("‹e2›") && error.contains("SQS"), "{error}");
    assert_eq!(failed.set_aside, (0..2).collect());
    assert!(!given_back(&processor, &operator()).await);
    assert!(processor.fakes.quarantine_queue.take().is_empty());
    assert_eq!(record(&processor).status, Some(Status::Error));
}
