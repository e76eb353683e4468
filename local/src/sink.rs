//! The stand-ins for sinks: a directory, a bucket, a receiver of HTTP requests, a function, a state machine, a database, or
//! an SSH server.

use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
#[cfg(feature = "s3")]
use emulators::s3::S3;
use loadgen::{Deliveries, DeliveryReport, Manifests};
use protocol::text::counted;
use serde::Serialize;

use crate::faults::SinkErrors;
#[cfg(feature = "postgres")]
use crate::postgres::Postgres;
#[cfg(any(feature = "lambda", feature = "states"))]
use crate::receiver::ContentStore;
use crate::receiver::Receiver;
#[cfg(feature = "sftp")]
use crate::sftp::{self, Sftp, WatchReport};
#[cfg(feature = "s3")]
use crate::sink_bucket::SinkBucket;

/// The bucket of the sink `s3`.
pub const BUCKET: &str = "batches";
/// The prefix of all keys in the buckets of sinks.
#[cfg(feature = "s3")]
const PREFIX: &str = "out";
/// The path to which the sink `http` sends requests.
const PATH: &str = "batches";
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
    #[cfg(feature = "s3")]
    S3,
    /// Requests to a receiver that honours the idempotency key
    Http,
    /// Invocations of a function
    #[cfg(feature = "lambda")]
    Lambda,
    /// Executions of a state machine
    #[cfg(feature = "states")]
    States,
    /// A table in a PostgreSQL server, which must be installed
    #[cfg(feature = "postgres")]
    Postgres,
    /// Files on an OpenSSH server, which must be installed
    #[cfg(feature = "sftp")]
    Sftp,
}

impl SinkKind {
    /// Returns whether the audit requires manifests beside the parts.
    pub fn manifests(self) -> Manifests {
        match self {
            SinkKind::File => Manifests::Required,
            #[cfg(feature = "s3")]
            SinkKind::S3 => Manifests::Required,
            #[cfg(feature = "sftp")]
            SinkKind::Sftp => Manifests::Required,
            _ => Manifests::Optional,
        }
    }
}

impl fmt::Display for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SinkKind::File => "file",
            #[cfg(feature = "s3")]
            SinkKind::S3 => "s3",
            SinkKind::Http => "http",
            #[cfg(feature = "lambda")]
            SinkKind::Lambda => "lambda",
            #[cfg(feature = "states")]
            SinkKind::States => "states",
            #[cfg(feature = "postgres")]
            SinkKind::Postgres => "postgres",
            #[cfg(feature = "sftp")]
            SinkKind::Sftp => "sftp",
        })
    }
}

/// A running stand-in for a sink.
pub struct SinkHost {
    kind: SinkKind,
    /// The directory with the parts.
    out: PathBuf,
    #[cfg(feature = "s3")]
    s3: S3,
    receiver: Option<Receiver>,
    #[cfg(feature = "postgres")]
    postgres: Option<Postgres>,
    #[cfg(feature = "sftp")]
    sftp: Option<Sftp>,
    deliveries: Arc<Deliveries>,
    temporary: tempfile::TempDir,
    /// Whether the parts stay when this is dropped.
    kept: bool,
}

