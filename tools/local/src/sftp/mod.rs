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
    pub(crate) server: Server,
    proxy: Proxy,
    pub(crate) watcher: Watcher,
}

impl Sftp {
    /// Starts a server as [`Server::start`] does, and watches its files.
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

    /// Returns the variables of the sink.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("SINK", self.server.url(self.proxy.port())),
            ("SINK_HOST_KEY", self.server.host_key().to_owned()),
            ("SINK_PASSWORD", self.server.user_key().to_owned()),
        ]
    }
}
