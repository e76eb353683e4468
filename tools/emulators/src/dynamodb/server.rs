//! An in-memory DynamoDB server. It runs on its own thread, because its engine blocks the thread that calls it and would
//! stall the other emulators of the process.

use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use anyhow::Context;
use dynoxide::Database;
use dynoxide::server::serve_with_shutdown;
use tokio::sync::oneshot;

/// A running DynamoDB server. Dropping it stops the server and deletes its tables.
pub struct DynamoDb {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DynamoDb {
    /// Starts a server without tables, on a free loopback port.
    ///
    /// # Errors
    /// No port could be bound, or the engine did not start.
    pub async fn start() -> anyhow::Result<DynamoDb> {
        DynamoDb::start_on(TcpListener::bind(("127.0.0.1", 0))?).await
    }

    /// Starts a server without tables, on a port that is bound already.
    ///
    /// # Errors
    /// The engine did not start.
    pub async fn start_on(listener: TcpListener) -> anyhow::Result<DynamoDb> {
        listener.set_nonblocking(true)?;
        let (stop, stopped) = oneshot::channel();
        let (started, starting) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("dynamodb".to_owned())
            .spawn(move || {
                if let Err(error) = serve(listener, started, stopped) {
                    eprintln!("error: DynamoDB server: {error:#}");
                }
            })?;
        let address = starting.await.context("start the DynamoDB server")?;
        Ok(DynamoDb {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the URL of the server, which clients use as their endpoint URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for DynamoDb {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by the panic hook.
            let _ = thread.join();
        }
    }
}

fn serve(
    listener: TcpListener,
    started: oneshot::Sender<SocketAddr>,
    stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let database = Database::memory()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let server = serve_with_shutdown(listener, database, std::future::pending());
        // The receiver is gone only if the future of `start` was dropped.
        let _ = started.send(address);
        // Does not wait for open connections: the owner of the server is done with it.
        tokio::select! {
            ended = server => ended.map_err(|error| anyhow::anyhow!(error)),
            _ = stopped => Ok(()),
        }
    })
}
