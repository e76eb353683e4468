//! The kinds of sinks, and where their stand-ins write.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use loadgen::{Deliveries, Manifests};
use serde::Serialize;

use crate::faults::SinkErrors;

/// The bucket of the sink `s3`.
pub const BUCKET: &str = "batches";
/// The prefix of all keys in the buckets of sinks.
pub(super) const PREFIX: &str = "out";
/// The path to which the sink `http` sends requests.
pub(super) const PATH: &str = "batches";
/// The bucket for parts that are compressed, or too large for a call.
pub const PAYLOADS: &str = "payloads";

/// A kind of sink that has a stand-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SinkKind {
    /// Files in a directory
    #[default]
    File,
    /// Objects in a bucket of the S3 stand-in
    S3,
    /// Requests to a receiver that honours the idempotency key
    Http,
    /// Invocations of a function
    Lambda,
    /// Executions of a state machine
    States,
    /// A table in a PostgreSQL server, which must be installed
    Postgres,
    /// Files on an OpenSSH server, which must be installed
    Sftp,
}

impl SinkKind {
    /// Returns whether the stand-in needs a build with the cargo feature `full`.
    pub(crate) fn needs_full(self) -> bool {
        !matches!(self, SinkKind::File | SinkKind::Http)
    }

    /// Returns whether the audit requires manifests beside the parts.
    pub fn manifests(self) -> Manifests {
        match self {
            SinkKind::File | SinkKind::S3 | SinkKind::Sftp => Manifests::Required,
            _ => Manifests::Optional,
        }
    }
}

impl fmt::Display for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no kind is skipped");
        f.write_str(value.get_name())
    }
}

/// Where the stand-ins write, and what they report to.
#[cfg_attr(
    not(feature = "full"),
    expect(
        dead_code,
        reason = "only stand-ins of the cargo feature `full` read it"
    )
)]
pub(super) struct Place<'p> {
    /// The directory that the user chose, if any. It gets parts only.
    pub(super) work: Option<&'p Path>,
    /// The directory of the buckets.
    pub(super) s3_directory: &'p Path,
    /// The directory of the parts that a sink does not keep as files or objects.
    pub(super) out: &'p Path,
    pub(super) deliveries: &'p Arc<Deliveries>,
    pub(super) errors: &'p Arc<SinkErrors>,
}
