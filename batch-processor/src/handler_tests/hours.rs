//! Hours and rate of deliveries.

use protocol::limits::{CLOCK_SKEW_MAX, TICKETS_IN_CHAIN_MAX, TURNS_AHEAD};
use protocol::turns::{Turn, Turns};

use super::sweep::sweep;
use super::*;

/// The next 15:00 UTC after [`START`].
const OPENING: Timestamp = Timestamp::from_ms(1_004_400_000);

/// Returns a processor with these hours and this rate, and a sealed batch of two events.
async fn with_variables(hours: &str, events_per_second: Option<u64>) -> Processor {
    let processor = processor_with(Config {
        delivery_hours: (!hours.is_empty()).then(|| hours.parse().unwrap()),
        events_per_second,
        ..config()
    });
    sealed(&processor, 2).await;
    processor
}

/// Returns the delays of the tickets that were sent, in seconds.
fn delays(processor: &Processor) -> Vec<u64> {
    let sent = processor.fakes.batch_queue.take();
    sent.iter().map(|(_, delay)| delay.as_secs()).collect()
}

#[tokio::test]
async fn outside_the_hours_a_batch_waits_and_the_sweep_sends_a_ticket_for_the_opening() {
    let processor = with_variables("15:00-16:00 UTC", None).await;
    assert!(!ticket(&processor).await, "the ticket is acknowledged");
    let waiting = record(&processor);
    assert_eq!((waiting.lease, waiting.due_at), (None, OPENING));
    assert!(delivered(&processor).is_empty());
    assert_eq!(delays(&processor), [0; 0]);

    let early = sweep(&processor).await;
    assert_eq!(early.tickets_sent, 0, "it is not due for long");
    let left = processor.fakes.clock.now().until(OPENING) - Duration::from_secs(600);
    processor.fakes.clock.advance(left);
    let swept = sweep(&processor).await;
    assert_eq!((swept.overdue, swept.tickets_sent), (0, 1));
    assert_eq!(delays(&processor), [600 + CLOCK_SKEW_MAX.as_secs()]);
    let again = sweep(&processor).await;
    assert_eq!(again.tickets_sent, 0, "one ticket suffices");

    processor.fakes.clock.advance(Duration::from_secs(600));
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
}

#[tokio::test]
async fn a_batch_that_waits_for_a_near_opening_gets_its_ticket_at_once() {
    let processor = with_variables("15:00-16:00 UTC", None).await;
    let left = processor.fakes.clock.now().until(OPENING) - Duration::from_secs(60);
    processor.fakes.clock.advance(left);
    assert!(!ticket(&processor).await);
    assert_eq!(delays(&processor), [60 + CLOCK_SKEW_MAX.as_secs()]);
    let swept = sweep(&processor).await;
    assert_eq!(swept.tickets_sent, 0, "its ticket is on the way");
}

/// Takes a turn of `secs` seconds for others, at one event a second; returns when it begins.
async fn others_take(processor: &Processor, secs: u64) -> Timestamp {
    let store = &processor.fakes.named_items;
    let read = store.get::<Turns>(&()).await.unwrap();
    let now = processor.fakes.clock.now();
    let turn = Turns::at_rate(read.value, 1, now).take(secs, TURNS_AHEAD, now);
    let Turn::Taken { at, turns } = turn else {
        panic!("got {turn:?}, expected a turn");
    };
    assert!(store.replace(&(), &read, &turns).await.unwrap());
    at
}

async fn free_at(processor: &Processor) -> Timestamp {
    let read = processor.fakes.named_items.get::<Turns>(&()).await;
    read.unwrap().value.free_at
}

#[tokio::test]
async fn with_a_rate_a_batch_takes_its_turn_once() {
    let processor = with_variables("", Some(1)).await;
    let now = processor.fakes.clock.now();
    assert_eq!(others_take(&processor, 60).await, now);
    assert!(!ticket(&processor).await, "the ticket is acknowledged");
    let turn = now + Duration::from_secs(60);
    let waits = record(&processor);
    assert_eq!(waits.turn_at, Some(turn));
    assert_eq!(waits.parts, [], "nothing was read");
    assert_eq!(delays(&processor), [59]);
    assert!(!ticket(&processor).await, "too early");
    assert_eq!(record(&processor).turn_at, Some(turn), "no other one");
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
    assert_eq!(record(&processor).turn_at, None);
    let two_events = Duration::from_secs(2);
    assert_eq!(free_at(&processor).await, turn + two_events);
}

