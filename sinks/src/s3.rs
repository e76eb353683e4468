//! Objects of parts, in a bucket. What a consumer may rely on is told in [`manifest`](crate::manifest).

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
use crate::directory::{directory_of, encoded};
use crate::file::rejects_name;
use crate::format::write_rejects;
use crate::manifest;
use crate::part::Part;
use crate::rendering::Content;
use crate::rendering::Rendering;
use crate::service::{Failure, failure, status, told};
use crate::sink::{Receipt, Sink, SinkError, unwritten};

/// For one object from its first byte to its last. The part's own time limit usually ends it earlier.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// User metadata in all; what else we put there takes less than 100 bytes.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html> (2026-08).
const USER_METADATA_BYTES_MAX: usize = 2_048;
/// Room for the batch key, encoded; the manifest has it whole in any case.
const BATCH_KEY_BYTES_MAX: usize = USER_METADATA_BYTES_MAX - 256;
/// User metadata: hash of the content, before it was compressed.
const CONTENT_HASH: &str = "content-hash";
/// User metadata: the batch key, percent-encoded.
const BATCH_KEY: &str = "batch-key";

/// An object for each part, `<prefix>/<batchId>/<part>.<ext>`; then the list of what could not be written, if there is
/// any, `<part>.rejects`; and last, when all of it is there, `<part>.manifest.json`. None of them is ever replaced. An
/// attempt that finds the manifest writes nothing.
#[derive(Debug)]
pub struct S3Sink {
    objects: Objects,
    rendering: Rendering,
}

impl S3Sink {
    /// Objects in a bucket.
    pub fn new(sdk: &Sdk, bucket: &str, prefix: &str, rendering: Rendering) -> S3Sink {
        let objects = Objects::new(sdk, bucket, prefix);
        S3Sink { objects, rendering }
    }

    /// Writes all objects of a part; answers its content, and whether it was there already.
    async fn put_all(&self, part: &Part) -> Result<(Content, bool), SinkError> {
        let (bytes, content) = self.rendering.write(part, Vec::new()).map_err(unwritten)?;
        let put = self
            .objects
            .put_content(part, &self.rendering, bytes, &content);
        let (key, repeated) = put.await?;
        if !content.rejects.is_empty() {
            let mut list = Vec::new();
            write_rejects(part, &content.rejects, &mut list).map_err(unwritten)?;
            self.objects.put_rejects(part, list).await?;
        }
        let manifest = manifest::render(part, &key, &self.rendering, &content);
        let manifest = manifest.map_err(unwritten)?;
        self.objects.put_manifest(part, manifest, &content).await?;
        Ok((content, repeated))
    }
}

#[async_trait]
impl Sink for S3Sink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let (content, repeated) = match self.objects.manifest(part).await? {
            Some(found) => {
                let content = manifest::content(part, &self.rendering).map_err(unwritten)?;
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

/// Compressed objects are what their names say, not a text in transit: nothing shall unpack them on the way.
fn content_type(rendering: &Rendering) -> &'static str {
    match rendering.compression {
        Compression::None => rendering.format.content_type(),
        Compression::Gzip => "application/gzip",
        Compression::Zstd => "application/zstd",
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
    content_type: &'static str,
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
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let directory = directory_of(part.batch_id, part.batch_key.as_ref());
        format!("{}{slash}{directory}/{name}", self.prefix)
    }

    /// Writes the object of a part; answers its key, and whether it was there already.
    pub(crate) async fn put_content(
        &self,
        part: &Part,
        rendering: &Rendering,
        bytes: Vec<u8>,
        content: &Content,
    ) -> Result<(String, bool), SinkError> {
        let key = self.key(part, &rendering.name(part.number));
        let object = Object {
            key: &key,
            bytes,
            hash: content.hash,
            content_type: content_type(rendering),
        };
        let repeated = self.put(part, object).await?;
        Ok((key, repeated))
    }

    /// Keeps the reject list of a part.
    pub(crate) async fn put_rejects(&self, part: &Part, list: Vec<u8>) -> Result<(), SinkError> {
        let key = self.key(part, &rejects_name(part));
        let object = Object {
            key: &key,
            hash: blake3::hash(&list),
            bytes: list,
            content_type: "application/x-ndjson",
        };
        self.put(part, object).await.map(|_| ())
    }

    /// The manifest of a part, if it is there.
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
        manifest::compare(found, part, content).map_err(|words| SinkError::Permanent {
            reason: self.words(&self.key(part, &manifest::name(part)), &words),
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
            content_type: "application/json",
        };
        if self.put_new(part, object).await? {
            return Ok(());
        }
        // Another attempt was first; its version may write other fields.
        match self.manifest(part).await? {
            Some(found) => self.compare_manifest(part, &found, content),
            None => Err(self.gone(&key)),
        }
    }

    /// Writes an object if its name is free; answers whether one with the same content had it already.
    async fn put(&self, part: &Part, object: Object<'_>) -> Result<bool, SinkError> {
        let Object { key, hash, .. } = object;
        match self.put_new(part, object).await? {
            true => Ok(false),
            false => self.compare(key, hash).await.map(|()| true),
        }
    }

    /// Writes an object if its name is free; answers whether it was.
    async fn put_new(&self, part: &Part, object: Object<'_>) -> Result<bool, SinkError> {
        let Object { key, hash, .. } = object;
        let mut metadata = HashMap::from([(CONTENT_HASH.to_owned(), hash.to_string())]);
        let batch_key = part.batch_key.as_ref().map(encoded);
        if let Some(key) = batch_key.filter(|key| key.len() <= BATCH_KEY_BYTES_MAX) {
            metadata.insert(BATCH_KEY.to_owned(), key);
        }
        let sent = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            // A name that is taken is answered with 412, whatever is there.
            .if_none_match("*")
            .content_type(object.content_type)
            .set_metadata(Some(metadata))
            .body(ByteStream::from(object.bytes))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(true),
            Err(error) if status(&error) == Some(412) => Ok(false),
            Err(error) => Err(told(&self.uri(key), &error, may_pass)),
        }
    }

