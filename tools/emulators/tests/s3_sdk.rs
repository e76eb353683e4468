//! Tests of the S3 server with the SDK, directly and through a proxy.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is the report"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::put_object::{PutObjectError, PutObjectOutput};
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use emulators::StoreOutcome;
use emulators::proxy::{Observer, Proxy, ProxyFaults, RequestFaults, Service, ServiceRequest};
use emulators::s3::{BucketFaults, S3};
use emulators::{Counter, Percent, RandomStream};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;

const BUCKET: &str = "bucket";

/// Counts the requests that put objects, and fails a share of them: half of these after storing the object.
#[derive(Debug)]
struct Puts {
    fails: Percent,
    draws: RandomStream,
    count: Counter,
}

impl BucketFaults for Puts {
    fn is_down(&self) -> bool {
        false
    }

    fn put(&self, _: &str, _: &[u8]) -> StoreOutcome {
        self.count.add(1);
        match (self.draws.happens(self.fails), self.draws.below(2)) {
            (false, _) => StoreOutcome::Normal,
            (true, 0) => StoreOutcome::FailsBeforeStoring,
            (true, _) => StoreOutcome::FailsAfterStoring,
        }
    }
}

/// Number of requests that reached the server, by operation.
#[derive(Debug, Default)]
struct Operations(Mutex<BTreeMap<String, u64>>);

impl Observer for Operations {
    fn forwards(&self, _: Service, request: &ServiceRequest) -> Bytes {
        let operation = request.operation.clone();
        *self.0.lock().unwrap().entry(operation).or_default() += 1;
        request.body.clone()
    }
}

/// An S3 server with one bucket, behind a proxy.
struct Served {
    client: Client,
    puts: Arc<Puts>,
    operations: Arc<Operations>,
    directory: PathBuf,
    s3: S3,
    _proxy: Proxy,
    _temporary: tempfile::TempDir,
}

impl Served {
    async fn start() -> Served {
        Served::with_faults(Percent::default(), RequestFaults::default()).await
    }

    async fn with_faults(puts_fail: Percent, requests: RequestFaults) -> Served {
        let temporary = tempfile::tempdir().unwrap();
        let s3 = S3::start(temporary.path().to_owned()).await.unwrap();
        let puts = Arc::new(Puts {
            fails: puts_fail,
            draws: RandomStream::new(0, "puts"),
            count: Counter::default(),
        });
        s3.create_bucket_with_faults(BUCKET, Arc::clone(&puts) as _);
        let operations = Arc::new(Operations::default());
        let proxy_faults = ProxyFaults {
            requests: Arc::new(requests),
            ..ProxyFaults::default()
        };
        let observer = Arc::clone(&operations) as _;
        let endpoint = s3.endpoint();
        let proxy = Proxy::start(Service::S3, &endpoint, observer, proxy_faults);
        let proxy = proxy.await.unwrap();
        Served {
            client: client(&proxy.endpoint(), "local"),
            puts,
            operations,
            directory: temporary.path().join(BUCKET),
            s3,
            _proxy: proxy,
            _temporary: temporary,
        }
    }

    async fn create(
        &self,
        key: &str,
        content: &str,
    ) -> Result<PutObjectOutput, SdkError<PutObjectError>> {
        let put = self.client.put_object().bucket(BUCKET).key(key);
        put.if_none_match("*")
            .metadata("length", content.len().to_string())
            .content_type("application/x-ndjson")
            .body(content.to_owned().into_bytes().into())
            .send()
            .await
    }

    /// Returns the keys of a page, and the token of the next one.
    async fn list(
        &self,
        prefix: &str,
        keys_max: i32,
        after: Option<String>,
    ) -> (Vec<String>, Option<String>) {
        let list = self.client.list_objects_v2().bucket(BUCKET).prefix(prefix);
        let list = list.max_keys(keys_max).set_continuation_token(after);
        let listed = list.send().await.unwrap();
        let keys = listed.contents().iter().map(|one| one.key().unwrap());
        let keys = keys.map(str::to_owned).collect();
        (keys, listed.next_continuation_token)
    }

    fn on_disk(&self, key: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.join(key)).ok()
    }
}

