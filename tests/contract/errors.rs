//! The errors of the adapters: throttled, unknown or refused, for each item, with the message of the service.

use std::time::Duration;

use aws::{DynamoBatchStore, DynamoLockStore};
use aws_sdk_dynamodb::Client;
use protocol::batch::{Listing, Status};
use protocol::ids::{BatchId, BatchShard, SeatKey};
use shared::config::WriteMode;
use shared::ports::{
    BatchStore, ClaimReply, ListShard, LockStore, PortError, Release, ReleaseReply,
};
use tokio::net::{TcpListener, TcpSocket};

use crate::dynamo::{BATCH_INDEX, dynamodb, dynamodb_of};
use crate::events::{
    assert_says, batch, claim, claim_all, claims, event, item, ms, record, releases, witness,
};
use crate::lock_store::assert_released;
use crate::scripted;

const SHARD: BatchShard = BatchShard {
    batch: BatchId::new(uuid::Uuid::from_u128(1)),
    shard: 0,
};
const SEAT: SeatKey = SeatKey {
    shard: SHARD,
    seq: 0,
};

fn store(dynamodb: Client, table: &str, mode: WriteMode) -> DynamoLockStore {
    DynamoLockStore::new(dynamodb, table, BATCH_INDEX, mode)
}

/// Returns a store whose requests have this response.
async fn replied(body: &'static str, mode: WriteMode) -> DynamoLockStore {
    store(scripted::dynamodb(200, body).await, "t", mode)
}

fn claim_error(reply: ClaimReply) -> PortError {
    match reply {
        ClaimReply::Error(error) => error,
        other => panic!("{other:?}"),
    }
}

fn release_error(reply: ReleaseReply) -> PortError {
    match reply {
        ReleaseReply::Error(error) => error,
        ReleaseReply::Released => panic!("released"),
    }
}

fn kind(error: &PortError) -> &'static str {
    match error {
        PortError::Throttled { .. } => "throttled",
        PortError::DeadlineReached => "deadline reached",
        PortError::Unknown { .. } => "unknown",
        PortError::Refused { .. } => "refused",
    }
}

/// Returns what became of each claim of a request.
fn results(replies: &[ClaimReply]) -> String {
    let result = |reply: &ClaimReply| match reply {
        ClaimReply::Written => "written",
        ClaimReply::Exists(None) => "exists",
        ClaimReply::Exists(Some(_)) => "exists with its item",
        ClaimReply::Unstorable(_) => "unstorable",
        ClaimReply::Error(error) => kind(error),
    };
    Vec::from_iter(replies.iter().map(result)).join(", ")
}

/// Checks the text of the error of every method of both stores.
async fn every_error_says(dynamodb: Client, table: &str, words: &[&str]) {
    let mut errors = Vec::new();
    for mode in [WriteMode::Batch, WriteMode::Put] {
        let store = store(dynamodb.clone(), table, mode);
        let claims = claims(3);
        let replies = claim_all(&store, &claims).await;
        errors.extend(replies.into_iter().map(claim_error));
        let reply = store.replace(&claims[0], &item(&claims[0])).await;
        errors.push(claim_error(reply));
        errors.push(store.read(&[event("e")]).await.unwrap_err());
        errors.push(store.read_events(&[event("e")]).await.unwrap_err());
        for release in releases() {
            let replies = store.release(&[(event("e"), SEAT)], release).await;
            errors.extend(replies.into_iter().map(release_error));
        }
        errors.push(store.index(SHARD, None).await.unwrap_err());
    }
    let batches = DynamoBatchStore::new(dynamodb, table);
    errors.push(batches.create(&record(batch(1))).await.unwrap_err());
    errors.push(batches.read(batch(1)).await.unwrap_err());
    errors.push(batches.write(batch(1), &witness()).await.unwrap_err());
    let list = ListShard {
        listing: Listing::Status(Status::Open),
        shard: 0,
    };
    errors.push(batches.overdue(list, ms(0), None).await.unwrap_err());
    assert_eq!(errors.len(), 24);
    for error in errors {
        assert_says(&error, words);
    }
}

/// What stores return that have no PartiQL, or do not permit it: for the request, and for each of its two statements.
const REFUSALS: [(u16, &str); 3] = [
    (
        400,
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#UnknownOperationException","message":"no such operation"}"#,
    ),
    (
        400,
        r#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized to perform: dynamodb:PartiQLInsert"}"#,
    ),
    (
        200,
        r#"{"Responses":[{"Error":{"Code":"AccessDenied","Message":"no"}},{"Error":{"Code":"AccessDenied","Message":"no"}}]}"#,
    ),
];

