//! Writes parts as objects in a bucket. [`manifest`](crate::manifest) says what a consumer may rely on.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use aws::{Sdk, chain};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;

use crate::config::layout::SINK_PATH;
use crate::config::proof::PROOF;
use crate::kind::{Kind, Make, RejectLists};
use crate::place::BucketPlace;
use crate::service::{call_failed, status};
use crate::sink::{Receipt, Sink, SinkError};
use crate::store::{self, NewFile, Store, deleted, path_below};
use forms::Part;
use forms::Rendering;
use forms::{percent_encoded, shown};

/// The time limit of one request, including its body. The time limit of the part usually ends a request earlier.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// The most user metadata of an object. Without the batch key, the sink's metadata has less than 100 bytes.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html> (2026-08).
const USER_METADATA_BYTES_MAX: usize = 2_048;
/// The longest percent_encoded batch key that is put into the metadata. The manifest contains every batch key.
const BATCH_KEY_BYTES_MAX: usize = USER_METADATA_BYTES_MAX - 256;
/// The longest reject list that is read: one with every record of the largest part.
const REJECTS_BYTES_MAX: u64 = 1 << 30;
/// The name of an object that no part has.
const DRY_RUN: &str = "dry-run";
/// The user metadata with the hash of the content before compression.
const CONTENT_HASH: &str = "content-hash";
/// The user metadata with the percent-encoded batch key.
const BATCH_KEY: &str = "batch-key";

pub(crate) const KIND: Kind = Kind {
    name: "s3:",
    is_named: |uri| uri.starts_with("s3:"),
    check: |uri| Ok(uri.parse::<BucketPlace>()?.to_string()),
    reads: &[&SINK_PATH, &PROOF],
    call_bytes_max: None,
    writes_rows: false,
    reject_lists: RejectLists::BesideParts,
    read: |_, uri| {
        let place: BucketPlace = uri?.parse().ok()?;
        Some(Make::new(move |config, sdk| {
            Ok(S3Sink::new(sdk, &place, config.rendering.clone()))
        }))
    },
};

/// Writes an object for each part, `<prefix>/<batchId>/<part>.<ext>` or what `SINK_PATH` says, then the reject list `<part>.rejects` if
/// any record was rejected, and last `<part>.manifest.json`. Objects are never replaced. An attempt that finds the manifest writes
/// nothing.
#[derive(Debug)]
pub struct S3Sink {
    objects: Objects,
    rendering: Rendering,
}

impl S3Sink {
    /// Returns a sink that writes to a bucket, below a prefix.
    pub fn new(sdk: &Sdk, place: &BucketPlace, rendering: Rendering) -> S3Sink {
        let objects = Objects::new(sdk, place);
        S3Sink { objects, rendering }
    }
}

#[async_trait]
impl Sink for S3Sink {
    async fn dry_run(&self) -> Result<(), SinkError> {
        self.objects.dry_run().await
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let objects = PartObjects {
            objects: &self.objects,
            part,
        };
        store::deliver(&objects, part, &self.rendering).await
    }
}

/// Objects of batches in a bucket, below a prefix.
#[derive(Debug)]
pub(crate) struct Objects {
    client: Client,
    pub(crate) bucket: String,
    prefix: String,
}

/// The objects of one part.
pub(crate) struct PartObjects<'o> {
    pub(crate) objects: &'o Objects,
    pub(crate) part: &'o Part,
}

impl Objects {
    pub(crate) fn new(sdk: &Sdk, place: &BucketPlace) -> Objects {
        Objects {
            client: sdk.s3(REQUEST_TIMEOUT),
            bucket: place.bucket.clone(),
            prefix: place.prefix.clone(),
        }
    }

