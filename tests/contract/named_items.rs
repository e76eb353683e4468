//! The contract of the named items of the batch table: pauses, turns, sequences and quota accounts.

use std::collections::BTreeSet;
use std::fmt::Debug;

use aws::DynamoNamedItems;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::limits::QUOTA_RETENTION;
use protocol::pause::{Pause, Pauses};
use protocol::quota::{QuotaAccount, QuotaScope};
use protocol::sequence::{PartId, Sequence, SequenceScope};
use protocol::time::Timestamp;
use protocol::turns::Turns;
use shared::memory::MemoryNamedItems;
use shared::named_items::{NamedItem, Versioned};
use shared::ports::NamedItems;

use crate::dynamo::{self, edit};
use crate::events::assert_says;

const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
const OTHER: &str = "0190163d-8694-739b-aea5-966c26f8ad92";
/// The key of the item in [`table_with_quota`].
const KEY: (&str, &str) = ("batchId", "quota/1000/customer");

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

fn quota_scope(key: &str, begins_ms: u64, ends_ms: u64) -> QuotaScope {
    QuotaScope {
        key: key.parse().unwrap(),
        begins: ms(begins_ms),
        ends: ms(ends_ms),
    }
}

/// Returns an account with reserved seats of two batches.
fn reserved() -> QuotaAccount {
    let mut account = QuotaAccount {
        taken: 7,
        ..QuotaAccount::default()
    };
    let (batch, other) = (BATCH.parse().unwrap(), OTHER.parse().unwrap());
    account.reserve(batch, (0..30).chain([65_536, 524_287]), 1_000);
    account.reserve(other, [3].into_iter(), 1_000);
    account
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
    let held = Sequence {
        last: 1,
        holder: Some(PartId {
            batch: BATCH.parse().unwrap(),
            part: 12,
        }),
    };
    let free = Sequence {
        last: 1,
        holder: None,
    };
    let scope = sequence_scope("arn:q", Some("replaced"));
    is_replaced_only_as_it_was_read(store, &scope, held, free).await;
    let scope = quota_scope("replaced", 1_000, 2_000);
    is_replaced_only_as_it_was_read(store, &scope, reserved(), QuotaAccount::default()).await;

    let (long, source) = ("x".repeat(1_024), format!("arn:{}", "q".repeat(1_020)));
    let scopes = [
        sequence_scope("arn:a", None),
        sequence_scope("arn:a", Some("key")),
        sequence_scope("arn:a", Some("other")),
        sequence_scope("arn:b", Some("key")),
        sequence_scope(&source, Some(&long)),
    ];
    each_scope_has_its_own(store, &scopes, |last| Sequence { last, holder: None }).await;
    let account = |taken| QuotaAccount {
        taken,
        ..QuotaAccount::default()
    };
    let scopes = [
        quota_scope("a", 0, 1_000),
        quota_scope("a", 1_000, 2_000),
        quota_scope("b", 1_000, 2_000),
        quota_scope("b/1000", 1_000, 2_000),
        quota_scope(&long, u64::from(u32::MAX) * 1_000, u64::MAX),
    ];
    each_scope_has_its_own(store, &scopes, account).await;
    // Only the beginning of a period is part of the name.
    let longer = quota_scope("a", 1_000, 9_000);
    let longer = store.get::<QuotaAccount>(&longer).await.unwrap();
    assert_eq!(longer.value, account(2));
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

/// Returns a table with an item of which places are reserved.
async fn table_with_quota(client: &Client) -> String {
    let table = dynamo::batch_table(client).await;
    let store: &dyn NamedItems = &DynamoNamedItems::new(client.clone(), &table);
    let scope = quota_scope("customer", 1_000, 2_001);
    let (none, reserved) = (Versioned::default(), reserved());
    assert!(store.replace(&scope, &none, &reserved).await.unwrap());
    table
}

#[tokio::test]
async fn a_quota_item_outlasts_its_period_and_keeps_an_attribute_of_a_later_version() {
    let client = dynamo::dynamodb();
    let table = table_with_quota(&client).await;
    let later = AttributeValue::S("kept".to_owned());
    edit(&client, &table, KEY, "later", Some(later)).await;
    let store: &dyn NamedItems = &DynamoNamedItems::new(client.clone(), &table);
    let scope = quota_scope("customer", 1_000, 2_001);
    let read = store.get::<QuotaAccount>(&scope).await.unwrap();
    assert_eq!(read.value, reserved());
    let none = QuotaAccount::default();
    assert!(store.replace(&scope, &read, &none).await.unwrap());
    let call = client.get_item().table_name(&table);
    let call = call.key(KEY.0, AttributeValue::S(KEY.1.to_owned()));
    let item = call.send().await.unwrap().item.unwrap();
    let names = BTreeSet::from_iter(item.keys().map(String::as_str));
    let names = Vec::from_iter(names).join(" ");
    assert_eq!(names, "batchId expiresAt later reserved taken version");
    let expires_at = (3 + QUOTA_RETENTION.as_secs()).to_string();
    assert_eq!(item["expiresAt"], AttributeValue::N(expires_at));
    assert_eq!(QUOTA_RETENTION.as_secs(), 40 * 24 * 3_600);
}

#[tokio::test]
async fn an_item_with_version_0_that_was_made_by_hand_is_read() {
    let client = dynamo::dynamodb();
    let table = table_with_quota(&client).await;
    let first = AttributeValue::N("0".to_owned());
    edit(&client, &table, KEY, "version", Some(first)).await;
    let store: &dyn NamedItems = &DynamoNamedItems::new(client.clone(), &table);
    let scope = quota_scope("customer", 1_000, 2_000);
    let read = store.get::<QuotaAccount>(&scope).await.unwrap();
    assert_eq!((read.value, read.version), (reserved(), 0));
}

#[tokio::test]
async fn an_edited_item_is_refused_with_its_name_and_attribute() {
    let client = dynamo::dynamodb();
    let number = |text: &str| Some(AttributeValue::N(text.to_owned()));
    let set = |batch: &str, seats| Some(AttributeValue::M([(batch.to_owned(), seats)].into()));
    let damaged = || AttributeValue::B(Blob::new([1, 2, 3]));
    let edits = [
        ("taken", None),
        ("taken", number("-1")),
        ("version", None),
        ("version", Some(AttributeValue::S("1".to_owned()))),
        ("reserved", number("1")),
        ("reserved", set("no batch", damaged())),
        ("reserved", set(BATCH, damaged())),
        ("reserved", set(BATCH, AttributeValue::N("1".to_owned()))),
        ("formatVersion", number("3")),
    ];
    for (attribute, value) in edits {
        let table = table_with_quota(&client).await;
        edit(&client, &table, KEY, attribute, value).await;
        let store: &dyn NamedItems = &DynamoNamedItems::new(client.clone(), &table);
        let scope = quota_scope("customer", 1_000, 2_000);
        let error = store.get::<QuotaAccount>(&scope).await.unwrap_err();
        let name = format!("`{}`", KEY.1);
        assert_says(&error, &["refused by", &name, &format!("`{attribute}")]);
    }
}