    /// Compares what has the name with what should have it.
    async fn compare(&self, key: &str, hash: blake3::Hash) -> Result<(), SinkError> {
        let head = self
            .client
            .head_object()
            .bucket(&self.bucket)
            .key(key)
            .send()
            .await;
        let head = head.map_err(|error| match status(&error) {
            Some(404) => self.gone(key),
            Some(_) | None => told(&self.uri(key), &error, may_pass),
        })?;
        let before = head.metadata().and_then(|data| data.get(CONTENT_HASH));
        match before {
            Some(before) if *before == hash.to_string() => Ok(()),
            Some(before) => Err(SinkError::Permanent {
                reason: self.words(
                    key,
                    &format!("exists with other content: hash {before}, ours is {hash}"),
                ),
            }),
            None => Err(SinkError::Permanent {
                reason: self.words(key, "exists, and was not written by this service"),
            }),
        }
    }

    /// It was there a moment ago.
    fn gone(&self, key: &str) -> SinkError {
        SinkError::Retryable {
            reason: self.words(key, "it exists, and does not"),
        }
    }

    fn uri(&self, key: &str) -> String {
        uri(&self.bucket, key)
    }

    fn words(&self, key: &str, words: &str) -> String {
        format!("`{}`: {words}", self.uri(key))
    }
}

/// Returns an object of at most so many bytes, or nothing if there is none.
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
        Err(error) => return Err(unread(&uri, &error)),
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

/// Why an object could not be read.
fn unread(uri: &str, error: &SdkError<GetObjectError, HttpResponse>) -> Failure {
    let mut failure = failure(uri, error, may_pass);
    if status(error) == Some(403) && !failure.may_pass {
        // Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html> (2026-11), "Permissions".
        failure.reason += "; an object that is not there needs `s3:ListBucket` to be told from one that may not be read";
    }
    failure
}

fn uri(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{key}")
}

/// Whether a call that S3 answered with an error may succeed later.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html> (2026-08).
fn may_pass(code: Option<&str>, status: Option<u16>) -> bool {
    match code {
        // Statuses of 400 and 403, but of this connection, this moment or these credentials.
        Some(
            "RequestTimeout"
            | "IncompleteBody"
            | "BadDigest"
            | "ExpiredToken"
            | "RequestTimeTooSkewed"
            | "KMS.ThrottlingException"
            | "ThrottlingException",
        ) => true,
        // 409: somebody writes the same name at this moment.
        Some("ConditionalRequestConflict" | "OperationAborted") => true,
        Some(_) | None => matches!(status, Some(307 | 408 | 409 | 429 | 500..)),
    }
}

#[cfg(feature = "http")]
#[cfg(test)]
#[path = "s3_tests.rs"]
mod tests;
