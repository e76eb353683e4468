//! Makes the built-in sink that `SINK` names.

use async_trait::async_trait;
use shared::aws::Sdk;

use crate::config::SinkConfig;
use crate::file::FileSink;
use crate::http::HttpSink;
use crate::log::LogSink;
use crate::part::Part;
use crate::rejects::RejectStore;
use crate::sink::{Receipt, Sink, SinkError};
use crate::uri::SinkUri;
#[cfg(feature = "full")]
use crate::{
    config::{SINK_HOST_KEY, SINK_SECRET},
    lambda::LambdaSink,
    payload::Payloads,
    postgres::PostgresSink,
    s3::S3Sink,
    sftp::{LoginSource, SftpServer, SftpSink},
    states::StatesSink,
};

/// A built-in sink, with the fingerprint of its configuration.
pub struct BuiltInSink {
    sink: Box<dyn Sink>,
    fingerprint: String,
    needs_sequence: bool,
}

impl BuiltInSink {
    /// Makes the sink that `config.uri` names. Makes no request.
    ///
    /// # Errors
    /// The sink `postgres:` has a malformed URL, or found no trusted certificates on this machine. The sink `sftp:` has no host
    /// key or no secret, which no configuration lacks that was read from variables. The build does not have the sink.
    pub fn new(config: &SinkConfig, sdk: &Sdk) -> Result<BuiltInSink, String> {
        let rendering = config.rendering.clone();
        let sink: Box<dyn Sink> = match &config.uri {
            SinkUri::Log => Box::new(LogSink),
            SinkUri::File(directory) => Box::new(FileSink::new(directory.clone(), rendering)),
            #[cfg(feature = "full")]
            SinkUri::S3 { bucket, prefix } => Box::new(S3Sink::new(sdk, bucket, prefix, rendering)),
            SinkUri::Http(url) => {
                let rejects = config.rejects.as_ref();
                let rejects = rejects.and_then(|uri| RejectStore::new(sdk, uri));
                let timeout = config.timeout;
                let sink = HttpSink::new(url, rendering, timeout, rejects);
                Box::new(match &config.secret {
                    Some(secret) => sink.with_secret(secret.header.clone(), secret.reader(sdk)),
                    None => sink,
                })
            }
            #[cfg(feature = "full")]
            SinkUri::Lambda { arn, region } => {
                let client = sdk.lambda(region, config.timeout);
                Box::new(LambdaSink::new(client, arn, Payloads::new(sdk, config)))
            }
            #[cfg(feature = "full")]
            SinkUri::States { arn, region } => {
                let client = sdk.step_functions(region, config.timeout);
                Box::new(StatesSink::new(client, arn, Payloads::new(sdk, config)))
            }
            #[cfg(feature = "full")]
            SinkUri::Postgres(url) => {
                let sink = PostgresSink::new(url, &config.servers.database, config.timeout);
                let sink =
                    sink.map_err(|error| format!("`SINK`: wrong value: got `{url}`: {error}"))?;
                Box::new(match &config.secret {
                    Some(secret) => sink.with_secret(secret.reader(sdk)),
                    None => sink,
                })
            }
            #[cfg(feature = "full")]
            SinkUri::Sftp(address) => {
                let missing = |name| format!("`{name}`: not set: `SINK` `sftp:` needs it");
                let login = match (&config.secret, &config.servers.password) {
                    (Some(secret), _) => LoginSource::Secret(secret.reader(sdk)),
                    (None, Some(password)) => LoginSource::Password(password.clone()),
                    (None, None) => return Err(missing(SINK_SECRET.name)),
                };
                let host_keys = config.servers.host_keys.clone();
                let server = SftpServer {
                    address: address.clone(),
                    host_keys: host_keys.ok_or_else(|| missing(SINK_HOST_KEY.name))?,
                    login,
                };
                Box::new(SftpSink::new(server, rendering, config.timeout))
            }
            // The configuration refuses them in this build.
            #[cfg(not(feature = "full"))]
            SinkUri::S3 { .. }
            | SinkUri::Lambda { .. }
            | SinkUri::States { .. }
            | SinkUri::Postgres(_)
            | SinkUri::Sftp(_) => return Err(shared::config::WITHOUT_FULL.to_owned()),
        };
        Ok(BuiltInSink {
            sink,
            fingerprint: config.fingerprint.clone(),
            needs_sequence: config.rendering.layout.needs_sequence(),
        })
    }
}

#[async_trait]
impl Sink for BuiltInSink {
    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn needs_sequence(&self) -> bool {
        self.needs_sequence
    }

    async fn dry_run(&self) -> Result<(), SinkError> {
        self.sink.dry_run().await
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        self.sink.deliver(part).await
    }
}