fn client(endpoint: &str, secret: &str) -> Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("anyone", secret, None, None, "static"))
        .retry_config(RetryConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

fn status<T: Debug, E: ProvideErrorMetadata + Debug>(
    result: Result<T, SdkError<E>>,
) -> (u16, String) {
    let error = result.expect_err("the service refuses this");
    let status = error.raw_response().map(|raw| raw.status().as_u16());
    (
        status.unwrap_or_else(|| panic!("no response: {error:?}")),
        error.code().unwrap_or_default().to_owned(),
    )
}

#[tokio::test]
async fn an_object_is_returned_with_its_metadata_and_is_a_plain_file() {
    let served = Served::start().await;
    let key = "out/b 1/0.jsonl";
    let put = served.create(key, "content\n").await.unwrap();
    assert_eq!(served.on_disk(key).as_deref(), Some("content\n"));
    let head = |key: &str| {
        let head = served.client.head_object().bucket(BUCKET);
        head.key(key).send()
    };
    let get = |key: &str| {
        let get = served.client.get_object().bucket(BUCKET);
        get.key(key).send()
    };
    let (head, missing_head) = (head(key).await.unwrap(), head("out/none").await);
    assert_eq!(head.content_length(), Some(8));
    assert_eq!(head.content_type(), Some("application/x-ndjson"));
    assert_eq!(head.metadata().unwrap()["length"], "8");
    assert_eq!(head.e_tag(), put.e_tag());
    assert_eq!(status(missing_head).0, 404);
    let got = get(key).await.unwrap();
    assert_eq!(got.body.collect().await.unwrap().into_bytes(), "content\n");
    let missing = status(get("out/none").await);
    assert_eq!(missing, (404, "NoSuchKey".to_owned()));
    let operations = served.operations.0.lock().unwrap();
    let counted = ["PutObject", "HeadObject", "GetObject"].map(|name| operations[name]);
    assert_eq!(counted, [1, 2, 2]);
}

#[tokio::test]
async fn of_concurrent_requests_that_create_an_object_one_succeeds() {
    let served = Served::start().await;
    let contents = (0..16).map(|number| number.to_string().repeat(100_000));
    let contents: Vec<String> = contents.collect();
    let key = "b/0.jsonl";
    let puts = contents.iter().map(|content| served.create(key, content));
    let mut done = futures::future::join_all(puts).await;
    let first = done.iter().position(Result::is_ok);
    let first = first.expect("one request succeeds");
    assert_eq!(served.on_disk(key).as_ref(), Some(&contents[first]));
    done.remove(first).unwrap();
    for refused in done {
        let expected = (412, "PreconditionFailed".to_owned());
        assert_eq!(status(refused), expected);
    }
    assert_eq!(served.puts.count.get(), 16);
}

#[tokio::test]
async fn a_large_object_is_put_as_a_stream() {
    let served = Served::start().await;
    let file = served.directory.with_file_name("large");
    let content = "0123456789abcdef".repeat(3 << 16);
    std::fs::write(&file, &content).unwrap();
    let body = ByteStream::from_path(file).await.unwrap();
    let put = served.client.put_object().bucket(BUCKET).key("b/0.txt");
    put.body(body).send().await.unwrap();
    assert_eq!(served.on_disk("b/0.txt"), Some(content));
}

#[tokio::test]
async fn without_a_condition_an_object_is_replaced_and_a_deleted_object_is_gone() {
    let served = Served::start().await;
    let put = |content: &'static str| {
        let put = served.client.put_object().bucket(BUCKET).key("k");
        put.body(content.as_bytes().to_vec().into()).send()
    };
    put("one").await.unwrap();
    put("two").await.unwrap();
    assert_eq!(served.on_disk("k").as_deref(), Some("two"));
    for _ in 0..2 {
        let delete = served.client.delete_object().bucket(BUCKET).key("k");
        delete.send().await.unwrap();
        assert_eq!(served.on_disk("k"), None);
    }
    served.create("k", "three").await.unwrap();
}

