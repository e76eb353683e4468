//! The contract of the named items of the batch table: pauses, turns, sequences and scope items.

use std::collections::BTreeSet;
use std::fmt::Debug;

use aws::DynamoNamedItems;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::bodies::Bodies;
use protocol::chain::{ChainEnd, ChainHash};
use protocol::limits::SCOPE_RETENTION;
use protocol::pause::{Pause, Pauses};
use protocol::scope::{BatchScope, CurrentBatch, ScopeItem};
use protocol::sequence::{PartId, Sequence, SequenceScope};
use protocol::time::Timestamp;
use protocol::turns::Turns;
use shared::memory::MemoryNamedItems;
use shared::named_items::{NamedItem, Versioned};
use shared::ports::NamedItems;

use crate::dynamo::{self, edit};
use crate::events::assert_says;

const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
/// The key of the item in [`table_with_sequence`].
const KEY: (&str, &str) = ("batchId", "sequence/arn:q");

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn pause(source: Option<&str>, key: Option<&str>) -> Pause {
    Pause {
        source: source.map(|text| text.parse().unwrap()),
        batch_key: key.map(|text| text.parse().unwrap()),
        until: ms(60_000),
        at: ms(1_000),
        by: "me".to_owned(),
        why: "the sink is down".to_owned(),
    }
}

fn sequence_scope(source: &str, key: Option<&str>) -> SequenceScope {
    SequenceScope {
        source: source.parse().unwrap(),
        batch_key: key.map(|key| key.parse().unwrap()),
    }
}

/// Returns a sequence that a part holds.
fn held() -> Sequence {
    Sequence {
        last: 1,
        holder: Some(PartId {
            batch: BATCH.parse().unwrap(),
            part: 12,
        }),
        chain: Some(ChainEnd {
            number: 1,
            taken_at: ms(1_000),
            hash: ChainHash::new([7; 32]),
        }),
    }
}

/// Returns the item of a scope whose batch closes at a time.
fn scope_item(closes_at: Timestamp) -> ScopeItem {
    let current = CurrentBatch {
        batch: BATCH.parse().unwrap(),
        scope: batch_scope(),
        created_at: ms(1_000),
        closes_at,
        bodies: Bodies::Items,
        shards: 3,
        window_secs: 60,
    };
    ScopeItem {
        current: Some(current),
    }
}

fn batch_scope() -> BatchScope {
    BatchScope {
        source: "arn:q".parse().unwrap(),
        key: None,
        period: None,
    }
}

/// Checks that `first` and `second` replace each other, and only the value that was read.
async fn is_replaced_only_as_it_was_read<T>(
    store: &dyn NamedItems,
    scope: &T::Scope,
    first: T,
    second: T,
) where
    T: NamedItem + Clone + Debug + PartialEq,
{
    let none = store.get::<T>(scope).await.unwrap();
    assert_eq!(none, Versioned::default());
    let replaced =
        async |from: &Versioned<T>, to: &T| store.replace(scope, from, to).await.unwrap();
    let read = async || store.get::<T>(scope).await.unwrap();
    let versioned = |value: &T, version| Versioned {
        value: value.clone(),
        version,
    };
    let never = versioned(&first, 1);
    assert!(!replaced(&never, &second).await, "it was never written");
    assert!(replaced(&none, &first).await);
    assert!(!replaced(&none, &first).await, "it is written once");
    assert_eq!(read().await, never);
    assert!(replaced(&never, &second).await);
    assert!(!replaced(&never, &first).await, "it was written since");
    let written = versioned(&second, 2);
    assert_eq!(read().await, written, "nothing of the first value is left");
    assert!(replaced(&written, &first).await);
    assert_eq!(read().await, versioned(&first, 3));
}

async fn each_scope_has_its_own<T: NamedItem + Clone + Debug + PartialEq>(
    store: &dyn NamedItems,
    scopes: &[T::Scope],
    value: impl Fn(u64) -> T,
) where
    T::Scope: Sized,
{
    for (number, scope) in (1..).zip(scopes) {
        let from = store.get::<T>(scope).await.unwrap();
        assert_eq!(from, Versioned::default());
        let replaced = store.replace(scope, &from, &value(number)).await;
        assert!(replaced.unwrap());
    }
    for (number, scope) in (1..).zip(scopes) {
        let read = store.get::<T>(scope).await.unwrap();
        assert_eq!(read.value, value(number));
    }
}

