use super::*;

/// Returns a part as the sink sees it.
fn part(index: usize, seqs: &[u32]) -> (String, Vec<String>) {
    (format!("{}/{index}", batch()), ids(seqs))
}

#[tokio::test]
async fn a_sealed_batch_is_delivered_in_order_released_and_completed_by_one_ticket() {
    let processor = a_processor();
    let seqs: Vec<u32> = (0..40).collect();
    sealed(&processor, 40).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor), [part(0, &seqs)]);
    let record = record(&processor);
    assert_eq!((record.status, record.completed_at), (None, Some(START)));
    assert!(live(&processor).is_empty());
    let window = START + Duration::from_secs(3_600);
    let mut items = processor.fakes.lock_store.items().into_iter();
    assert!(items.all(|(_, item)| item.expires_at() == Some(window)));
    assert!(processor.fakes.batch_queue.take().is_empty());
    assert!(!ticket(&processor).await, "a second ticket has no effect");
    assert!(delivered(&processor).is_empty());
}

#[tokio::test]
async fn an_unsealed_batch_is_verified_and_late_claims_make_another_part() {
    let processor = with_an_open_batch(2).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor), [part(0, &[0, 1])]);
    let tickets = processor.fakes.batch_queue.take();
    assert_eq!(tickets[0].0.reason, Some(TicketReason::Verify));
    assert_eq!(tickets[0].1, Duration::from_secs(60));
    claim(&processor, 2).await;
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor), [part(1, &[2])]);
    // A late claim restarts the wait.
    assert_eq!(record(&processor).status, Some(Status::Processing));
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
    assert!(delivered(&processor).is_empty() && live(&processor).is_empty());
}

#[tokio::test]
async fn nothing_is_delivered_while_a_counted_claim_is_missing() {
    let processor = with_an_open_batch(2).await;
    let witness = BatchWrite::Witness {
        witnessed: [5].into_iter().collect(),
        witnesses: 0,
    };
    write(&processor, witness).await;
    assert!(ticket(&processor).await, "seq 5 is missing");
    assert!(delivered(&processor).is_empty());
    let record = record(&processor);
    assert_eq!(record.lease, None);
    assert_eq!(record.status, Some(Status::Processing));
    claim(&processor, 5).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor)[0].1, ids(&[0, 1, 5]));
}

#[tokio::test]
async fn a_part_is_the_same_at_every_attempt_although_claims_were_added() {
    let processor = with_an_open_batch(2).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    processor.sink.fail(0);
    claim(&processor, 2).await;
    assert!(!ticket(&processor).await);
    let mut attempts = delivered(&processor);
    let straggler = attempts.pop().unwrap();
    assert!(attempts.len() > 2, "retried while there is time");
    let first = part(0, &[0, 1]);
    let are_same = attempts.iter().all(|attempt| *attempt == first);
    assert!(are_same, "{attempts:?}");
    assert_eq!(straggler, part(1, &[2]));
}

#[tokio::test]
async fn leftovers_of_a_release_are_released_and_never_delivered_again() {
    let processor = a_processor();
    died_before_the_release(&processor, &[]).await;
    // As if it had died during the release.
    let seat = Seat {
        batch: batch(),
        seq: 0,
        shards: 3,
    };
    let released = [("e0".parse().unwrap(), seat.key())];
    let store = &processor.fakes.lock_store;
    store.release(&released, Release::Remembered(START)).await;
    assert!(!ticket(&processor).await);
    assert!(delivered(&processor).is_empty() && live(&processor).is_empty());
    // This run did not see one of the releases.
    assert_eq!(record(&processor).status, Some(Status::Processing));
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn a_large_batch_is_delivered_in_several_parts_and_each_event_once() {
    // Four events of a little more than 256 bytes fill a part.
    let processor = processor_with_parts_of(1_024);
    let seqs: Vec<u32> = (0..23).collect();
    sealed(&processor, 23).await;
    assert!(!ticket(&processor).await);
    let parts = delivered(&processor);
    assert!(parts.len() > 1, "{parts:?}");
    // They are in seq order over all parts.
    let events: Vec<String> = parts.iter().flat_map(|(_, ids)| ids.clone()).collect();
    assert_eq!(events, ids(&seqs));
    for (number, (key, _)) in parts.iter().enumerate() {
        assert_eq!(*key, format!("{}/{number}", batch()));
    }
    assert_eq!(record(&processor).status, None);
    assert_eq!(live(&processor), []);
}

#[tokio::test]
async fn nothing_of_a_large_batch_is_delivered_while_the_index_lags() {
    let processor = processor_with_parts_of(1_024);
    opened(&processor, &(0..23).collect::<Vec<_>>(), 23).await;
    seal(&processor, 24).await;
    assert!(ticket(&processor).await);
    assert_eq!(delivered(&processor), []);
}

#[tokio::test]
async fn repro_a_batch_of_more_bytes_than_its_parts_may_hold_was_stranded() {
    // The batch may have two parts, although a part may hold only one event of a little more than 256 bytes.
    let config = Config {
        part_bytes_max: 256,
        parts_max: PARTS_FOR_STRAGGLERS + 2,
        ..config()
    };
    let processor = processor_with(config);
    let seqs: Vec<u32> = (0..300).collect();
    sealed(&processor, 300).await;
    assert!(!ticket(&processor).await);
    let parts = delivered(&processor);
    assert_eq!(parts.len(), 2);
    let events: Vec<String> = parts.iter().flat_map(|(_, ids)| ids.clone()).collect();
    assert_eq!(events, ids(&seqs));
    assert_eq!(record(&processor).status, None);
    assert_eq!(live(&processor), []);
}

#[tokio::test]
async fn too_many_parts_put_the_batch_in_error_and_it_can_be_set_aside() {
    let config = Config {
        parts_max: PARTS_FOR_STRAGGLERS + 1,
        ..config()
    };
    let processor = processor_with(config);
    opened(&processor, &[], 0).await;
    let last = PARTS_FOR_STRAGGLERS as u32 + 1;
    for seq in 0..=last {
        claim(&processor, seq).await;
        assert!(!ticket(&processor).await);
        processor.fakes.clock.advance(Duration::from_secs(60));
    }
    let failed = record(&processor);
    assert_eq!(failed.status, Some(Status::Error));
    assert!(failed.error.unwrap().contains("expected at most 11"));
    assert!(!given_back(&processor, &operator()).await);
    // It goes into error again.
    assert_eq!(record(&processor).status, Some(Status::Error));
    assert!(!given_back(&processor, &quarantine()).await);
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    let quarantined = processor.fakes.quarantine_queue.take();
    assert_eq!(quarantined.len(), 1);
    assert!(quarantined[0].reason.contains("expected at most 11"));
    assert_eq!(record(&processor).status, None);
    assert_eq!(live(&processor), []);
}

#[tokio::test]
async fn repro_a_record_that_takes_no_further_write_was_tried_for_ever() {
    let other = a_processor();
    sealed(&other, 3).await;
    let item_bytes_max = record(&other).bytes() + 150;
    let batches = MemoryBatchStore::with_items_of(item_bytes_max);
    let processor = processor_of(config(), batches);
    sealed(&processor, 3).await;
    // The members of a frozen part would make the record larger than an item may be; the error still fits.
    assert!(ticket(&processor).await, "the ticket is given back once");
    assert_eq!(delivered(&processor), []);
    let failed = record(&processor);
    assert_eq!(failed.status, Some(Status::Error), "{failed:?}");
    assert!(failed.error.unwrap().contains("batch record: refused"));
    assert!(!ticket(&processor).await, "it is not tried again");
}
