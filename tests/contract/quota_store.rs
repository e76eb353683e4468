//! The contract of the places of quotas.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::limits::QUOTA_RETENTION;
use protocol::quota::{QuotaAccount, QuotaScope};
use protocol::time::Timestamp;
use shared::aws::DynamoQuotaStore;
use shared::memory::MemoryQuotaStore;
use shared::ports::{PortError, QuotaStore};

use crate::dynamo;

const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
const OTHER: &str = "0190163d-8694-739b-aea5-966c26f8ad92";

fn scope(key: &str, begins_ms: u64, ends_ms: u64) -> QuotaScope {
    QuotaScope {
        key: key.parse().unwrap(),
        begins: Timestamp::from_ms(begins_ms),
        ends: Timestamp::from_ms(ends_ms),
    }
}

fn account(version: u64, taken: u64) -> QuotaAccount {
    QuotaAccount {
        taken,
        version,
        ..QuotaAccount::default()
    }
}

/// Returns an account with reserved seats of two batches.
fn reserved(version: u64) -> QuotaAccount {
    let mut account = account(version, 7);
    let (batch, other) = (BATCH.parse().unwrap(), OTHER.parse().unwrap());
    account.reserve(batch, (0..30).chain([65_536, 524_287]), 1_000);
    account.reserve(other, [3].into_iter(), 1_000);
    account
}

async fn an_account_is_replaced_only_as_it_was_read(store: &dyn QuotaStore) {
    let scope = scope("customer", 1_000, 2_000);
    let read = || async { store.read(&scope).await.unwrap() };
    let replaced = |from, to: QuotaAccount| {
        let scope = &scope;
        async move { store.replace(scope, from, &to).await.unwrap() }
    };
    assert_eq!(read().await, QuotaAccount::default());
    assert!(!replaced(1, account(2, 1)).await, "it was never written");
    assert_eq!(read().await, QuotaAccount::default());
    assert!(replaced(0, reserved(1)).await);
    assert_eq!(read().await, reserved(1));
    assert!(!replaced(0, reserved(1)).await, "it is written once");
    assert!(!replaced(0, account(1, 1)).await, "it was written since");
    assert!(!replaced(2, account(3, 1)).await, "another version");
    assert_eq!(read().await, reserved(1));
    assert!(replaced(1, account(2, 40)).await);
    assert!(!replaced(1, reserved(2)).await, "it was written since");
    assert_eq!(read().await, account(2, 40), "nothing is reserved any more");
}

async fn each_key_and_period_has_its_own(store: &dyn QuotaStore) {
    let long = "x".repeat(1_024);
    let scopes = [
        scope("a", 0, 1_000),
        scope("a", 1_000, 2_000),
        scope("b", 1_000, 2_000),
        scope("b/1000", 1_000, 2_000),
        scope(&long, u64::from(u32::MAX) * 1_000, u64::MAX),
    ];
    for (taken, scope) in (1..).zip(&scopes) {
        let from = store.read(scope).await.unwrap();
        assert_eq!(from, QuotaAccount::default());
        assert!(store.replace(scope, 0, &account(1, taken)).await.unwrap());
    }
    for (taken, scope) in (1..).zip(&scopes) {
        assert_eq!(store.read(scope).await.unwrap(), account(1, taken));
    }
    // Only the beginning of a period is part of the name.
    let longer = store.read(&scope("a", 1_000, 9_000)).await.unwrap();
    assert_eq!(longer, account(1, 2));
}

async fn keeps_the_contract(store: &dyn QuotaStore) {
    an_account_is_replaced_only_as_it_was_read(store).await;
    each_key_and_period_has_its_own(store).await;
}

#[tokio::test]
async fn memory_quotas_keep_the_contract() {
    keeps_the_contract(&MemoryQuotaStore::new()).await;
}

#[tokio::test]
async fn dynamo_quotas_keep_the_contract() {
    let client = dynamo::dynamodb();
    let table = dynamo::batch_table(&client).await;
    keeps_the_contract(&DynamoQuotaStore::new(client, table)).await;
}

#[tokio::test]
async fn a_quota_item_outlasts_its_period_and_is_in_no_index() {
    let client = dynamo::dynamodb();
    let table = dynamo::batch_table(&client).await;
    let store = DynamoQuotaStore::new(client.clone(), &table);
    let scope = scope("customer", 1_000, 2_001);
    assert!(store.replace(&scope, 0, &reserved(1)).await.unwrap());
    let item = client
        .get_item()
        .table_name(&table)
        .key(
            "batchId",
            AttributeValue::S("quota/1000/customer".to_owned()),
        )
        .send()
        .await
        .unwrap()
        .item
        .unwrap();
    let mut names: Vec<&str> = item.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["batchId", "expiresAt", "reserved", "taken", "version"]
    );
    let expires_at = (3 + QUOTA_RETENTION.as_secs()).to_string();
    assert_eq!(item["expiresAt"], AttributeValue::N(expires_at));
    assert_eq!(QUOTA_RETENTION.as_secs(), 40 * 24 * 3_600);
}

/// Sets one attribute of the item, or removes it.
async fn edit(client: &Client, table: &str, attribute: &str, value: Option<AttributeValue>) {
    let call = client
        .update_item()
        .table_name(table)
        .key(
            "batchId",
            AttributeValue::S("quota/1000/customer".to_owned()),
        )
        .expression_attribute_names("#attribute", attribute);
    let call = match value {
        None => call.update_expression("REMOVE #attribute"),
        Some(value) => call
            .update_expression("SET #attribute = :value")
            .expression_attribute_values(":value", value),
    };
    call.send().await.unwrap();
}

#[tokio::test]
async fn an_edited_quota_item_is_refused_with_its_key_and_attribute() {
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
        ("formatVersion", number("2")),
    ];
    for (attribute, value) in edits {
        let table = dynamo::batch_table(&client).await;
        let store = DynamoQuotaStore::new(client.clone(), &table);
        let scope = scope("customer", 1_000, 2_000);
        assert!(store.replace(&scope, 0, &reserved(1)).await.unwrap());
        edit(&client, &table, attribute, value).await;
        let error = store.read(&scope).await.unwrap_err();
        assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
        for word in ["`quota/1000/customer`", &format!("`{attribute}`"), &table] {
            assert!(error.to_string().contains(word), "`{word}` in {error}");
        }
    }
}
