//! The contract of the numbers of parts.

use protocol::sequence::{PartId, Sequence, SequenceScope};
use shared::aws::DynamoSequenceStore;
use shared::memory::MemorySequenceStore;
use shared::ports::SequenceStore;

use crate::dynamo;

fn scope(source: &str, key: Option<&str>) -> SequenceScope {
    SequenceScope {
        source: source.parse().unwrap(),
        batch_key: key.map(|key| key.parse().unwrap()),
    }
}

fn part(part: usize) -> PartId {
    PartId {
        batch: "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap(),
        part,
    }
}

async fn a_sequence_is_replaced_only_as_it_was_read(store: &dyn SequenceStore) {
    let keyed = scope("arn:q", Some("key"));
    let none = Sequence::default();
    assert_eq!(store.read(&keyed).await.unwrap(), none);
    let held = |last, number| Sequence {
        last,
        holder: Some(part(number)),
    };
    let free = |last| Sequence { last, holder: None };
    let replaced = |from, to| {
        let keyed = keyed.clone();
        async move { store.replace(&keyed, from, to).await.unwrap() }
    };
    assert!(replaced(none, held(1, 0)).await);
    assert!(!replaced(none, held(1, 1)).await, "it was written since");
    assert!(!replaced(free(1), held(2, 1)).await, "there is a holder");
    assert!(!replaced(held(1, 1), held(2, 1)).await, "it is another");
    assert!(!replaced(held(2, 0), held(3, 0)).await, "another number");
    assert_eq!(store.read(&keyed).await.unwrap(), held(1, 0));
    assert!(replaced(held(1, 0), free(0)).await);
    assert!(replaced(free(0), held(1, 12)).await);
    assert!(replaced(held(1, 12), held(2, 1)).await);
    assert!(replaced(held(2, 1), free(2)).await);
    assert_eq!(store.read(&keyed).await.unwrap(), free(2));
}

async fn each_source_and_key_has_its_own(store: &dyn SequenceStore) {
    let long = "x".repeat(1_024);
    let source = format!("arn:{}", "q".repeat(1_020));
    let scopes = [
        scope("arn:a", None),
        scope("arn:a", Some("key")),
        scope("arn:a", Some("other")),
        scope("arn:b", Some("key")),
        scope(&source, Some(&long)),
    ];
    for (last, scope) in (1..).zip(&scopes) {
        let to = Sequence { last, holder: None };
        let from = store.read(scope).await.unwrap();
        assert_eq!(from, Sequence::default());
        assert!(store.replace(scope, from, to).await.unwrap());
    }
    for (last, scope) in (1..).zip(&scopes) {
        assert_eq!(store.read(scope).await.unwrap().last, last);
    }
}

async fn keeps_the_contract(store: &dyn SequenceStore) {
    a_sequence_is_replaced_only_as_it_was_read(store).await;
    each_source_and_key_has_its_own(store).await;
}

#[tokio::test]
async fn memory_sequences_keep_the_contract() {
    keeps_the_contract(&MemorySequenceStore::new()).await;
}

#[tokio::test]
async fn dynamo_sequences_keep_the_contract() {
    let client = dynamo::dynamodb();
    let table = dynamo::batch_table(&client).await;
    keeps_the_contract(&DynamoSequenceStore::new(client, table)).await;
}
