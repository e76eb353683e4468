//! Connections to the server, whose key is checked before anything secret is sent.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use russh::client::{AuthResult, Config, Handle, Handler, connect_stream};
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{Preferred, SshId};
use russh_sftp::client::SftpSession;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::errors::status;
use super::host_keys::{HostKeys, fingerprint};
use super::login::{Login, LoginSource};
use crate::address::Address;
use crate::sink::SinkError;

/// How long an idle connection may take to reply before a new one is made. A connection that stayed idle while the
/// environment was frozen may be dead, and the attempt must have time to make another.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server may be silent before it is asked whether it is there, and how often it may fail to reply.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVES_MAX: usize = 3;
/// The most writes in flight. With 32 KiB a write they fill the window of OpenSSH's channels, which is 2 MiB.
/// Source: <https://github.com/openssh/openssh-portable/blob/master/channels.h>, `CHAN_SES_WINDOW_DEFAULT` (2026-11).
const WRITES_MAX: usize = 64;

/// A server, and how its identity and ours are proven.
#[derive(Debug)]
pub struct SftpServer {
    /// Where the files go.
    pub address: Address,
    /// The accepted keys of the server.
    pub host_keys: HostKeys,
    /// Where the password or the private key of the user comes from.
    pub login: LoginSource,
}

/// Makes connections to a server, and keeps idle ones for later attempts.
pub(super) struct Connections {
    server: SftpServer,
    config: Arc<Config>,
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
}

/// A connection whose user is logged in.
pub(super) struct Connection {
    ssh: Handle<HostKeyCheck>,
    pub(super) sftp: SftpSession,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connections({})", self.server.address)
    }
}

impl Connections {
    /// Prepares connections to a server; makes none yet. Each request takes at most `timeout`.
    pub(super) fn new(server: SftpServer, timeout: Duration) -> Connections {
        let config = Config {
            client_id: SshId::Standard("SSH-2.0-batch-processor".into()),
            preferred: Preferred {
                key: server.host_keys.algorithms().into(),
                ..Preferred::DEFAULT
            },
            keepalive_interval: Some(KEEPALIVE_INTERVAL),
            keepalive_max: KEEPALIVES_MAX,
            ..Config::default()
        };
        Connections {
            server,
            config: Arc::new(config),
            timeout,
            idle: Mutex::default(),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.server.address
    }

    /// Returns an idle connection that still works, or a new one.
    ///
    /// # Errors
    /// Retryable. The server did not accept the connection or the user, or has another key than expected. An operator can
    /// fix each of these while the batch waits, and nothing was written.
    pub(super) async fn take(&self) -> Result<Connection, SinkError> {
        // The guard must not live while a connection is tried.
        let next = || self.idle().pop();
        while let Some(connection) = next() {
            if connection.works().await {
                return Ok(connection);
            }
        }
        let login = self.server.login.read().await?;
        self.connect(login)
            .await
            .map_err(|error| SinkError::Retryable {
                reason: format!("`{}`: {error}", self.server.address.server()),
            })
    }

    /// Keeps a connection for a later attempt.
    pub(super) fn keep_idle(&self, connection: Connection) {
        self.idle().push(connection);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, login: Login) -> Result<Connection, ConnectError> {
        let Address {
            host, port, user, ..
        } = &self.server.address;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(russh::Error::from)?;
        stream.set_nodelay(true).map_err(russh::Error::from)?;
        let check = HostKeyCheck(self.server.host_keys.clone());
        let mut ssh = connect_stream(Arc::clone(&self.config), stream, check).await?;
        log_in(&mut ssh, user, login).await?;
        let channel = ssh.channel_open_session().await?;
        channel.request_subsystem(true, "sftp").await?;
        let config = russh_sftp::client::Config {
            max_concurrent_writes: WRITES_MAX,
            request_timeout_secs: self.timeout.as_secs().max(1),
            ..russh_sftp::client::Config::default()
        };
        let sftp = SftpSession::new_with_config(channel.into_stream(), config).await;
        Ok(Connection {
            ssh,
            sftp: sftp.map_err(ConnectError::Sftp)?,
        })
    }
}

impl Connection {
    /// Returns whether the server still replies.
    async fn works(&self) -> bool {
        if self.ssh.is_closed() {
            return false;
        }
        match timeout(PROBE_TIMEOUT, self.sftp.canonicalize(".")).await {
            Ok(Ok(_)) => true,
            // A server that refuses the request is there.
            Ok(Err(error)) => status(&error).is_some(),
            Err(_) => false,
        }
    }
}

/// Proves to the server who the user is.
async fn log_in(
    ssh: &mut Handle<HostKeyCheck>,
    user: &str,
    login: Login,
) -> Result<(), ConnectError> {
    let (method, result) = match login {
        Login::Password(password) => ("password", ssh.authenticate_password(user, password).await?),
        Login::Key(key) => {
            // The server lists the RSA signatures that it knows. SHA-1 is never used.
            let hash = match key.algorithm().is_rsa() {
                true => ssh.best_supported_rsa_hash().await?.flatten(),
                false => None,
            };
            let key = PrivateKeyWithHashAlg::new(key, hash.or(Some(HashAlg::Sha256)));
            ("private key", ssh.authenticate_publickey(user, key).await?)
        }
    };
    match result {
        AuthResult::Success => Ok(()),
        // The client returns this when the connection ends. A server that refuses a method names others.
        AuthResult::Failure {
            remaining_methods, ..
        } if remaining_methods.is_empty() => Err(russh::Error::Disconnect.into()),
        AuthResult::Failure {
            remaining_methods, ..
        } => {
            let others = remaining_methods.iter().map(<&str>::from);
            let others = Vec::from_iter(others).join(", ");
            Err(ConnectError::Refused { method, others })
        }
    }
}

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(
        "the server has another key: got `{got}` ({algorithm}), expected {expected}; nothing secret was sent; correct `SINK_HOST_KEY` \
         if the server has a new key"
    )]
    HostKey {
        got: String,
        algorithm: String,
        expected: String,
    },
    #[error("the server refused the user's {method}; it allows «{others}»")]
    Refused {
        method: &'static str,
        others: String,
    },
    #[error("no SFTP session: «{0}»")]
    Sftp(russh_sftp::client::error::Error),
    #[error("no connection: «{0}»")]
    Ssh(#[from] russh::Error),
}

/// Accepts a server only if it has one of the expected keys. The client logs in only after that.
struct HostKeyCheck(HostKeys);

impl Handler for HostKeyCheck {
    type Error = ConnectError;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, ConnectError> {
        let key = key.public_key();
        match self.0.contains(&key) {
            true => Ok(true),
            false => Err(ConnectError::HostKey {
                got: fingerprint(&key),
                algorithm: key.algorithm().to_string(),
                expected: self.0.fingerprints(),
            }),
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
