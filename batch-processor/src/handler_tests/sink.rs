use super::*;

#[tokio::test]
async fn a_part_that_the_sink_refuses_permanently_waits_for_an_operator() {
    let processor = with_an_open_batch(1).await;
    refused(&processor).await;
    let failed = record(&processor);
    assert_eq!(failed.error.as_deref(), Some("no such customer"));
    assert_eq!(live(&processor).len(), 1);
    // The next ticket is acknowledged without another attempt.
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
    assert!(!given_back(&processor, &operator()).await);
    assert_eq!(delivered(&processor)[0].1, ids(&[0]));
}

#[tokio::test]
async fn repro_a_ticket_that_came_back_accepted_a_third_sink() {
    let processor = a_processor();
    let set = |sink: &str| *processor.sink.fingerprint.lock().unwrap() = sink.to_owned();
    set("file:///first");
    opened(&processor, &[0], 1).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    set("file:///second");
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, Some(Status::Error));
    assert!(given_back(&processor, &accepts_sink()).await);
    let accepted = record(&processor).parts.remove(0).sink;
    assert_eq!(accepted.as_deref(), Some("file:///second"));
    delivered(&processor);
    processor.sink.fail(0);
    set("file:///third");
    // No operator has accepted the third sink.
    assert!(!given_back(&processor, &accepts_sink()).await);
    assert_eq!(record(&processor).status, Some(Status::Error));
    assert_eq!(delivered(&processor), []);
}

#[tokio::test]
async fn repro_a_part_that_was_frozen_for_one_sink_went_to_another() {
    let processor = a_processor();
    let set = |sink: &str| *processor.sink.fingerprint.lock().unwrap() = sink.to_owned();
    set("file:///old, envelope");
    opened(&processor, &[0], 1).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    processor.sink.fail(0);
    delivered(&processor);
    set("file:///new, csv");
    assert!(!ticket(&processor).await);
    let failed = record(&processor);
    let error = failed.error.unwrap();
    assert_eq!(failed.status, Some(Status::Error));
    for sink in ["`file:///old, envelope`", "`file:///new, csv`"] {
        assert!(error.contains(sink), "{error}");
    }
    assert_eq!(delivered(&processor), []);
    assert!(!given_back(&processor, &operator()).await);
    // It goes into error again, until the operator accepts the new sink.
    assert_eq!(record(&processor).status, Some(Status::Error));
    assert!(!given_back(&processor, &accepts_sink()).await);
    let part = (format!("{}/0", batch()), ids(&[0]));
    assert_eq!(delivered(&processor), [part]);
    // The fingerprint is removed after the delivery.
    assert_eq!(record(&processor).parts[0].sink, None);
}

#[tokio::test]
async fn a_busy_sink_is_not_called_and_its_ticket_stays_away_until_the_time_it_named() {
    let processor = with_an_open_batch(1).await;
    let busy = |secs| SinkError::Busy {
        reason: "full".to_owned(),
        retry_after: Duration::from_secs(secs),
    };
    *processor.sink.failures.lock().unwrap() = vec![busy(400), busy(20)];
    let began = processor.fakes.clock.now();
    assert!(ticket(&processor).await);
    // One retry after 20 s, and none after 400 s.
    assert_eq!(delivered(&processor).len(), 2);
    assert!(processor.fakes.clock.now() >= began + Duration::from_secs(20));
    let retried = processor.fakes.batch_queue.take_retried();
    assert_eq!(retried, [("receipt".to_owned(), Duration::from_secs(400))]);
    let due = record(&processor).due_at;
    let back = processor.fakes.clock.now() + Duration::from_secs(400);
    assert!(due >= back, "due at {due}, back at {back}");
}

#[tokio::test]
async fn a_large_batch_waits_for_approval_once_and_its_later_parts_do_not() {
    let processor = processor_with(Config {
        approve_above: Some(2),
        part_bytes_max: 1_024,
        ..config()
    });
    sealed(&processor, 23).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor), []);
    let held = record(&processor);
    assert_eq!((held.status, held.parts.len()), (Some(Status::Error), 1));
    assert!(held.error.unwrap().contains("waits for approval"));
    // Trying again is no approval.
    assert!(!given_back(&processor, &operator()).await);
    assert_eq!(delivered(&processor), []);
    assert!(!given_back(&processor, &accepts_sink()).await);
    let parts = delivered(&processor);
    assert!(parts.len() > 1, "{parts:?}");
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn a_batch_of_no_more_events_than_the_limit_is_delivered_without_approval() {
    let processor = processor_with(Config {
        approve_above: Some(3),
        ..config()
    });
    sealed(&processor, 3).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
}
