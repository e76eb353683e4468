//! The sink `sftp:`, which writes parts as files on an SSH server.
//!
//! A file is uploaded beside its final name, under a name that begins with a dot and ends with `.partial`, is synced if the
//! server can do that, and then renamed. So a file under its final name is always complete. [`store`](crate::store) says in which
//! order the files of a part are written.

mod answers;
mod connection;
mod errors;
mod host_keys;
mod login;
mod part_files;
mod partials;

use std::time::Duration;

use async_trait::async_trait;
use aws::Sdk;
use shared::config::{Reader, Text, Unset, Variable};
use tokio::time::timeout;

use crate::address::Address;
use crate::config::layout::SINK_PATH;
use crate::config::proof::PROOF;
use crate::kind::{Kind, Make, RejectLists, SinkConfig};
use crate::secret::{SINK_PASSWORD, SINK_SECRET};
use crate::sink::{Receipt, Sink, SinkError};
use crate::store;
use answers::SftpAnswers;
pub use connection::SftpServer;
use connection::{Connection, Connections};
use forms::Part;
use forms::Rendering;
pub use host_keys::HostKeys;
pub use login::LoginSource;
use part_files::PartFiles;

pub(crate) const KIND: Kind = Kind {
    name: "sftp:",
    is_named: |uri| uri.starts_with("sftp:"),
    check: |uri| Ok(uri.parse::<Address>()?.to_string()),
    reads: &[
        &SINK_HOST_KEY,
        &SINK_SECRET,
        &SINK_PASSWORD,
        &SINK_PATH,
        &PROOF,
    ],
    call_bytes_max: None,
    writes_rows: false,
    reject_lists: RejectLists::Fetched(
        "beside the part on the SFTP server: fetch it, for `--list FILE`",
    ),
    read,
};

/// The accepted keys of a server.
const SINK_HOST_KEY: Variable<Text> = Variable {
    name: "SINK_HOST_KEY",
    key: Some("sink.host_key"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "one or more of `ssh-ed25519 AAAA…` and `SHA256:…`, separated by commas",
    },
    meaning: "With `sftp:`, the public key of the server or its fingerprint; during a rotation both keys. The sink does not log in \
              to a server with another key.",
};

fn read(reader: &mut Reader<'_>, uri: Option<&str>) -> Option<Make> {
    let host_keys = reader.text_with(&SINK_HOST_KEY, str::parse);
    reader.rule(
        "With `SINK` `sftp:`, `SINK_HOST_KEY` is set.",
        (uri.is_some() && !reader.is_set(&SINK_HOST_KEY)).then(|| {
            format!(
                "`{SINK_HOST_KEY}`: not set: `SINK` `sftp:` needs it, expected {}",
                SINK_HOST_KEY.value.allowed
            )
        }),
    );
    let can_log_in = reader.is_set(&SINK_SECRET) || reader.is_set(&SINK_PASSWORD);
    reader.rule(
        "With `SINK` `sftp:`, `SINK_SECRET` or `SINK_PASSWORD` is set.",
        (uri.is_some() && !can_log_in).then(|| {
            format!(
                "`{SINK_SECRET}`: not set: `SINK` `sftp:` needs it or `{SINK_PASSWORD}`, expected {}",
                SINK_SECRET.value.allowed
            )
        }),
    );
    let address: Address = uri?.parse().ok()?;
    let host_keys: HostKeys = host_keys?;
    let server = move |config: &SinkConfig, sdk: &Sdk| {
        let login = match (&config.secret, &config.password) {
            (Some(secret), _) => LoginSource::Secret(secret.reader(sdk)),
            (None, Some(password)) => LoginSource::Password(password.clone()),
            (None, None) => return Err(format!("`{SINK_SECRET}`: not set")),
        };
        Ok(SftpServer {
            address: address.clone(),
            host_keys: host_keys.clone(),
            login,
        })
    };
    let of_answers = server.clone();
    let make = Make::new(move |config, sdk| {
        let rendering = config.rendering.clone();
        Ok(SftpSink::new(
            server(config, sdk)?,
            rendering,
            config.timeout,
        ))
    });
    Some(make.with_answers(move |config, sdk, path| {
        Ok(SftpAnswers {
            connections: Connections::new(of_answers(config, sdk)?, config.timeout),
            path: path.to_owned(),
            timeout: config.timeout,
        })
    }))
}

/// Writes a file for each part, `<path>/<batchId>/<part>.<ext>` or what `SINK_PATH` says, then the reject list `<part>.rejects` if any
/// record was rejected, and last `<part>.manifest.json`. Files are never replaced. An attempt that finds the manifest writes nothing.
#[derive(Debug)]
pub struct SftpSink {
    connections: Connections,
    rendering: Rendering,
    timeout: Duration,
}

impl SftpSink {
    /// Returns a sink that writes to a server; connects only when it delivers. `timeout` limits one attempt to deliver a
    /// part.
    pub fn new(server: SftpServer, rendering: Rendering, timeout: Duration) -> SftpSink {
        SftpSink {
            connections: Connections::new(server, timeout),
            rendering,
            timeout,
        }
    }

    /// Delivers a part on an idle connection, or on a new one.
    async fn attempt(&self, part: &Part) -> Result<Receipt, SinkError> {
        let connection = self.connections.take().await?;
        let result = self.write(&connection, part).await;
        // After an error the connection is dropped: it may be broken, or have requests without a reply.
        if result.is_ok() {
            self.connections.keep_idle(connection);
        }
        result
    }

    async fn write(&self, connection: &Connection, part: &Part) -> Result<Receipt, SinkError> {
        let address = self.connections.address();
        let records = store::records_name(part, &self.rendering)?;
        let files = PartFiles::open(&connection.sftp, address, part, &records).await?;
        files.remove_partials_older_than(self.timeout).await;
        let receipt = store::deliver(&files, part, &self.rendering).await?;
        files.remove_partials().await;
        Ok(receipt)
    }
}

#[async_trait]
impl Sink for SftpSink {
    /// Logs in.
    async fn dry_run(&self) -> Result<(), SinkError> {
        match timeout(self.timeout, self.connections.take()).await {
            Ok(connection) => connection.map(|connection| self.connections.keep_idle(connection)),
            Err(_) => Err(SinkError::retryable(format!(
                "`{}`: no reply within `{}` s",
                self.connections.address(),
                self.timeout.as_secs()
            ))),
        }
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        match timeout(self.timeout, self.attempt(part)).await {
            Ok(result) => result,
            Err(_) => Err(SinkError::retryable(format!(
                "`{}`: part {} not written within `{}` s; the next attempt uploads it from the beginning",
                self.connections.address(),
                part.key(),
                self.timeout.as_secs()
            ))),
        }
    }
}
