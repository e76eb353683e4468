//! Delivers a part to a store of files: objects in a bucket, or files on a server. The store may be on another machine, and
//! never replaces a file. [`manifest`](crate::manifest) says what a consumer may rely on.

use async_trait::async_trait;
use tracing::info;

use crate::compression::Compression;
use crate::file::rejects_name;
use crate::format::write_rejects;
use crate::manifest;
use crate::part::Part;
use crate::rendering::{Content, Rendering};
use crate::sink::{Receipt, SinkError, render_failed};

/// A file that is to be written, without its bytes.
pub(crate) struct NewFile<'f> {
    /// As [`Store::path`] takes it.
    pub(crate) name: &'f str,
    /// The hash of the content before compression.
    pub(crate) hash: blake3::Hash,
    /// The length of the content before compression, in bytes.
    pub(crate) length: u64,
    pub(crate) compression: Compression,
    pub(crate) kind: FileKind,
}

/// The kind of a part's file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileKind {
    Records,
    Rejects,
    Manifest,
}

/// The files of one part in a store.
#[async_trait]
pub(crate) trait Store: Sync {
    /// Returns the path of a file, which the manifest names. A name that begins with `/` is a path below the sink (`SINK_PATH`);
    /// any other is in the directory of the part's batch.
    fn path(&self, name: &str) -> String;

    /// Returns the URI of a file, for errors.
    fn uri(&self, name: &str) -> String;

    /// Reads a file of at most `bytes_max` bytes; returns `None` if there is no such file.
    async fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SinkError>;

    /// Writes a file if its name is free; returns whether it was free. Returns only when the file is stored durably.
    async fn put_new(&self, file: &NewFile<'_>, bytes: Vec<u8>) -> Result<bool, SinkError>;

    /// Compares an existing file with the one that was to be written.
    ///
    /// # Errors
    /// Permanent if the file has other content.
    async fn compare(&self, file: &NewFile<'_>) -> Result<(), SinkError>;
}

/// Writes the part's file, then its reject list if any record was rejected, and last its manifest. Writes nothing if the
/// manifest is there.
///
/// # Errors
/// Permanent if a file of other content has one of the names.
pub(crate) async fn deliver(
    store: &impl Store,
    part: &Part,
    rendering: &Rendering,
) -> Result<Receipt, SinkError> {
    let (content, repeated) = match read_manifest(store, part).await? {
        Some(found) => {
            let content = manifest::content(part, rendering).map_err(render_failed)?;
            compare_manifest(store, part, &found, &content)?;
            (content, true)
        }
        None => put_all(store, part, rendering).await?,
    };
    let (items, rejected) = (part.items.len(), content.rejects.len());
    info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %content.hash, repeated, "part written");
    Ok(manifest::receipt(&content))
}

/// Writes all files of a part; returns facts about its content, and whether the part's file existed already.
async fn put_all(
    store: &impl Store,
    part: &Part,
    rendering: &Rendering,
) -> Result<(Content, bool), SinkError> {
    let (bytes, content) = rendering
        .write_for_manifest(part, Vec::new())
        .map_err(render_failed)?;
    let name = records_name(part, rendering)?;
    let repeated = put_records(store, &name, rendering, bytes, &content).await?;
    if !content.rejects.is_empty() {
        let mut list = Vec::new();
        write_rejects(part, &content.rejects, &mut list).map_err(render_failed)?;
        put_rejects(store, part, list).await?;
    }
    let key = store.path(&name);
    let manifest = manifest::render(part, &key, rendering, &content).map_err(render_failed)?;
    put_manifest(store, part, manifest, &content).await?;
    Ok((content, repeated))
}

/// Returns the name of the file with a part's records, as [`Store::path`] takes it.
pub(crate) fn records_name(part: &Part, rendering: &Rendering) -> Result<String, SinkError> {
    let path = rendering.layout.path(part).map_err(render_failed)?;
    Ok(match path {
        Some(path) => format!("/{path}"),
        None => rendering.name(part.part_index),
    })
}

/// Writes the file with a part's records; returns whether it existed already.
pub(crate) async fn put_records(
    store: &impl Store,
    name: &str,
    rendering: &Rendering,
    bytes: Vec<u8>,
    content: &Content,
) -> Result<bool, SinkError> {
    let file = NewFile {
        name,
        hash: content.hash,
        length: content.bytes,
        compression: rendering.compression,
        kind: FileKind::Records,
    };
    put(store, &file, bytes).await
}

/// Writes the reject list of a part.
pub(crate) async fn put_rejects(
    store: &impl Store,
    part: &Part,
    list: Vec<u8>,
) -> Result<(), SinkError> {
    let name = rejects_name(part.part_index);
    let file = small_file(&name, &list, FileKind::Rejects);
    put(store, &file, list).await.map(|_| ())
}

async fn put_manifest(
    store: &impl Store,
    part: &Part,
    bytes: Vec<u8>,
    content: &Content,
) -> Result<(), SinkError> {
    let name = manifest::name(part);
    let file = small_file(&name, &bytes, FileKind::Manifest);
    if store.put_new(&file, bytes).await? {
        return Ok(());
    }
    // Another attempt wrote the manifest first. Its version of the service may write other fields.
    match read_manifest(store, part).await? {
        Some(found) => compare_manifest(store, part, &found, content),
        None => Err(deleted(&store.uri(&name))),
    }
}

/// Reads the manifest of a part; returns `None` if there is none.
async fn read_manifest(store: &impl Store, part: &Part) -> Result<Option<Vec<u8>>, SinkError> {
    store.read(&manifest::name(part), manifest::BYTES_MAX).await
}

fn compare_manifest(
    store: &impl Store,
    part: &Part,
    found: &[u8],
    content: &Content,
) -> Result<(), SinkError> {
    manifest::compare(found, part, content).map_err(|problem| SinkError::Permanent {
        reason: format!("`{}`: {problem}", store.uri(&manifest::name(part))),
    })
}

/// Writes a file if its name is free; returns whether a file with the same content existed already.
async fn put(store: &impl Store, file: &NewFile<'_>, bytes: Vec<u8>) -> Result<bool, SinkError> {
    match store.put_new(file, bytes).await? {
        true => Ok(false),
        false => store.compare(file).await.map(|()| true),
    }
}

/// Returns a file that is not compressed.
fn small_file<'f>(name: &'f str, bytes: &[u8], kind: FileKind) -> NewFile<'f> {
    NewFile {
        name,
        hash: blake3::hash(bytes),
        length: bytes.len() as u64,
        compression: Compression::None,
        kind,
    }
}

/// Returns the error of a file that was there a moment ago, and is not any more.
pub(crate) fn deleted(uri: &str) -> SinkError {
    SinkError::Retryable {
        reason: format!("`{uri}`: was deleted while this attempt ran"),
    }
}
