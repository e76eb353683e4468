//! S3, as far as a writer of whole objects needs it: objects as plain files `<directory>/<bucket>/<key>`, which others may read meanwhile.
//!
//! HTTP, XML and signatures are the crate `s3s`'s. A signature must be made with the secret that functions are given; who
//! signs, and whether anyone does, is not asked. There are PutObject (with `If-None-Match: *`), GetObject, HeadObject,
//! DeleteObject and ListObjectsV2; everything else, whole or as a part of these, is answered as not implemented.
//!
//! Checksums are not compared: nothing gets lost on loopback.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::OBJECT_BYTES_MAX;
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
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::files::Files;

/// What whoever signs must sign with.
const SECRET: &str = "local";

/// Most keys of one answer.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html> (2026-10).
const KEYS_MAX: i32 = 1_000;

/// A running S3; it ends when this is dropped.
#[derive(Debug)]
pub struct S3 {
    address: SocketAddr,
    store: Arc<Store>,
    accepting: JoinHandle<()>,
}

impl S3 {
    /// Starts one with no buckets, on a loopback port of its own.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn start(directory: PathBuf) -> anyhow::Result<S3> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let store = Arc::new(Store {
            files: Files::new(directory),
            buckets: Mutex::default(),
        });
        let mut builder = S3ServiceBuilder::new(Operations(Arc::clone(&store)));
        builder.set_auth(OneSecret);
        builder.set_access(Anyone);
        let accepting = tokio::spawn(crate::loopback::serve(listener, builder.build()));
        Ok(S3 {
            address,
            store,
            accepting,
        })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Creates an empty bucket.
    pub fn create_bucket(&self, name: &str) {
        self.store.add(name, Bucket::default());
    }

    /// Creates an empty bucket whose requests may fail.
    pub fn create_bucket_with_faults(&self, name: &str, faults: Arc<dyn BucketFaults>) {
        let bucket = Bucket {
            faults: Some(faults),
            ..Bucket::default()
        };
        self.store.add(name, bucket);
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The buckets. What is in memory says what there is; the files hold the content.
#[derive(Debug)]
struct Store {
    files: Files,
    buckets: Mutex<BTreeMap<String, Bucket>>,
}

#[derive(Debug, Default)]
struct Bucket {
    objects: BTreeMap<String, Stored>,
    faults: Option<Arc<dyn BucketFaults>>,
}

/// What may happen to the requests of one bucket.
pub trait BucketFaults: Debug + Send + Sync {
    /// Whether it is unavailable, whatever it is asked.
    fn is_down(&self) -> bool;

    /// Takes in an object that is about to be put, and says what becomes of the request.
    fn put(&self, key: &str, content: &[u8]) -> PutFate;
}

/// What becomes of a request that puts an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutFate {
    /// What it would be without faults.
    Answered,
    /// It fails, and nothing is stored.
    FailsBefore,
    /// It fails as seen from outside, having been stored.
    FailsAfter,
}

/// An object, without its content.
#[derive(Clone, Debug)]
struct Stored {
    size: i64,
    md5: String,
    modified: SystemTime,
    content_type: Option<String>,
    content_encoding: Option<String>,
    metadata: Option<Metadata>,
}

impl Store {
    fn add(&self, name: &str, bucket: Bucket) {
        self.lock().insert(name.to_owned(), bucket);
    }

    fn faults(&self, bucket: &str) -> S3Result<Option<Arc<dyn BucketFaults>>> {
        Ok(self.lock().of(bucket)?.faults.clone())
    }