#[tokio::test]
async fn a_store_that_refuses_single_writes_too_is_asked_by_partiql_again() {
    let (status, body) = REFUSALS[1];
    let store = store(scripted::dynamodb(status, body).await, "t", WriteMode::Auto);
    let replies = store.claim(&claims(2)).await;
    assert_eq!(results(&replies), "refused, refused");
    assert_eq!(store.items_per_request(), 25);
}

#[tokio::test]
async fn where_partiql_is_refused_auto_writes_items_one_by_one_from_then_on() {
    for (status, body) in REFUSALS {
        let (client, called) = scripted::dynamodb_without_partiql(status, body).await;
        let store = store(client, "t", WriteMode::Auto);
        assert_eq!(store.items_per_request(), 25);
        let replies = store.claim(&claims(2)).await;
        assert_eq!(results(&replies), "written, written");
        assert_eq!(store.items_per_request(), 1);
        let items = [(event("e"), SEAT)];
        assert_released(&store.clone().release(&items, Release::Deleted).await);
        let expected = ["BatchExecuteStatement", "PutItem", "PutItem", "DeleteItem"];
        assert_eq!(*called.lock().unwrap(), expected, "{body}");
    }
}

#[tokio::test]
async fn where_partiql_releases_are_refused_auto_releases_one_by_one() {
    for (status, body) in REFUSALS {
        let (client, called) = scripted::dynamodb_without_partiql(status, body).await;
        let store = store(client, "t", WriteMode::Auto);
        let items = ["a", "b"].map(|id| (event(id), SEAT));
        let replies = store.release(&items, Release::Remembered(ms(0))).await;
        assert_released(&replies);
        let expected = ["BatchExecuteStatement", "UpdateItem", "UpdateItem"];
        assert_eq!(*called.lock().unwrap(), expected, "{body}");
    }
}

#[tokio::test]
async fn where_partiql_is_refused_batch_fails() {
    for (status, body) in REFUSALS {
        let (client, called) = scripted::dynamodb_without_partiql(status, body).await;
        let store = store(client, "t", WriteMode::Batch);
        let replies = store.claim(&claims(2)).await;
        assert_eq!(results(&replies), "refused, refused");
        assert_eq!(*called.lock().unwrap(), ["BatchExecuteStatement"]);
    }
}

#[tokio::test]
async fn auto_goes_on_with_partiql_after_other_errors() {
    let throttled =
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow"}"#;
    // A refusal of one statement is about its item.
    let one =
        r#"{"Responses":[{"TableName":"t"},{"Error":{"Code":"AccessDenied","Message":"no"}}]}"#;
    for (status, body) in [(400, throttled), (500, "{}"), (200, one)] {
        let (client, called) = scripted::dynamodb_without_partiql(status, body).await;
        let store = store(client, "t", WriteMode::Auto);
        let replies = store.claim(&claims(2)).await;
        assert!(matches!(replies[1], ClaimReply::Error(_)), "{body}");
        assert_eq!(store.items_per_request(), 25);
        assert_eq!(*called.lock().unwrap(), ["BatchExecuteStatement"]);
    }
}

#[tokio::test]
async fn a_missing_table_is_refused_by_name() {
    let words = ["refused by DynamoDB", "no-such-table", "ResourceNotFound"];
    every_error_says(dynamodb(), "no-such-table", &words).await;
}

#[tokio::test]
async fn without_a_listener_every_result_is_unknown() {
    // A port that is bound and not listened on; nobody else gets it meanwhile.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let endpoint = format!("http://{}", closed.local_addr().unwrap());
    let dynamodb = dynamodb_of(&endpoint, Duration::from_secs(5));
    every_error_says(dynamodb, "lock-table", &["no reply from", "lock-table"]).await;
}

#[tokio::test]
async fn without_a_reply_the_result_is_unknown_when_the_attempt_ends() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    // Without the timeout, the test would never end.
    let dynamodb = dynamodb_of(&endpoint, Duration::from_millis(50));
    every_error_says(dynamodb, "lock-table", &["no reply from"]).await;
}

#[tokio::test]
async fn every_code_of_a_throttle_is_throttled() {
    for body in [
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow"}"#,
        r#"{"__type":"com.amazon.coral.availability#ThrottlingException","message":"slow"}"#,
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#RequestLimitExceeded","message":"slow"}"#,
    ] {
        let dynamodb = scripted::dynamodb(400, body).await;
        every_error_says(dynamodb, "lock-table", &["throttled by", "slow"]).await;
    }
}

#[tokio::test]
async fn after_a_server_error_every_result_is_unknown() {
    let error =
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"oh"}"#;
    for (status, body) in [
        (500, error),
        (503, ""),
        (502, "<html>bad gateway</html>"),
        (200, "not json"),
    ] {
        let dynamodb = scripted::dynamodb(status, body).await;
        every_error_says(dynamodb, "lock-table", &["no reply from"]).await;
    }
}

