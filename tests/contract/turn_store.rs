//! The contract of the turns of deliveries.

use protocol::turns::Turns;
use shared::aws::DynamoTurnStore;
use shared::memory::MemoryTurnStore;
use shared::ports::TurnStore;

use crate::dynamo;
use crate::events::ms;

async fn turns_are_replaced_if_they_are_those_that_were_read(store: &dyn TurnStore) {
    let read = async || store.read().await.unwrap();
    let replace = async |from, to| store.replace(from, to).await.unwrap();
    assert_eq!(read().await, None);
    let first = Turns {
        rate: 10,
        free_at: ms(1_500),
        next_at: ms(0),
    };
    let second = Turns {
        free_at: ms(1_700),
        ..first
    };
    assert!(!replace(Some(first), second).await, "none was ever taken");
    assert!(replace(None, first).await);
    assert!(!replace(None, first).await, "sent again");
    assert_eq!(read().await, Some(first));
    for other in [
        Turns { rate: 9, ..first },
        Turns {
            free_at: ms(1_501),
            ..first
        },
        Turns {
            next_at: ms(1),
            ..first
        },
    ] {
        assert!(!replace(Some(other), second).await, "{other:?}");
    }
    assert!(replace(Some(first), second).await);
    assert_eq!(read().await, Some(second));
}

#[tokio::test]
async fn memory_turns_keep_the_contract() {
    turns_are_replaced_if_they_are_those_that_were_read(&MemoryTurnStore::new()).await;
}

#[tokio::test]
async fn dynamo_turns_keep_the_contract() {
    let client = dynamo::dynamodb();
    let table = dynamo::batch_table(&client).await;
    turns_are_replaced_if_they_are_those_that_were_read(&DynamoTurnStore::new(client, table)).await;
}
