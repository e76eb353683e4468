//! Accepts the connections of a sink on a loopback port, and connects each with its server.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A port on which connections are accepted. Dropping it stops that; connections that are open stay open.
pub(crate) struct Relay {
    port: u16,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// Passes each connection to `forward`, with the state that they share.
    pub(crate) async fn start<S, F>(
        shared: &Arc<S>,
        forward: impl Fn(TcpStream, Arc<S>) -> F + Send + 'static,
    ) -> io::Result<Relay>
    where
        S: Send + Sync + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::clone(shared);
        let accepting = tokio::spawn(async move {
            while let Ok((sink, _)) = listener.accept().await {
                // An error means that the connection ended, on purpose or not.
                tokio::spawn(forward(sink, Arc::clone(&shared)));
            }
        });
        Ok(Relay { port, accepting })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Connects to the server of a sink on a loopback port.
pub(crate) async fn connect(sink: &TcpStream, server: u16) -> io::Result<TcpStream> {
    let server = TcpStream::connect(("127.0.0.1", server)).await?;
    sink.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok(server)
}
