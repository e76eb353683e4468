//! Batches that former versions filled, with bodies in chunks.

use protocol::bodies::Bodies;
use protocol::ids::ChunkId;
use protocol::limits::BATCH_LIFE_MAX;
use shared::chunk::encode;

use super::*;

/// The first seqs of the two chunks of [`opened_in_chunks`].
const CHUNKS: [u32; 2] = [0, 2];

fn chunk(first: u32) -> ChunkId {
    ChunkId {
        batch: batch(),
        first,
    }
}

/// Opens a batch that is past its window, with the seats 0 and 1 in one chunk and 2 and 3 in another. The seats `claimed`
/// are counted.
pub(super) async fn opened_in_chunks(processor: &Processor, claimed: &[u32]) {
    let at = START.saturating_sub(Duration::from_secs(60));
    let world = &processor.fakes;
    let mut record = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 3, at, START)
        .with_bodies(Bodies::Table, Duration::from_secs(3_600));
    let first = |seq: &u32| CHUNKS.into_iter().rfind(|first| first <= seq).unwrap();
    record.confirmed = claimed.len() as u64;
    record.claimed = claimed.iter().copied().collect();
    record.chunks = claimed.iter().map(first).collect();
    record.counts_version = 1;
    world.batch_store.create(&record).await.unwrap();
    for first in CHUNKS {
        let events = [first, first + 1].map(|seq| (seq, a_claim(seq).candidate));
        let events = events.iter().map(|(seq, candidate)| (*seq, candidate));
        let bytes = encode(batch(), events);
        world.object_store.insert(chunk(first), &bytes);
    }
}

#[tokio::test]
async fn counted_and_witnessed_seats_are_delivered_and_others_are_not() {
    let processor = a_processor();
    opened_in_chunks(&processor, &[0]).await;
    let witness = BatchWrite::Witness {
        witnessed: [3].into_iter().collect(),
        chunks: [2].into_iter().collect(),
        witnesses: 0,
    };
    write(&processor, witness).await;
    assert!(!ticket(&processor).await);
    let key = format!("{}/0", batch());
    assert_eq!(delivered(&processor), [(key, ids(&[0, 3]))]);
    let ended = record(&processor);
    assert_eq!(
        (ended.status, ended.members()),
        (None, [0, 3].into_iter().collect())
    );
    assert!(matches!(
        ended.parts[0].state,
        PartState::Delivered {
            at: Some(START),
            ..
        }
    ));
    assert!(
        processor.fakes.batch_queue.take().is_empty(),
        "no second look"
    );
}

#[tokio::test]
async fn seats_that_are_witnessed_after_a_part_was_frozen_go_into_another_part() {
    let processor = a_processor();
    opened_in_chunks(&processor, &[0, 3]).await;
    processor.sink.fail(100);
    assert!(ticket(&processor).await, "the sink is down");
    let witness = BatchWrite::Witness {
        witnessed: [1].into_iter().collect(),
        chunks: [0].into_iter().collect(),
        witnesses: 0,
    };
    write(&processor, witness).await;
    delivered(&processor);
    processor.sink.fail(0);
    assert!(!ticket(&processor).await);
    let keys = [format!("{}/0", batch()), format!("{}/1", batch())];
    let [first, second] = keys;
    assert_eq!(
        delivered(&processor),
        [(first, ids(&[0, 3])), (second, ids(&[1]))]
    );
}

#[tokio::test]
async fn a_missing_or_damaged_chunk_puts_the_batch_in_error_with_its_name_and_seats() {
    for damaged in [false, true] {
        let processor = a_processor();
        opened_in_chunks(&processor, &[0, 2, 3]).await;
        let chunks = &processor.fakes.object_store;
        chunks.remove(chunk(2));
        if damaged {
            chunks.insert(chunk(2), b"no zstd");
        }
        assert!(!ticket(&processor).await);
        assert!(delivered(&processor).is_empty());
        let failed = record(&processor);
        assert_eq!(failed.status, Some(Status::Error));
        let error = failed.error.unwrap();
        let problem = match damaged {
            true => "not a valid compressed",
            false => "missing in `table`",
        };
        for words in [
            &format!("chunk `{}/2`", batch()),
            problem,
            "2 events",
            "2, 3",
        ] {
            assert!(error.contains(words), "{error}");
        }
    }
}

