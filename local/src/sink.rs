//! Where batches go on this machine: a directory, a bucket, a receiver of HTTP requests, or a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
#[cfg(feature = "s3")]
use emulators::s3::{BucketFaults, PutFate, S3};
use loadgen::Manifests;
use serde::Serialize;

use crate::deliveries::{Deliveries, DeliveryReport};
#[cfg(feature = "s3")]
use crate::faults::Delivery;
use crate::faults::SinkErrors;
#[cfg(feature = "postgres")]
use crate::postgres::Postgres;
#[cfg(any(feature = "lambda", feature = "states"))]
use crate::receiver::Kept;
use crate::receiver::Receiver;

/// The bucket of the sink `s3`.
#[cfg(feature = "s3")]
pub const BUCKET: &str = "batches";
/// What its keys begin with.
#[cfg(feature = "s3")]
const PREFIX: &str = "out";
/// Where requests of the sink `http` go.
const PATH: &str = "batches";
/// The bucket of parts that are larger than a call can carry.
#[cfg(any(feature = "lambda", feature = "states"))]
const PAYLOADS: &str = "payloads";

/// A kind of sink that there is a stand-in for.
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
}

impl SinkKind {
    /// Whether its parts have manifests.
    pub fn manifests(self) -> Manifests {
        match self {
            SinkKind::File => Manifests::Required,
            #[cfg(feature = "s3")]
            SinkKind::S3 => Manifests::Required,
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
        })
    }
}

/// What stands where batches go.
pub struct SinkHost {
    kind: SinkKind,
    /// Where the parts are.
    out: PathBuf,
    #[cfg(feature = "s3")]
    s3: S3,
    receiver: Option<Receiver>,
    #[cfg(feature = "postgres")]
    postgres: Option<Postgres>,
    deliveries: Arc<Deliveries>,
    temporary: tempfile::TempDir,
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
        let below = |name: &str| work.as_deref().unwrap_or(temporary.path()).join(name);
        #[cfg(feature = "s3")]
        let s3_directory = match kind {
            SinkKind::S3 => below("s3"),
            // What somebody chose is for the parts alone.
            _ => temporary.path().join("s3"),
        };
        let out = match kind {
            SinkKind::File => work.clone().unwrap_or_else(|| below("out")),
            #[cfg(feature = "s3")]
            SinkKind::S3 => s3_directory.join(BUCKET).join(PREFIX),
            _ => below(&kind.to_string()),
        };
        let deliveries = Arc::new(Deliveries::default());
        #[cfg(feature = "s3")]
        let s3 = start_s3(&s3_directory, &deliveries, errors).await?;
        #[cfg(any(feature = "lambda", feature = "states"))]
        let services = || {
            s3.create_bucket(PAYLOADS);
            let kept = Kept::new(out.clone(), Arc::clone(&deliveries), Arc::clone(errors));
            Receiver::start_services(kept, s3_directory.clone())
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
            deliveries,
            temporary,
        })
    }

    /// Where the parts are, as `<batchId>/<part>.<ext>`.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// The S3 stand-in.
    #[cfg(feature = "s3")]
    pub fn s3(&self) -> &S3 {
        &self.s3
    }

    /// Where the receiver listens, if there is one.
    pub fn receiver_endpoint(&self) -> Option<String> {
        self.receiver.as_ref().map(Receiver::endpoint)
    }

    /// What the sink needs files of its own for, besides the parts; removed in the end.
    pub fn work(&self) -> &Path {
        self.temporary.path()
    }

    /// The variables of the batch processor, where the directory of files is seen at this path, and the receiver, if there
    /// is one, at this endpoint.
    pub fn variables(
        &self,
        directory: &Path,
        receiver_endpoint: Option<&str>,
    ) -> Vec<(&'static str, String)> {
        #[cfg(feature = "postgres")]
        let database = self.postgres.as_ref().map(Postgres::variable);
        #[cfg(not(feature = "postgres"))]
        let database: Option<String> = None;
        let endpoint = receiver_endpoint.unwrap_or_default();
        variables(self.kind, directory, endpoint, database.as_deref())
    }

    /// Brings the parts to where they are looked for, if they are elsewhere.
    ///
    /// # Errors
    /// When what is there cannot be read, or is not what it says of itself.
    pub async fn bring_out(&self) -> anyhow::Result<()> {
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            return postgres.bring_out().await;
        }
        Ok(())
    }

    /// What it has taken so far.
    pub fn report(&self) -> SinkReport {
        SinkReport {
            kind: self.kind,
            out: self.out.clone(),
            deliveries: match self.kind {
                SinkKind::File => None,
                #[cfg(feature = "postgres")]
                SinkKind::Postgres => None,
                _ => Some(self.deliveries.report()),
            },
        }
    }
}

