//! The stand-ins of a build with the cargo feature `full`: S3, a database, and an SSH server.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use emulators::s3::S3;

use super::place::{BUCKET, PAYLOADS, PREFIX, Place, SinkKind};
use crate::postgres::Postgres;
use crate::sftp::{Sftp, WatchReport};
use crate::sink_bucket::SinkBucket;

/// The running stand-ins. That of S3 runs with every kind of sink.
pub(crate) struct OtherSinks {
    pub(crate) s3: S3,
    postgres: Option<Postgres>,
    sftp: Option<Sftp>,
}

impl OtherSinks {
    /// Starts the stand-ins for a kind of sink.
    pub(super) async fn start(
        kind: SinkKind,
        place: &Place<'_>,
        s3_port: TcpListener,
    ) -> anyhow::Result<OtherSinks> {
        let errors = || Arc::clone(place.errors);
        let s3 = S3::start_on(s3_port, place.s3_directory.to_owned())?;
        let bucket = SinkBucket {
            deliveries: Arc::clone(place.deliveries),
            errors: errors(),
        };
        s3.create_bucket_with_faults(BUCKET, Arc::new(bucket));
        let (mut postgres, mut sftp) = (None, None);
        match kind {
            SinkKind::Lambda | SinkKind::States => s3.create_bucket(PAYLOADS),
            SinkKind::Postgres => {
                postgres = Some(Postgres::start(place.out.to_owned(), errors()).await?);
            }
            SinkKind::Sftp => sftp = Some(Sftp::start(place.work, errors()).await?),
            SinkKind::File | SinkKind::S3 | SinkKind::Http => {}
        }
        Ok(OtherSinks { s3, postgres, sftp })
    }

    /// Returns the directory with the parts, if one of these stand-ins writes them.
    pub(super) fn out(&self, kind: SinkKind, place: &Place<'_>) -> Option<PathBuf> {
        match &self.sftp {
            Some(sftp) => Some(sftp.server.files().to_owned()),
            None => (kind == SinkKind::S3).then(|| place.s3_directory.join(BUCKET).join(PREFIX)),
        }
    }

    pub(crate) fn s3_endpoint(&self) -> Option<String> {
        Some(self.s3.endpoint())
    }

    pub(crate) fn create_bucket(&self, name: &str) {
        self.s3.create_bucket(name);
    }

    /// Returns the variables of the sink, if it is one of these stand-ins.
    pub(super) fn variables(&self) -> Option<Vec<(&'static str, String)>> {
        let of_postgres = |postgres: &Postgres| vec![("SINK", postgres.proxy.url())];
        let sftp = self.sftp.as_ref().map(Sftp::variables);
        sftp.or_else(|| self.postgres.as_ref().map(of_postgres))
    }

    /// Writes the parts as files, if the sink keeps them in a database.
    pub(crate) async fn export_parts(&self) -> anyhow::Result<()> {
        match &self.postgres {
            Some(postgres) => postgres.export_parts().await,
            None => Ok(()),
        }
    }

    pub(super) fn watched(&self) -> Option<WatchReport> {
        self.sftp.as_ref().map(|sftp| sftp.watcher.report())
    }
}
