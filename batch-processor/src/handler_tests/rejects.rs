//! Parts with records that the sink rejects.

use protocol::claim::{SeatResolution, decide_live, seat_resolution};
use shared::ports::ClaimReply;

use super::*;

const RULES: ClaimRules = ClaimRules {
    on_duplicate: DuplicateRule::Drop,
    dedup_window: Duration::from_secs(3_600),
    past_deliveries_max: 4,
};

/// Returns a processor whose sink rejects these seqs.
fn that_rejects(seqs: &[u32]) -> Processor {
    let processor = a_processor();
    *processor.sink.rejects.lock().unwrap() = seqs.to_vec();
    processor
}

/// Returns what becomes of a message of event `e<seq>` with this body.
fn classified(processor: &Processor, seq: u32, message: &str, body: &str) -> Decision {
    let items = processor.fakes.lock_store.items();
    let id = format!("e{seq}");
    let item = items.iter().find(|(found, _)| found.as_str() == id);
    let (_, item) = item.expect("the event has an item");
    let candidate = Candidate {
        sqs_message_id: message.parse().unwrap(),
        body_hash: BodyHash::of(body.as_bytes()),
        ..a_claim(seq).candidate
    };
    let now = processor.fakes.clock.now();
    let decision = classify(&candidate, None, item, &RULES, now);
    let Decision::Live(existing) = decision else {
        return decision;
    };
    let record = record(processor);
    let resolution = seat_resolution(Some(&record), &item.state, RULES.dedup_window, now);
    decide_live(&candidate, item, existing, resolution, &RULES, now)
}

/// Checks that the events 0 and 2 count as delivered, and event 1 as rejected by the form.
fn check_rejected(processor: &Processor) {
    let found = record(processor);
    assert_eq!((found.parts[0].count, found.parts[0].taken()), (3, 2));
    check_rejected_tombstone(processor);
}

/// Checks that the events 0 and 2 count as delivered, and event 1 as rejected.
pub(super) fn check_rejected_tombstone(processor: &Processor) {
    let found = record(processor);
    assert_eq!(found.rejected(), [1].into_iter().collect());
    assert_eq!(found.quarantined(), SeqSet::new());
    for seq in [0, 2] {
        let corrected = classified(processor, seq, "m9", "corrected");
        assert_eq!(corrected, Decision::Done(Outcome::Conflict));
    }
    let redelivered = classified(processor, 1, "m1", "body 1");
    assert_eq!(redelivered, Decision::Done(Outcome::RedeliveredLate));
    for body in ["corrected", "body 1"] {
        let Decision::Replace { past, .. } = classified(processor, 1, "m9", body) else {
            panic!("another message must claim the event");
        };
        assert!(past.contains_key(&"m1".parse().unwrap()), "{past:?}");
    }
}

#[tokio::test]
async fn another_message_may_claim_a_rejected_event_and_the_same_message_may_not() {
    let processor = that_rejects(&[1]);
    sealed(&processor, 3).await;
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
    assert!(live(&processor).is_empty());
    check_rejected(&processor);
}

#[tokio::test]
async fn a_rejected_event_may_be_claimed_before_its_claim_is_released() {
    let processor = a_processor();
    died_before_the_release(&processor, &[1]).await;
    let items = processor.fakes.lock_store.items();
    let (_, item) = items.iter().find(|(id, _)| id.as_str() == "e1").unwrap();
    let found = record(&processor);
    let resolution = seat_resolution(Some(&found), &item.state, RULES.dedup_window, START);
    assert!(matches!(resolution, SeatResolution::SetAside { .. }));
    // The claim of a delivered event is alive until its release.
    let other = classified(&processor, 0, "m9", "body 0");
    assert_eq!(other, Decision::Done(Outcome::Duplicate));
    let mut corrected = a_claim(1);
    corrected.candidate.sqs_message_id = "m9".parse().unwrap();
    corrected.seat.batch = "0190163d-8694-739b-aea5-966c26f8ad92".parse().unwrap();
    let reply = processor.fakes.lock_store.replace(&corrected, item).await;
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
    assert!(!ticket(&processor).await);
    // The claim of another batch stays.
    assert_eq!(live(&processor), [corrected.candidate.event_id]);
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
    assert_eq!(delivered(&processor), []);
}

#[tokio::test]
async fn the_next_processor_releases_a_rejected_event_as_one_that_was_not_delivered() {
    let processor = a_processor();
    died_before_the_release(&processor, &[1]).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor), [], "the sink has the part");
    assert!(live(&processor).is_empty());
    check_rejected(&processor);
}

#[tokio::test]
async fn a_batch_with_rejects_that_is_discarded_keeps_them_apart() {
    let processor = that_rejects(&[1]);
    opened(&processor, &[0, 1, 2], 3).await;
    assert!(!ticket(&processor).await);
    claim(&processor, 3).await;
    processor.fakes.clock.advance(Duration::from_secs(60));
    refused(&processor).await;
    assert!(!given_back(&processor, &quarantine()).await);
    let sent = processor.fakes.quarantine_queue.take();
    assert_eq!(sent.len(), 1, "not the rejected event");
    let ended = record(&processor);
    assert_eq!(ended.rejected(), [1].into_iter().collect());
    assert_eq!(ended.quarantined(), [3].into_iter().collect());
    assert_eq!(ended.set_aside, [1, 3].into_iter().collect());
    assert_eq!(ended.members(), (0..4).collect());
}

#[tokio::test]
async fn seqs_of_other_parts_that_a_sink_calls_rejected_are_ignored() {
    let processor = that_rejects(&[1, 77]);
    sealed(&processor, 3).await;
    assert!(!ticket(&processor).await);
    check_rejected(&processor);
}
