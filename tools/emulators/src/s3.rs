//! An S3 server for programs that write whole objects. Objects are plain files `<directory>/<bucket>/<key>`, which other
//! programs may read at any time.
//!
//! The crate `s3s` does HTTP, XML and signatures. The operations are PutObject (with `If-None-Match: *`), GetObject,
//! HeadObject, DeleteObject and ListObjectsV2; every other operation or parameter gets the error `NotImplemented`.
//!
//! A signed request must be signed with the secret `local`, by any access key. Unsigned requests are allowed. Checksums are
//! not verified.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{SocketAddr, TcpListener};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use axum::body::{Body, Bytes, to_bytes};
use md5::{Digest, Md5};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, ETag, GetObjectInput, GetObjectOutput, HeadObjectInput,
    HeadObjectOutput, ListObjectsV2Input, ListObjectsV2Output, Metadata, Object, PutObjectInput,
    PutObjectOutput, StreamingBlob,
};
use s3s::service::S3ServiceBuilder;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use tokio::task::JoinSet;

use crate::files::Files;
use crate::locked::locked;
use crate::{OBJECT_BYTES_MAX, StoreOutcome};

/// The secret key of every access key; the Lambda host gives it to its functions.
const SECRET: &str = "local";

/// Maximum number of keys of one page of a listing.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html> (2026-10).
const KEYS_MAX: i32 = 1_000;

/// A running S3 server. Dropping it stops it from accepting connections; the files stay.
#[derive(Debug)]
pub struct S3 {
    address: SocketAddr,
    store: Arc<Store>,
    /// The task that accepts connections; ends when it is dropped.
    _accepting: JoinSet<()>,
}

impl S3 {
    /// Starts a server without buckets, on a free loopback port. Objects are stored below `directory`; files that are there
    /// already are not listed.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start(directory: PathBuf) -> anyhow::Result<S3> {
        S3::start_on(TcpListener::bind(("127.0.0.1", 0))?, directory)
    }

    /// Starts a server as [`start`](Self::start) does, on a port that is bound already.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub fn start_on(listener: TcpListener, directory: PathBuf) -> anyhow::Result<S3> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let store = Arc::new(Store {
            files: Files::new(directory),
            buckets: Mutex::default(),
        });
        let mut builder = S3ServiceBuilder::new(Operations(Arc::clone(&store)));
        builder.set_auth(SharedSecret);
        builder.set_access(AllowAll);
        let mut accepting = JoinSet::new();
        accepting.spawn(crate::loopback::serve(listener, builder.build()));
        Ok(S3 {
            address,
            store,
            _accepting: accepting,
        })
    }

    /// Returns the URL of the server, which clients use as their endpoint URL with path-style addressing.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Creates an empty bucket. An existing bucket of that name loses its objects, but not their files.
    pub fn create_bucket(&self, name: &str) {
        self.store.add(name, Bucket::default());
    }

    /// Creates an empty bucket whose requests fail as `faults` decides.
    pub fn create_bucket_with_faults(&self, name: &str, faults: Arc<dyn BucketFaults>) {
        let bucket = Bucket {
            faults: Some(faults),
            ..Bucket::default()
        };
        self.store.add(name, bucket);
    }
}

/// The buckets. An object exists if its metadata is in memory; its content is in a file.
#[derive(Debug)]
struct Store {
    files: Files,
    buckets: Mutex<BTreeMap<String, Bucket>>,
}

#[derive(Debug, Default)]
struct Bucket {
    objects: BTreeMap<String, ObjectMetadata>,
    faults: Option<Arc<dyn BucketFaults>>,
}

/// Faults of the requests to one bucket.
pub trait BucketFaults: Debug + Send + Sync {
    /// Returns whether the bucket is unavailable. Is called for each request that does not put an object.
    fn is_down(&self) -> bool;

    /// Returns what to do with a request that puts an object. Is called once for each of these requests.
    fn put(&self, key: &str, content: &[u8]) -> StoreOutcome;
}

/// An object without its content.
#[derive(Clone, Debug)]
struct ObjectMetadata {
    size: i64,
    md5: String,
    modified: SystemTime,
    content_type: Option<String>,
    content_encoding: Option<String>,
    metadata: Option<Metadata>,
}

impl Store {
    fn add(&self, name: &str, bucket: Bucket) {
        locked(&self.buckets).insert(name.to_owned(), bucket);
    }

    fn faults(&self, bucket: &str) -> S3Result<Option<Arc<dyn BucketFaults>>> {
        Ok(locked(&self.buckets).bucket(bucket)?.faults.clone())
    }