#[tokio::test]
async fn a_batch_whose_turn_would_be_far_away_takes_none() {
    let processor = with_variables("", Some(1)).await;
    let now = processor.fakes.clock.now();
    others_take(&processor, 900).await;
    assert!(!ticket(&processor).await);
    let waits = record(&processor);
    assert_eq!(waits.turn_at, None);
    let again = Duration::from_secs(900) - TURNS_AHEAD / 2;
    assert_eq!(delays(&processor), [again.as_secs() - 1]);
    assert_eq!(free_at(&processor).await, now + Duration::from_secs(900));
    processor.fakes.clock.advance(again);
    assert!(!ticket(&processor).await);
    let turn = now + Duration::from_secs(900);
    assert_eq!(record(&processor).turn_at, Some(turn));
}

#[tokio::test]
async fn a_batch_that_may_send_no_ticket_does_not_wait_for_a_turn_in_its_invocation() {
    let processor = with_variables("", Some(1)).await;
    others_take(&processor, 900).await;
    for _ in 1..TICKETS_IN_CHAIN_MAX {
        assert!(!ticket(&processor).await);
    }
    assert_eq!(record(&processor).attempts + 1, TICKETS_IN_CHAIN_MAX);
    delays(&processor);
    // There is a turn 5 minutes ahead: too far to wait for.
    processor.fakes.clock.advance(Duration::from_secs(600));
    let now = processor.fakes.clock.now();
    assert!(!ticket(&processor).await);
    assert_eq!(processor.fakes.clock.now(), now);
    let waits = record(&processor);
    assert_eq!((waits.turn_at, waits.due_at), (None, now));
    assert_eq!(delays(&processor), [0; 0], "the sweep sends the next one");
}

#[tokio::test]
async fn a_part_waits_for_one_that_went_to_the_sink_late() {
    let processor = with_variables("", Some(1)).await;
    let now = processor.fakes.clock.now();
    let late = async |secs| {
        let store = &processor.fakes.named_items;
        let read = store.get::<Turns>(&()).await.unwrap();
        let turns = Turns::at_rate(read.value, 1, now);
        let turns = turns.begin(secs, now).unwrap();
        assert!(store.replace(&(), &read, &turns).await.unwrap());
    };
    late(10).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
    let waited = now.until(processor.fakes.clock.now());
    assert!(waited >= Duration::from_secs(10), "{waited:?}");
}

#[tokio::test]
async fn an_attempt_that_failed_keeps_its_turn_for_some_minutes() {
    let processor = with_variables("", Some(1)).await;
    processor.sink.fail(1_000);
    let turn = processor.fakes.clock.now();
    assert!(ticket(&processor).await);
    assert_eq!(record(&processor).turn_at, Some(turn));
    // Others take turns for an hour, which the next attempt need not wait for.
    others_take(&processor, 3_600).await;
    assert!(ticket(&processor).await);
    assert_eq!(record(&processor).turn_at, Some(turn));
    // After a longer outage of the sink, it takes one after them.
    processor.fakes.clock.advance(Duration::from_secs(300));
    assert!(!ticket(&processor).await);
    let waits = record(&processor);
    assert_eq!(waits.turn_at, None);
    let again = free_at(&processor).await.saturating_sub(TURNS_AHEAD / 2);
    assert_eq!(waits.due_at, again);
}

#[tokio::test]
async fn a_turn_that_passes_outside_the_hours_is_taken_again() {
    let processor = with_variables("15:00-16:00 UTC", Some(1)).await;
    let before_the_end = OPENING + Duration::from_secs(3_600 - 30);
    let wait = processor.fakes.clock.now().until(before_the_end);
    processor.fakes.clock.advance(wait);
    let minute = Duration::from_secs(60);
    others_take(&processor, 60).await;
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).turn_at, Some(before_the_end + minute));
    processor.fakes.clock.advance(minute);
    assert!(!ticket(&processor).await);
    let waits = record(&processor);
    assert_eq!(waits.turn_at, None);
    assert_eq!(waits.due_at, OPENING + Duration::from_secs(24 * 3_600));
    assert!(delivered(&processor).is_empty());
}
