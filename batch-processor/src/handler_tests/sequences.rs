//! The numbers of parts: when a part gets its number, and when it waits.

use protocol::chain::ChainEnd;
use protocol::limits::CLOCK_SKEW_MAX;
use protocol::sequence::{PartId, Sequence, SequenceScope};
use shared::named_items::Versioned;

use super::*;

fn other() -> BatchId {
    "0190163d-8694-739b-aea5-966c26f8ad92".parse().unwrap()
}

fn scope() -> SequenceScope {
    SequenceScope {
        source: "arn:q".parse().unwrap(),
        batch_key: None,
    }
}

fn held(last: u64, batch: BatchId) -> Sequence {
    Sequence {
        last,
        holder: Some(PartId { batch, part: 0 }),
        chain: None,
    }
}

/// Returns a processor whose sink needs numbers, with a sealed batch of one event.
async fn numbering(sequence: Sequence) -> Processor {
    with_sequence(a_processor(), sequence).await
}

/// Returns a processor whose sink needs links, with a sealed batch of one event.
async fn linking(sequence: Sequence) -> Processor {
    let sink = TestSink::default();
    sink.needs_link.store(true, Ordering::Relaxed);
    let processor = processor_to(config(), Fakes::at(START), Arc::new(sink));
    with_sequence(processor, sequence).await
}

async fn with_sequence(processor: Processor, sequence: Sequence) -> Processor {
    *processor.sink.needs_sequence.lock().unwrap() = true;
    let store = &processor.fakes.named_items;
    let none = Versioned::default();
    let replaced = store.replace(&scope(), &none, &sequence).await;
    assert!(replaced.unwrap());
    sealed(&processor, 1).await;
    processor
}

/// Adds another batch, whose part 0 has number 7 and this state.
async fn with_other(processor: &Processor, state: PartState) {
    let at = START.saturating_sub(Duration::from_secs(60));
    let mut record = BatchRecord::open(other(), "arn:q".parse().unwrap(), None, 3, at, START);
    record.parts = vec![PartRecord {
        state,
        file_number: Some(7),
        ..PartRecord::frozen([0].into_iter().collect(), [0; 32], None)
    }];
    processor.fakes.batch_store.create(&record).await.unwrap();
}

fn numbers(processor: &Processor) -> Vec<Option<u64>> {
    std::mem::take(&mut *processor.sink.numbers.lock().unwrap())
}

async fn stored(processor: &Processor) -> Sequence {
    let read = processor.fakes.named_items.get(&scope()).await;
    read.unwrap().value
}

const FREE: Sequence = Sequence {
    last: 7,
    holder: None,
    chain: None,
};

#[tokio::test]
async fn a_part_gets_the_next_number_and_gives_it_up_once_it_is_delivered() {
    let processor = numbering(FREE).await;
    assert!(!ticket(&processor).await);
    assert_eq!(numbers(&processor), [Some(8)]);
    assert_eq!(record(&processor).parts[0].file_number, Some(8));
    let free = Sequence { last: 8, ..FREE };
    assert_eq!(stored(&processor).await, free);
}

#[tokio::test]
async fn every_attempt_has_the_number_of_the_first() {
    let processor = numbering(FREE).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    assert_eq!(stored(&processor).await, held(8, batch()));
    processor.sink.fail(0);
    processor.fakes.clock.advance(Duration::from_secs(300));
    assert!(!ticket(&processor).await);
    let numbers = numbers(&processor);
    assert!(numbers.len() > 1);
    assert!(numbers.iter().all(|number| *number == Some(8)));
}

#[tokio::test]
async fn a_number_that_an_attempt_took_before_it_died_is_taken_again() {
    let processor = numbering(held(8, batch())).await;
    assert!(!ticket(&processor).await);
    assert_eq!(numbers(&processor), [Some(8)]);
}