#[tokio::test]
async fn keys_are_listed_in_order_page_by_page() {
    let served = Served::start().await;
    for key in ["a/2", "b/1", "a/1", "a/10", "c"] {
        served.create(key, "").await.unwrap();
    }
    let (first, next) = served.list("a/", 2, None).await;
    assert_eq!(first, ["a/1", "a/10"]);
    assert!(next.is_some());
    let last = served.list("a/", 2, next).await;
    assert_eq!(last, (vec!["a/2".to_owned()], None));
    assert_eq!(served.list("", 1_000, None).await.0.len(), 5);
    assert!(served.list("d", 1_000, None).await.0.is_empty());
}

#[tokio::test]
async fn bytes_of_an_object_are_read_by_their_range() {
    let served = Served::start().await;
    served.create("k", "0123456789").await.unwrap();
    let get = async |range: &str| {
        let get = served.client.get_object().bucket(BUCKET).key("k");
        get.range(range).send().await
    };
    for (range, bytes, content_range) in [
        ("bytes=0-1", "01", "bytes 0-1/10"),
        ("bytes=8-20", "89", "bytes 8-9/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-1", "9", "bytes 9-9/10"),
    ] {
        let got = get(range).await.unwrap();
        assert_eq!(got.content_range(), Some(content_range));
        let read = got.body.collect().await.unwrap().into_bytes();
        assert_eq!(read, bytes, "{range}");
    }
    let beyond = status(get("bytes=10-11").await);
    assert_eq!(beyond, (416, "InvalidRange".to_owned()));
}

#[tokio::test]
async fn unsupported_operations_and_parameters_are_refused() {
    let served = Served::start().await;
    let put = served.client.put_object().bucket(BUCKET).key(".k");
    assert_eq!(status(put.send().await), (501, "NotImplemented".to_owned()));
    let tag = served.client.get_object_tagging().bucket(BUCKET).key("k");
    assert_eq!(status(tag.send().await), (501, "NotImplemented".to_owned()));
    let put = served.client.put_object().bucket("another").key("k");
    assert_eq!(status(put.send().await), (404, "NoSuchBucket".to_owned()));
}

#[tokio::test]
async fn failing_requests_store_the_object_or_not() {
    let served = Served::with_faults(Percent::ALL, RequestFaults::default()).await;
    let mut stored = 0;
    for part in 0..20 {
        let key = format!("b/{part}");
        let error = status(served.create(&key, "content").await);
        assert_eq!(error, (503, "SlowDown".to_owned()));
        stored += u32::from(served.on_disk(&key).is_some());
    }
    assert!((1..20).contains(&stored), "{stored}");
    assert_eq!(served.puts.count.get(), 20);
}

#[tokio::test]
async fn the_proxy_loses_replies_of_s3_and_fails_its_requests() {
    let requests = RequestFaults::new(0, "50".parse().unwrap(), "20".parse().unwrap());
    let served = Served::with_faults(Percent::default(), requests).await;
    let mut refused = Vec::new();
    let mut lost = 0;
    for part in 0..30 {
        let key = format!("b/{part}");
        match served.create(&key, "content").await {
            Ok(_) => assert!(served.on_disk(&key).is_some()),
            Err(SdkError::ServiceError(error)) => {
                refused.push(error.err().code().unwrap().to_owned());
                assert_eq!(served.on_disk(&key), None);
            }
            Err(_) => lost += 1,
        }
    }
    assert!(lost > 0);
    for code in ["InternalError", "SlowDown"] {
        assert!(refused.iter().any(|one| one == code), "{refused:?}");
    }
}

#[tokio::test]
async fn a_wrong_secret_is_refused_and_an_unsigned_request_is_not() {
    let served = Served::start().await;
    let stranger = client(&served.s3.endpoint(), "wrong");
    let head = stranger.list_objects_v2().bucket(BUCKET).send().await;
    assert_eq!(status(head), (403, "SignatureDoesNotMatch".to_owned()));
    let unsigned = HttpClient::builder(TokioExecutor::new()).build_http::<axum::body::Body>();
    let list = format!("{}/{BUCKET}?list-type=2", served.s3.endpoint());
    let listed = tokio::time::timeout(Duration::from_secs(10), unsigned.get(list.parse().unwrap()));
    assert_eq!(listed.await.unwrap().unwrap().status(), 200);
}
