//! The stand-ins for sinks: a directory, a bucket, a receiver of HTTP requests, a function, a state machine, a database, or
//! an SSH server.

#[cfg_attr(not(feature = "full"), path = "sink/no_others.rs")]
mod others;
mod place;

use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loadgen::{Deliveries, DeliveryReport};
use protocol::text::counted;
use serde::Serialize;

use self::others::OtherSinks;
pub use self::place::{BUCKET, PAYLOADS, SinkKind};
use self::place::{PATH, PREFIX, Place};
use crate::faults::SinkErrors;
use crate::receiver::{ContentStore, Receiver};
use crate::services;
#[cfg(feature = "full")]
use crate::sftp::WatchReport;

/// A running stand-in for a sink.
pub struct SinkHost {
    kind: SinkKind,
    /// The directory with the parts.
    out: PathBuf,
    receiver: Option<Receiver>,
    pub(crate) others: OtherSinks,
    deliveries: Arc<Deliveries>,
    temporary: tempfile::TempDir,
    /// Whether the parts stay when this is dropped.
    kept: bool,
}

impl SinkHost {
    /// Starts a stand-in. It stores parts below `work`; if that is `None`, below a temporary directory, which is removed
    /// when the stand-in is dropped. With the cargo feature `full`, the S3 stand-in starts with every kind of sink, on the port
    /// `s3_port`.
    pub async fn start(
        kind: SinkKind,
        work: Option<&Path>,
        s3_port: TcpListener,
        errors: &Arc<SinkErrors>,
    ) -> anyhow::Result<SinkHost> {
        let temporary = tempfile::Builder::new().prefix("batches-").tempdir()?;
        let work = work.map(std::path::absolute).transpose()?;
        let below = |name: &str| work.as_deref().unwrap_or(temporary.path()).join(name);
        let s3_directory = match kind {
            SinkKind::S3 => below("s3"),
            _ => temporary.path().join("s3"),
        };
        let out = match kind {
            SinkKind::File => work.clone().unwrap_or_else(|| below("out")),
            _ => below(&kind.to_string()),
        };
        let deliveries = Arc::new(Deliveries::default());
        let place = Place {
            work: work.as_deref(),
            s3_directory: &s3_directory,
            out: &out,
            deliveries: &deliveries,
            errors,
        };
        let others = OtherSinks::start(kind, &place, s3_port).await?;
        let written = others.out(kind, &place);
        let (parts, reports) = (out.clone(), Arc::clone(&deliveries));
        let receiver = match kind {
            SinkKind::Http => Some(Receiver::start(parts, reports, Arc::clone(errors)).await?),
            SinkKind::Lambda | SinkKind::States => {
                let store = ContentStore::new(parts, reports, Arc::clone(errors));
                Some(Receiver::start_services(store, s3_directory.clone()).await?)
            }
            SinkKind::File | SinkKind::S3 | SinkKind::Postgres | SinkKind::Sftp => None,
        };
        Ok(SinkHost {
            kind,
            out: written.unwrap_or(out),
            receiver,
            others,
            deliveries,
            temporary,
            kept: work.is_some(),
        })
    }

    /// Returns the directory with the parts, which are files `<batchId>/<part>.<ext>`, or what `SINK_PATH` says.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Returns the URL of the receiver, if this kind of sink has one.
    pub fn receiver_endpoint(&self) -> Option<String> {
        self.receiver.as_ref().map(Receiver::endpoint)
    }

    /// Returns the directory for other files than parts, which is removed when the stand-in is dropped.
    pub fn work(&self) -> &Path {
        self.temporary.path()
    }

    /// Returns the variables of the batch-processor for this sink. `directory` is the path at which the functions see the
    /// directory of the sink `file`, and `receiver_endpoint` the URL at which they see the receiver.
    pub fn variables(
        &self,
        directory: &Path,
        receiver_endpoint: Option<&str>,
    ) -> Vec<(&'static str, String)> {
        let endpoint = receiver_endpoint.unwrap_or_default();
        let others = self.others.variables();
        others.unwrap_or_else(|| variables(self.kind, directory, endpoint))
    }

    /// Keeps the parts when this is dropped, unless they are in the directory of a server that is removed.
    pub fn keep_parts(&mut self) {
        if self.out.starts_with(self.temporary.path()) {
            self.temporary.disable_cleanup(true);
            self.kept = true;
        }
    }

    /// Returns what the sink has received so far.
    pub fn report(&self) -> SinkReport {
        SinkReport {
            kind: self.kind,
            out: self.out.clone(),
            kept: self.kept,
            deliveries: match self.kind {
                SinkKind::File | SinkKind::Postgres | SinkKind::Sftp => None,
                SinkKind::S3 | SinkKind::Http | SinkKind::Lambda | SinkKind::States => {
                    Some(self.deliveries.report())
                }
            },
            #[cfg(feature = "full")]
            watched: self.others.watched(),
        }
    }
}

/// Returns variables of the same form as those of a running stand-in, but with the placeholder `endpoint`.
pub(crate) fn placeholder_variables(kind: SinkKind, endpoint: &str) -> Vec<(&'static str, String)> {
    variables(kind, Path::new("/nowhere"), endpoint)
}

