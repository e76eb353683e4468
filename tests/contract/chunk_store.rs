//! The contract of the store of chunks.

use std::sync::Arc;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use emulators::s3::S3;
use protocol::bodies::Bodies;
use protocol::ids::ChunkId;
use protocol::time::Timestamp;
use shared::aws::{DynamoChunkStore, S3ChunkStore};
use shared::memory::{MemoryChunkStore, noise};
use shared::ports::{ChunkReply, ChunkStore, PortError};

use crate::dynamo::{batch_table, dynamodb};

const EXPIRES_AT: Timestamp = Timestamp::from_ms(4_000_000_000_000);

fn chunk(first: u32) -> ChunkId {
    ChunkId {
        batch: "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap(),
        first,
    }
}

fn content(bytes: usize) -> Arc<[u8]> {
    noise(bytes).into_bytes().into()
}

async fn a_chunk_is_written_once_and_read_back(store: &dyn ChunkStore, bodies: &Bodies) {
    let put = async |first, bytes: &Arc<[u8]>| {
        let put = store.put(bodies, chunk(first), bytes, EXPIRES_AT);
        put.await.unwrap()
    };
    assert_eq!(store.get(bodies, chunk(0)).await.unwrap(), None);
    // One piece, a piece that is exactly full, and several pieces.
    for (first, bytes) in [(0, 100), (7, 350 << 10), (9, 1_000_000)] {
        let bytes = content(bytes);
        assert_eq!(put(first, &bytes).await, ChunkReply::Stored);
        let read = store.get(bodies, chunk(first)).await.unwrap();
        assert!(read == Some(bytes.clone()), "chunk {first} reads back");
        assert_eq!(put(first, &bytes).await, ChunkReply::Exists);
    }
    let other: Arc<[u8]> = Arc::from(&b"other"[..]);
    assert_eq!(put(0, &other).await, ChunkReply::Exists);
    let kept = store.get(bodies, chunk(0)).await.unwrap();
    assert_eq!(kept, Some(content(100)), "the first bytes stay");
    assert_eq!(store.get(bodies, chunk(1)).await.unwrap(), None);
}

#[tokio::test]
async fn a_chunk_is_written_once_and_read_back_in_memory() {
    let store = MemoryChunkStore::new();
    a_chunk_is_written_once_and_read_back(&store, &Bodies::Table).await;
}

async fn table() -> DynamoChunkStore {
    let client = dynamodb();
    let table = batch_table(&client).await;
    DynamoChunkStore::new(client, table)
}

#[tokio::test]
async fn a_chunk_is_written_once_and_read_back_in_the_table() {
    a_chunk_is_written_once_and_read_back(&table().await, &Bodies::Table).await;
}

#[tokio::test]
async fn a_build_without_s3_says_so_and_reads_what_is_in_the_table() {
    let store = table().await;
    let bodies: Bodies = "s3://chunks/a".parse().unwrap();
    let bytes = content(10);
    let refused = [
        store
            .put(&bodies, chunk(0), &bytes, EXPIRES_AT)
            .await
            .unwrap_err(),
        store.get(&bodies, chunk(0)).await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("cargo feature `s3`"), "{error}");
    }
    let put = store.put(&Bodies::Table, chunk(0), &bytes, EXPIRES_AT);
    put.await.unwrap();
    assert_eq!(store.get(&bodies, chunk(0)).await.unwrap(), Some(bytes));
}

#[tokio::test]
async fn a_chunk_is_written_once_and_read_back_on_s3() {
    let directory = tempfile::tempdir().unwrap();
    let s3 = S3::start(directory.path().to_owned()).await.unwrap();
    s3.create_bucket("chunks");
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
        .endpoint_url(s3.endpoint())
        .force_path_style(true)
        .retry_config(RetryConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    let client = aws_sdk_s3::Client::from_conf(config.build());
    let store = S3ChunkStore::of(client, table().await);
    let bodies: Bodies = "s3://chunks/a".parse().unwrap();
    a_chunk_is_written_once_and_read_back(&store, &bodies).await;
    let mut stored: Vec<String> = std::fs::read_dir(directory.path().join("chunks/a"))
        .unwrap()
        .flat_map(|batch| std::fs::read_dir(batch.unwrap().path()).unwrap())
        .map(|object| object.unwrap().file_name().into_string().unwrap())
        .collect();
    stored.sort();
    assert_eq!(stored, ["7", "9"], "the smallest chunk is in the table");
    let nowhere: Bodies = "s3://nowhere/a".parse().unwrap();
    let bytes = content(9_000);
    let put = store.put(&nowhere, chunk(20), &bytes, EXPIRES_AT).await;
    let error = put.unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("s3://nowhere/a/"), "{error}");
}
