//! Writes parts as objects in a bucket. [`manifest`](crate::manifest) says what a consumer may rely on.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use shared::aws::{Sdk, chain};
use tracing::info;

use crate::compression::Compression;
use crate::directory::{directory_of, percent_encoded};
use crate::file::rejects_name;
use crate::format::write_rejects;
use crate::manifest;
use crate::part::Part;
use crate::rendering::Content;
use crate::rendering::Rendering;
use crate::service::{Failure, call_failed, failure, status};
use crate::sink::{Receipt, Sink, SinkError, render_failed};

/// The time limit of one request, including its body. The time limit of the part usually ends a request earlier.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// The most user metadata of an object. Without the batch key, the sink's metadata has less than 100 bytes.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html> (2026-08).
const USER_METADATA_BYTES_MAX: usize = 2_048;
/// The longest percent_encoded batch key that is put into the metadata. The manifest contains every batch key.
const BATCH_KEY_BYTES_MAX: usize = USER_METADATA_BYTES_MAX - 256;
/// The user metadata with the hash of the content before compression.
const CONTENT_HASH: &str = "content-hash";
/// The user metadata with the percent-percent_encoded batch key.
const BATCH_KEY: &str = "batch-key";

/// Writes an object for each part, `<prefix>/<batchId>/<part>.<ext>` or what `SINK_PATH` says, then the reject list `<part>.rejects` if any record
/// was rejected, and last `<part>.manifest.json`. Objects are never replaced. An attempt that finds the manifest writes
/// nothing.
#[derive(Debug)]
pub struct S3Sink {
    objects: Objects,
    rendering: Rendering,
}

impl S3Sink {
    /// Returns a sink that writes to a bucket, below `prefix`, which may be empty.
    pub fn new(sdk: &Sdk, bucket: &str, prefix: &str, rendering: Rendering) -> S3Sink {
        let objects = Objects::new(sdk, bucket, prefix);
        S3Sink { objects, rendering }
    }

    /// Writes all objects of a part; returns facts about its content, and whether the part's object existed already.
    async fn put_all(&self, part: &Part) -> Result<(Content, bool), SinkError> {
        let (bytes, content) = self
            .rendering
            .write(part, Vec::new())
            .map_err(render_failed)?;
        let put = self
            .objects
            .put_content(part, &self.rendering, bytes, &content);
        let (key, repeated) = put.await?;
        if !content.rejects.is_empty() {
            let mut list = Vec::new();
            write_rejects(part, &content.rejects, &mut list).map_err(render_failed)?;
            self.objects.put_rejects(part, list).await?;
        }
        let manifest = manifest::render(part, &key, &self.rendering, &content);
        let manifest = manifest.map_err(render_failed)?;
        self.objects.put_manifest(part, manifest, &content).await?;
        Ok((content, repeated))
    }
}

#[async_trait]
impl Sink for S3Sink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let (content, repeated) = match self.objects.manifest(part).await? {
            Some(found) => {
                let content = manifest::content(part, &self.rendering).map_err(render_failed)?;
                self.objects.compare_manifest(part, &found, &content)?;
                (content, true)
            }
            None => self.put_all(part).await?,
        };
        let (items, rejected) = (part.items.len(), content.rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %content.hash, repeated, "part written");
        Ok(manifest::receipt(&content))
    }
}

/// Returns the media type of a part's object. A compressed object has no `Content-Encoding`: clients would then decompress it
/// on download, although its name says that it is compressed.
fn content_type(rendering: &Rendering) -> String {
    match rendering.compression {
        Compression::None => rendering.content_type(),
        Compression::Gzip => "application/gzip".to_owned(),
        Compression::Zstd => "application/zstd".to_owned(),
    }
}

/// Objects of batches in a bucket, below a prefix.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) client: Client,
    pub(crate) bucket: String,
    pub(crate) prefix: String,
}

struct Object<'k> {
    key: &'k str,
    bytes: Vec<u8>,
    hash: blake3::Hash,
    content_type: String,
}