/// Returns the variables of a sink. Those of `postgres` and `sftp`, whose servers have their own, are placeholders.
fn variables(kind: SinkKind, directory: &Path, endpoint: &str) -> Vec<(&'static str, String)> {
    let sink = match kind {
        SinkKind::File => format!("file://{}", directory.display()),
        SinkKind::S3 => format!("s3://{BUCKET}/{PREFIX}"),
        SinkKind::Http => format!("{endpoint}/{PATH}"),
        SinkKind::Lambda => {
            return call_variables(services::FUNCTION, "AWS_ENDPOINT_URL_LAMBDA", endpoint);
        }
        SinkKind::States => {
            return call_variables(services::STATE_MACHINE, "AWS_ENDPOINT_URL_SFN", endpoint);
        }
        SinkKind::Postgres => "postgres://local@127.0.0.1/local".to_owned(),
        SinkKind::Sftp => {
            let host_key = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
            return vec![
                ("SINK", "sftp://local@127.0.0.1/files".to_owned()),
                ("SINK_HOST_KEY", host_key.to_owned()),
                ("SINK_PASSWORD", "not a secret".to_owned()),
            ];
        }
    };
    vec![("SINK", sink)]
}

/// Returns the variables of a sink that is called by its ARN.
fn call_variables(
    arn: &str,
    variable: &'static str,
    endpoint: &str,
) -> Vec<(&'static str, String)> {
    vec![
        ("SINK", arn.to_owned()),
        (variable, endpoint.to_owned()),
        ("SINK_PAYLOADS", format!("s3://{PAYLOADS}/{PREFIX}")),
    ]
}

/// What a sink has received.
#[derive(Clone, Debug, Serialize)]
pub struct SinkReport {
    pub kind: SinkKind,
    /// The directory with the parts.
    pub out: PathBuf,
    /// Whether the parts stay there when the command ends.
    pub kept: bool,
    /// The attempts at deliveries; `None` for `file`, `postgres` and `sftp`, where attempts are not recorded.
    pub deliveries: Option<DeliveryReport>,
    /// What a consumer would have seen; `None` for all sinks but `sftp`.
    #[cfg(feature = "full")]
    pub watched: Option<WatchReport>,
}

impl SinkReport {
    /// Returns whether each key always had the same content, and no consumer saw anything but complete files.
    pub fn ok(&self) -> bool {
        self.problems().is_empty()
    }

    /// Returns what is wrong, a phrase each: keys that did not always have the same content, and what a consumer saw that were no
    /// complete files.
    pub fn problems(&self) -> Vec<String> {
        let some = |count: u64| Some(count).filter(|count| *count > 0);
        let deliveries = self.deliveries.as_ref();
        let differing = deliveries.and_then(|report| some(report.differing));
        let problems = differing
            .map(|count| counted(count, "key") + " with two contents at the sink")
            .into_iter();
        #[cfg(feature = "full")]
        let problems = problems.chain({
            let watched = self.watched.as_ref();
            let violations = watched.and_then(|watched| some(watched.violations));
            violations.map(|count| counted(count, "half or changed file"))
        });
        problems.collect()
    }
}

/// Lines for people, each with its line break.
impl fmt::Display for SinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, out) = (self.kind, self.out.display());
        match self.kept {
            true => writeln!(f, "sink        {kind}, parts in {out}")?,
            false => writeln!(
                f,
                "sink        {kind}, parts removed (`--out DIR` keeps them)"
            )?,
        }
        #[cfg(feature = "full")]
        if let Some(watched) = &self.watched {
            write!(f, "{watched}")?;
        }
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
        let s3_port = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        SinkHost::start(kind, work, s3_port, &errors).await.unwrap()
    }

    #[tokio::test]
    async fn the_variable_names_the_directory_with_the_parts() {
        let work = tempfile::tempdir().unwrap();
        let work = work.path();
        let of_file = format!("file://{}", work.display());
        for (kind, out, variable) in [
            (SinkKind::File, "", &*of_file),
            (SinkKind::S3, "s3/batches/out", "s3://batches/out"),
            (SinkKind::Http, "http", "http://there/batches"),
        ] {
            let host = started(kind, Some(work)).await;
            assert_eq!(host.out(), work.join(out));
            let there = host.receiver_endpoint().map(|_| "http://there");
            let expected = [("SINK", variable.to_owned())];
            assert_eq!(host.variables(work, there), expected);
        }
        let sent = std::fs::read_dir(work).unwrap().count();
        assert_eq!(sent, 0);
    }

    #[tokio::test]
    async fn a_temporary_directory_is_removed_with_the_sink_unless_its_parts_are_kept() {
        for kept in [false, true] {
            let mut host = started(SinkKind::Http, None).await;
            let out = host.out().to_owned();
            std::fs::create_dir_all(&out).unwrap();
            if kept {
                host.keep_parts();
            }
            let line = format!("sink        http, parts in {}\n", out.display());
            assert_eq!(host.report().to_string().starts_with(&line), kept);
            let temporary = host.work().to_owned();
            drop(host);
            assert_eq!((out.exists(), temporary.exists()), (kept, kept));
            if kept {
                std::fs::remove_dir_all(temporary).unwrap();
            }
        }
    }

    #[tokio::test]
    async fn differing_content_is_not_ok() {
        let host = started(SinkKind::Http, None).await;
        host.deliveries.attempted("b/0.jsonl", b"a");
        assert!(host.report().ok());
        host.deliveries.attempted("b/0.jsonl", b"b");
        let problems = host.report().problems();
        assert_eq!(problems, ["1 key with two contents at the sink"]);
        assert!(host.report().to_string().contains("`b/0.jsonl`"));
    }
}
