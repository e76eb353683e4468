//! Connections to the database, and what holds for each of their transactions.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use shared::aws::chain;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage, SimpleQueryRow};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::warn;

use super::database::Database;
use super::errors::told;
use crate::endpoint::is_loopback;
use crate::secret::{Secret, SecretReader};
use crate::sink::SinkError;

/// After so long without a sign of the other side, either side asks for one, so often and so many times: a connection to
/// an environment that is frozen, or to a server that is gone, ends within half a minute, and with it what it has locked.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;
/// What was sent and not acknowledged for so long breaks a connection: one that was kept while the environment was frozen
/// may lead nowhere, and there must be time left for another.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);
/// How long a transaction may wait for its next statement: nothing is rendered in one but the reject list.
const IDLE_IN_TRANSACTION_MAX: Duration = Duration::from_secs(10);

/// The connections of a sink.
#[derive(Debug)]
pub(super) struct Connections {
    config: tokio_postgres::Config,
    tls: Option<MakeTls>,
    secret: Option<SecretReader>,
    idle: Mutex<Vec<Client>>,
}

struct MakeTls(MakeRustlsConnect);

impl fmt::Debug for MakeTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeTls")
    }
}

impl Connections {
    /// Connections to the database at `url`, each made within `timeout`.
    ///
    /// # Errors
    /// A URL that is none, or no certificates to trust where the host is another machine.
    pub(super) fn new(
        url: &str,
        database: &Database,
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
        if let Some(password) = &database.password {
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

    /// The same with a password that is kept elsewhere, read anew for each connection.
    pub(super) fn with_secret(self, reader: SecretReader) -> Connections {
        Connections {
            secret: Some(reader),
            ..self
        }
    }

    /// Returns a connection that was kept, if there is one. It may be broken by now.
    pub(super) fn kept(&self) -> Option<Client> {
        self.idle().pop()
    }

    /// Keeps a connection whose last transaction has ended.
    pub(super) fn keep(&self, client: Client) {
        self.idle().push(client);
    }

    /// Makes a connection.
    ///
    /// # Errors
    /// Whatever keeps it from being made, the password among it.
    pub(super) async fn connect(&self) -> Result<Client, SinkError> {
        let mut config = Cow::Borrowed(&self.config);
        if let Some(reader) = &self.secret {
            let secret = reader.read().await?;
            config.to_mut().password(password(&secret).as_bytes());
        }
        Ok(match &self.tls {
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(told)?;
                drive(connection);
                client
            }
            Some(MakeTls(tls)) => {
                let connected = config.connect(tls.clone()).await;
                let (client, connection) = connected.map_err(told)?;
                drive(connection);
                client
            }
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The statements that limit a transaction of an attempt that has so long left.
///
/// An environment may be frozen at any moment: then nothing of it waits, or keeps others waiting, for longer than its
/// attempt would have lasted. They hold for the transaction alone, so that a pooler may hand the connection to others.
/// Source: <https://www.postgresql.org/docs/current/runtime-config-client.html#RUNTIME-CONFIG-CLIENT-STATEMENT> (2026-11).
pub(super) fn limits(left: Duration) -> String {
    // Zero would be no limit.
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

/// Sends statements in one request; returns the rows of each of them.
pub(super) async fn rows_of(
    client: &Client,
    statements: &str,
) -> Result<Vec<Vec<SimpleQueryRow>>, SinkError> {
    let mut answers = Vec::new();
    let mut rows = Vec::new();
    for message in client.simple_query(statements).await.map_err(told)? {
        match message {
            SimpleQueryMessage::Row(row) => rows.push(row),
            SimpleQueryMessage::CommandComplete(_) => answers.push(std::mem::take(&mut rows)),
            // What the columns are called.
            _ => {}
        }
    }
    Ok(answers)
}

/// Lets a connection do its work, until its client is gone.
fn drive(connection: impl Future<Output = Result<(), Error>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            warn!(error = chain(&error), "connection to the database ended");
        }
    });
}

/// The password in a secret: `password` of a JSON object, as services keep what belongs to a database, or all of it.
/// Source: <https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_secret_json_structure.html> (2026-11).
fn password(secret: &Secret) -> Cow<'_, str> {
    let text = secret.trimmed();
    let json = serde_json::from_str::<Value>(text).ok();
    match json.as_ref().and_then(|json| json["password"].as_str()) {
        Some(password) => Cow::Owned(password.to_owned()),
        None => Cow::Borrowed(text),
    }
}

/// What the machine trusts, or what `SSL_CERT_FILE` names.
fn tls() -> Result<MakeRustlsConnect, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(format!("no certificates to trust: {:?}", found.errors));
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

    #[test]
    fn a_password_is_all_of_a_secret_or_its_password_and_is_not_shown() {
        for (text, expected) in [
            ("word\n", "word"),
            ("{word", "{word"),
            ("\"word\"", "\"word\""),
            (r#"{"username":"u","password":"wo\"rd"}"#, "wo\"rd"),
            (r#"{"password":7}"#, r#"{"password":7}"#),
        ] {
            let secret = Secret::from(text.to_owned());
            assert_eq!(password(&secret), expected);
            assert_eq!(format!("{secret:?}"), "(not shown)");
        }
    }

    #[test]
    fn a_connection_asks_whether_the_other_side_is_still_there() {
        let database = Database {
            table: crate::postgres::TableName::events(),
            columns: None,
            password: None,
            rejects_max: 0,
        };
        let url = "postgres://user@localhost/legacy";
        let connections = Connections::new(url, &database, Duration::from_secs(1)).unwrap();
        let config = &connections.config;
        assert!(config.get_keepalives());
        assert_eq!(config.get_keepalives_idle(), KEEPALIVE_IDLE);
        assert_eq!(config.get_keepalives_interval(), Some(KEEPALIVE_INTERVAL));
        assert_eq!(config.get_keepalives_retries(), Some(KEEPALIVE_COUNT));
        assert_eq!(config.get_tcp_user_timeout(), Some(&UNACKNOWLEDGED_MAX));
    }

    #[test]
    fn an_attempt_without_time_has_limits_and_a_long_one_waits_no_longer_for_its_statements() {
        assert!(limits(Duration::ZERO).contains("statement_timeout = 1;"));
        let long = limits(Duration::from_secs(900));
        assert!(long.contains("lock_timeout = 900000;"), "{long}");
        assert!(
            long.contains("idle_in_transaction_session_timeout = 10000;"),
            "{long}"
        );
    }
}