impl SinkHost {
    /// Starts a stand-in. It stores parts below `work`; if that is `None`, below a temporary directory, which is removed
    /// when the stand-in is dropped. The S3 stand-in starts with every kind of sink, on the port `s3_port`.
    ///
    /// # Errors
    /// No port can be bound, a directory cannot be created, or PostgreSQL or OpenSSH does not start.
    pub async fn start(
        kind: SinkKind,
        work: Option<&Path>,
        s3_port: TcpListener,
        errors: &Arc<SinkErrors>,
    ) -> anyhow::Result<SinkHost> {
        let temporary = tempfile::Builder::new().prefix("batches-").tempdir()?;
        let work = work.map(std::path::absolute).transpose()?;
        let below = |name: &str| work.as_deref().unwrap_or(temporary.path()).join(name);
        #[cfg(feature = "s3")]
        let s3_directory = match kind {
            SinkKind::S3 => below("s3"),
            // The directory that the user chose gets parts only.
            _ => temporary.path().join("s3"),
        };
        #[cfg(feature = "sftp")]
        let sftp = match kind {
            SinkKind::Sftp => Some(Sftp::start(work.as_deref(), Arc::clone(errors)).await?),
            _ => None,
        };
        let out = match kind {
            SinkKind::File => work.clone().unwrap_or_else(|| below("out")),
            #[cfg(feature = "sftp")]
            SinkKind::Sftp => sftp
                .as_ref()
                .map(|sftp| sftp.files().to_owned())
                .unwrap_or_default(),
            #[cfg(feature = "s3")]
            SinkKind::S3 => s3_directory.join(BUCKET).join(PREFIX),
            _ => below(&kind.to_string()),
        };
        let deliveries = Arc::new(Deliveries::default());
        #[cfg(feature = "s3")]
        let s3 = start_s3(s3_port, &s3_directory, &deliveries, errors)?;
        #[cfg(not(feature = "s3"))]
        drop(s3_port);
        #[cfg(any(feature = "lambda", feature = "states"))]
        let services = || {
            s3.create_bucket(PAYLOADS);
            let store = ContentStore::new(out.clone(), Arc::clone(&deliveries), Arc::clone(errors));
            Receiver::start_services(store, s3_directory.clone())
        };
        let receiver = match kind {
            SinkKind::Http => {
                let (deliveries, errors) = (Arc::clone(&deliveries), Arc::clone(errors));
                Some(Receiver::start(out.clone(), deliveries, errors).await?)
            }
            #[cfg(feature = "lambda")]
            SinkKind::Lambda => Some(services().await?),
            #[cfg(feature = "states")]
            SinkKind::States => Some(services().await?),
            _ => None,
        };
        #[cfg(feature = "postgres")]
        let postgres = match kind {
            SinkKind::Postgres => Some(Postgres::start(out.clone(), Arc::clone(errors)).await?),
            _ => None,
        };
        Ok(SinkHost {
            kind,
            out,
            #[cfg(feature = "s3")]
            s3,
            receiver,
            #[cfg(feature = "postgres")]
            postgres,
            #[cfg(feature = "sftp")]
            sftp,
            deliveries,
            temporary,
            kept: work.is_some(),
        })
    }

    /// Returns the directory with the parts, which are files `<batchId>/<part>.<ext>`, or what `SINK_PATH` says.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Returns the S3 stand-in.
    #[cfg(feature = "s3")]
    pub fn s3(&self) -> &S3 {
        &self.s3
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
        #[cfg(feature = "sftp")]
        if let Some(sftp) = &self.sftp {
            return sftp.variables();
        }
        #[cfg(feature = "postgres")]
        let database = self.postgres.as_ref().map(Postgres::variable);
        #[cfg(not(feature = "postgres"))]
        let database: Option<String> = None;
        let endpoint = receiver_endpoint.unwrap_or_default();
        variables(self.kind, directory, endpoint, database.as_deref())
    }

    /// Writes the parts as files below [`out`](Self::out), if the sink keeps them in a database.
    ///
    /// # Errors
    /// The rows cannot be read, or contradict the database's list of parts.
    pub async fn export_parts(&self) -> anyhow::Result<()> {
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            return postgres.export_parts().await;
        }
        Ok(())
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
                SinkKind::File => None,
                #[cfg(feature = "postgres")]
                SinkKind::Postgres => None,
                #[cfg(feature = "sftp")]
                SinkKind::Sftp => None,
                _ => Some(self.deliveries.report()),
            },
            #[cfg(feature = "sftp")]
            watched: self.sftp.as_ref().map(Sftp::watched),
        }
    }
}

/// Starts the S3 stand-in with the bucket of the sink.
#[cfg(feature = "s3")]
fn start_s3(
    port: TcpListener,
    directory: &Path,
    deliveries: &Arc<Deliveries>,
    errors: &Arc<SinkErrors>,
) -> anyhow::Result<S3> {
    let s3 = S3::start_on(port, directory.to_owned())?;
    let bucket = SinkBucket {
        deliveries: Arc::clone(deliveries),
        errors: Arc::clone(errors),
    };
    s3.create_bucket_with_faults(BUCKET, Arc::new(bucket));
    Ok(s3)
}

