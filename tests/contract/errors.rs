//! The errors of the adapters: throttled, unknown or refused, for each item, with the message of the service.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use protocol::batch::{Listing, Status};
use protocol::claim::Claim;
use protocol::ids::{BatchShard, SeatKey};
use shared::aws::{DynamoBatchStore, DynamoLockStore};
use shared::config::WriteMode;
use shared::ports::{
    BatchStore, ClaimReply, ListShard, LockStore, PortError, Release, ReleaseReply,
};
use tokio::net::{TcpListener, TcpSocket};

use crate::dynamo::{BATCH_INDEX, dynamodb, dynamodb_of};
use crate::events::{batch, claim, claim_all, event, item, ms, record, witness};
use crate::scripted;

const SEAT: SeatKey = SeatKey {
    shard: SHARD,
    seq: 0,
};
const SHARD: BatchShard = BatchShard {
    batch: batch_1(),
    shard: 0,
};

const fn batch_1() -> protocol::ids::BatchId {
    protocol::ids::BatchId::new(uuid::Uuid::from_u128(1))
}

fn store(dynamodb: Client, table: &str, mode: WriteMode) -> DynamoLockStore {
    DynamoLockStore::new(dynamodb, table, BATCH_INDEX, mode)
}

fn claims(count: u32) -> Vec<Claim> {
    (0..count)
        .map(|seq| claim(&format!("e{seq}"), "body", seq))
        .collect()
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

/// Returns the error of every method of both stores.
async fn every_error(dynamodb: Client, table: &str) -> Vec<PortError> {
    let mut errors = Vec::new();
    for mode in [WriteMode::Batch, WriteMode::Put] {
        let store = store(dynamodb.clone(), table, mode);
        let claims = claims(3);
        errors.extend(
            claim_all(&store, &claims)
                .await
                .into_iter()
                .map(claim_error),
        );
        errors.push(claim_error(
            store.replace(&claims[0], &item(&claims[0])).await,
        ));
        errors.push(store.read(&[event("e")]).await.unwrap_err());
        errors.push(store.read_events(&[event("e")]).await.unwrap_err());
        for release in [
            Release::Remembered(ms(0)),
            Release::SetAside(ms(0)),
            Release::Deleted,
        ] {
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
    errors
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
    for reply in store.claim(&claims(2)).await {
        assert!(
            matches!(reply, ClaimReply::Error(PortError::Refused { .. })),
            "{reply:?}"
        );
    }
    assert_eq!(store.items_per_request(), 25);
}

#[tokio::test]
async fn where_partiql_is_refused_auto_writes_items_one_by_one_from_then_on() {
    for (status, body) in REFUSALS {
        let (client, called) = scripted::dynamodb_without_partiql(status, body).await;
        let store = store(client, "t", WriteMode::Auto);
        assert_eq!(store.items_per_request(), 25);
        let replies = store.claim(&claims(2)).await;
        let is_written = |reply: &ClaimReply| matches!(reply, ClaimReply::Written);
        assert!(replies.iter().all(is_written), "{replies:?}");
        assert_eq!(store.items_per_request(), 1);
        let items = [(event("e"), SEAT)];
        for reply in store.clone().release(&items, Release::Deleted).await {
            assert!(matches!(reply, ReleaseReply::Released), "{reply:?}");
        }
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
        let is_released = |reply: &ReleaseReply| matches!(reply, ReleaseReply::Released);
        assert!(replies.iter().all(is_released), "{replies:?}");
        let expected = ["BatchExecuteStatement", "UpdateItem", "UpdateItem"];
        assert_eq!(*called.lock().unwrap(), expected, "{body}");
    }
}

#[tokio::test]
async fn where_partiql_is_refused_batch_fails() {
    for (status, body) in REFUSALS {
        let (client, called) = scripted::dynamodb_without_partiql(status, body).await;
        let store = store(client, "t", WriteMode::Batch);
        for reply in store.claim(&claims(2)).await {
            let error = claim_error(reply);
            assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
        }
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
        assert!(
            matches!(replies[1], ClaimReply::Error(_)),
            "{body}: {replies:?}"
        );
        assert_eq!(store.items_per_request(), 25);
        assert_eq!(*called.lock().unwrap(), ["BatchExecuteStatement"]);
    }
}

#[tokio::test]
async fn a_missing_table_is_refused_by_name() {
    for error in every_error(dynamodb(), "no-such-table").await {
        assert!(
            matches!(
                error,
                PortError::Refused {
                    service: "DynamoDB",
                    ..
                }
            ),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains("no-such-table") && text.contains("ResourceNotFound"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn without_a_listener_every_result_is_unknown() {
    // A port that is bound and not listened on; nobody else gets it meanwhile.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let dynamodb = dynamodb_of(
        &format!("http://{}", closed.local_addr().unwrap()),
        Duration::from_secs(5),
    );
    for error in every_error(dynamodb, "lock-table").await {
        assert!(matches!(error, PortError::Unknown { .. }), "{error:?}");
        assert!(error.to_string().contains("lock-table"), "{error}");
    }
}

#[tokio::test]
async fn without_a_reply_the_result_is_unknown_when_the_attempt_ends() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dynamodb = dynamodb_of(
        &format!("http://{}", silent.local_addr().unwrap()),
        Duration::from_millis(50),
    );
    // Without the timeout, the test would never end.
    for error in every_error(dynamodb, "lock-table").await {
        assert!(matches!(error, PortError::Unknown { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn every_code_of_a_throttle_is_throttled() {
    for body in [
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow"}"#,
        r#"{"__type":"com.amazon.coral.availability#ThrottlingException","message":"slow"}"#,
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#RequestLimitExceeded","message":"slow"}"#,
    ] {
        for error in every_error(scripted::dynamodb(400, body).await, "lock-table").await {
            assert!(matches!(error, PortError::Throttled { .. }), "{error:?}");
            assert!(error.to_string().contains("slow"), "{error}");
        }
    }
}

#[tokio::test]
async fn after_a_server_error_every_result_is_unknown() {
    for (status, body) in [
        (
            500,
            r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"oh"}"#,
        ),
        (503, ""),
        (502, "<html>bad gateway</html>"),
        (200, "not json"),
    ] {
        for error in every_error(scripted::dynamodb(status, body).await, "lock-table").await {
            assert!(
                matches!(error, PortError::Unknown { .. }),
                "{status}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_missing_permission_is_refused_with_its_reason() {
    let body = r#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized to perform"}"#;
    for error in every_error(scripted::dynamodb(400, body).await, "lock-table").await {
        assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
        assert!(
            error.to_string().contains("not authorized to perform"),
            "{error}"
        );
    }
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
    let store = store(scripted::dynamodb(200, body).await, "t", WriteMode::Batch);
    let describe = |reply: &ClaimReply| match reply {
        ClaimReply::Written => "written",
        ClaimReply::Exists(None) => "exists",
        ClaimReply::Exists(Some(_)) => "exists with its item",
        ClaimReply::Unstorable(_) => "unstorable",
        ClaimReply::Error(PortError::Throttled { .. }) => "throttled",
        ClaimReply::Error(PortError::DeadlineReached) => "deadline reached",
        ClaimReply::Error(PortError::Unknown { .. }) => "unknown",
        ClaimReply::Error(PortError::Refused { .. }) => "refused",
    };
    let replies = store.claim(&claims(14)).await;
    let expected = [
        "written",
        "exists",
        "throttled",
        "throttled",
        "throttled",
        "unknown",
        "unknown",
        "unstorable",
        "refused",
        "refused",
        "refused",
        "unknown",
        "unknown",
        "unknown",
    ];
    assert_eq!(replies.iter().map(describe).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_claim_that_is_not_sent_does_not_shift_the_replies_of_the_others() {
    let body = r#"{"Responses":[{"TableName":"t"},{"Error":{"Code":"ThrottlingError","Message":"slow"}}]}"#;
    let store = store(scripted::dynamodb(200, body).await, "t", WriteMode::Batch);
    let large = "x".repeat(500_000);
    let claims = [
        claim("large", &large, 0),
        claim("e", "", 1),
        claim("e", "", 2),
        claim("f", "", 3),
    ];
    let replies = store.claim(&claims).await;
    assert!(
        matches!(
            &replies[..],
            [
                ClaimReply::Unstorable(_),
                ClaimReply::Written,
                ClaimReply::Exists(None),
                ClaimReply::Error(PortError::Throttled { .. })
            ]
        ),
        "{replies:?}"
    );
}

#[tokio::test]
async fn releases_of_a_request_have_separate_results() {
    let body = r#"{"Responses":[
        {"TableName":"t"},
        {"Error":{"Code":"ConditionalCheckFailed","Message":"The conditional request failed"}},
        {"Error":{"Code":"ThrottlingError","Message":"slow"}}
    ]}"#;
    let store = store(scripted::dynamodb(200, body).await, "t", WriteMode::Batch);
    let items = ["a", "b", "c", "d"].map(|id| (event(id), SEAT));
    let replies = store.release(&items, Release::Deleted).await;
    assert!(
        matches!(
            &replies[..],
            [
                ReleaseReply::Released,
                ReleaseReply::Released,
                ReleaseReply::Error(PortError::Throttled { .. }),
                ReleaseReply::Error(PortError::Unknown { .. })
            ]
        ),
        "{replies:?}"
    );
}

#[tokio::test]
async fn a_read_returns_the_longest_prefix_that_was_read() {
    let body = r#"{"Responses":{"t":[
        {"messageId":{"S":"d"},"sqsMessageId":{"S":"m"},"bodyHash":{"B":"AAAAAAAAAAAAAAAAAAAAAA=="},
         "expiresAt":{"N":"1700000001"}}
    ]},"UnprocessedKeys":{"t":{"Keys":[{"messageId":{"S":"c"}}]}}}"#;
    let store = store(scripted::dynamodb(200, body).await, "t", WriteMode::Put);
    let ids = ["a", "d", "c", "b"].map(event);
    let items = store.read(&ids).await.unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!(items[0], None);
    assert_eq!(items[1].as_ref().unwrap().expires_at(), Some(ms(1_000)));
    let error = store.read(&["c", "a"].map(event)).await.unwrap_err();
    assert!(matches!(error, PortError::Throttled { .. }), "{error:?}");
    // The tombstone is not an event, and the unread id must be requested again.
    let (events, unread) = store.read_events(&ids).await.unwrap();
    assert!(events.is_empty());
    assert_eq!(unread, [event("c")]);
}

#[tokio::test]
async fn a_read_that_returns_nothing_is_throttled() {
    let body = r#"{"Responses":{},"UnprocessedKeys":{"t":{"Keys":[{"messageId":{"S":"a"}},{"messageId":{"S":"b"}}]}}}"#;
    let store = store(scripted::dynamodb(200, body).await, "t", WriteMode::Put);
    let ids = ["a", "b"].map(event);
    assert!(matches!(
        store.read(&ids).await,
        Err(PortError::Throttled { .. })
    ));
    assert!(matches!(
        store.read_events(&ids).await,
        Err(PortError::Throttled { .. })
    ));
}
