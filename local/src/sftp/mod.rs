//! Runs an OpenSSH server for the sink `sftp`, with a proxy in front that cuts connections, and a watcher of what a consumer
//! would see.

mod proxy;
mod server;
mod watcher;

use std::path::Path;
use std::sync::Arc;

use crate::faults::SinkErrors;

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
        variables(
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

/// Returns variables of the same form as those of a running server.
pub(crate) fn placeholder_variables() -> Vec<(&'static str, String)> {
    variables(
        "sftp://local@127.0.0.1/files".to_owned(),
        "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU".to_owned(),
        "not a secret".to_owned(),
    )
}

fn variables(url: String, host_key: String, password: String) -> Vec<(&'static str, String)> {
    vec![
        ("SINK", url),
        ("SINK_HOST_KEY", host_key),
        ("SINK_PASSWORD", password),
    ]
}