/// Returns variables of the same form as those of a running stand-in, but with the placeholder `endpoint`.
pub(crate) fn placeholder_variables(kind: SinkKind, endpoint: &str) -> Vec<(&'static str, String)> {
    let database = endpoint.replacen("http://", "postgres://local@", 1) + "/local";
    variables(kind, Path::new("/nowhere"), endpoint, Some(&database))
}

#[cfg_attr(
    not(feature = "postgres"),
    expect(unused_variables, reason = "only one sink is a database")
)]
fn variables(
    kind: SinkKind,
    directory: &Path,
    endpoint: &str,
    database: Option<&str>,
) -> Vec<(&'static str, String)> {
    let sink = match kind {
        SinkKind::File => format!("file://{}", directory.display()),
        #[cfg(feature = "s3")]
        SinkKind::S3 => format!("s3://{BUCKET}/{PREFIX}"),
        SinkKind::Http => format!("{endpoint}/{PATH}"),
        #[cfg(feature = "lambda")]
        SinkKind::Lambda => {
            let arn = crate::services::FUNCTION;
            return call_variables(arn, "AWS_ENDPOINT_URL_LAMBDA", endpoint);
        }
        #[cfg(feature = "states")]
        SinkKind::States => {
            let arn = crate::services::STATE_MACHINE;
            return call_variables(arn, "AWS_ENDPOINT_URL_SFN", endpoint);
        }
        #[cfg(feature = "postgres")]
        SinkKind::Postgres => database.unwrap_or_default().to_owned(),
        #[cfg(feature = "sftp")]
        SinkKind::Sftp => return sftp::placeholder_variables(),
    };
    vec![("SINK", sink)]
}

/// Returns the variables of a sink that is called by its ARN.
#[cfg(any(feature = "lambda", feature = "states"))]
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
    #[cfg(feature = "sftp")]
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
        #[cfg(feature = "sftp")]
        let problems = problems.chain({
            let violations = self
                .watched
                .as_ref()
                .and_then(|watched| some(watched.violations));
            violations.map(|count| counted(count, "half or changed file"))
        });
        problems.collect()
    }
}

/// Lines for people, each with its line break.
impl fmt::Display for SinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kept {
            true => writeln!(
                f,
                "sink        {}, parts in {}",
                self.kind,
                self.out.display()
            )?,
            false => writeln!(
                f,
                "sink        {}, parts removed (`--out DIR` keeps them)",
                self.kind
            )?,
        }
        #[cfg(feature = "sftp")]
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
        for (kind, out, variable) in [
            (
                SinkKind::File,
                work.to_owned(),
                format!("file://{}", work.display()),
            ),
            #[cfg(feature = "s3")]
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
            assert_eq!(host.variables(work, there), [("SINK", variable)]);
        }
        assert_eq!(
            std::fs::read_dir(work).unwrap().count(),
            0,
            "nothing was sent"
        );
    }

    #[tokio::test]
    async fn a_temporary_directory_is_removed_with_the_sink() {
        let host = started(SinkKind::Http, None).await;
        let out = host.out().to_owned();
        std::fs::create_dir_all(&out).unwrap();
        assert!(!host.report().kept);
        drop(host);
        assert!(!out.exists());
    }

    #[tokio::test]
    async fn parts_that_are_kept_outlive_the_sink() {
        let mut host = started(SinkKind::Http, None).await;
        let out = host.out().to_owned();
        std::fs::create_dir_all(&out).unwrap();
        host.keep_parts();
        let line = format!("sink        http, parts in {}\n", out.display());
        assert!(host.report().kept && host.report().to_string().starts_with(&line));
        let temporary = host.work().to_owned();
        drop(host);
        assert!(out.exists());
        std::fs::remove_dir_all(temporary).unwrap();
    }

    #[tokio::test]
    async fn differing_content_is_not_ok() {
        let host = started(SinkKind::Http, None).await;
        host.deliveries.attempted("b/0.jsonl", b"a");
        assert!(host.report().ok());
        host.deliveries.attempted("b/0.jsonl", b"b");
        assert_eq!(
            host.report().problems(),
            ["1 key with two contents at the sink"]
        );
        assert!(host.report().to_string().contains("`b/0.jsonl`"));
    }
}
