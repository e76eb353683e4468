//! Reads what the sinks `file:` and `s3:` have written beside the records of their parts, for programs that check it.

use aws::Sdk;
use protocol::ids::BatchKey;

use crate::built_in::SINK;
use crate::file::Files;
use crate::place::FilePlace;
#[cfg(feature = "full")]
use crate::s3::Objects;
use crate::sink::SinkError;
use forms::key_name;

/// How the name of every manifest ends.
const MANIFEST: &str = ".manifest.json";

/// The files or objects of a sink.
#[derive(Debug)]
pub struct ManifestStore(Location);

#[derive(Debug)]
enum Location {
    Files(Files),
    #[cfg(feature = "full")]
    Objects(Objects),
}

impl ManifestStore {
    /// Returns the store of a sink; `sink` is `SINK`.
    ///
    /// # Errors
    /// Names the sink, if this program cannot read what it has written.
    #[cfg_attr(
        not(feature = "full"),
        expect(unused_variables, reason = "a directory needs no client")
    )]
    pub fn new(sdk: &Sdk, sink: &str) -> Result<ManifestStore, String> {
        let place = sink.parse::<FilePlace>();
        let place = place.map_err(|_| {
            format!("`{SINK}`: its files cannot be read from here: got `{sink}`, expected `file:///directory` or `s3://bucket/prefix`")
        })?;
        Ok(ManifestStore(match place {
            FilePlace::Directory(directory) => Location::Files(Files { directory }),
            #[cfg(feature = "full")]
            FilePlace::Bucket(place) => Location::Objects(Objects::new(sdk, &place)),
        }))
    }

    /// Returns the paths of the manifests below the sink, sorted; with a batch key, of those in its directory.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn paths(&self, batch_key: Option<&BatchKey>) -> Result<Vec<String>, SinkError> {
        let below = batch_key.map(|key| format!("{}/", key_name(key)));
        let below = below.unwrap_or_default();
        let mut paths = match &self.0 {
            Location::Files(files) => files.list(&below)?,
            #[cfg(feature = "full")]
            Location::Objects(objects) => {
                let listed = objects.list(&below).await?;
                listed.into_iter().map(|(path, _)| path).collect()
            }
        };
        paths.retain(|path| path.ends_with(MANIFEST));
        paths.sort_unstable();
        Ok(paths)
    }

    /// Reads a file below the sink; returns `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SinkError> {
        match &self.0 {
            Location::Files(files) => files.read(path, u64::MAX),
            #[cfg(feature = "full")]
            Location::Objects(objects) => objects.read(path).await,
        }
    }

    /// Returns the path below the sink that the field `key` of a manifest names.
    pub fn path_of<'k>(&self, key: &'k str) -> &'k str {
        match &self.0 {
            Location::Files(_) => key,
            #[cfg(feature = "full")]
            Location::Objects(objects) => objects.without_prefix(key),
        }
    }
}
