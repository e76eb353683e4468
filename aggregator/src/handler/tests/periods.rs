//! `CLOSE_AT` and `CLOSE_TIME`.

use protocol::batch::Status;
use protocol::limits::TICKET_RESEND_AFTER;
use protocol::period::Period;

use super::*;

const CLOSE_AT: (&str, &str) = ("CLOSE_AT", "00:00 UTC");
const CLOSE_TIME: (&str, &str) = ("CLOSE_TIME", "content");
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// `MAX_SECONDARY_BATCHING_WINDOW`.
const WINDOW: Duration = Duration::from_secs(300);

/// The first day of 1970, in which the tests begin.
fn first_day() -> Period {
    Period {
        begins: Timestamp::EPOCH,
        ends: Timestamp::EPOCH + DAY,
    }
}

#[tokio::test]
async fn a_batch_of_a_period_closes_a_window_after_it_and_its_ticket_is_left_to_the_sweep() {
    let aggregator = aggregator_with(&[CLOSE_AT]);
    assert!(invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty());
    let batch = only_batch(&aggregator);
    assert_eq!(batch.period, Some(first_day()));
    assert_eq!(batch.closes_at, first_day().ends + WINDOW);
    assert!(batch.awaits_first_ticket());
    assert!(aggregator.fakes.batch_queue.take().is_empty());
    // Near its end, SQS can delay the ticket.
    let late = aggregator_with(&[CLOSE_AT]);
    late.fakes.clock.advance(DAY - Duration::from_secs(1_100));
    invoke(&late, &[("m1", "e1", "")]).await;
    assert_eq!(only_batch(&late).period, Some(first_day()));
    let tickets = late.fakes.batch_queue.take();
    let delays = tickets.iter().map(|(_, delay)| delay.as_secs());
    assert_eq!(Vec::from_iter(delays), [100 + 300 + 2]);
}

#[tokio::test]
async fn events_are_in_the_period_of_their_own_time_and_late_ones_in_a_further_batch_of_it() {
    let aggregator = aggregator_with(&[CLOSE_AT, CLOSE_TIME]);
    aggregator.fakes.clock.advance(DAY);
    let messages = [
        ("m1", "e1", "1970-01-02T00:00:00Z"),
        ("m2", "e2", "1970-01-02T00:59:59+01:00"),
        ("m3", "e3", "1970-01-02T23:59:59Z"),
    ];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let mut records = aggregator.fakes.batch_store.records();
    records.sort_unstable_by_key(|record| record.period);
    let periods = records.iter().map(|record| record.period.unwrap().begins);
    let days = [Timestamp::EPOCH, first_day().ends];
    assert_eq!(Vec::from_iter(periods), days);
    let confirmed = [&records[0], &records[1]].map(|one| confirmed_in(&aggregator, one));
    assert_eq!(confirmed, [1, 2]);
    // The first day is over for long, so its batch has a window as any other.
    let now = aggregator.fakes.clock.now();
    assert_eq!(records[0].closes_at, now + WINDOW);
    assert_eq!(records[1].closes_at, first_day().ends + DAY + WINDOW);
}

#[tokio::test]
async fn an_event_without_a_time_or_far_ahead_goes_to_the_quarantine() {
    let aggregator = aggregator_with(&[CLOSE_AT, CLOSE_TIME, QUARANTINE]);
    let messages = [
        ("m1", "e1", "soon"),
        ("m2", "e2", "1970-01-02T00:16:41Z"),
        ("m3", "e3", "1970-01-02T00:16:40Z"),
    ];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let reasons = reasons(&aggregator);
    assert!(reasons[0].starts_with("`CLOSE_TIME`: `content`: found «soon», expected a time"));
    assert_eq!(
        reasons[1],
        "`CLOSE_TIME`: got 1970-01-02T00:16:41Z, expected a time at most 24 h after the message was sent"
    );
    assert_eq!(confirmed(&aggregator), 1);
}

#[tokio::test]
async fn a_batch_of_a_period_that_is_sealed_early_is_due_soon_in_case_its_one_ticket_is_lost() {
    let aggregator = aggregator_with(&[CLOSE_AT, ("MAX_BATCH_SIZE", "1")]);
    assert!(invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty());
    let sealed = only_batch(&aggregator);
    assert_eq!(sealed.status, Some(Status::Sealed));
    let now = aggregator.fakes.clock.now();
    assert_eq!(sealed.due_at, now + TICKET_RESEND_AFTER);
    // One whose window has a ticket stays due when that ticket comes.
    let aggregator = aggregator_with(&[("MAX_BATCH_SIZE", "1")]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    let sealed = only_batch(&aggregator);
    assert!(sealed.due_at > sealed.closes_at);
}

#[tokio::test]
async fn a_full_batch_whose_seal_failed_is_sealed_by_the_next_invocation() {
    let aggregator = aggregator_with(&[CLOSE_AT, ("MAX_BATCH_SIZE", "1")]);
    aggregator.fakes.batch_store.refuse_seals(true);
    assert!(invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty());
    let full = only_batch(&aggregator).batch_id;
    let status = || aggregator.fakes.batch_store.get(full).unwrap().status;
    assert_eq!(status(), Some(Status::Open));
    aggregator.fakes.batch_store.refuse_seals(false);
    assert!(invoke(&aggregator, &[("m2", "e2", "")]).await.is_empty());
    assert_eq!(status(), Some(Status::Sealed));
    assert_eq!(confirmed(&aggregator), 2);
}
