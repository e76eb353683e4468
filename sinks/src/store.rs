//! Delivers a part to a store of files: files in a directory, objects in a bucket, or files on a server. A store never replaces
//! a file. [`manifest`](crate::manifest) says what a consumer may rely on.

use std::io::{self, Write};

use async_trait::async_trait;
use tracing::info;

use crate::manifest;
use crate::sink::{Receipt, SinkError, render_failed};
use forms::Compression;
use forms::Part;
use forms::Reject;
use forms::chain::{event_lines, tree_of};
use forms::merkle::Tree;
use forms::write_rejects;
use forms::{Content, Rendering};
use forms::{directory_of, events_name, rejects_name};
use protocol::chain::{ChainHash, with_hash};

/// A file that is to be written, without its bytes.
pub(crate) struct NewFile<'f> {
    /// As [`Store::path`] takes it.
    pub(crate) name: &'f str,
    /// The hash of the content before compression.
    pub(crate) hash: blake3::Hash,
    /// The length of the content before compression, in bytes.
    pub(crate) length: u64,
    pub(crate) compression: Compression,
    /// The media type.
    pub(crate) content_type: &'f str,
}

impl NewFile<'_> {
    /// Compares the bytes of an existing file with this one.
    ///
    /// # Errors
    /// Permanent if the file, which errors call `uri`, has other content.
    pub(crate) fn compare(&self, uri: &str, bytes: &[u8]) -> Result<(), SinkError> {
        let expected = self.hash;
        let problem = match self.compression.hash(bytes) {
            Ok(found) if found == expected => return Ok(()),
            Ok(found) => format!("got hash `{found}`, expected `{expected}`"),
            // A file under its final name is always complete, so a file that cannot be decompressed is another file.
            Err(error) => format!("not valid `{}`: {error}", self.compression.name()),
        };
        Err(other_content(uri, &problem))
    }
}

/// The files of one part in a store.
#[async_trait]
pub(crate) trait Store: Sync {
    /// The bytes of a file that has no name yet.
    type Upload: Write + Send;

    /// Returns the path of a file, which the manifest names. A name that begins with `/` is a path below the sink (`SINK_PATH`);
    /// any other is in the directory of the part's batch.
    fn path(&self, name: &str) -> String;

    /// Returns the URI of a file, for errors.
    fn uri(&self, name: &str) -> String;

    /// Begins a file, with these bytes at its start.
    fn begin(&self, name: &str, bytes: Vec<u8>) -> Result<Self::Upload, SinkError>;

    /// Returns the error of a part that could not be written to an upload.
    fn write_failed(&self, error: io::Error) -> SinkError {
        render_failed(error)
    }

    /// Reads a file of at most `bytes_max` bytes; returns `None` if there is no such file.
    async fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SinkError>;

    /// Gives a file its name if the name is free; returns whether it was free. Returns only when the file is stored durably.
    async fn put_new(&self, file: &NewFile<'_>, upload: Self::Upload) -> Result<bool, SinkError>;

    /// Compares an existing file with the one that was to be written.
    ///
    /// # Errors
    /// Permanent if the file has other content.
    async fn compare(&self, file: &NewFile<'_>) -> Result<(), SinkError>;

    /// Refuses a reject list of a part without rejects, if the store can look for one without a request.
    fn refuse_rejects(&self, _name: &str) -> Result<(), SinkError> {
        Ok(())
    }
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
    let (content, repeated, hash) = match read_manifest(store, part).await? {
        Some(found) => {
            let content = manifest::content(part, rendering).map_err(render_failed)?;
            let hash = compare_manifest(store, part, &found, &content)?;
            (content, true, hash)
        }
        None => put_all(store, part, rendering).await?,
    };
    let (items, rejected) = (part.items.len(), content.rejects.len());
    info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %content.hash, repeated, "part written");
    // It is the same for the attempt that wrote the part and for later ones.
    let text = format!("blake3:{}", content.hash);
    let text = hash.map_or(text.clone(), |hash| with_hash(&text, hash));
    let receipt = Receipt::with_rejects(text, &content.rejects);
    let file = path_below(part, &records_name(part, rendering)?);
    Ok(Receipt {
        file: Some(file),
        ..receipt
    })
}

/// Writes all files of a part; returns facts about its content, whether the part's file existed already, and the chain hash.
async fn put_all(
    store: &impl Store,
    part: &Part,
    rendering: &Rendering,
) -> Result<(Content, bool, Option<ChainHash>), SinkError> {
    let name = records_name(part, rendering)?;
    let (upload, content) = rendering
        .write_for_manifest(part, store.begin(&name, Vec::new())?)
        .map_err(|error| store.write_failed(error))?;
    if content.rejects.is_empty() {
        store.refuse_rejects(&rejects_name(part.part_index))?;
    }
    // The records come before the reject list. Otherwise an attempt with other settings that dies after its reject list could
    // leave a stale list beside records that it does not describe.
    let repeated = put_records(store, &name, rendering, upload, &content).await?;
    if !content.rejects.is_empty() {
        put_rejects(store, part, &content.rejects).await?;
    }
    let tree = match part.link {
        Some(_) => Some(put_events(store, part, &content).await?),
        None => None,
    };
    let key = store.path(&name);
    let manifest = manifest::render(part, &key, rendering, &content, tree.as_ref());
    let manifest = manifest.map_err(render_failed)?;
    let hash = put_manifest(store, part, manifest, &content).await?;
    Ok((content, repeated, hash))
}

/// Writes the list of the delivered events of a part with a link; returns their tree.
async fn put_events(store: &impl Store, part: &Part, content: &Content) -> Result<Tree, SinkError> {
    let lines = event_lines(part, &content.rejects);
    let mut list = Vec::new();
    for line in &lines {
        serde_json::to_writer(&mut list, line).map_err(|error| render_failed(error.into()))?;
        list.push(b'\n');
    }
    let name = events_name(part.part_index);
    let file = small_file(&name, &list, "application/x-ndjson");
    put(store, &file, store.begin(&name, list.clone())?).await?;
    Ok(tree_of(&lines).expect("every line was made with the hash of its body"))
}

/// Returns the name of the file with a part's records, as [`Store::path`] takes it.
pub(crate) fn records_name(part: &Part, rendering: &Rendering) -> Result<String, SinkError> {
    let path = rendering.layout.path(part).map_err(render_failed)?;
    Ok(match path {
        Some(path) => format!("/{path}"),
        None => rendering.name(part.part_index),
    })
}

/// Returns the path of a file of a part below the sink. The name is as [`Store::path`] takes it.
pub(crate) fn path_below(part: &Part, name: &str) -> String {
    match name.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None => {
            let directory = directory_of(part.batch_id, part.batch_key.as_ref());
            format!("{directory}/{name}")
        }
    }
}

