use super::*;

pub(super) async fn sweep(processor: &Processor) -> crate::sweep::Swept {
    let invocation = Invocation {
        function: "batch-processor".to_owned(),
        request_id: "sweep".to_owned(),
        deadline: processor.fakes.clock.now() + Duration::from_secs(60),
    };
    match processor
        .handler
        .handle(Event::Sweep, &invocation)
        .await
        .unwrap()
    {
        Response::Swept(swept) => swept,
        Response::Tickets(_) => panic!("not a sweep"),
    }
}

#[tokio::test]
async fn the_sweep_sends_a_ticket_for_a_batch_that_is_overdue_and_not_before() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 2).await;
    let early = sweep(&processor).await;
    assert_eq!((early.overdue, early.tickets_sent), (0, 0));
    processor.fakes.clock.advance(DUE_GRACE * 2);
    let late = sweep(&processor).await;
    assert_eq!((late.overdue, late.tickets_sent), (1, 1));
    assert!(late.oldest_overdue_age_ms > 0);
    let line = processor.fakes.metric_log.take().pop().unwrap();
    for words in [
        r#""BatchesOverdue":1"#,
        r#""BatchesInError":0"#,
        r#""OldestErrorAge":0"#,
        r#""source":"all""#,
    ] {
        assert!(line.contains(words), "{words} in {line}");
    }
    let sent = processor.fakes.batch_queue.take();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0.batch_id, batch());
    assert_eq!(sent[0].0.reason, Some(TicketReason::Sweep));
    assert_eq!(sent[0].1, Duration::ZERO);
}

#[tokio::test]
async fn the_sweep_counts_a_batch_in_error_and_sends_it_no_ticket() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    let refusal = SinkError::Permanent {
        reason: "no such account".to_owned(),
    };
    processor.sink.failures.lock().unwrap().push(refusal);
    assert!(
        !ticket(&processor).await,
        "a permanent refusal acknowledges the ticket"
    );
    processor.fakes.clock.advance(DUE_GRACE * 1_000);
    let swept = sweep(&processor).await;
    assert_eq!(
        (swept.in_error, swept.overdue, swept.tickets_sent),
        (1, 0, 0)
    );
    assert!(processor.fakes.batch_queue.take().is_empty());
    let an_hour = Duration::from_secs(3_600);
    let now = processor.fakes.clock.now();
    let until_then = now.until(batch().opened_at() + an_hour);
    processor.fakes.clock.advance(until_then);
    assert_eq!(sweep(&processor).await.oldest_error_age_ms, 3_600_000);
}

#[tokio::test]
async fn the_sweep_finds_a_batch_whose_processor_died_once_its_lease_is_over() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    let now = processor.fakes.clock.now();
    let lease = Lease {
        owner: "dead".parse().unwrap(),
        until: now + Duration::from_secs(60),
    };
    let at = now;
    write(
        &processor,
        BatchWrite::Lease {
            lease,
            at,
            operator: None,
        },
    )
    .await;
    let held = sweep(&processor).await;
    assert_eq!((held.processing, held.overdue), (1, 0));
    processor
        .fakes
        .clock
        .advance(Duration::from_secs(60) + DUE_GRACE * 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 1);
}

#[tokio::test]
async fn the_sweep_sends_no_second_ticket_while_the_first_may_still_wait() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    processor.fakes.clock.advance(DUE_GRACE * 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 1);
    processor.fakes.clock.advance(TICKET_RESEND_AFTER / 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 0);
    processor.fakes.clock.advance(TICKET_RESEND_AFTER);
    assert_eq!(
        sweep(&processor).await.tickets_sent,
        1,
        "the first ticket was lost"
    );
}

/// The alarm on overdue batches uses the maximum of all sweeps within half an hour.
#[tokio::test]
async fn a_batch_that_stays_overdue_is_counted_in_every_half_hour() {
    for minutes in [2, 5, 10, 15] {
        let processor = a_processor();
        opened(&processor, &[0], 1).await;
        processor.fakes.clock.advance(DUE_GRACE * 2);
        let mut found = Vec::new();
        for sweep_number in 0..24 * 60 / minutes {
            let swept = sweep(&processor).await;
            found.push((sweep_number * minutes / 30, swept.overdue));
            let until_next = Duration::from_secs(60 * minutes);
            processor.fakes.clock.advance(until_next);
        }
        for half_hour in 0..48 {
            let of_it = found.iter().filter(|(of, _)| *of == half_hour);
            let most = of_it.map(|(_, overdue)| *overdue).max();
            assert_eq!(most, Some(1), "sweeps every {minutes} minutes");
        }
    }
}

#[tokio::test]
async fn a_batch_whose_window_is_longer_than_a_delay_gets_its_first_ticket_before_the_end() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let processor = a_processor();
    // A batch that was opened at `START`.
    let id: BatchId = "00003b9a-ca00-739b-aea5-966c26f8ad91".parse().unwrap();
    let closes_at = START + HOUR * 3;
    let source = "arn:q".parse().unwrap();
    let record = BatchRecord::open(id, source, None, 1, START, closes_at);
    processor.fakes.batch_store.create(&record).await.unwrap();
    let body = format!(r#"{{"batchId":"{id}"}}"#);
    assert!(
        !given_back(&processor, &body).await,
        "no ticket waits for hours"
    );
    assert_eq!(sweep(&processor).await.tickets_sent, 0);
    processor
        .fakes
        .clock
        .advance(HOUR * 3 - Duration::from_secs(880));
    let swept = sweep(&processor).await;
    assert_eq!((swept.overdue, swept.tickets_sent), (0, 1));
    let sent = processor.fakes.batch_queue.take();
    assert_eq!((sent[0].0.batch_id, sent[0].1.as_secs()), (id, 882));
    assert_eq!(
        sweep(&processor).await.tickets_sent,
        0,
        "one ticket suffices"
    );
}