    /// Stores an object. With `only_new`, the object must not exist yet; of several concurrent requests, one succeeds.
    fn put(
        &self,
        bucket: &str,
        key: &str,
        content: &[u8],
        only_new: bool,
        stored: ObjectMetadata,
    ) -> S3Result<()> {
        let path = self.path(bucket, key)?;
        // Locked while the file is written, so that content and metadata change together. That is fast enough for few, large
        // objects.
        let mut buckets = locked(&self.buckets);
        let objects = &mut buckets.bucket(bucket)?.objects;
        let written = if only_new {
            self.files.create(&path, content)
        } else {
            self.files.replace(&path, content).map(|()| true)
        };
        match written {
            Ok(true) => {
                objects.insert(key.to_owned(), stored);
                Ok(())
            }
            Ok(false) => Err(s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold"
            )),
            Err(error) => Err(s3_error!(error, InternalError)),
        }
    }

    fn head(&self, bucket: &str, key: &str) -> S3Result<ObjectMetadata> {
        let mut buckets = locked(&self.buckets);
        let stored = buckets.bucket(bucket)?.objects.get(key);
        stored.cloned().ok_or_else(|| s3_error!(NoSuchKey))
    }

    fn get(&self, bucket: &str, key: &str) -> S3Result<(ObjectMetadata, Bytes)> {
        let path = self.path(bucket, key)?;
        let mut buckets = locked(&self.buckets);
        let stored = buckets.bucket(bucket)?.objects.get(key);
        let stored = stored.ok_or_else(|| s3_error!(NoSuchKey))?;
        let content = std::fs::read(path).map_err(|error| s3_error!(error, InternalError))?;
        Ok((stored.clone(), content.into()))
    }

    fn delete(&self, bucket: &str, key: &str) -> S3Result<()> {
        let path = self.path(bucket, key)?;
        let mut buckets = locked(&self.buckets);
        if buckets.bucket(bucket)?.objects.remove(key).is_some() {
            std::fs::remove_file(path).map_err(|error| s3_error!(error, InternalError))?;
        }
        Ok(())
    }

    /// Returns up to `most` objects whose keys begin with `prefix` and follow `after`, and whether there are more.
    fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> S3Result<(Vec<Object>, bool)> {
        let mut buckets = locked(&self.buckets);
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let objects = &buckets.bucket(bucket)?.objects;
        let objects = objects.range::<str, _>((from, Bound::Unbounded));
        let mut found = objects.take_while(|(key, _)| key.starts_with(prefix));
        let listed = found.by_ref().take(most).map(|(key, stored)| Object {
            key: Some(key.clone()),
            size: Some(stored.size),
            e_tag: Some(ETag::Strong(stored.md5.clone())),
            last_modified: Some(stored.modified.into()),
            ..Object::default()
        });
        let listed = listed.collect();
        Ok((listed, found.next().is_some()))
    }

    /// Fails if the bucket does not exist or is unavailable.
    fn check_available(&self, bucket: &str) -> S3Result<()> {
        match self.faults(bucket)? {
            Some(faults) if faults.is_down() => Err(unavailable()),
            Some(_) | None => Ok(()),
        }
    }

    fn path(&self, bucket: &str, key: &str) -> S3Result<PathBuf> {
        let path = self.files.path(&format!("{bucket}/{key}"));
        path.map_err(|error| s3_error!(NotImplemented, "{error}"))
    }
}

trait Buckets {
    fn bucket(&mut self, name: &str) -> S3Result<&mut Bucket>;
}

impl Buckets for BTreeMap<String, Bucket> {
    fn bucket(&mut self, name: &str) -> S3Result<&mut Bucket> {
        self.get_mut(name).ok_or_else(|| s3_error!(NoSuchBucket))
    }
}

/// The operations of the S3 API that the server has.
struct Operations(Arc<Store>);

impl Operations {
    /// Runs work that reads or writes files on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> S3Result<T> + Send + 'static,
    ) -> S3Result<T> {
        let store = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || work(&store))
            .await
            .unwrap_or_else(|error| Err(s3_error!(error, InternalError)))
    }
}

