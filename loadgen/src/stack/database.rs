//! Gets the delivered parts from a PostgreSQL database.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::rows::{Rows, RowsError};

/// The table of the sink if `SINK_TABLE` is not set.
const TABLE: &str = "events";

/// Why the rows of a database could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The URL is no URL of a PostgreSQL database.
    #[error("database `{url}`: {source}, expected `postgres://user@host/database`")]
    Url {
        url: String,
        #[source]
        source: Error,
    },
    /// The database cannot be reached, or refuses the user.
    #[error("database `{url}`: {message}; the password is read from `PGPASSWORD`")]
    Connect { url: String, message: String },
    #[error("database `{url}`: {source}")]
    Rows {
        url: String,
        #[source]
        source: RowsError,
    },
}

/// Writes the rows of some batches to `directory`, as files `<batchId>/<part>.jsonl`.
///
/// # Errors
/// The database cannot be reached, its rows contradict each other, or a file cannot be written.
pub(super) async fn fetch_rows(
    url: &str,
    password: Option<&str>,
    table: Option<&str>,
    batch_ids: &BTreeSet<&str>,
    directory: &Path,
) -> Result<(), DatabaseError> {
    let mut config: Config = url.parse().map_err(|source| DatabaseError::Url {
        url: url.to_owned(),
        source,
    })?;
    if let Some(password) = password {
        config.password(password);
    }
    let client = connect(config)
        .await
        .map_err(|message| DatabaseError::Connect {
            url: url.to_owned(),
            message,
        })?;
    let rows = Rows::new(&client, table.unwrap_or(TABLE), Some(batch_ids));
    let exported = rows.export(directory).await;
    exported.map_err(|source| DatabaseError::Rows {
        url: url.to_owned(),
        source,
    })
}

/// Connects with TLS, unless the database is on this machine, as the sink does.
async fn connect(mut config: Config) -> Result<Client, String> {
    let loopback = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        Host::Unix(_) => true,
    });
    if loopback {
        config.ssl_mode(SslMode::Disable);
        let (client, connection) = config.connect(NoTls).await.map_err(|error| chain(&error))?;
        tokio::spawn(connection);
        return Ok(client);
    }
    config.ssl_mode(SslMode::Require);
    let (client, connection) = config
        .connect(tls()?)
        .await
        .map_err(|error| chain(&error))?;
    tokio::spawn(connection);
    Ok(client)
}

/// Returns TLS that trusts the certificates of the machine, or those in `SSL_CERT_FILE`.
fn tls() -> Result<MakeRustlsConnect, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    Ok(MakeRustlsConnect::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    ))
}

/// Returns an error with its causes: the message of the outer one alone says only "db error".
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
