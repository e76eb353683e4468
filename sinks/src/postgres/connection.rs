//! Connections to the database, and the limits of their transactions.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws::chain;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage, SimpleQueryRow};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::warn;

use super::errors::sink_error;
use crate::endpoint::is_loopback;
use crate::secret::{Secret, SecretReader};
use crate::sink::SinkError;

/// TCP keepalives of both sides. A connection to a frozen environment, or to a server that is gone, ends within half a
/// minute, and its locks with it.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;
/// How long sent data may stay unacknowledged before the connection counts as broken. A connection that stayed idle while the
/// environment was frozen may be dead, and the attempt must have time to make another.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);
/// How long a transaction may wait for its next statement. Little is computed inside a transaction: only the reject list.
const IDLE_IN_TRANSACTION_MAX: Duration = Duration::from_secs(10);

/// Makes connections to the database of a sink, and keeps idle ones for later attempts.
#[derive(Debug)]
pub(super) struct Connections {
    config: tokio_postgres::Config,
    tls: Option<MakeTls>,
    /// Has the password, and is read again for each new connection.
    pub(super) secret: Option<SecretReader>,
    idle: Mutex<Vec<Client>>,
}

struct MakeTls(MakeRustlsConnect);

impl fmt::Debug for MakeTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeTls")
    }
}

impl Connections {
    /// Prepares connections to the database at `url`; makes none yet. Connecting takes at most `timeout`.
    ///
    /// # Errors
    /// The URL is malformed, or the host is another machine and no trusted certificates were found.
    pub(super) fn new(
        url: &str,
        password: Option<&Secret>,
        timeout: Duration,
    ) -> Result<Connections, String> {
        let mut config: tokio_postgres::Config =
            url.parse().map_err(|error: Error| chain(&error))?;
        let loopback = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => is_loopback(name),
            #[cfg(unix)]
            Host::Unix(_) => true,
        });
        config
            .ssl_mode(match loopback {
                true => SslMode::Disable,
                false => SslMode::Require,
            })
            .connect_timeout(timeout)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_COUNT)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX)
            .application_name("batch-processor");
        if let Some(password) = password {
            config.password(password.expose());
        }
        Ok(Connections {
            config,
            tls: match loopback {
                true => None,
                false => Some(MakeTls(tls()?)),
            },
            secret: None,
            idle: Mutex::default(),
        })
    }

    /// Takes an idle connection, if there is one. It may be broken.
    pub(super) fn take_idle(&self) -> Option<Client> {
        self.idle().pop()
    }

    /// Keeps a connection for a later attempt. Its last transaction must have ended.
    pub(super) fn keep_idle(&self, client: Client) {
        self.idle().push(client);
    }

    /// Makes a connection.
    ///
    /// # Errors
    /// The secret could not be read, or the database refused or did not accept the connection.
    pub(super) async fn connect(&self) -> Result<Client, SinkError> {
        let mut config = Cow::Borrowed(&self.config);
        if let Some(reader) = &self.secret {
            let secret = reader.read().await?;
            config.to_mut().password(secret.password().as_bytes());
        }
        Ok(match &self.tls {
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(sink_error)?;
                drive(connection);
                client
            }
            Some(MakeTls(tls)) => {
                let connected = config.connect(tls.clone()).await;
                let (client, connection) = connected.map_err(sink_error)?;
                drive(connection);
                client
            }
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the statements that limit a transaction to the time that its attempt has left.
///
/// An environment may be frozen at any moment. With these limits, its transaction and the locks it holds end no later than
/// the attempt would have ended. The limits are local to the transaction, so that a connection pooler may reuse the
/// connection.
/// Source: <https://www.postgresql.org/docs/current/runtime-config-client.html#RUNTIME-CONFIG-CLIENT-STATEMENT> (2026-11).
pub(super) fn limits(left: Duration) -> String {
    // PostgreSQL takes zero for no limit.
    let left_ms = left.as_millis().max(1);
    let idle_ms = left_ms.min(IDLE_IN_TRANSACTION_MAX.as_millis());
    format!(
        "SET LOCAL lock_timeout = {left_ms}; SET LOCAL statement_timeout = {left_ms}; \
         SET LOCAL idle_in_transaction_session_timeout = {idle_ms}; \
         SET LOCAL tcp_keepalives_idle = {}; SET LOCAL tcp_keepalives_interval = {}; \
         SET LOCAL tcp_keepalives_count = {KEEPALIVE_COUNT}; ",
        KEEPALIVE_IDLE.as_secs(),
        KEEPALIVE_INTERVAL.as_secs(),
    )
}

/// Sends several statements in one request; returns the rows of each statement.
pub(super) async fn rows_of(
    client: &Client,
    statements: &str,
) -> Result<Vec<Vec<SimpleQueryRow>>, SinkError> {
    let mut results = Vec::new();
    let mut rows = Vec::new();
    for message in client.simple_query(statements).await.map_err(sink_error)? {
        match message {
            SimpleQueryMessage::Row(row) => rows.push(row),
            SimpleQueryMessage::CommandComplete(_) => results.push(std::mem::take(&mut rows)),
            // The names of the columns, which are known.
            _ => {}
        }
    }
    Ok(results)
}

/// Runs a connection in the background until its client is dropped.
fn drive(connection: impl Future<Output = Result<(), Error>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            warn!(error = chain(&error), "connection to the database ended");
        }
    });
}

/// Returns TLS that trusts the certificates of the machine, or those in `SSL_CERT_FILE`.
fn tls() -> Result<MakeRustlsConnect, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(format!(
            "no trusted certificates on this machine: got errors {:?}; set `SSL_CERT_FILE`",
            found.errors
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_support::assert_has;

    #[test]
    fn a_connection_has_keepalives_and_a_limit_of_unacknowledged_data() {
        let url = "postgres://user@localhost/legacy";
        let connections = Connections::new(url, None, Duration::from_secs(1)).unwrap();
        let config = &connections.config;
        assert!(config.get_keepalives());
        assert_eq!(config.get_keepalives_idle(), KEEPALIVE_IDLE);
        assert_eq!(config.get_keepalives_interval(), Some(KEEPALIVE_INTERVAL));
        assert_eq!(config.get_keepalives_retries(), Some(KEEPALIVE_COUNT));
        assert_eq!(config.get_tcp_user_timeout(), Some(&UNACKNOWLEDGED_MAX));
    }

    #[test]
    fn limits_are_never_zero_and_idle_time_is_capped() {
        assert!(limits(Duration::ZERO).contains("statement_timeout = 1;"));
        let long = limits(Duration::from_secs(900));
        assert_has(&long, &["lock_timeout = 900000;"]);
        assert_has(&long, &["idle_in_transaction_session_timeout = 10000;"]);
    }
}