impl Objects {
    pub(crate) fn new(sdk: &Sdk, bucket: &str, prefix: &str) -> Objects {
        Objects {
            client: sdk.s3(REQUEST_TIMEOUT),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        }
    }

    fn key(&self, part: &Part, name: &str) -> String {
        let directory = directory_of(part.batch_id, part.batch_key.as_ref());
        self.below_prefix(&format!("{directory}/{name}"))
    }

    fn below_prefix(&self, path: &str) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("{}{slash}{path}", self.prefix)
    }

    /// Writes the object of a part; returns its key, and whether it existed already.
    pub(crate) async fn put_content(
        &self,
        part: &Part,
        rendering: &Rendering,
        bytes: Vec<u8>,
        content: &Content,
    ) -> Result<(String, bool), SinkError> {
        let key = match rendering.layout.path(part).map_err(render_failed)? {
            Some(path) => self.below_prefix(&path),
            None => self.key(part, &rendering.name(part.number)),
        };
        let object = Object {
            key: &key,
            bytes,
            hash: content.hash,
            content_type: content_type(rendering),
        };
        let repeated = self.put(part, object).await?;
        Ok((key, repeated))
    }

    /// Writes the reject list of a part.
    pub(crate) async fn put_rejects(&self, part: &Part, list: Vec<u8>) -> Result<(), SinkError> {
        let key = self.key(part, &rejects_name(part));
        let object = Object {
            key: &key,
            hash: blake3::hash(&list),
            bytes: list,
            content_type: "application/x-ndjson".to_owned(),
        };
        self.put(part, object).await.map(|_| ())
    }

    /// Reads the manifest of a part; returns `None` if there is none.
    async fn manifest(&self, part: &Part) -> Result<Option<Vec<u8>>, SinkError> {
        let key = self.key(part, &manifest::name(part));
        let found = read(&self.client, &self.bucket, &key, manifest::BYTES_MAX).await;
        found.map_err(SinkError::from)
    }

    fn compare_manifest(
        &self,
        part: &Part,
        found: &[u8],
        content: &Content,
    ) -> Result<(), SinkError> {
        manifest::compare(found, part, content).map_err(|problem| SinkError::Permanent {
            reason: self.reason(&self.key(part, &manifest::name(part)), &problem),
        })
    }

    async fn put_manifest(
        &self,
        part: &Part,
        bytes: Vec<u8>,
        content: &Content,
    ) -> Result<(), SinkError> {
        let key = self.key(part, &manifest::name(part));
        let object = Object {
            key: &key,
            hash: blake3::hash(&bytes),
            bytes,
            content_type: "application/json".to_owned(),
        };
        if self.put_new(part, object).await? {
            return Ok(());
        }
        // Another attempt wrote the manifest first. Its version of the service may write other fields.
        match self.manifest(part).await? {
            Some(found) => self.compare_manifest(part, &found, content),
            None => Err(self.deleted(&key)),
        }
    }

    /// Writes an object if its name is free; returns whether an object with the same content existed already.
    ///
    /// # Errors
    /// Permanent if an object of other content has the name.
    async fn put(&self, part: &Part, object: Object<'_>) -> Result<bool, SinkError> {
        let Object { key, hash, .. } = object;
        match self.put_new(part, object).await? {
            true => Ok(false),
            false => self.compare(key, hash).await.map(|()| true),
        }
    }

    /// Writes an object if its name is free; returns whether it was free.
    async fn put_new(&self, part: &Part, object: Object<'_>) -> Result<bool, SinkError> {
        let Object { key, hash, .. } = object;
        let mut metadata = HashMap::from([(CONTENT_HASH.to_owned(), hash.to_string())]);
        let batch_key = part
            .batch_key
            .as_ref()
            .map(|key| percent_encoded(key.as_str()));
        if let Some(key) = batch_key.filter(|key| key.len() <= BATCH_KEY_BYTES_MAX) {
            metadata.insert(BATCH_KEY.to_owned(), key);
        }
        let sent = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            // S3 returns 412 if the name is taken, whatever the content.
            .if_none_match("*")
            .content_type(object.content_type)
            .set_metadata(Some(metadata))
            .body(ByteStream::from(object.bytes))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(true),
            Err(error) if status(&error) == Some(412) => Ok(false),
            Err(error) => Err(call_failed(&self.uri(key), &error, may_pass)),
        }
    }

    /// Compares the hash in the metadata of an existing object with `hash`.
    async fn compare(&self, key: &str, hash: blake3::Hash) -> Result<(), SinkError> {
        let head = self
            .client
            .head_object()
            .bucket(&self.bucket)
            .key(key)
            .send()
            .await;
        let head = head.map_err(|error| match status(&error) {
            Some(404) => self.deleted(key),
            Some(_) | None => call_failed(&self.uri(key), &error, may_pass),
        })?;
        let found = head.metadata().and_then(|data| data.get(CONTENT_HASH));
        let problem = match found {
            Some(found) if *found == hash.to_string() => return Ok(()),
            Some(found) => {
                format!("exists with other content: got hash `{found}`, expected `{hash}`")
            }
            None => format!(
                "exists, but was not written by this service: got no metadata `{CONTENT_HASH}`, expected `{hash}`"
            ),
        };
        Err(SinkError::Permanent {
            reason: self.reason(key, &problem),
        })
    }

    /// Returns the error of an object that was there a moment ago, and is not any more.
    fn deleted(&self, key: &str) -> SinkError {
        SinkError::Retryable {
            reason: self.reason(key, "was deleted while this attempt ran"),
        }
    }

    fn uri(&self, key: &str) -> String {
        uri(&self.bucket, key)
    }

    fn reason(&self, key: &str, problem: &str) -> String {
        format!("`{}`: {problem}", self.uri(key))
    }
}

