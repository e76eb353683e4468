use super::*;

/// Adds a claim with seq `seq` to the batch, with its body in the overflow store; returns the object with the body.
async fn claim_with_stored_body(processor: &Processor, seq: u32) -> Overflow {
    let object = Overflow {
        bucket: "bodies".into(),
        key: format!("{}/{seq}", batch()),
        bytes: 6,
    };
    let claim = Claim {
        overflow: Some(object.clone()),
        ..a_claim(seq)
    };
    processor.fakes.lock_store.claim(&[claim]).await;
    object
}

#[tokio::test]
async fn a_body_in_the_overflow_store_is_delivered_and_removed_after_the_release() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 2).await;
    seal(&processor, 3).await;
    let object = claim_with_stored_body(&processor, 2).await;
    let body: Arc<str> = "body 2".into();
    processor
        .fakes
        .overflow_store
        .put(&object, &body)
        .await
        .unwrap();
    assert!(!ticket(&processor).await);
    let bodies = processor.sink.bodies.lock().unwrap().clone();
    assert_eq!(bodies, ["body 0", "body 1", "body 2"]);
    assert_eq!(processor.fakes.overflow_store.keys(), [""; 0]);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn a_missing_body_puts_the_batch_in_error_with_the_place_of_the_body() {
    for other in [None, Some("other!")] {
        let processor = a_processor();
        opened(&processor, &[0, 1], 2).await;
        seal(&processor, 3).await;
        let object = claim_with_stored_body(&processor, 2).await;
        if let Some(other) = other {
            let body: Arc<str> = other.into();
            processor
                .fakes
                .overflow_store
                .put(&object, &body)
                .await
                .unwrap();
        }
        assert!(!ticket(&processor).await);
        let failed = record(&processor);
        assert_eq!(failed.status, Some(Status::Error));
        let error = failed.error.unwrap();
        assert!(
            error.contains("‹e2›") && error.contains(&object.to_string()),
            "{error}"
        );
        assert_eq!(delivered(&processor), []);
        assert_eq!(live(&processor).len(), 3);
        // When the body is restored, the batch is delivered; or the batch is set aside, with the error text as the
        // body.
        let body: Arc<str> = "body 2".into();
        let word = match other {
            Some(_) => TicketReason::Operator,
            None => TicketReason::Quarantine,
        };
        if word == TicketReason::Operator {
            processor
                .fakes
                .overflow_store
                .put(&object, &body)
                .await
                .unwrap();
        }
        assert!(!given_back(&processor, &Ticket::new(batch(), word).to_body()).await);
        let bodies = processor.sink.bodies.lock().unwrap().clone();
        let quarantined = processor.fakes.quarantine_queue.take();
        match word {
            TicketReason::Operator => assert_eq!(bodies, ["body 0", "body 1", "body 2"]),
            _ => {
                assert_eq!(quarantined.len(), 3);
                assert!(
                    quarantined[2].body.contains(&object.to_string()),
                    "{quarantined:?}"
                );
            }
        }
        assert_eq!(record(&processor).status, None);
    }
}
