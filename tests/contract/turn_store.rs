//! The contract of the turns of deliveries.

use std::time::Duration;

use shared::aws::DynamoTurnStore;
use shared::memory::MemoryTurnStore;
use shared::ports::TurnStore;

use crate::dynamo;
use crate::events::ms;

async fn one_turn_begins_when_the_other_ends(store: &dyn TurnStore) {
    let take_at = async |now, length, rate| {
        let taken = store.take(ms(now), Duration::from_millis(length), rate);
        taken.await.unwrap()
    };
    let take = async |now, length| take_at(now, length, 10).await;
    assert_eq!(
        take(1_000, 500).await,
        ms(1_000),
        "the first begins at once"
    );
    assert_eq!(take(1_100, 300).await, ms(1_500));
    assert_eq!(take(900, 100).await, ms(1_800), "of a clock that is late");
    assert_eq!(take(1_900, 10).await, ms(1_900), "when the last one ends");
    assert_eq!(take(60_000, 0).await, ms(60_000), "nobody had one for long");
    assert_eq!(take(61_000, 9_000_000).await, ms(61_000));
    assert_eq!(
        take_at(62_000, 500, 20).await,
        ms(62_000),
        "turns at a lower rate do not count"
    );
    assert_eq!(take_at(62_000, 500, 20).await, ms(62_500));
    assert_eq!(take_at(62_000, 500, 10).await, ms(63_000), "a lower rate");
}

#[tokio::test]
async fn memory_turns_keep_the_contract() {
    one_turn_begins_when_the_other_ends(&MemoryTurnStore::new()).await;
}

#[tokio::test]
async fn dynamo_turns_keep_the_contract() {
    let client = dynamo::dynamodb();
    let table = dynamo::batch_table(&client).await;
    one_turn_begins_when_the_other_ends(&DynamoTurnStore::new(client, table)).await;
}