#[tokio::test]
async fn a_missing_permission_is_refused_with_its_reason() {
    let body = r#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized to perform"}"#;
    let dynamodb = scripted::dynamodb(400, body).await;
    let words = ["refused by", "not authorized to perform"];
    every_error_says(dynamodb, "lock-table", &words).await;
}

#[tokio::test]
async fn claims_of_a_request_have_separate_results_and_missing_ones_are_unknown() {
    let body = r#"{"Responses":[
        {"TableName":"t"},
        {"Error":{"Code":"DuplicateItem","Message":"Duplicate primary key exists in table"}},
        {"Error":{"Code":"ThrottlingError","Message":"slow"}},
        {"Error":{"Code":"ProvisionedThroughputExceeded","Message":"slow"}},
        {"Error":{"Code":"RequestLimitExceeded","Message":"slow"}},
        {"Error":{"Code":"InternalServerError","Message":"oh"}},
        {"Error":{"Code":"TransactionConflict","Message":"busy"}},
        {"Error":{"Code":"ValidationError","Message":"Item size has exceeded the maximum allowed size"}},
        {"Error":{"Code":"ValidationError","Message":"something else"}},
        {"Error":{"Code":"AccessDenied","Message":"no"}},
        {"Error":{"Code":"SomethingNew","Message":"no"}},
        {"Error":{"Message":"no code"}}
    ]}"#;
    let store = replied(body, WriteMode::Batch).await;
    let expected = "written, exists, throttled, throttled, throttled, unknown, unknown, unstorable, refused, refused, refused, \
                    unknown, unknown, unknown";
    assert_eq!(results(&store.claim(&claims(14)).await), expected);
}

#[tokio::test]
async fn a_claim_that_is_not_sent_does_not_shift_the_replies_of_the_others() {
    let body = r#"{"Responses":[{"TableName":"t"},{"Error":{"Code":"ThrottlingError","Message":"slow"}}]}"#;
    let store = replied(body, WriteMode::Batch).await;
    let large = "x".repeat(500_000);
    let claims = [
        claim("large", &large, 0),
        claim("e", "", 1),
        claim("e", "", 2),
        claim("f", "", 3),
    ];
    let results = results(&store.claim(&claims).await);
    assert_eq!(results, "unstorable, written, exists, throttled");
}

#[tokio::test]
async fn releases_of_a_request_have_separate_results() {
    let body = r#"{"Responses":[
        {"TableName":"t"},
        {"Error":{"Code":"ConditionalCheckFailed","Message":"The conditional request failed"}},
        {"Error":{"Code":"ThrottlingError","Message":"slow"}}
    ]}"#;
    let store = replied(body, WriteMode::Batch).await;
    let items = ["a", "b", "c", "d"].map(|id| (event(id), SEAT));
    let mut replies = store.release(&items, Release::Deleted).await;
    let failed = replies.split_off(2).into_iter().map(release_error);
    assert_released(&replies);
    let failed = Vec::from_iter(failed.map(|error| kind(&error)));
    assert_eq!(failed, ["throttled", "unknown"]);
}

#[tokio::test]
async fn a_read_returns_the_longest_prefix_that_was_read() {
    let body = r#"{"Responses":{"t":[
        {"messageId":{"S":"d"},"sqsMessageId":{"S":"m"},"bodyHash":{"B":"AAAAAAAAAAAAAAAAAAAAAA=="},
         "expiresAt":{"N":"1700000001"}}
    ]},"UnprocessedKeys":{"t":{"Keys":[{"messageId":{"S":"c"}}]}}}"#;
    let store = replied(body, WriteMode::Put).await;
    let ids = ["a", "d", "c", "b"].map(event);
    let items = store.read(&ids).await.unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!(items[0], None);
    assert_eq!(items[1].as_ref().unwrap().expires_at(), Some(ms(1_000)));
    let error = store.read(&["c", "a"].map(event)).await.unwrap_err();
    assert_eq!(kind(&error), "throttled");
    // The tombstone is not an event, and the unread id must be requested again.
    let (events, unread) = store.read_events(&ids).await.unwrap();
    assert!(events.is_empty());
    assert_eq!(unread, [event("c")]);
}

#[tokio::test]
async fn a_read_that_returns_nothing_is_throttled() {
    let body = r#"{"Responses":{},"UnprocessedKeys":{"t":{"Keys":[{"messageId":{"S":"a"}},{"messageId":{"S":"b"}}]}}}"#;
    let store = replied(body, WriteMode::Put).await;
    let ids = ["a", "b"].map(event);
    let errors = [
        store.read(&ids).await.unwrap_err(),
        store.read_events(&ids).await.unwrap_err(),
    ];
    assert_eq!(errors.each_ref().map(kind), ["throttled", "throttled"]);
}