#[tokio::test]
async fn a_batch_with_a_lost_chunk_is_set_aside_with_what_can_be_read_and_a_notice() {
    let processor = a_processor();
    opened_in_chunks(&processor, &[0, 1, 2, 3]).await;
    processor.fakes.object_store.remove(chunk(0));
    assert!(!ticket(&processor).await);
    assert!(!given_back(&processor, &quarantine()).await);
    let sent = processor.fakes.quarantine_queue.take();
    let events: Vec<_> = sent
        .iter()
        .filter_map(|message| message.event_id.as_ref())
        .collect();
    assert_eq!(
        events.iter().map(|id| id.as_str()).collect::<Vec<_>>(),
        ["e2", "e3"]
    );
    let notices: Vec<_> = sent
        .iter()
        .filter(|message| message.event_id.is_none())
        .collect();
    let [notice] = notices[..] else {
        panic!("one notice for the lost chunk: {sent:?}");
    };
    assert!(
        notice.body.contains("2 events lost (seqs 0, 1)"),
        "{}",
        notice.body
    );
    let ended = record(&processor);
    assert_eq!((ended.status, ended.set_aside), (None, (0..4).collect()));
    assert!(delivered(&processor).is_empty());
}

#[tokio::test]
async fn a_chunk_that_may_not_be_read_keeps_no_other_event_out_of_the_quarantine() {
    for is_frozen in [false, true] {
        let processor = a_processor();
        opened_in_chunks(&processor, &[0, 1, 2, 3]).await;
        let chunks = &processor.fakes.object_store;
        if is_frozen {
            refused(&processor).await;
        }
        chunks.deny(chunk(0), true);
        if !is_frozen {
            assert!(!ticket(&processor).await);
        }
        assert!(!given_back(&processor, &quarantine()).await);
        let sent = |processor: &Processor| {
            let sent = processor.fakes.quarantine_queue.take();
            let ids = sent.into_iter().map(|message| message.event_id.unwrap());
            ids.map(|id| id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(sent(&processor), ids(&[2, 3]));
        let failed = record(&processor);
        assert_eq!(failed.status, Some(Status::Error));
        assert_eq!(failed.set_aside, [2, 3].into_iter().collect());

        chunks.deny(chunk(0), false);
        assert!(!given_back(&processor, &quarantine()).await);
        assert_eq!(sent(&processor), ids(&[0, 1]));
        let ended = record(&processor);
        assert_eq!((ended.status, ended.set_aside), (None, (0..4).collect()));
    }
}

#[tokio::test]
async fn a_batch_past_its_life_is_not_delivered_and_the_sweep_has_it_set_aside() {
    let processor = a_processor();
    opened_in_chunks(&processor, &[0, 1]).await;
    processor.fakes.clock.advance(BATCH_LIFE_MAX);
    assert!(!ticket(&processor).await);
    assert!(delivered(&processor).is_empty());
    let failed = record(&processor);
    let error = failed.error.unwrap();
    assert_eq!(failed.status, Some(Status::Error));
    assert!(error.contains("10 days"), "{error}");

    // The sweep goes by the time in the batch id, which is later than the clock of the test.
    let opened_at = Duration::from_millis(batch().opened_at().as_ms());
    processor.fakes.clock.advance(opened_at);
    let swept = super::sweep::sweep(&processor).await;
    assert_eq!((swept.in_error, swept.tickets_sent), (1, 1));
    let tickets = processor.fakes.batch_queue.take();
    assert_eq!(tickets[0].0.reason, Some(TicketReason::Quarantine));
    assert!(!given_back(&processor, &tickets[0].0.to_body()).await);
    assert_eq!(processor.fakes.quarantine_queue.take().len(), 2);
    assert_eq!(record(&processor).status, None);
}