    /// Stores an object; of several that must be the first, one is.
    fn put(
        &self,
        bucket: &str,
        key: &str,
        content: &[u8],
        only_new: bool,
        stored: Stored,
    ) -> S3Result<()> {
        let path = self.path(bucket, key)?;
        // Held while the file is written, so that no object is there by half: writers of few, large ones are meant.
        let mut buckets = self.lock();
        let objects = &mut buckets.of(bucket)?.objects;
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

    fn head(&self, bucket: &str, key: &str) -> S3Result<Stored> {
        let mut buckets = self.lock();
        let stored = buckets.of(bucket)?.objects.get(key);
        stored.cloned().ok_or_else(|| s3_error!(NoSuchKey))
    }

    fn get(&self, bucket: &str, key: &str) -> S3Result<(Stored, Bytes)> {
        let path = self.path(bucket, key)?;
        let mut buckets = self.lock();
        let stored = buckets.of(bucket)?.objects.get(key);
        let stored = stored.ok_or_else(|| s3_error!(NoSuchKey))?;
        let content = std::fs::read(path).map_err(|error| s3_error!(error, InternalError))?;
        Ok((stored.clone(), content.into()))
    }

    fn delete(&self, bucket: &str, key: &str) -> S3Result<()> {
        let path = self.path(bucket, key)?;
        let mut buckets = self.lock();
        if buckets.of(bucket)?.objects.remove(key).is_some() {
            std::fs::remove_file(path).map_err(|error| s3_error!(error, InternalError))?;
        }
        Ok(())
    }

    /// Up to so many objects whose key begins with `prefix`, from behind `after` on, and whether there are more.
    fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> S3Result<(Vec<Object>, bool)> {
        let mut buckets = self.lock();
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let objects = buckets
            .of(bucket)?
            .objects
            .range::<str, _>((from, Bound::Unbounded));
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

    /// A bucket that is down says so, whatever it is asked.
    fn is_up(&self, bucket: &str) -> S3Result<()> {
        let faults = self.faults(bucket)?;
        match faults.is_some_and(|faults| faults.is_down()) {
            true => Err(unavailable()),
            false => Ok(()),
        }
    }

    fn path(&self, bucket: &str, key: &str) -> S3Result<PathBuf> {
        let path = self.files.path(&format!("{bucket}/{key}"));
        path.map_err(|error| s3_error!(NotImplemented, "{error}, and objects are files here"))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

trait Buckets {
    fn of(&mut self, name: &str) -> S3Result<&mut Bucket>;
}

impl Buckets for BTreeMap<String, Bucket> {
    fn of(&mut self, name: &str) -> S3Result<&mut Bucket> {
        self.get_mut(name).ok_or_else(|| s3_error!(NoSuchBucket))
    }
}

/// The operations that there are.
struct Operations(Arc<Store>);

impl Operations {
    /// Runs what reads or writes files where that may take its time.
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
        if if_match.is_some() {
            return Err(s3_error!(NotImplemented, "If-Match"));
        }
        let faults = self.0.faults(&bucket)?;
        let content = match body {
            Some(body) => to_bytes(Body::new(s3s::Body::from(body)), OBJECT_BYTES_MAX)
                .await
                .map_err(|error| s3_error!(error, IncompleteBody))?,
            None => Bytes::new(),
        };
        let fate = faults.map_or(PutFate::Answered, |faults| faults.put(&key, &content));
        if fate == PutFate::FailsBefore {
            return Err(unavailable());
        }
        let stored = Stored {
            size: content.len() as i64,
            md5: hex::encode(Md5::digest(&content)),
            modified: SystemTime::now(),
            content_type,
            content_encoding: content_encoding.and_then(|encoding| of_content(&encoding)),
            metadata,
        };
        let e_tag = Some(ETag::Strong(stored.md5.clone()));
        let put = self
            .blocking(move |store| store.put(&bucket, &key, &content, only_new, stored))
            .await;
        if fate == PutFate::FailsAfter {
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
        self.0.is_up(&bucket)?;
        let stored = self
            .blocking(move |store| store.head(&bucket, &key))
            .await?;
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
        if range.is_some() {
            return Err(s3_error!(NotImplemented, "Range"));
        }
        self.0.is_up(&bucket)?;
        let (stored, content) = self.blocking(move |store| store.get(&bucket, &key)).await?;
        Ok(S3Response::new(GetObjectOutput {
            body: Some(StreamingBlob::from(s3s::Body::from(content))),
            content_length: Some(stored.size),
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
        self.0.is_up(&bucket)?;
        self.blocking(move |store| store.delete(&bucket, &key))
            .await?;
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
        self.0.is_up(&bucket)?;
        let most = max_keys.unwrap_or(KEYS_MAX).clamp(0, KEYS_MAX);
        // A token is the last key of the page before it.
        let after = continuation_token.clone().or_else(|| start_after.clone());
        let (listed, more) = self.0.list(
            &bucket,
            prefix.as_deref().unwrap_or_default(),
            after.as_deref(),
            most as usize,
        )?;
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

/// With status 503.
fn unavailable() -> s3s::S3Error {
    s3_error!(SlowDown, "Please reduce your request rate.")
}

/// Everyone has the same secret.
struct OneSecret;

#[async_trait::async_trait]
impl S3Auth for OneSecret {
    async fn get_secret_key(&self, _access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(SECRET))
    }
}

/// Everyone may do everything, also unsigned.
struct Anyone;

#[async_trait::async_trait]
impl S3Access for Anyone {
    async fn check(&self, _context: &mut S3AccessContext<'_>) -> S3Result<()> {
        Ok(())
    }
}

/// The encodings that the content has, without the one it only travelled in.
fn of_content(encoding: &str) -> Option<String> {
    let encodings = encoding.split(',').map(str::trim);
    let kept: Vec<&str> = encodings.filter(|one| *one != "aws-chunked").collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_encoding_and_forgets_how_it_travelled() {
        assert_eq!(of_content("gzip"), Some("gzip".to_owned()));
        assert_eq!(of_content("gzip, aws-chunked"), Some("gzip".to_owned()));
        assert_eq!(of_content("aws-chunked"), None);
    }
}
