//! An HTTP/1 server for the loopback interface, which emulators and proxies use.

use std::error::Error;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Accepts and serves connections; never returns. Dropping the future stops accepting, but not the open connections.
///
/// If `service` returns an error, the connection is closed without a response.
pub async fn serve<S, B>(listener: TcpListener, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Usually the process has too many open files; some will be closed soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Fails if the client has closed the connection already; reading from it then fails too.
        let _ = stream.set_nodelay(true);
        let service = service.clone();
        tokio::spawn(async move {
            // Fails if a fault dropped the reply or the client closed the connection; neither is an error of the server.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