    fn below_prefix(&self, path: &str) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("{}{slash}{path}", self.prefix)
    }

    /// Reads an object that does not exist, and replaces it if it exists. Both need the permissions of a delivery, and neither
    /// changes anything.
    /// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html> (2026-11).
    pub(crate) async fn dry_run(&self) -> Result<(), SinkError> {
        self.read(DRY_RUN).await?;
        let put = self.client.put_object().bucket(&self.bucket);
        let key = self.below_prefix(DRY_RUN);
        let sent = put
            .key(&key)
            .if_match("\"none\"")
            .body(ByteStream::default())
            .send()
            .await;
        match sent {
            Ok(_) => Ok(()),
            Err(error) if status(&error) == Some(412) || error.code() == Some("NoSuchKey") => {
                Ok(())
            }
            Err(error) => Err(call_failed(&uri(&self.bucket, &key), &error, may_pass)),
        }
    }

    /// Returns a key without the prefix.
    pub(crate) fn without_prefix<'k>(&self, key: &'k str) -> &'k str {
        let path = key.strip_prefix(&self.prefix).unwrap_or(key);
        path.strip_prefix('/').unwrap_or(path)
    }

    /// Returns the path and the entity tag of every object below the prefix whose path begins with `below`.
    pub(crate) async fn list(&self, below: &str) -> Result<Vec<(String, String)>, SinkError> {
        let prefix = self.below_prefix(below);
        let list = self.client.list_objects_v2();
        let list = list.bucket(&self.bucket).prefix(&prefix);
        let mut pages = list.into_paginator().send();
        let mut found = Vec::new();
        while let Some(page) = pages.next().await {
            let page =
                page.map_err(|error| call_failed(&uri(&self.bucket, &prefix), &error, may_pass))?;
            found.extend(page.contents().iter().filter_map(|object| {
                let path = self.without_prefix(object.key()?).to_owned();
                Some((path, object.e_tag().unwrap_or_default().to_owned()))
            }));
        }
        Ok(found)
    }

    /// Reads an object below the prefix; returns `None` if there is none.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SinkError> {
        self.read_at_most(path, REJECTS_BYTES_MAX).await
    }

    /// Reads an object of at most `bytes_max` bytes below the prefix; returns `None` if there is none.
    pub(crate) async fn read_at_most(
        &self,
        path: &str,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, SinkError> {
        let key = self.below_prefix(path);
        let uri = uri(&self.bucket, &key);
        self.read_object(&key, &uri, bytes_max).await
    }

    /// Reads an object of at most `bytes_max` bytes; returns `None` if there is no such object. Errors call it `uri`.
    async fn read_object(
        &self,
        key: &str,
        uri: &str,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, SinkError> {
        let get = self.client.get_object().bucket(&self.bucket).key(key);
        let object = match get.send().await {
            Ok(object) => object,
            Err(error) if error.code() == Some("NoSuchKey") => return Ok(None),
            Err(error) => return Err(read_failed(uri, &error)),
        };
        let length = object.content_length().unwrap_or_default();
        if u64::try_from(length).is_ok_and(|length| length > bytes_max) {
            return Err(SinkError::permanent(format!(
                "`{uri}`: too large: got {length} bytes, expected at most {bytes_max}"
            )));
        }
        let body = object.body.collect().await;
        let body = body.map_err(|error| SinkError::Retryable {
            reason: format!("`{uri}`: {}", chain(&error)),
        })?;
        Ok(Some(body.to_vec()))
    }
}

impl PartObjects<'_> {
    /// Returns the user metadata of an object with this content.
    fn metadata(&self, hash: blake3::Hash) -> HashMap<String, String> {
        let mut metadata = HashMap::from([(CONTENT_HASH.to_owned(), hash.to_string())]);
        let batch_key = self.part.batch_key.as_ref();
        let batch_key = batch_key.map(|key| percent_encoded(key.as_str()));
        if let Some(key) = batch_key.filter(|key| key.len() <= BATCH_KEY_BYTES_MAX) {
            metadata.insert(BATCH_KEY.to_owned(), key);
        }
        metadata
    }
}

#[async_trait]
impl Store for PartObjects<'_> {
    type Upload = Vec<u8>;

    fn path(&self, name: &str) -> String {
        self.objects.below_prefix(&path_below(self.part, name))
    }

    fn uri(&self, name: &str) -> String {
        uri(&self.objects.bucket, &shown(self.part, &self.path(name)))
    }

    fn begin(&self, _: &str, bytes: Vec<u8>) -> Result<Vec<u8>, SinkError> {
        Ok(bytes)
    }

    async fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SinkError> {
        let (key, uri) = (self.path(name), self.uri(name));
        self.objects.read_object(&key, &uri, bytes_max).await
    }

    async fn put_new(&self, file: &NewFile<'_>, bytes: Vec<u8>) -> Result<bool, SinkError> {
        let put = self.objects.client.put_object();
        let sent = put
            .bucket(&self.objects.bucket)
            .key(self.path(file.name))
            // S3 returns 412 if the name is taken, whatever the content.
            .if_none_match("*")
            .content_type(file.content_type)
            .set_metadata(Some(self.metadata(file.hash)))
            .body(ByteStream::from(bytes))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(true),
            Err(error) if status(&error) == Some(412) => Ok(false),
            Err(error) => Err(call_failed(&self.uri(file.name), &error, may_pass)),
        }
    }

    /// Compares the hash in the metadata of an existing object.
    async fn compare(&self, file: &NewFile<'_>) -> Result<(), SinkError> {
        let uri = self.uri(file.name);
        let head = self.objects.client.head_object();
        let head = head.bucket(&self.objects.bucket).key(self.path(file.name));
        let head = head.send().await;
        let head = head.map_err(|error| match status(&error) {
            Some(404) => deleted(&uri),
            Some(_) | None => call_failed(&uri, &error, may_pass),
        })?;
        let hash = file.hash.to_string();
        let problem = match head.metadata().and_then(|data| data.get(CONTENT_HASH)) {
            Some(found) if *found == hash => return Ok(()),
            Some(found) => {
                format!("exists with other content: got hash `{found}`, expected `{hash}`")
            }
            None => format!(
                "exists, but was not written by this service: got no metadata `{CONTENT_HASH}`, expected `{hash}`"
            ),
        };
        Err(SinkError::permanent(format!("`{uri}`: {problem}")))
    }
}

/// Returns the error of an object that could not be read.
fn read_failed(uri: &str, error: &SdkError<GetObjectError, HttpResponse>) -> SinkError {
    let mut failed = call_failed(uri, error, may_pass);
    if let SinkError::Permanent { reason } = &mut failed
        && status(error) == Some(403)
    {
        // Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html> (2026-11), "Permissions".
        *reason += "; without the permission `s3:ListBucket`, S3 returns this status for a missing object as well";
    }
    failed
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

#[cfg(test)]
#[path = "s3_tests.rs"]
mod tests;
