//! Where batches go on this machine: a directory, a bucket, or a receiver of HTTP requests.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use crate::deliveries::{Deliveries, DeliveryReport};
use crate::faults::SinkErrors;
use crate::receiver::Receiver;
use crate::s3::S3;

/// The bucket of the sink `s3`.
pub const BUCKET: &str = "batches";
/// What its keys begin with.
const PREFIX: &str = "out";
/// Where requests of the sink `http` go.
const PATH: &str = "batches";

/// A kind of sink that there is a stand-in for.
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
}

impl fmt::Display for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SinkKind::File => "file",
            SinkKind::S3 => "s3",
            SinkKind::Http => "http",
        })
    }
}

/// What stands where batches go.
pub struct SinkHost {
    kind: SinkKind,
    /// Where the parts are.
    out: PathBuf,
    s3: S3,
    receiver: Option<Receiver>,
    deliveries: Arc<Deliveries>,
    _temporary: tempfile::TempDir,
}

impl SinkHost {
    /// Starts what a sink of this kind needs. What it is sent is below `work`, or else in a temporary directory, which is
    /// removed in the end. S3 is there in any case.
    ///
    /// # Errors
    /// When a port or a directory cannot be had.
    pub async fn start(
        kind: SinkKind,
        work: Option<&Path>,
        errors: &Arc<SinkErrors>,
    ) -> anyhow::Result<SinkHost> {
        let temporary = tempfile::Builder::new().prefix("batches-").tempdir()?;
        let work = work.map(std::path::absolute).transpose()?;
        let below = |name| work.as_deref().unwrap_or(temporary.path()).join(name);
        let s3_directory = match kind {
            SinkKind::S3 => below("s3"),
            // What somebody chose is for the parts alone.
            SinkKind::File | SinkKind::Http => temporary.path().join("s3"),
        };
        let out = match kind {
            SinkKind::File => work.clone().unwrap_or_else(|| below("out")),
            SinkKind::S3 => s3_directory.join(BUCKET).join(PREFIX),
            SinkKind::Http => below("http"),
        };
        let deliveries = Arc::new(Deliveries::default());
        let s3 = S3::start(s3_directory).await?;
        s3.create_sink_bucket(BUCKET, Arc::clone(&deliveries), Arc::clone(errors));
        let receiver = match kind {
            SinkKind::Http => {
                let (deliveries, errors) = (Arc::clone(&deliveries), Arc::clone(errors));
                Some(Receiver::start(out.clone(), deliveries, errors).await?)
            }
            SinkKind::File | SinkKind::S3 => None,
        };
        Ok(SinkHost {
            kind,
            out,
            s3,
            receiver,
            deliveries,
            _temporary: temporary,
        })
    }

    /// Where the parts are, as `<batchId>/<part>.<ext>`.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// The S3 stand-in.
    pub fn s3(&self) -> &S3 {
        &self.s3
    }

    /// Where the receiver listens, if there is one.
    pub fn receiver_endpoint(&self) -> Option<String> {
        self.receiver.as_ref().map(Receiver::endpoint)
    }

    /// The variable `SINK`, where the receiver, if there is one, is seen at this endpoint.
    pub fn variable(&self, receiver_endpoint: Option<&str>) -> String {
        match receiver_endpoint {
            Some(endpoint) => format!("{endpoint}/{PATH}"),
            None if self.kind == SinkKind::S3 => format!("s3://{BUCKET}/{PREFIX}"),
            None => format!("file://{}", self.out.display()),
        }
    }

    /// What it has taken so far.
    pub fn report(&self) -> SinkReport {
        SinkReport {
            kind: self.kind,
            out: self.out.clone(),
            deliveries: match self.kind {
                SinkKind::File => None,
                SinkKind::S3 | SinkKind::Http => Some(self.deliveries.report()),
            },
        }
    }
}

/// What a sink has taken.
#[derive(Clone, Debug, Serialize)]
pub struct SinkReport {
    /// What it is.
    pub kind: SinkKind,
    /// Where the parts are.
    pub out: PathBuf,
    /// What was attempted; nobody sees the attempts at a file.
    pub deliveries: Option<DeliveryReport>,
}

impl SinkReport {
    /// Whether every key meant one content.
    pub fn ok(&self) -> bool {
        self.deliveries.iter().all(|report| report.differing == 0)
    }
}

/// Lines for a summary, each ended.
impl fmt::Display for SinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "sink        {}, parts in {}",
            self.kind,
            self.out.display()
        )?;
        match &self.deliveries {
            Some(deliveries) => write!(f, "{deliveries}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FaultOptions;

    async fn started(kind: SinkKind, work: Option<&Path>) -> SinkHost {
        let errors = Arc::new(SinkErrors::new(&FaultOptions::default()));
        SinkHost::start(kind, work, &errors).await.unwrap()
    }

    #[tokio::test]
    async fn the_variable_names_the_place_where_the_parts_are_looked_for() {
        let work = tempfile::tempdir().unwrap();
        let work = work.path();
        for (kind, out, variable) in [
            (
                SinkKind::File,
                work.to_owned(),
                format!("file://{}", work.display()),
            ),
            (
                SinkKind::S3,
                work.join("s3/batches/out"),
                "s3://batches/out".to_owned(),
            ),
            (
                SinkKind::Http,
                work.join("http"),
                "http://there/batches".to_owned(),
            ),
        ] {
            let host = started(kind, Some(work)).await;
            assert_eq!(host.out(), out);
            let there = host.receiver_endpoint().map(|_| "http://there");
            assert_eq!(host.variable(there), variable);
        }
        assert_eq!(
            std::fs::read_dir(work).unwrap().count(),
            0,
            "nothing was sent"
        );
    }

    #[tokio::test]
    async fn what_nobody_chose_is_gone_in_the_end() {
        let host = started(SinkKind::Http, None).await;
        let out = host.out().to_owned();
        std::fs::create_dir_all(&out).unwrap();
        drop(host);
        assert!(!out.exists());
    }

    #[tokio::test]
    async fn differing_content_is_not_ok() {
        let host = started(SinkKind::S3, None).await;
        host.deliveries.attempted("b/0.jsonl", b"a");
        assert!(host.report().ok());
        host.deliveries.attempted("b/0.jsonl", b"b");
        assert!(!host.report().ok());
        assert!(host.report().to_string().contains("`b/0.jsonl`"));
    }
}
