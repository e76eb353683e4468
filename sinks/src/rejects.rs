use std::path::Path;

use shared::aws::Sdk;

use crate::file::Files;
use crate::format::write_rejects;
use crate::part::Part;
use crate::reject::Reject;
#[cfg(feature = "s3")]
use crate::s3::Objects;
use crate::sink::{SinkError, unwritten};
use crate::uri::SinkUri;

/// Where the reject lists of parts go that are delivered elsewhere. No manifest tells of them: a list that is taken away
/// before its part is delivered comes again with the next attempt.
#[derive(Debug)]
pub struct RejectStore {
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Below a directory.
    Files(Files),
    /// In a bucket.
    #[cfg(feature = "s3")]
    Objects(Objects),
}

impl RejectStore {
    /// The store that `SINK_REJECTS` names, if it can be one.
    #[cfg_attr(
        not(feature = "s3"),
        expect(unused_variables, reason = "a directory needs no client")
    )]
    pub fn new(sdk: &Sdk, uri: &SinkUri) -> Option<RejectStore> {
        match uri {
            SinkUri::File(directory) => Some(RejectStore::below(directory)),
            #[cfg(feature = "s3")]
            SinkUri::S3 { bucket, prefix } => Some(RejectStore {
                place: Place::Objects(Objects::new(sdk, bucket, prefix)),
            }),
            _ => None,
        }
    }

    /// Files below a directory.
    pub fn below(directory: &Path) -> RejectStore {
        RejectStore {
            place: Place::Files(Files {
                directory: directory.to_owned(),
            }),
        }
    }
}

/// Keeps the reject list of a part, if there is anything on it.
pub(crate) async fn keep(
    store: Option<&RejectStore>,
    part: &Part,
    rejects: &[Reject],
) -> Result<(), SinkError> {
    if rejects.is_empty() {
        return Ok(());
    }
    let Some(store) = store else {
        let count = rejects.len();
        let reason = format!("{count} records are rejected, and `SINK_REJECTS` is not set");
        return Err(SinkError::Permanent { reason });
    };
    let mut list = Vec::new();
    write_rejects(part, rejects, &mut list).map_err(unwritten)?;
    match &store.place {
        Place::Files(files) => files.put_rejects(part, &list),
        #[cfg(feature = "s3")]
        Place::Objects(objects) => objects.put_rejects(part, list).await,
    }
}
