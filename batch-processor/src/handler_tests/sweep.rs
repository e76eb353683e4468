use super::*;

pub(super) async fn sweep(processor: &Processor) -> crate::sweep::Swept {
    let invocation = invocation(processor);
    let handled = processor.handler.handle(Event::Sweep, &invocation).await;
    match handled.unwrap() {
        Response::Swept(swept) => swept,
        Response::Tickets(_) => panic!("not a sweep"),
    }
}

#[tokio::test]
async fn the_sweep_sends_a_ticket_for_a_batch_that_is_overdue_and_not_before() {
    let processor = with_an_open_batch(2).await;
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
    let processor = with_an_open_batch(1).await;
    refused(&processor).await;
    processor.fakes.clock.advance(DUE_GRACE * 1_000);
    let swept = sweep(&processor).await;
    assert_eq!((swept.in_error, swept.overdue), (1, 0));
    assert_eq!(swept.tickets_sent, 0);
    assert!(processor.fakes.batch_queue.take().is_empty());
    let an_hour = Duration::from_secs(3_600);
    let now = processor.fakes.clock.now();
    let until_then = now.until(batch().opened_at() + an_hour);
    processor.fakes.clock.advance(until_then);
    assert_eq!(sweep(&processor).await.oldest_error_age_ms, 3_600_000);
}

#[tokio::test]
async fn the_sweep_finds_a_batch_whose_processor_died_once_its_lease_is_over() {
    let processor = with_an_open_batch(1).await;
    let minute = Duration::from_secs(60);
    let until = processor.fakes.clock.now() + minute;
    leased(&processor, "dead", until).await;
    let held = sweep(&processor).await;
    assert_eq!((held.processing, held.overdue), (1, 0));
    processor.fakes.clock.advance(minute + DUE_GRACE * 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 1);
}

#[tokio::test]
async fn the_sweep_sends_no_second_ticket_while_the_first_may_still_wait() {
    let processor = with_an_open_batch(1).await;
    processor.fakes.clock.advance(DUE_GRACE * 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 1);
    processor.fakes.clock.advance(TICKET_RESEND_AFTER / 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 0);
    processor.fakes.clock.advance(TICKET_RESEND_AFTER);
    let again = sweep(&processor).await;
    assert_eq!(again.tickets_sent, 1, "the first ticket was lost");
}

/// The alarm on overdue batches uses the maximum of all sweeps within half an hour.
#[tokio::test]
async fn a_batch_that_stays_overdue_is_counted_in_every_half_hour() {
    for minutes in [2, 5, 10, 15] {
        let processor = with_an_open_batch(1).await;
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
    // No ticket waits for hours.
    assert!(!given_back(&processor, &body).await);
    assert_eq!(sweep(&processor).await.tickets_sent, 0);
    let before_the_end = HOUR * 3 - Duration::from_secs(880);
    processor.fakes.clock.advance(before_the_end);
    let swept = sweep(&processor).await;
    assert_eq!((swept.overdue, swept.tickets_sent), (0, 1));
    let sent = processor.fakes.batch_queue.take();
    assert_eq!((sent[0].0.batch_id, sent[0].1.as_secs()), (id, 882));
    let again = sweep(&processor).await;
    assert_eq!(again.tickets_sent, 0, "one ticket suffices");
}