/// Writes the file with a part's records; returns whether it existed already.
pub(crate) async fn put_records<S: Store>(
    store: &S,
    name: &str,
    rendering: &Rendering,
    upload: S::Upload,
    content: &Content,
) -> Result<bool, SinkError> {
    let content_type = content_type(rendering);
    let file = NewFile {
        name,
        hash: content.hash,
        length: content.bytes,
        compression: rendering.compression,
        content_type: &content_type,
    };
    put(store, &file, upload).await
}

/// Returns the media type of a file with records. A compressed object has no `Content-Encoding`: clients would then decompress it
/// on download, although its name says that it is compressed.
fn content_type(rendering: &Rendering) -> String {
    match rendering.compression {
        Compression::None => rendering.content_type(),
        Compression::Gzip => "application/gzip".to_owned(),
        Compression::Zstd => "application/zstd".to_owned(),
    }
}

/// Writes the reject list of a part.
pub(crate) async fn put_rejects(
    store: &impl Store,
    part: &Part,
    rejects: &[Reject],
) -> Result<(), SinkError> {
    let mut list = Vec::new();
    write_rejects(part, rejects, &mut list).map_err(render_failed)?;
    let name = rejects_name(part.part_index);
    let file = small_file(&name, &list, "application/x-ndjson");
    let upload = store.begin(&name, list)?;
    put(store, &file, upload).await.map(|_| ())
}

async fn put_manifest(
    store: &impl Store,
    part: &Part,
    bytes: Vec<u8>,
    content: &Content,
) -> Result<Option<ChainHash>, SinkError> {
    let name = manifest::name(part);
    let hash = chain_hash(store, part, &bytes)?;
    let file = small_file(&name, &bytes, "application/json");
    let upload = store.begin(&name, bytes)?;
    if store.put_new(&file, upload).await? {
        return Ok(hash);
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

/// Compares a manifest that was found; returns the chain hash in it.
fn compare_manifest(
    store: &impl Store,
    part: &Part,
    found: &[u8],
    content: &Content,
) -> Result<Option<ChainHash>, SinkError> {
    manifest::compare(found, part, content).map_err(|problem| refused(store, part, &problem))?;
    chain_hash(store, part, found)
}

/// Returns the chain hash in a manifest, if the part has a link.
fn chain_hash(
    store: &impl Store,
    part: &Part,
    manifest: &[u8],
) -> Result<Option<ChainHash>, SinkError> {
    manifest::chain_hash(manifest, part).map_err(|problem| refused(store, part, &problem))
}

fn refused(store: &impl Store, part: &Part, problem: &str) -> SinkError {
    let uri = store.uri(&manifest::name(part));
    SinkError::permanent(format!("`{uri}`: {problem}"))
}

/// Writes a file if its name is free; returns whether a file with the same content existed already.
async fn put<S: Store>(
    store: &S,
    file: &NewFile<'_>,
    upload: S::Upload,
) -> Result<bool, SinkError> {
    match store.put_new(file, upload).await? {
        true => Ok(false),
        false => store.compare(file).await.map(|()| true),
    }
}

/// Returns a file that is not compressed.
fn small_file<'f>(name: &'f str, bytes: &[u8], content_type: &'f str) -> NewFile<'f> {
    NewFile {
        name,
        hash: blake3::hash(bytes),
        length: bytes.len() as u64,
        compression: Compression::None,
        content_type,
    }
}

/// Returns the error of a file of other content that has the name of one of a part.
pub(crate) fn other_content(uri: &str, problem: &str) -> SinkError {
    SinkError::permanent(format!("`{uri}`: exists with other content: {problem}"))
}

/// Returns the error of a file that was there a moment ago, and is not any more.
pub(crate) fn deleted(uri: &str) -> SinkError {
    SinkError::retryable(format!("`{uri}`: was deleted while this attempt ran"))
}
