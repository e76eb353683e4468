//! Gets the delivered parts, if the sink is one that can be read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aws_sdk_s3::Client;
use aws_sdk_s3::error::DisplayErrorContext;
use futures::{StreamExt, TryStreamExt};

use crate::audit::Manifests;

/// Objects that are read at once.
const OBJECTS_AT_ONCE: usize = 8;

/// Where the delivered parts are.
#[derive(Debug)]
pub enum Parts {
    /// Below a directory.
    In {
        directory: PathBuf,
        manifests: Manifests,
        /// The directory, if it holds copies, and is removed at the end.
        copies: Option<tempfile::TempDir>,
    },
    /// The sink cannot be read.
    Unreadable {
        /// Why not, for people.
        why: String,
    },
}

/// Why the parts could not be fetched, although the sink is one that can be read.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// A directory or file cannot be written.
    #[error("`{path}`: {source}")]
    Write {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// The bucket cannot be listed, or an object cannot be read.
    #[error("`{place}`: {message}")]
    Bucket { place: String, message: String },
}

/// Returns the parts of a sink. Those of the sink `file` are read where they are; of objects, those of the batches `batch_ids`
/// are copied to a temporary directory.
///
/// # Errors
/// The bucket cannot be read, or a copy cannot be written.
pub async fn fetch_parts(
    s3: &Client,
    sink: Option<&str>,
    batch_ids: &BTreeSet<&str>,
) -> Result<Parts, PartsError> {
    let Some(sink) = sink else {
        return Ok(unreadable("the stack does not say which it is".to_owned()));
    };
    if let Some(path) = sink.strip_prefix("file://") {
        let directory = PathBuf::from(path);
        return Ok(match directory.is_dir() {
            true => Parts::In {
                directory,
                manifests: Manifests::Required,
                copies: None,
            },
            false => unreadable(format!("`{path}` is no directory of this machine")),
        });
    }
    if let Some(place) = sink.strip_prefix("s3://") {
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let copies = tempfile::tempdir().map_err(|source| PartsError::Write {
            path: std::env::temp_dir().display().to_string(),
            source,
        })?;
        copy_objects(s3, bucket, prefix, batch_ids, copies.path()).await?;
        return Ok(Parts::In {
            directory: copies.path().to_owned(),
            manifests: Manifests::Required,
            copies: Some(copies),
        });
    }
    let scheme = sink.split(':').next().unwrap_or_default();
    Ok(unreadable(format!(
        "the sink `{scheme}:` does not keep what it got where `loadgen` can read it"
    )))
}

fn unreadable(why: String) -> Parts {
    Parts::Unreadable { why }
}

/// Copies the objects of some batches, `<prefix>/…/<batchId>/<part>.<ext>`, to `<directory>/<batchId>/<part>.<ext>`.
async fn copy_objects(
    s3: &Client,
    bucket: &str,
    prefix: &str,
    batch_ids: &BTreeSet<&str>,
    directory: &Path,
) -> Result<(), PartsError> {
    let place = format!("s3://{bucket}/{prefix}");
    let error = |message: String| PartsError::Bucket {
        place: place.clone(),
        message,
    };
    let mut pages = s3
        .list_objects_v2()
        .bucket(bucket)
        .prefix(prefix)
        .into_paginator()
        .send();
    let mut wanted = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|source| error(DisplayErrorContext(source).to_string()))?;
        let keys = page.contents().iter().filter_map(|object| object.key());
        wanted.extend(keys.filter_map(|key| {
            let (path, file) = key.rsplit_once('/')?;
            let batch = path.rsplit('/').next().unwrap_or(path);
            batch_ids
                .contains(batch)
                .then(|| (key.to_owned(), directory.join(batch).join(file)))
        }));
    }
    let copies = wanted
        .into_iter()
        .map(|(key, path)| copy_object(s3, bucket, key, path));
    futures::stream::iter(copies)
        .buffer_unordered(OBJECTS_AT_ONCE)
        .try_collect()
        .await
}

async fn copy_object(
    s3: &Client,
    bucket: &str,
    key: String,
    path: PathBuf,
) -> Result<(), PartsError> {
    let error = |message: String| PartsError::Bucket {
        place: format!("s3://{bucket}/{key}"),
        message,
    };
    let object = s3.get_object().bucket(bucket).key(&key).send().await;
    let mut object = object.map_err(|source| error(DisplayErrorContext(source).to_string()))?;
    let write_error = |source| PartsError::Write {
        path: path.display().to_string(),
        source,
    };
    let parent = path.parent().unwrap_or(&path);
    std::fs::create_dir_all(parent).map_err(write_error)?;
    let mut file = std::fs::File::create(&path).map_err(write_error)?;
    // In pieces, because a part may be larger than memory.
    while let Some(piece) = object.body.next().await {
        let piece = piece.map_err(|source| error(source.to_string()))?;
        std::io::Write::write_all(&mut file, &piece).map_err(write_error)?;
    }
    Ok(())
}
