//! Gets the delivered parts, if the sink is one that can be read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::stack::Connection;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::DisplayErrorContext;
use futures::{StreamExt, TryStreamExt};

use super::database::{DatabaseError, fetch_rows};

/// Objects that are read at once.
const OBJECTS_AT_ONCE: usize = 8;

/// The delivered parts.
#[derive(Debug)]
pub(super) enum Parts {
    /// In a directory, which is removed at the end: links to the batches, or copies.
    In(tempfile::TempDir),
    /// The sink cannot be read; says why, for people.
    Unreadable(String),
}

/// Why the parts could not be fetched, although the sink is one that can be read.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// A directory or file cannot be read or written.
    #[error("`{path}`: {source}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// The bucket cannot be listed, or an object cannot be read.
    #[error("`{place}`: {message}")]
    Bucket { place: String, message: String },
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// Returns the parts of the batches `batch_ids`. Other batches of the sink are of other bursts. `table` is `SINK_TABLE`.
///
/// # Errors
/// The directory, the bucket or the database cannot be read, or a copy cannot be written.
pub(super) async fn fetch_parts(
    connection: &Connection,
    sink: Option<&str>,
    table: Option<&str>,
    batch_ids: &BTreeSet<&str>,
) -> Result<Parts, PartsError> {
    let Some(sink) = sink else {
        return Ok(Parts::Unreadable(
            "the stack does not say which sink it has".to_owned(),
        ));
    };
    let parts = tempfile::tempdir().map_err(|source| file_error(&std::env::temp_dir(), source))?;
    if let Some(path) = sink.strip_prefix("file://") {
        let directory = Path::new(path);
        if directory.is_dir() {
            link_batches(directory, batch_ids, parts.path())?;
        } else if !batch_ids.is_empty() {
            // A sink that got nothing may have no directory yet.
            return Ok(Parts::Unreadable(format!(
                "`{path}` is no directory of this machine"
            )));
        }
    } else if let Some(place) = sink.strip_prefix("s3://") {
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        copy_objects(&connection.s3, bucket, prefix, batch_ids, parts.path()).await?;
    } else if is_database(sink) {
        let password = connection.database_password.as_deref();
        fetch_rows(sink, password, table, batch_ids, parts.path()).await?;
    } else {
        let scheme = sink.split(':').next().unwrap_or_default();
        return Ok(Parts::Unreadable(format!(
            "a sink `{scheme}:` does not keep its parts where `loadgen` can read them"
        )));
    }
    Ok(Parts::In(parts))
}

/// Returns whether the sink is a PostgreSQL database.
pub(super) fn is_database(sink: &str) -> bool {
    sink.starts_with("postgres://") || sink.starts_with("postgresql://")
}

fn file_error(path: &Path, source: std::io::Error) -> PartsError {
    PartsError::File {
        path: path.display().to_string(),
        source,
    }
}

/// Makes a link in `links` to each directory at any depth below `directory` whose name is the id of one of the batches.
fn link_batches(
    directory: &Path,
    batch_ids: &BTreeSet<&str>,
    links: &Path,
) -> Result<(), PartsError> {
    let entries = std::fs::read_dir(directory).map_err(|source| file_error(directory, source))?;
    for entry in entries {
        let path = entry
            .map_err(|source| file_error(directory, source))?
            .path();
        if !path.is_dir() {
            continue;
        }
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if batch_ids.contains(name) => {
                let link = links.join(name);
                std::os::unix::fs::symlink(&path, &link)
                    .map_err(|source| file_error(&link, source))?;
            }
            Some(_) | None => link_batches(&path, batch_ids, links)?,
        }
    }
    Ok(())
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
    let write_error = |source| file_error(&path, source);
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
