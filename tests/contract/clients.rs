//! The SDK clients of a Lambda process. They read the environment, so they are tested in a child process.

use std::time::Duration;

use aws::{DynamoLockStore, Sdk, SqsBatchQueue};
use aws_sdk_dynamodb::Client;
use shared::config::WriteMode;
use shared::ports::{BatchQueue, LockStore};
use shared::wire::{Ticket, TicketReason};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::dynamo::{self, BATCH_INDEX, PATIENCE, config_of};
use crate::events::{assert_says, batch, claimed, event, item, read_one};

/// The first byte of a TLS record that opens a connection.
const TLS_HANDSHAKE: u8 = 0x16;
const TABLE: &str = "CONTRACT_LOCK_TABLE";

#[tokio::test]
async fn one_client_serves_http_and_https_endpoints_of_the_environment() {
    let table = dynamo::lock_table(&dynamo::dynamodb()).await;
    let sqs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", sqs.local_addr().unwrap());
    let first_byte = async {
        let (mut connection, _) = sqs.accept().await.unwrap();
        connection.read_u8().await.unwrap()
    };
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "clients::the_child_calls_both_services",
            "--ignored",
            "--nocapture",
        ])
        .env_clear()
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_ENDPOINT_URL_DYNAMODB", dynamo::endpoint())
        .env("AWS_ENDPOINT_URL", endpoint)
        .env(TABLE, &table)
        .kill_on_drop(true)
        .output();
    let (first_byte, output) = tokio::join!(first_byte, child);
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    assert_eq!(first_byte, TLS_HANDSHAKE, "{text}");
}

#[tokio::test]
#[ignore = "run by the test above, with an environment"]
async fn the_child_calls_both_services() {
    let sdk = Sdk::from_env(4);
    let attempt = Duration::from_secs(30);
    let table = std::env::var(TABLE).unwrap();
    let locks = DynamoLockStore::new(sdk.dynamodb(attempt), table, BATCH_INDEX, WriteMode::Batch);
    let there = claimed(&locks, 0).await;
    assert_eq!(read_one(&locks, "e").await, Some(item(&there)));
    assert_eq!(locks.items_per_request(), 25);

    // The listeners read one byte and close the connection.
    let endpoint = std::env::var("AWS_ENDPOINT_URL").unwrap();
    let url = format!("{endpoint}/000000000000/batch-queue");
    let tickets = SqsBatchQueue::new(sdk.sqs(attempt), url);
    let ticket = Ticket::new(batch(1), TicketReason::Window);
    let sent = tickets.send(&ticket, Duration::ZERO).await;
    assert_says(&sent.unwrap_err(), &["no reply from SQS"]);
}

#[tokio::test]
async fn the_first_request_fails_with_the_name_of_a_missing_variable() {
    let complete = config_of("http://localhost:1", PATIENCE).build();
    let mut keyless = complete.to_builder();
    keyless.set_credentials_provider(None);
    let mut nowhere = complete.to_builder();
    nowhere.set_region(None).set_endpoint_url(None);
    for (config, word) in [(keyless, "credentials"), (nowhere, "Missing Region")] {
        let dynamodb = Client::new(&config.build());
        let store = DynamoLockStore::new(dynamodb, "locks", BATCH_INDEX, WriteMode::Batch);
        let error = store.read(&[event("e")]).await.unwrap_err();
        assert_says(&error, &["locks", word]);
    }
}