/// Reads an object of at most `bytes_max` bytes; returns `None` if there is no such object.
pub(crate) async fn read(
    client: &Client,
    bucket: &str,
    key: &str,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, Failure> {
    let uri = uri(bucket, key);
    let got = client.get_object().bucket(bucket).key(key).send().await;
    let object = match got {
        Ok(object) => object,
        Err(error) if error.code() == Some("NoSuchKey") => return Ok(None),
        Err(error) => return Err(read_failure(&uri, &error)),
    };
    let length = object.content_length().unwrap_or_default();
    if u64::try_from(length).is_ok_and(|length| length > bytes_max) {
        return Err(Failure {
            reason: format!("`{uri}`: too large: got {length} bytes, expected at most {bytes_max}"),
            may_pass: false,
        });
    }
    let body = object.body.collect().await;
    let body = body.map_err(|error| Failure {
        reason: format!("`{uri}`: {}", chain(&error)),
        may_pass: true,
    })?;
    Ok(Some(body.to_vec()))
}

/// Returns why an object could not be read.
fn read_failure(uri: &str, error: &SdkError<GetObjectError, HttpResponse>) -> Failure {
    let mut failure = failure(uri, error, may_pass);
    if status(error) == Some(403) && !failure.may_pass {
        // Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html> (2026-11), "Permissions".
        failure.reason += "; without the permission `s3:ListBucket`, S3 returns this status for a missing object as well";
    }
    failure
}

fn uri(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{key}")
}

/// Returns whether a retry may succeed after an error of S3.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html> (2026-08).
fn may_pass(code: Option<&str>, status: Option<u16>) -> bool {
    match code {
        // These come with the status 400 or 403, but are caused by the connection, throttling or expired credentials.
        Some(
            "RequestTimeout"
            | "IncompleteBody"
            | "BadDigest"
            | "ExpiredToken"
            | "RequestTimeTooSkewed"
            | "KMS.ThrottlingException"
            | "ThrottlingException",
        ) => true,
        // These come with the status 409: another request writes the same name at this moment.
        Some("ConditionalRequestConflict" | "OperationAborted") => true,
        Some(_) | None => matches!(status, Some(307 | 408 | 409 | 429 | 500..)),
    }
}

#[cfg(feature = "http")]
#[cfg(test)]
#[path = "s3_tests.rs"]
mod tests;
