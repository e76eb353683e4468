//! What is sent to DynamoDB without its client is addressed and signed as what its client sends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::{Credentials, Region, SharedCredentialsProvider};
use aws_types::SdkConfig;
use axum::Router;
use axum::http::HeaderMap;
use protocol::ids::BatchShard;
use shared::aws::DynamoLockStore;
use shared::config::WriteMode;
use shared::ports::{LockStore, PortError};
use tokio::net::TcpListener;

use crate::dynamo::{BATCH_INDEX, config_of, dynamodb_with};
use crate::events::{batch, claim, event};

type Seen = Arc<Mutex<Vec<HeaderMap>>>;

/// An endpoint that answers nothing of use, and keeps the headers of every request.
async fn endpoint() -> (String, Seen) {
    let seen = Seen::default();
    let keep = seen.clone();
    let app = Router::new().fallback(move |headers: HeaderMap| {
        keep.lock().unwrap().push(headers);
        std::future::ready("{}")
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    (format!("http://{address}"), seen)
}

/// `Credential` of an `Authorization` header, without the day.
fn scope(headers: &HeaderMap) -> Vec<&str> {
    let authorization = headers["authorization"].to_str().unwrap();
    let credential = authorization.split(&[' ', ','][..]).nth(1).unwrap();
    let mut scope: Vec<&str> = credential.split('/').collect();
    scope.remove(1);
    scope
}

#[tokio::test]
async fn a_request_without_the_client_is_addressed_and_signed_as_one_of_the_client() {
    let (url, seen) = endpoint().await;
    let credentials = Credentials::new("the-key", "secret", Some("session".into()), None, "test");
    let config: SdkConfig = config_of(&url, Duration::from_secs(60))
        .region(Region::from_static("ap-south-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build();
    let dynamodb = dynamodb_with(&config);
    dynamodb.client().list_tables().send().await.unwrap();
    let store = DynamoLockStore::new(dynamodb, "locks", BATCH_INDEX, WriteMode::Batch);
    let _ = store.claim(&[claim("e", "body", 0)]).await;
    let _ = store.read(&[event("e")]).await;
    let shard = BatchShard {
        batch: batch(1),
        shard: 0,
    };
    let _ = store.index(shard, None).await;

    let seen = seen.lock().unwrap();
    let [client, ours @ ..] = &seen[..] else {
        panic!("nothing was sent")
    };
    let operations = ["BatchExecuteStatement", "BatchGetItem", "Query"];
    assert_eq!(ours.len(), operations.len());
    for (headers, operation) in ours.iter().zip(operations) {
        assert_eq!(
            headers["x-amz-target"],
            *format!("DynamoDB_20120810.{operation}")
        );
        for name in ["content-type", "host", "x-amz-security-token"] {
            assert_eq!(headers[name], client[name], "{name}");
        }
        assert_eq!(scope(headers), scope(client));
        assert_eq!(
            scope(headers),
            [
                "Credential=the-key",
                "ap-south-1",
                "dynamodb",
                "aws4_request"
            ]
        );
        let signed = headers["authorization"].to_str().unwrap();
        for name in [
            "content-type",
            "host",
            "x-amz-date",
            "x-amz-security-token",
            "x-amz-target",
        ] {
            assert!(signed.contains(name), "{name} is not signed: {signed}");
        }
    }
}

#[tokio::test]
async fn what_the_environment_lacks_is_named_by_the_first_call() {
    let complete = config_of("http://localhost:1", Duration::from_secs(60)).build();
    let mut keyless = complete.to_builder();
    keyless.set_credentials_provider(None);
    let mut nowhere = complete.to_builder();
    nowhere.set_region(None).set_endpoint_url(None);
    for (config, word) in [(keyless, "credentials"), (nowhere, "Missing Region")] {
        let dynamodb = dynamodb_with(&config.build());
        let store = DynamoLockStore::new(dynamodb, "locks", BATCH_INDEX, WriteMode::Batch);
        let error = store.read(&[event("e")]).await.unwrap_err();
        assert!(matches!(error, PortError::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("locks") && text.contains(word), "{text}");
    }
}
