//! Hours and rate of deliveries.

use protocol::limits::CLOCK_SKEW_MAX;
use shared::ports::TurnStore;

use super::sweep::sweep;
use super::*;

/// The next 15:00 UTC after [`START`].
const OPENING: Timestamp = Timestamp::from_ms(1_004_400_000);

/// Returns a processor with these variables.
fn with_variables(processor: Processor, hours: &str, events_per_second: Option<u64>) -> Processor {
    let config = Config {
        delivery_hours: (!hours.is_empty()).then(|| hours.parse().unwrap()),
        events_per_second,
        ..config()
    };
    let ports = processor.fakes.ports();
    Processor {
        handler: Handler::new(config, ports, processor.sink.clone()),
        ..processor
    }
}

async fn sealed(processor: &Processor) {
    opened(processor, &[0, 1], 2).await;
    seal(processor, 2).await;
}

/// Returns the delays of the tickets that were sent, in seconds.
fn delays(processor: &Processor) -> Vec<u64> {
    let sent = processor.fakes.batch_queue.take();
    sent.iter().map(|(_, delay)| delay.as_secs()).collect()
}

#[tokio::test]
async fn outside_the_hours_a_batch_waits_and_the_sweep_sends_a_ticket_for_the_opening() {
    let processor = with_variables(a_processor(), "15:00-16:00 UTC", None);
    sealed(&processor).await;
    assert!(!ticket(&processor).await, "the ticket is acknowledged");
    let waiting = record(&processor);
    assert_eq!((waiting.lease, waiting.due_at), (None, OPENING));
    assert!(delivered(&processor).is_empty());
    assert_eq!(delays(&processor), [0; 0]);

    assert_eq!(
        sweep(&processor).await.tickets_sent,
        0,
        "it is not due for long"
    );
    let left = processor.fakes.clock.now().until(OPENING) - Duration::from_secs(600);
    processor.fakes.clock.advance(left);
    let swept = sweep(&processor).await;
    assert_eq!((swept.overdue, swept.tickets_sent), (0, 1));
    assert_eq!(delays(&processor), [600 + CLOCK_SKEW_MAX.as_secs()]);
    assert_eq!(
        sweep(&processor).await.tickets_sent,
        0,
        "one ticket suffices"
    );

    processor.fakes.clock.advance(Duration::from_secs(600));
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
}

#[tokio::test]
async fn a_batch_that_waits_for_a_near_opening_gets_its_ticket_at_once() {
    let processor = with_variables(a_processor(), "15:00-16:00 UTC", None);
    sealed(&processor).await;
    let left = processor.fakes.clock.now().until(OPENING) - Duration::from_secs(60);
    processor.fakes.clock.advance(left);
    assert!(!ticket(&processor).await);
    assert_eq!(delays(&processor), [60 + CLOCK_SKEW_MAX.as_secs()]);
    assert_eq!(
        sweep(&processor).await.tickets_sent,
        0,
        "its ticket is on the way"
    );
}

#[tokio::test]
async fn with_a_rate_a_part_takes_its_turn_once() {
    let processor = with_variables(a_processor(), "", Some(1));
    sealed(&processor).await;
    let store = &processor.fakes.turn_store;
    let now = processor.fakes.clock.now();
    let others = store.take(now, Duration::from_secs(60), 1).await.unwrap();
    assert_eq!(others, now);
    assert!(!ticket(&processor).await, "the ticket is acknowledged");
    let turn = now + Duration::from_secs(60);
    assert_eq!(record(&processor).turn_at, Some(turn));
    assert_eq!(delays(&processor), [60 + CLOCK_SKEW_MAX.as_secs()]);
    assert!(!ticket(&processor).await, "too early");
    assert_eq!(
        record(&processor).turn_at,
        Some(turn),
        "no other turn is taken"
    );
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
    assert_eq!(record(&processor).turn_at, None);
    let next = store.take(now, Duration::ZERO, 1).await.unwrap();
    assert_eq!(
        next,
        turn + Duration::from_secs(2),
        "two events at one a second"
    );
}

#[tokio::test]
async fn an_attempt_that_failed_keeps_its_turn_for_some_minutes() {
    let processor = with_variables(a_processor(), "", Some(1));
    sealed(&processor).await;
    processor.sink.fail(1_000);
    let turn = processor.fakes.clock.now();
    assert!(ticket(&processor).await);
    assert_eq!(record(&processor).turn_at, Some(turn));
    // Others take turns for an hour, which the next attempt need not wait for.
    let store = &processor.fakes.turn_store;
    let now = processor.fakes.clock.now();
    let hour = Duration::from_secs(3_600);
    let others = store.take(now, hour, 1).await.unwrap();
    assert!(ticket(&processor).await);
    assert_eq!(record(&processor).turn_at, Some(turn));
    // After a longer outage of the sink, it takes one after them.
    processor.fakes.clock.advance(Duration::from_secs(300));
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).turn_at, Some(others + hour));
}

#[tokio::test]
async fn a_turn_that_passes_outside_the_hours_is_taken_again() {
    let processor = with_variables(a_processor(), "15:00-16:00 UTC", Some(1));
    sealed(&processor).await;
    let before_the_end = OPENING + Duration::from_secs(3_600 - 30);
    let wait = processor.fakes.clock.now().until(before_the_end);
    processor.fakes.clock.advance(wait);
    let store = &processor.fakes.turn_store;
    let minute = Duration::from_secs(60);
    store.take(before_the_end, minute, 1).await.unwrap();
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).turn_at, Some(before_the_end + minute));
    processor.fakes.clock.advance(minute);
    assert!(!ticket(&processor).await);
    let waits = record(&processor);
    assert_eq!(waits.turn_at, None);
    assert_eq!(waits.due_at, OPENING + Duration::from_secs(24 * 3_600));
    assert!(delivered(&processor).is_empty());
}