#[tokio::test]
async fn a_part_waits_until_the_one_before_it_is_delivered() {
    let processor = numbering(held(7, other())).await;
    with_other(&processor, PartState::Frozen).await;
    assert!(!ticket(&processor).await, "another ticket was sent");
    assert!(numbers(&processor).is_empty());
    let waits = record(&processor);
    assert_eq!(waits.status, Some(Status::Processing));
    assert_eq!(waits.lease, None);
    assert_eq!(waits.parts, [], "nothing was read");
    let tickets = processor.fakes.batch_queue.take();
    assert_eq!(tickets.len(), 1);
    let wait = Duration::from_secs(5) + CLOCK_SKEW_MAX;
    assert_eq!(tickets[0].1, wait);
    assert_eq!(waits.due_at, START + wait + DUE_GRACE);
    // The sink has part 7 now, and its processor died before it gave the number up.
    processor.fakes.batch_store.remove(other());
    let delivered = PartState::Delivered {
        receipt: "r".to_owned(),
        at: None,
    };
    with_other(&processor, delivered).await;
    processor.fakes.clock.advance(Duration::from_secs(5));
    assert!(!ticket(&processor).await);
    assert_eq!(numbers(&processor), [Some(8)]);
}

#[tokio::test]
async fn a_part_gets_the_number_of_one_that_was_set_aside() {
    let processor = numbering(held(7, other())).await;
    with_other(&processor, PartState::SetAside).await;
    assert!(!ticket(&processor).await);
    assert_eq!(numbers(&processor), [Some(7)]);
}

#[tokio::test]
async fn a_batch_that_is_set_aside_gives_its_number_back() {
    let processor = numbering(FREE).await;
    refused(&processor).await;
    assert_eq!(stored(&processor).await, held(8, batch()));
    assert!(!given_back(&processor, &quarantine()).await);
    assert_eq!(record(&processor).parts[0].state, PartState::SetAside);
    assert_eq!(stored(&processor).await, FREE);
}

#[tokio::test]
async fn a_sink_that_needs_no_numbers_gets_none() {
    let processor = numbering(held(7, other())).await;
    *processor.sink.needs_sequence.lock().unwrap() = false;
    assert!(!ticket(&processor).await);
    assert_eq!(numbers(&processor), [None]);
}

fn end(number: u64) -> ChainEnd {
    ChainEnd {
        number,
        taken_at: START,
        hash: ChainHash::new([number as u8; 32]),
    }
}

#[tokio::test]
async fn every_attempt_has_the_link_of_the_first_and_the_next_part_is_after_it() {
    let known = Sequence {
        chain: Some(end(7)),
        ..FREE
    };
    let processor = linking(known).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    let now = processor.fakes.clock.now();
    processor.sink.fail(0);
    processor.fakes.clock.advance(Duration::from_secs(300));
    assert!(!ticket(&processor).await);
    let links = std::mem::take(&mut *processor.sink.links.lock().unwrap());
    let first = links[0].unwrap();
    assert_eq!((first.after, first.previous), (7, end(7).hash));
    assert!(first.taken_at <= now);
    assert!(links.len() > 1 && links.iter().all(|link| *link == Some(first)));
    assert_eq!(record(&processor).parts[0].link, Some(first));
    let chain = ChainEnd {
        taken_at: first.taken_at,
        ..end(8)
    };
    let given_up = Sequence {
        last: 8,
        chain: Some(chain),
        ..FREE
    };
    assert_eq!(stored(&processor).await, given_up);
}

#[tokio::test]
async fn a_part_after_one_without_a_link_says_which_numbers_are_unknown() {
    // The record of number 7 has no link, and the last link that is known is of number 5.
    let known = Sequence {
        chain: Some(end(5)),
        ..held(7, other())
    };
    let processor = linking(known).await;
    let delivered = PartState::Delivered {
        receipt: "r".to_owned(),
        at: None,
    };
    with_other(&processor, delivered).await;
    assert!(!ticket(&processor).await);
    assert_eq!(numbers(&processor), [Some(8)]);
    let link = record(&processor).parts[0].link.unwrap();
    assert_eq!((link.after, link.previous), (5, end(5).hash));
}

#[tokio::test]
async fn a_sink_that_needs_no_links_gets_none() {
    let processor = numbering(FREE).await;
    assert!(!ticket(&processor).await);
    assert_eq!(*processor.sink.links.lock().unwrap(), [None]);
}
