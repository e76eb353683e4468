//! The proxy in front of a service: accepts connections, injects faults, and forwards requests.
//!
//! Each request is forwarded in its own task, so that it reaches the service although its client has given up or was
//! killed meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::uri::PathAndQuery;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::faults::ProxyFaults;
use super::observer::Observer;
use super::request::{NoReply, Reply, Service, ServiceRequest};
use super::request_faults::{ReplyOutcome, STALL};
use super::upstream::Upstream;
use crate::loopback;

/// A running proxy. Dropping it stops it from accepting connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    /// The task that accepts connections; ends when it is dropped.
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Returns the URL of the proxy, which clients use as their endpoint URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts a proxy on a free loopback port, in front of the service at `endpoint`.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start(
        service: Service,
        endpoint: &str,
        observer: Arc<dyn Observer>,
        faults: ProxyFaults,
    ) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let upstream = Upstream::new(service, endpoint, observer);
        let inner = Arc::new(Inner { faults, upstream });
        let service = service_fn(move |request| Arc::clone(&inner).handle(request));
        let mut accepting = JoinSet::new();
        accepting.spawn(loopback::serve(listener, service));
        Ok(Proxy {
            address,
            _accepting: accepting,
        })
    }
}

struct Inner {
    faults: ProxyFaults,
    upstream: Upstream,
}

impl Inner {
    async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, NoReply> {
        let (parts, body) = request.into_parts();
        let service = self.upstream.service;
        let body = to_bytes(Body::new(body), service.body_bytes_max()).await;
        let body = body.map_err(NoReply::failed)?;
        if let Some(credentials) = &self.faults.credentials
            && let Some(error) = credentials.refusal(service, &parts.headers)
        {
            return Ok(error.into_response());
        }
        if let Some(error) = self.faults.requests.draw_error(service) {
            return Ok(error.into_response());
        }
        let path_and_query = parts.uri.path_and_query();
        let request = ServiceRequest {
            operation: service.operation(&parts),
            method: parts.method,
            path_and_query: path_and_query.map_or("/", PathAndQuery::as_str).to_owned(),
            headers: parts.headers,
            body,
        };
        self.upstream.received(&request);
        let outcome = self.faults.requests.draw_reply();
        let delay = match outcome {
            ReplyOutcome::AppliedLate => STALL,
            ReplyOutcome::Returned | ReplyOutcome::Cut | ReplyOutcome::Stalled => Duration::ZERO,
        };
        let reply = self.send_in_task(request, delay).await?;
        match outcome {
            ReplyOutcome::Returned => return Ok(reply.into_response()),
            ReplyOutcome::Stalled => tokio::time::sleep(STALL).await,
            ReplyOutcome::Cut | ReplyOutcome::AppliedLate => {}
        }
        Err(NoReply::Lost)
    }

    /// Sends a request after `delay`, even if the returned future is dropped because the client closed its connection.
    async fn send_in_task(
        self: &Arc<Self>,
        request: ServiceRequest,
        delay: Duration,
    ) -> Result<Reply, NoReply> {
        let inner = Arc::clone(self);
        let task = tokio::spawn(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            match &inner.faults.service {
                Some(faults) => faults.reply(request, &inner.upstream).await,
                None => inner.upstream.send(request).await,
            }
        });
        task.await.map_err(NoReply::failed)?
    }
}
