//! Runs a PostgreSQL server for the sink `postgres`, with a proxy in front that makes deliveries fail. Exports the rows as
//! files for the audit.

mod proxy;
mod server;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use loadgen::Rows;
use tokio_postgres::{Client, NoTls};

use crate::faults::SinkErrors;

pub use proxy::{Proxy, Sent};
pub use server::Server;

/// The SQL that creates the tables of the sink.
pub const TABLES: &str = include_str!("../../../../infra/postgres.sql");

/// A running server with the sink's tables, and the proxy in front of it.
pub struct Postgres {
    _server: Server,
    pub(crate) proxy: Proxy,
    client: Client,
    out: PathBuf,
}

impl Postgres {
    /// Starts a server as [`Server::start`] does, and creates the tables. [`export_parts`](Self::export_parts) will write
    /// to `out`.
    pub async fn start(out: PathBuf, errors: Arc<SinkErrors>) -> anyhow::Result<Postgres> {
        let server = Server::start().await?;
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls)
            .await
            .context("connect to the PostgreSQL that was started")?;
        tokio::spawn(connection);
        let created = client.batch_execute(TABLES).await;
        created.context("create the tables of infra/postgres.sql")?;
        let proxy = Proxy::start(server.port(), errors).await?;
        Ok(Postgres {
            _server: server,
            proxy,
            client,
            out,
        })
    }

    /// Writes the rows as files `<out>/<batchId>/<part>.jsonl`, and checks them against the table of parts.
    pub async fn export_parts(&self) -> anyhow::Result<()> {
        let rows = Rows::new(&self.client, "events", None);
        Ok(rows.export(&self.out).await?)
    }
}