#[async_trait::async_trait]
impl s3s::S3 for Operations {
    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let PutObjectInput {
            bucket,
            key,
            body,
            content_type,
            content_encoding,
            metadata,
            if_none_match,
            if_match,
            ..
        } = request.input;
        let only_new = match if_none_match {
            None => false,
            Some(condition) if condition.is_any() => true,
            Some(_) => return Err(s3_error!(NotImplemented, "If-None-Match takes only `*`")),
        };
        if let Some(condition) = if_match {
            // The only use: to try out whether an object that is not there could be replaced.
            let found = self.0.head(&bucket, &key)?;
            if condition.as_etag().map(ETag::value) != Some(&*found.md5) {
                return Err(s3_error!(PreconditionFailed));
            }
        }
        let faults = self.0.faults(&bucket)?;
        let content = match body {
            Some(body) => to_bytes(Body::new(s3s::Body::from(body)), OBJECT_BYTES_MAX)
                .await
                .map_err(|error| s3_error!(error, IncompleteBody))?,
            None => Bytes::new(),
        };
        let outcome = faults.map_or(StoreOutcome::Normal, |faults| faults.put(&key, &content));
        if outcome == StoreOutcome::FailsBeforeStoring {
            return Err(unavailable());
        }
        let stored = ObjectMetadata {
            size: content.len() as i64,
            md5: hex::encode(Md5::digest(&content)),
            modified: SystemTime::now(),
            content_type,
            content_encoding: content_encoding.and_then(|encoding| without_aws_chunked(&encoding)),
            metadata,
        };
        let e_tag = Some(ETag::Strong(stored.md5.clone()));
        let put = move |store: &Store| store.put(&bucket, &key, &content, only_new, stored);
        let put = self.blocking(put).await;
        if outcome == StoreOutcome::FailsAfterStoring {
            return Err(unavailable());
        }
        put?;
        Ok(S3Response::new(PutObjectOutput {
            e_tag,
            ..PutObjectOutput::default()
        }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let HeadObjectInput { bucket, key, .. } = request.input;
        self.0.check_available(&bucket)?;
        let stored = self.0.head(&bucket, &key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(stored.size),
            content_type: stored.content_type,
            content_encoding: stored.content_encoding,
            e_tag: Some(ETag::Strong(stored.md5)),
            last_modified: Some(stored.modified.into()),
            metadata: stored.metadata,
            ..HeadObjectOutput::default()
        }))
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let GetObjectInput {
            bucket, key, range, ..
        } = request.input;
        self.0.check_available(&bucket)?;
        let (stored, mut content) = self.blocking(move |store| store.get(&bucket, &key)).await?;
        let mut content_range = None;
        if let Some(range) = range {
            let size = content.len();
            let range = range.check(size as u64);
            let range = range.map_err(|_| s3_error!(InvalidRange))?;
            content_range = Some(format!("bytes {}-{}/{size}", range.start, range.end - 1));
            content = content.slice(range.start as usize..range.end as usize);
        }
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(content.len() as i64),
            content_range,
            body: Some(StreamingBlob::from(s3s::Body::from(content))),
            content_type: stored.content_type,
            content_encoding: stored.content_encoding,
            e_tag: Some(ETag::Strong(stored.md5)),
            last_modified: Some(stored.modified.into()),
            metadata: stored.metadata,
            ..GetObjectOutput::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let DeleteObjectInput { bucket, key, .. } = request.input;
        self.0.check_available(&bucket)?;
        let delete = move |store: &Store| store.delete(&bucket, &key);
        self.blocking(delete).await?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let ListObjectsV2Input {
            bucket,
            prefix,
            start_after,
            continuation_token,
            max_keys,
            delimiter,
            ..
        } = request.input;
        if delimiter.is_some() {
            return Err(s3_error!(NotImplemented, "Delimiter"));
        }
        self.0.check_available(&bucket)?;
        let most = max_keys.unwrap_or(KEYS_MAX).clamp(0, KEYS_MAX);
        // A token is the last key of the page before it.
        let after = continuation_token.clone().or_else(|| start_after.clone());
        let begin = prefix.as_deref().unwrap_or_default();
        let listed = self.0.list(&bucket, begin, after.as_deref(), most as usize);
        let (listed, more) = listed?;
        let last = listed.last().and_then(|object| object.key.clone());
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(bucket),
            prefix,
            start_after,
            continuation_token,
            max_keys: Some(most),
            key_count: Some(listed.len() as i32),
            is_truncated: Some(more),
            next_continuation_token: last.filter(|_| more),
            contents: Some(listed),
            ..ListObjectsV2Output::default()
        }))
    }
}

/// Makes the error of an unavailable bucket: status 503.
fn unavailable() -> s3s::S3Error {
    s3_error!(SlowDown, "Please reduce your request rate.")
}

/// Gives every access key the same secret.
struct SharedSecret;

#[async_trait::async_trait]
impl S3Auth for SharedSecret {
    async fn get_secret_key(&self, _access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(SECRET))
    }
}

/// Allows every request, signed or not.
struct AllowAll;

#[async_trait::async_trait]
impl S3Access for AllowAll {
    async fn check(&self, _context: &mut S3AccessContext<'_>) -> S3Result<()> {
        Ok(())
    }
}

/// Removes the encoding `aws-chunked` from a `Content-Encoding` header: it is the encoding of the request, not of the object.
fn without_aws_chunked(encoding: &str) -> Option<String> {
    let encodings = encoding.split(',').map(str::trim);
    let kept: Vec<&str> = encodings.filter(|one| *one != "aws-chunked").collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_all_encodings_but_the_one_of_its_request() {
        for encodings in ["gzip", "gzip, aws-chunked"] {
            let kept = without_aws_chunked(encodings);
            assert_eq!(kept.as_deref(), Some("gzip"), "{encodings}");
        }
        assert_eq!(without_aws_chunked("aws-chunked"), None);
    }
}
