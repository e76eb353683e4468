//! Loads that are lost or damaged.

use super::*;

const SLOTS: [&[(&str, &str, &str)]; 2] =
    [&[("m1", "a", "1")], &[("m2", "b", "1"), ("m3", "c", "1")]];

/// Removes the load of slot 1 of the first batch. With `is_damaged`, other bytes take its place.
async fn lose(processor: &Processor, is_damaged: bool) {
    let load = load_of(processor, 0, 1);
    let bodies = record(processor).bodies;
    let stored = processor.fakes.object_store.bytes(&bodies, load);
    processor.fakes.object_store.remove(load);
    if is_damaged {
        let bytes = stored.unwrap().into_iter().map(|byte| !byte).collect();
        put(processor, load, bytes).await;
    }
}

/// Returns a processor whose sink has refused the part of the first batch, which is decided.
async fn decided() -> Processor {
    let processor = a_processor();
    brought(&processor, 0, &SLOTS).await;
    processor.sink.fail(100);
    assert!(ticket_of(&processor, 0).await, "the sink is down");
    delivered(&processor);
    processor.sink.fail(0);
    processor
}

#[tokio::test]
async fn a_missing_or_damaged_load_puts_the_batch_in_error_with_its_name_and_seats() {
    for (is_damaged, problem) in [(false, "missing in `log:table`"), (true, "other bytes")] {
        let processor = decided().await;
        let load = load_of(&processor, 0, 1).to_string();
        lose(&processor, is_damaged).await;
        assert!(!ticket_of(&processor, 0).await);
        assert_eq!(given(&processor), [""; 0]);
        let failed = record(&processor);
        assert_eq!(failed.status, Some(Status::Error));
        let error = failed.error.unwrap();
        let name = load.trim_start_matches("load/");
        for words in [name, problem, "2 events lost (seqs 1, 2)"] {
            assert!(error.contains(words), "{error}");
        }
    }
}

#[tokio::test]
async fn a_batch_with_a_lost_load_is_set_aside_with_what_can_be_read_and_a_notice() {
    let processor = decided().await;
    lose(&processor, false).await;
    assert!(!ticket_of(&processor, 0).await);
    assert!(!quarantine_of(&processor, 0).await);
    let sent = processor.fakes.quarantine_queue.take();
    let (events, notices): (Vec<_>, Vec<_>) =
        sent.iter().partition(|message| message.event_id.is_some());
    let ids = Vec::from_iter(events.iter().map(|event| event.sqs_message_id.as_str()));
    assert_eq!(ids, ["m1"]);
    let [notice] = notices[..] else {
        panic!("one notice for the lost load: {sent:?}");
    };
    let words = "2 events lost (seqs 1, 2)";
    assert!(notice.body.contains(words), "{}", notice.body);
    let ended = record(&processor);
    assert_eq!((ended.status, ended.set_aside), (None, (0..3).collect()));
    assert_eq!(given(&processor), [""; 0]);
}
