//! The contract of the pauses of deliveries.

use protocol::pause::{Pause, Pauses};
use shared::aws::DynamoPauseStore;
use shared::memory::MemoryPauseStore;
use shared::ports::PauseStore;

use crate::dynamo;
use crate::events::ms;

fn pause(source: Option<&str>, key: Option<&str>) -> Pause {
    Pause {
        source: source.map(|text| text.parse().unwrap()),
        batch_key: key.map(|text| text.parse().unwrap()),
        until: ms(60_000),
        at: ms(1_000),
        by: "me".to_owned(),
        why: "the sink is mended".to_owned(),
    }
}

async fn a_write_replaces_only_what_was_read(store: &dyn PauseStore) {
    let none = store.read().await.unwrap();
    assert_eq!(none, Pauses::default());
    let first = Pauses {
        pauses: vec![pause(None, None), pause(Some("arn:q"), Some("key"))],
        former: vec![pause(None, Some("key"))],
        ..none
    };
    assert!(store.write(&first).await.unwrap());
    let read = store.read().await.unwrap();
    let expected = Pauses {
        version: 1,
        ..first.clone()
    };
    assert_eq!(read, expected);
    assert!(!store.write(&first).await.unwrap(), "it was written since");
    let second = Pauses {
        version: 1,
        ..Pauses::default()
    };
    assert!(store.write(&second).await.unwrap());
    let read = store.read().await.unwrap();
    let expected = Pauses {
        version: 2,
        ..second
    };
    assert_eq!(read, expected);
}

#[tokio::test]
async fn memory_pauses_keep_the_contract() {
    a_write_replaces_only_what_was_read(&MemoryPauseStore::new()).await;
}

#[tokio::test]
async fn dynamo_pauses_keep_the_contract() {
    let client = dynamo::dynamodb();
    let table = dynamo::batch_table(&client).await;
    a_write_replaces_only_what_was_read(&DynamoPauseStore::new(client, table)).await;
}