/// Starts the S3 stand-in with the bucket of the sink.
#[cfg(feature = "s3")]
async fn start_s3(
    directory: &Path,
    deliveries: &Arc<Deliveries>,
    errors: &Arc<SinkErrors>,
) -> anyhow::Result<S3> {
    let s3 = S3::start(directory.to_owned()).await?;
    let bucket = SinkBucket {
        deliveries: Arc::clone(deliveries),
        errors: Arc::clone(errors),
    };
    s3.create_bucket_with_faults(BUCKET, Arc::new(bucket));
    Ok(s3)
}

/// The variables of a sink of this kind that is somewhere else: of the same form as those of a host.
pub(crate) fn variables_anywhere(kind: SinkKind, endpoint: &str) -> Vec<(&'static str, String)> {
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
            return called(arn, "AWS_ENDPOINT_URL_LAMBDA", endpoint);
        }
        #[cfg(feature = "states")]
        SinkKind::States => {
            let arn = crate::services::STATE_MACHINE;
            return called(arn, "AWS_ENDPOINT_URL_SFN", endpoint);
        }
        #[cfg(feature = "postgres")]
        SinkKind::Postgres => database.unwrap_or_default().to_owned(),
    };
    vec![("SINK", sink)]
}

#[cfg(any(feature = "lambda", feature = "states"))]
fn called(arn: &str, variable: &'static str, endpoint: &str) -> Vec<(&'static str, String)> {
    vec![
        ("SINK", arn.to_owned()),
        (variable, endpoint.to_owned()),
        ("SINK_PAYLOADS", format!("s3://{PAYLOADS}/{PREFIX}")),
    ]
}

/// What a sink has taken.
#[derive(Clone, Debug, Serialize)]
pub struct SinkReport {
    /// What it is.
    pub kind: SinkKind,
    /// Where the parts are.
    pub out: PathBuf,
    /// What was attempted; nobody sees the attempts at a file or a table.
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

/// The bucket of the sink: what is put there is taken in, and may fail.
#[cfg(feature = "s3")]
#[derive(Debug)]
pub struct SinkBucket {
    /// Takes in what is put.
    pub deliveries: Arc<Deliveries>,
    /// Which requests fail.
    pub errors: Arc<SinkErrors>,
}

#[cfg(feature = "s3")]
impl BucketFaults for SinkBucket {
    fn is_down(&self) -> bool {
        self.errors.is_down()
    }

    fn put(&self, key: &str, content: &[u8]) -> PutFate {
        self.deliveries.attempted(key, content);
        match self.errors.next() {
            Delivery::Answered => PutFate::Answered,
            Delivery::FailsBefore => PutFate::FailsBefore,
            Delivery::FailsAfter => PutFate::FailsAfter,
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
    async fn what_nobody_chose_is_gone_in_the_end() {
        let host = started(SinkKind::Http, None).await;
        let out = host.out().to_owned();
        std::fs::create_dir_all(&out).unwrap();
        drop(host);
        assert!(!out.exists());
    }

    #[tokio::test]
    async fn differing_content_is_not_ok() {
        let host = started(SinkKind::Http, None).await;
        host.deliveries.attempted("b/0.jsonl", b"a");
        assert!(host.report().ok());
        host.deliveries.attempted("b/0.jsonl", b"b");
        assert!(!host.report().ok());
        assert!(host.report().to_string().contains("`b/0.jsonl`"));
    }

    #[cfg(feature = "s3")]
    #[test]
    fn deliveries_to_the_bucket_are_counted_and_fail_having_stored_the_object_or_not() {
        let options = FaultOptions {
            sink_error_rate: "100".parse().unwrap(),
            ..FaultOptions::default()
        };
        let bucket = SinkBucket {
            deliveries: Arc::default(),
            errors: Arc::new(SinkErrors::new(&options)),
        };
        let fates = Vec::from_iter((0..20).map(|part| bucket.put(&part.to_string(), b"content")));
        assert!(!fates.contains(&PutFate::Answered));
        assert!(fates.contains(&PutFate::FailsBefore) && fates.contains(&PutFate::FailsAfter));
        assert_eq!(bucket.deliveries.report().attempts, 20);
    }
}
