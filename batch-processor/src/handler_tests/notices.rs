//! Notices that a batch is complete, or went into error.

use protocol::limits::{BATCH_LIFE_MAX, BATCH_RECORD_RETENTION, NOTICE_PAUSE, NOTICES_MAX};
use shared::memory::MemoryNoticeTarget;
use shared::ports::{NoticeMessage, Ports};

use super::sweep::sweep;
use super::*;

/// Returns a processor that sends notices, with a sealed batch of two events, and their target.
async fn with_notices() -> (Processor, Arc<MemoryNoticeTarget>) {
    let (processor, target) = (with_a_sealed_batch(2).await, Arc::default());
    (noticing(processor, &target), target)
}

/// Returns the processor, which sends notices from now on.
pub(super) fn noticing(processor: Processor, target: &Arc<MemoryNoticeTarget>) -> Processor {
    let ports = Ports {
        notice_target: Some(target.clone()),
        ..processor.fakes.ports()
    };
    Processor {
        handler: Handler::new(config(), ports, processor.sink.clone()),
        ..processor
    }
}

fn ids_of(notices: &[NoticeMessage]) -> Vec<&str> {
    notices.iter().map(|notice| notice.id.as_str()).collect()
}

const COMPLETE: &str = "0190163d-8694-739b-aea5-966c26f8ad91/complete";
const FIRST_ERROR: &str = "0190163d-8694-739b-aea5-966c26f8ad91/error/1";

