//! Runs an OpenSSH server for the sink `sftp`, with a proxy in front that cuts connections, and a watcher of what a consumer
//! would see.

mod proxy;
mod server;
mod watcher;

use std::path::Path;
use std::sync::Arc;

use crate::faults::SinkErrors;
use crate::server_variables::server_variables;

pub use proxy::Proxy;
pub use server::Server;
pub use watcher::{WatchReport, Watcher};

/// A running server, the proxy in front of it, and the watcher of its files.
pub struct Sftp {
    server: Server,
    proxy: Proxy,
    watcher: Watcher,
}

impl Sftp {
    /// Starts a server as [`Server::start`] does, and watches its files.
    ///
    /// # Errors
    /// Those of [`Server::start`], or no port can be bound.
    pub async fn start(files: Option<&Path>, errors: Arc<SinkErrors>) -> anyhow::Result<Sftp> {
        let server = Server::start(files).await?;
        let proxy = Proxy::start(server.port(), errors).await?;
        let watcher = Watcher::start(server.files().to_owned());
        Ok(Sftp {
            server,
            proxy,
            watcher,
        })
    }

    /// Returns the directory of the sink.
    pub fn files(&self) -> &Path {
        self.server.files()
    }

    /// Returns the variables of the sink.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        server_variables(
            self.server.url(self.proxy.port()),
            self.server.host_key().to_owned(),
            self.server.user_key().to_owned(),
        )
    }

    /// Returns what the watcher has seen so far.
    pub fn watched(&self) -> WatchReport {
        self.watcher.report()
    }
}
