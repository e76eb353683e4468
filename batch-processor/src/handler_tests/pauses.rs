use protocol::pause::{Pause, Pauses};

use super::sweep::sweep;
use super::*;

const PAUSE: Duration = Duration::from_secs(1_000);

/// Pauses deliveries of `source` until [`PAUSE`] after the start.
pub(super) async fn pause(processor: &Processor, source: &str) {
    pause_for(processor, source, PAUSE).await;
}

/// Pauses deliveries of `source` until a time after the start.
async fn pause_for(processor: &Processor, source: &str, length: Duration) {
    let pause = Pause {
        source: Some(source.parse().unwrap()),
        batch_key: None,
        until: START + length,
        at: START,
        by: "me".to_owned(),
        why: "the database is fixed".to_owned(),
    };
    change(processor, |pauses| pauses.pause(pause, START)).await;
}

/// Ends the pause of `source`.
async fn resume(processor: &Processor, source: &str) {
    let source = Some(source.parse().unwrap());
    let resume = |pauses: &mut Pauses| assert!(pauses.resume(&source, &None, START));
    change(processor, resume).await;
}

async fn change(processor: &Processor, change: impl FnOnce(&mut Pauses)) {
    let store = &processor.fakes.named_items;
    let read = store.get::<Pauses>(&()).await.unwrap();
    let mut pauses = read.value.clone();
    change(&mut pauses);
    assert!(store.replace(&(), &read, &pauses).await.unwrap());
}

/// Has the next sweep wake the batch, which is delivered with its ticket.
async fn the_sweep_wakes_the_batch(processor: &Processor) {
    let swept = sweep(processor).await;
    assert_eq!((swept.overdue, swept.tickets_sent), (0, 1), "{swept:?}");
    let sent = processor.fakes.batch_queue.take();
    assert_eq!((sent[0].0.batch_id, sent[0].1), (batch(), Duration::ZERO));
    let again = sweep(processor).await;
    assert_eq!(again.tickets_sent, 0, "one ticket suffices");
}

#[tokio::test]
async fn a_paused_batch_is_delivered_once_after_its_pause() {
    let processor = with_a_sealed_batch(2).await;
    pause(&processor, "arn:q").await;
    for _ in 0..3 {
        assert!(!ticket(&processor).await, "the ticket is acknowledged");
    }
    let paused = record(&processor);
    assert!(delivered(&processor).is_empty() && paused.parts.is_empty());
    assert_eq!((paused.lease, paused.due_at), (None, START + PAUSE));
    assert_eq!(paused.status, Some(Status::Processing));
    processor.fakes.clock.advance(PAUSE);
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn a_pause_of_another_source_holds_nothing_up() {
    let processor = with_a_sealed_batch(1).await;
    pause(&processor, "arn:other").await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
}

#[tokio::test]
async fn a_new_sink_that_was_accepted_during_a_pause_is_remembered() {
    let processor = with_a_sealed_batch(1).await;
    *processor.sink.fingerprint.lock().unwrap() = "former".to_owned();
    processor.sink.fail(100);
    assert!(ticket(&processor).await, "the sink is down");
    processor.sink.fail(0);
    *processor.sink.fingerprint.lock().unwrap() = "present".to_owned();
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, Some(Status::Error));
    delivered(&processor);
    pause(&processor, "arn:q").await;
    assert!(!given_back(&processor, &accepts_sink()).await);
    assert!(delivered(&processor).is_empty(), "it is paused");
    processor.fakes.clock.advance(PAUSE);
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
}

#[tokio::test]
async fn a_batch_that_is_set_aside_is_not_paused() {
    let processor = with_a_sealed_batch(1).await;
    let fail = BatchWrite::Fail {
        owner: leased(&processor, "p", START).await,
        error: "no".to_owned(),
        notice: None,
    };
    write(&processor, fail).await;
    pause(&processor, "arn:q").await;
    assert!(!given_back(&processor, &quarantine()).await);
    assert_eq!(processor.fakes.quarantine_queue.take().len(), 1);
}

#[tokio::test]
async fn a_batch_with_nothing_to_deliver_ends_in_a_pause() {
    let processor = with_a_sealed_batch(0).await;
    pause(&processor, "arn:q").await;
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn an_event_that_a_second_look_finds_in_a_pause_waits_for_its_end() {
    let processor = a_processor();
    // Its aggregator died, so nobody sealed it: the batch is looked at twice.
    opened(&processor, &[0], 1).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
    assert!(record(&processor).verify_at.is_some());
    claim(&processor, 1).await;
    pause(&processor, "arn:q").await;
    processor.fakes.clock.advance(Duration::from_secs(120));
    assert!(!ticket(&processor).await);
    assert!(delivered(&processor).is_empty());
    assert_eq!(record(&processor).due_at, START + PAUSE);
    processor.fakes.clock.advance(PAUSE);
    assert!(!ticket(&processor).await);
    let second = (format!("{}/1", batch()), ids(&[1]));
    assert_eq!(delivered(&processor), [second]);
}

#[tokio::test]
async fn repro_a_batch_that_was_leased_before_a_resume_and_put_back_after_it_waited_for_the_former_end()
 {
    let processor = with_a_sealed_batch(1).await;
    pause(&processor, "arn:q").await;
    // It reads the pauses, and writes after the operator did.
    let until = processor.fakes.clock.now() + Duration::from_secs(60);
    let give_up = BatchWrite::GiveUp {
        owner: leased(&processor, "slow", until).await,
        due: Due::at(START + PAUSE),
        failure: None,
    };
    resume(&processor, "arn:q").await;
    assert_eq!(sweep(&processor).await.tickets_sent, 0, "it is leased");
    write(&processor, give_up).await;
    the_sweep_wakes_the_batch(&processor).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
}

#[tokio::test]
async fn repro_a_batch_waited_for_the_former_end_of_a_pause_that_was_shortened() {
    let processor = with_a_sealed_batch(1).await;
    pause(&processor, "arn:q").await;
    assert!(!ticket(&processor).await, "the ticket is acknowledged");
    assert_eq!(sweep(&processor).await.tickets_sent, 0, "it is paused");
    pause_for(&processor, "arn:q", PAUSE / 10).await;
    the_sweep_wakes_the_batch(&processor).await;
    assert!(!ticket(&processor).await);
    assert!(delivered(&processor).is_empty(), "it is still paused");
    assert_eq!(record(&processor).due_at, START + PAUSE / 10);
    processor.fakes.clock.advance(PAUSE / 10);
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor).len(), 1);
}

#[tokio::test]
async fn a_batch_that_another_pause_keeps_is_left_alone_when_one_is_resumed() {
    let processor = with_a_sealed_batch(1).await;
    pause(&processor, "arn:q").await;
    pause_for(&processor, "arn:other", PAUSE * 2).await;
    assert!(!ticket(&processor).await);
    resume(&processor, "arn:other").await;
    assert_eq!(sweep(&processor).await.tickets_sent, 0);
    assert_eq!(record(&processor).due_at, START + PAUSE);
}
