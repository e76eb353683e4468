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

async fn put(processor: &Processor, object: &Overflow, body: &str) {
    let store = &processor.fakes.overflow_store;
    store.put(object, &body.into()).await.unwrap();
}

#[tokio::test]
async fn a_body_in_the_overflow_store_is_delivered_and_removed_after_the_release() {
    let processor = with_an_open_batch(2).await;
    seal(&processor, 3).await;
    let object = claim_with_stored_body(&processor, 2).await;
    put(&processor, &object, "body 2").await;
    assert!(!ticket(&processor).await);
    let bodies = processor.sink.bodies.lock().unwrap().clone();
    assert_eq!(bodies, ["body 0", "body 1", "body 2"]);
    assert_eq!(processor.fakes.overflow_store.keys(), [""; 0]);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn a_missing_body_puts_the_batch_in_error_with_the_place_of_the_body() {
    for other in [None, Some("other!")] {
        let processor = with_an_open_batch(2).await;
        seal(&processor, 3).await;
        let object = claim_with_stored_body(&processor, 2).await;
        if let Some(other) = other {
            put(&processor, &object, other).await;
        }
        assert!(!ticket(&processor).await);
        let failed = record(&processor);
        assert_eq!(failed.status, Some(Status::Error));
        let error = failed.error.unwrap();
        let is_named = error.contains("‹e2›") && error.contains(&object.to_string());
        assert!(is_named, "{error}");
        assert_eq!(delivered(&processor), []);
        assert_eq!(live(&processor).len(), 3);
        // When the body is restored, the batch is delivered; or the batch is set aside, with the error text as the
        // body.
        if other.is_some() {
            put(&processor, &object, "body 2").await;
            assert!(!given_back(&processor, &operator()).await);
            let bodies = processor.sink.bodies.lock().unwrap().clone();
            assert_eq!(bodies, ["body 0", "body 1", "body 2"]);
        } else {
            assert!(!given_back(&processor, &quarantine()).await);
            let quarantined = processor.fakes.quarantine_queue.take();
            assert_eq!(quarantined.len(), 3);
            let body = &quarantined[2].body;
            assert!(body.contains(&object.to_string()), "{body}");
        }
        assert_eq!(record(&processor).status, None);
    }
}