#[tokio::test]
async fn a_complete_batch_has_one_notice_and_leaves_the_index() {
    let (processor, target) = with_notices().await;
    assert!(!ticket(&processor).await);
    let notices = target.take();
    assert_eq!(ids_of(&notices), [COMPLETE]);
    let manifest: serde_json::Value = serde_json::from_str(&notices[0].manifest).unwrap();
    assert_eq!(manifest["counts"]["delivered"], 2);
    assert_eq!(manifest["parts"][0]["receipt"], "ok");
    let complete = record(&processor);
    assert_eq!((complete.status, complete.listing()), (None, None));
    let line = processor.fakes.metric_log.take().pop().unwrap();
    assert!(line.contains(r#""NoticesSent":1"#), "{line}");
    processor.fakes.clock.advance(TICKET_RESEND_AFTER);
    assert_eq!(sweep(&processor).await.notices_waiting, Some(0));
    assert!(!ticket(&processor).await);
    assert_eq!(target.take(), [], "the notice was sent");
}

#[tokio::test]
async fn a_notice_that_was_not_sent_is_sent_by_the_next_ticket_with_the_same_content() {
    let (processor, target) = with_notices().await;
    target.refuse(true);
    assert!(!ticket(&processor).await, "it stops no delivery");
    assert_eq!(record(&processor).status, None);
    let line = processor.fakes.metric_log.take().pop().unwrap();
    assert!(line.contains(r#""NoticesFailed":1"#), "{line}");
    processor.fakes.clock.advance(DUE_GRACE * 2);
    let swept = sweep(&processor).await;
    assert_eq!((swept.overdue, swept.tickets_sent), (0, 1));
    assert_eq!(swept.notices_waiting, Some(1));
    let again = sweep(&processor).await;
    assert_eq!(again.tickets_sent, 0, "the first one may still wait");
    target.refuse(false);
    assert!(!ticket(&processor).await);
    assert_eq!(ids_of(&target.take()), [COMPLETE]);
    assert_eq!(record(&processor).listing(), None);
}

/// Why the sink refuses a part: some of it comes from a message.
const REASON: &str = "no such customer: «secret body»";

#[tokio::test]
async fn a_batch_in_error_has_a_notice_without_what_comes_from_messages() {
    let (processor, target) = with_notices().await;
    refuse(&processor, REASON);
    assert!(!ticket(&processor).await);
    let notices = target.take();
    assert_eq!(ids_of(&notices), [FIRST_ERROR]);
    let manifest: serde_json::Value = serde_json::from_str(&notices[0].manifest).unwrap();
    assert_eq!(manifest["error"], "no such customer: «…»");
    assert_eq!(manifest["parts"][0]["state"], "frozen");
    let failed = record(&processor);
    assert_eq!(failed.status, Some(Status::Error));
    assert_eq!(failed.due_at, failed.created_at + BATCH_LIFE_MAX);
    assert!(!given_back(&processor, &operator()).await);
    assert_eq!(ids_of(&target.take()), [COMPLETE]);
}

#[tokio::test]
async fn a_failing_target_hides_no_error_and_its_notice_outlasts_the_operators_retry() {
    let (processor, target) = with_notices().await;
    target.refuse(true);
    refuse(&processor, REASON);
    assert!(!ticket(&processor).await);
    let failed = record(&processor);
    assert!(failed.error.unwrap().contains("secret body"));
    processor.fakes.clock.advance(DUE_GRACE * 2);
    let swept = sweep(&processor).await;
    assert_eq!((swept.in_error, swept.notices_waiting), (1, Some(1)));
    let sent = processor.fakes.batch_queue.take();
    assert_eq!(sent[0].0.reason, Some(TicketReason::Sweep));
    // The operator tries again before the notice could be sent.
    assert!(!given_back(&processor, &operator()).await);
    assert_eq!(record(&processor).notices.len(), 2);
    target.refuse(false);
    assert!(!ticket(&processor).await);
    assert_eq!(target.take(), [], "its failure is too recent");
    processor.fakes.clock.advance(NOTICE_PAUSE);
    assert!(!ticket(&processor).await);
    let notices = target.take();
    assert_eq!(ids_of(&notices), [FIRST_ERROR, COMPLETE]);
    let first: serde_json::Value = serde_json::from_str(&notices[0].manifest).unwrap();
    // As it was at the time of the error.
    assert_eq!(first["counts"]["delivered"], 0);
}

#[tokio::test]
async fn notices_of_errors_are_dropped_only_while_earlier_ones_wait() {
    let (processor, target) = with_notices().await;
    target.refuse(true);
    for _ in 0..NOTICES_MAX + 2 {
        refuse(&processor, REASON);
        assert!(!given_back(&processor, &operator()).await);
    }
    assert_eq!(record(&processor).notices.len(), NOTICES_MAX);
    let lines = processor.fakes.metric_log.take();
    let is_dropped = |line: &&String| line.contains(r#""NoticesDropped":1"#);
    assert_eq!(lines.iter().filter(is_dropped).count(), 2);
    assert!(!given_back(&processor, &operator()).await);
    target.refuse(false);
    // An operator's ticket tries at once.
    assert!(!given_back(&processor, &operator()).await);
    assert_eq!(target.take().len(), NOTICES_MAX + 1);
}

#[tokio::test]
async fn notices_that_wait_are_sent_before_another_try_so_that_its_error_has_a_notice() {
    let (processor, target) = with_notices().await;
    target.refuse(true);
    for _ in 0..NOTICES_MAX {
        refuse(&processor, REASON);
        assert!(!given_back(&processor, &operator()).await);
    }
    target.refuse(false);
    refuse(&processor, REASON);
    assert!(!given_back(&processor, &operator()).await);
    assert_eq!(target.take().len(), NOTICES_MAX + 1);
    assert_eq!(record(&processor).notices, []);
}

#[tokio::test]
async fn a_ticket_for_a_batch_whose_record_has_expired_is_done() {
    let processor = noticing(a_processor(), &Arc::default());
    assert!(ticket(&processor).await, "there may be a record soon");
    let expired = batch().opened_at() + BATCH_RECORD_RETENTION;
    let clock = &processor.fakes.clock;
    clock.advance(clock.now().until(expired));
    assert!(!ticket(&processor).await);
}

#[tokio::test]
async fn a_batch_that_was_in_error_before_notices_were_on_gets_one_ticket() {
    let processor = with_a_sealed_batch(2).await;
    refused(&processor).await;
    let target = Arc::new(MemoryNoticeTarget::default());
    let processor = noticing(processor, &target);
    processor.fakes.clock.advance(Duration::from_secs(3_600));
    assert_eq!(sweep(&processor).await.notices_waiting, Some(1));
    assert!(!ticket(&processor).await);
    assert_eq!(target.take(), [], "no notice was kept of that error");
    processor.fakes.clock.advance(Duration::from_secs(3_600));
    assert_eq!(sweep(&processor).await.notices_waiting, Some(0));
}

#[tokio::test]
async fn without_a_target_there_are_no_notices() {
    let processor = with_a_sealed_batch(2).await;
    refused(&processor).await;
    let failed = record(&processor);
    assert_eq!(failed.notices, []);
    assert_eq!(sweep(&processor).await.notices_waiting, None);
    let lines = processor.fakes.metric_log.take().concat();
    assert!(!lines.contains("Notice"), "{lines}");
}
