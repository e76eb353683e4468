use std::path::Path;

use aws::Sdk;
use protocol::ids::{BatchId, BatchKey};
use shared::config::{Text, Unset, Variable};

use crate::file::{Files, PartFiles};
use crate::place::FilePlace;
#[cfg(feature = "full")]
use crate::s3::{Objects, PartObjects};
use crate::sink::SinkError;
use crate::store::put_rejects;
use forms::Part;
use forms::Reject;
use forms::{directory_of, rejects_name};

/// Where reject lists go if the sink has no files or objects to put them beside.
pub(crate) const SINK_REJECTS: Variable<Text> = Variable {
    name: "SINK_REJECTS",
    key: Some("sink.rejects"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "`file:///directory` or `s3://bucket/prefix`",
    },
    meaning: "With `https:` and `arn:`, where rejected records go, for example records that the format cannot carry.",
};

/// Stores the reject lists of sinks that have no files or objects of their own: `SINK_REJECTS`. There is no manifest beside
/// these lists: if a consumer removes a list before its part is delivered, the next attempt writes the list again.
#[derive(Debug)]
pub struct RejectStore(Location);

#[derive(Debug)]
enum Location {
    Files(Files),
    #[cfg(feature = "full")]
    Objects(Objects),
}

impl RejectStore {
    /// Returns the store at a place.
    #[cfg_attr(
        not(feature = "full"),
        expect(unused_variables, reason = "a directory needs no client")
    )]
    pub fn new(sdk: &Sdk, place: &FilePlace) -> RejectStore {
        match place {
            FilePlace::Directory(directory) => RejectStore::below(directory),
            #[cfg(feature = "full")]
            FilePlace::Bucket(place) => RejectStore(Location::Objects(Objects::new(sdk, place))),
        }
    }

    /// Returns a store that writes files below a directory.
    pub fn below(directory: &Path) -> RejectStore {
        let directory = directory.to_owned();
        RejectStore(Location::Files(Files { directory }))
    }

    /// Tries out whether lists can be written.
    pub(crate) async fn dry_run(&self) -> Result<(), SinkError> {
        match &self.0 {
            Location::Files(files) => files.dry_run(),
            #[cfg(feature = "full")]
            Location::Objects(objects) => objects.dry_run().await,
        }
    }

    /// Returns the reject list of part `part` of a batch, or `None` if there is none: no record was rejected, or the list was removed.
    /// Also reads the lists of a sink of files or objects, if the store is that sink's directory or prefix.
    ///
    /// # Errors
    /// The list cannot be read.
    pub async fn read(
        &self,
        batch_id: BatchId,
        batch_key: Option<&BatchKey>,
        part: usize,
    ) -> Result<Option<Vec<u8>>, SinkError> {
        let name = format!(
            "{}/{}",
            directory_of(batch_id, batch_key),
            rejects_name(part)
        );
        match &self.0 {
            Location::Files(files) => files.read(&name, u64::MAX),
            #[cfg(feature = "full")]
            Location::Objects(objects) => objects.read(&name).await,
        }
    }
}

/// Writes the reject list of a part, if any record was rejected.
///
/// # Errors
/// Permanent if records were rejected and there is no store.
pub(crate) async fn store_rejects(
    store: Option<&RejectStore>,
    part: &Part,
    rejects: &[Reject],
) -> Result<(), SinkError> {
    if rejects.is_empty() {
        return Ok(());
    }
    let Some(store) = store else {
        let count = rejects.len();
        let reason = format!(
            "part {}: {count} records are rejected, and `SINK_REJECTS` is not set: expected {}",
            part.key(),
            SINK_REJECTS.value.allowed
        );
        return Err(SinkError::permanent(reason));
    };
    match &store.0 {
        Location::Files(files) => put_rejects(&PartFiles { files, part }, part, rejects).await,
        #[cfg(feature = "full")]
        Location::Objects(objects) => {
            put_rejects(&PartObjects { objects, part }, part, rejects).await
        }
    }
}
