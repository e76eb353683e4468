//! The contract of the overflow store.

use std::sync::Arc;

use aws::AwsOverflowStore;
use emulators::s3::S3;
use protocol::claim::Overflow;
use shared::memory::{MemoryOverflowStore, noise};
use shared::ports::OverflowStore;

use crate::dynamo::{PATIENCE, config_of};
use crate::events::assert_says;

const BUCKET: &str = "bodies";

/// Returns a client of an emulator of S3.
pub fn s3_client(s3: &S3) -> aws_sdk_s3::Client {
    let config = config_of(&s3.endpoint(), PATIENCE).build();
    let config = aws_sdk_s3::config::Builder::from(&config).force_path_style(true);
    aws_sdk_s3::Client::from_conf(config.build())
}

fn object(bucket: &str, key: &str) -> Overflow {
    Overflow {
        bucket: bucket.into(),
        key: key.to_owned(),
        bytes: 1,
    }
}

async fn a_body_can_be_read_until_it_is_removed(store: &dyn OverflowStore) {
    let (one, other) = (object(BUCKET, "batch/1"), object(BUCKET, "batch/2"));
    assert_eq!(store.get(&one).await.unwrap(), None);
    let body: Arc<str> = format!("{}\u{1f980}\r\n", noise(600_000)).into();
    store.put(&one, &body).await.unwrap();
    store.put(&one, &body).await.unwrap();
    store.put(&other, &"".into()).await.unwrap();
    assert!(store.get(&one).await.unwrap() == Some(body), "another body");
    assert_eq!(store.get(&other).await.unwrap().as_deref(), Some(""));
    store.remove(&one).await.unwrap();
    store.remove(&one).await.unwrap();
    assert_eq!(store.get(&one).await.unwrap(), None);
    assert_eq!(store.get(&other).await.unwrap().as_deref(), Some(""));
}

#[tokio::test]
async fn a_body_can_be_read_until_it_is_removed_in_memory() {
    a_body_can_be_read_until_it_is_removed(&MemoryOverflowStore::new()).await;
}

#[tokio::test]
async fn a_body_can_be_read_until_it_is_removed_on_s3() {
    let directory = tempfile::tempdir().unwrap();
    let s3 = S3::start(directory.path().to_owned()).await.unwrap();
    s3.create_bucket(BUCKET);
    let store = AwsOverflowStore::of(s3_client(&s3));
    a_body_can_be_read_until_it_is_removed(&store).await;
    let body = "body".into();
    let error = store.put(&object("nowhere", "b/1"), &body).await;
    assert_says(&error.unwrap_err(), &["refused by", "s3://nowhere/b/1"]);
}