async fn keeps_the_contract(store: &dyn NamedItems) {
    let pauses = Pauses {
        pauses: vec![pause(None, None), pause(Some("arn:q"), Some("key"))],
        former: vec![pause(None, Some("key"))],
    };
    is_replaced_only_as_it_was_read(store, &(), pauses, Pauses::default()).await;
    let turns = Turns {
        rate: 10,
        free_at: ms(1_500),
        next_at: ms(0),
    };
    let later = Turns {
        free_at: ms(1_700),
        ..turns
    };
    is_replaced_only_as_it_was_read(store, &(), turns, later).await;
    let free = Sequence {
        holder: None,
        ..held()
    };
    let scope = sequence_scope("arn:q", Some("replaced"));
    is_replaced_only_as_it_was_read(store, &scope, held(), free).await;
    let (first, second) = (scope_item(ms(2_001)), scope_item(ms(9_000)));
    is_replaced_only_as_it_was_read(store, &batch_scope(), first, second).await;

    let (long, source) = ("x".repeat(1_024), format!("arn:{}", "q".repeat(1_020)));
    let scopes = [
        sequence_scope("arn:a", None),
        sequence_scope("arn:a", Some("key")),
        sequence_scope("arn:a", Some("other")),
        sequence_scope("arn:b", Some("key")),
        sequence_scope(&source, Some(&long)),
    ];
    each_scope_has_its_own(store, &scopes, |last| Sequence {
        last,
        ..Sequence::default()
    })
    .await;
}

#[tokio::test]
async fn memory_named_items_keep_the_contract() {
    keeps_the_contract(&MemoryNamedItems::new()).await;
}

#[tokio::test]
async fn dynamo_named_items_keep_the_contract() {
    let client = dynamo::dynamodb();
    let table = dynamo::batch_table(&client).await;
    keeps_the_contract(&DynamoNamedItems::new(client, table)).await;
}

/// Returns a table with a sequence that a part holds.
async fn table_with_sequence(client: &Client) -> String {
    let table = dynamo::batch_table(client).await;
    let store: &dyn NamedItems = &DynamoNamedItems::new(client.clone(), &table);
    let scope = sequence_scope("arn:q", None);
    let none = Versioned::default();
    assert!(store.replace(&scope, &none, &held()).await.unwrap());
    table
}

#[tokio::test]
async fn a_scope_item_outlasts_its_window_and_keeps_an_attribute_of_a_later_version() {
    let client = dynamo::dynamodb();
    let table = dynamo::batch_table(&client).await;
    let store: &dyn NamedItems = &DynamoNamedItems::new(client.clone(), &table);
    let (none, first) = (Versioned::default(), scope_item(ms(2_001)));
    let scope = batch_scope();
    assert!(store.replace(&scope, &none, &first).await.unwrap());
    let name = ScopeItem::name(&scope);
    let later = AttributeValue::S("kept".to_owned());
    edit(&client, &table, (KEY.0, &name), "later", Some(later)).await;
    let read = store.get::<ScopeItem>(&scope).await.unwrap();
    assert_eq!(read.value, first);
    let next = scope_item(ms(3_001));
    assert!(store.replace(&scope, &read, &next).await.unwrap());
    let call = client.get_item().table_name(&table);
    let call = call.key(KEY.0, AttributeValue::S(name));
    let item = call.send().await.unwrap().item.unwrap();
    let names = BTreeSet::from_iter(item.keys().map(String::as_str));
    let names = Vec::from_iter(names).join(" ");
    assert_eq!(names, "batchId current expiresAt later version");
    let expires_at = (4 + SCOPE_RETENTION.as_secs()).to_string();
    assert_eq!(item["expiresAt"], AttributeValue::N(expires_at));
}

#[tokio::test]
async fn an_item_with_version_0_that_was_made_by_hand_is_read() {
    let client = dynamo::dynamodb();
    let table = table_with_sequence(&client).await;
    let first = AttributeValue::N("0".to_owned());
    edit(&client, &table, KEY, "version", Some(first)).await;
    let store: &dyn NamedItems = &DynamoNamedItems::new(client.clone(), &table);
    let scope = sequence_scope("arn:q", None);
    let read = store.get::<Sequence>(&scope).await.unwrap();
    assert_eq!((read.value, read.version), (held(), 0));
}

#[tokio::test]
async fn an_edited_item_is_refused_with_its_name_and_attribute() {
    let client = dynamo::dynamodb();
    let number = |text: &str| Some(AttributeValue::N(text.to_owned()));
    let text = |text: &str| Some(AttributeValue::S(text.to_owned()));
    let edits = [
        ("last", None),
        ("last", number("-1")),
        ("version", None),
        ("version", text("1")),
        ("holder", number("1")),
        ("holder", text("no part")),
        ("formatVersion", number("3")),
    ];
    for (attribute, value) in edits {
        let table = table_with_sequence(&client).await;
        edit(&client, &table, KEY, attribute, value).await;
        let store: &dyn NamedItems = &DynamoNamedItems::new(client.clone(), &table);
        let scope = sequence_scope("arn:q", None);
        let error = store.get::<Sequence>(&scope).await.unwrap_err();
        let name = format!("`{}`", KEY.1);
        assert_says(&error, &["refused by", &name, &format!("`{attribute}")]);
    }
}
