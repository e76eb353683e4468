//! A proxy in front of a service: its observer is shown every request, and faults strike requests here.
//!
//! A request goes through in a task of its own: a caller that has given up, or has been killed, does not take back
//! what it sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::uri::PathAndQuery;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::call::{Call, Refused, Reply, Service};
use super::observer::Observer;
use super::replies::{Fate, STALL};
use super::strikes::Strikes;
use super::upstream::Upstream;
use crate::loopback;

/// A running proxy; it ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Returns the URL where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts one on a loopback port of its own, in front of the service at `endpoint`.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn start(
        service: Service,
        endpoint: &str,
        observer: Arc<dyn Observer>,
        strikes: Strikes,
    ) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let upstream = Upstream::new(service, endpoint, observer);
        let inner = Arc::new(Inner { strikes, upstream });
        Ok(Proxy {
            address,
            accepting: tokio::spawn(loopback::serve(
                listener,
                service_fn(move |request| Arc::clone(&inner).answer(request)),
            )),
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Inner {
    strikes: Strikes,
    upstream: Upstream,
}

impl Inner {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refused> {
        let (parts, body) = request.into_parts();
        let service = self.upstream.service;
        let body = to_bytes(Body::new(body), service.body_bytes_max())
            .await
            .map_err(|error| Refused::NoAnswer(Box::new(error)))?;
        if let Some(credentials) = &self.strikes.credentials
            && let Some(error) = credentials.refusal(service, &parts.headers)
        {
            return Ok(error.into_response());
        }
        if let Some(error) = self.strikes.requests.error(service) {
            return Ok(error.into_response());
        }
        let path_and_query = parts.uri.path_and_query();
        let call = Call {
            operation: service.operation(&parts),
            method: parts.method,
            path_and_query: path_and_query.map_or("/", PathAndQuery::as_str).to_owned(),
            headers: parts.headers,
            body,
        };
        self.upstream.asked(&call);
        match self.strikes.requests.fate() {
            Fate::Arrives => Ok(self.in_a_task(call, Duration::ZERO).await?.into_response()),
            Fate::Cut => {
                self.in_a_task(call, Duration::ZERO).await?;
                Err(Refused::Lost)
            }
            Fate::Stalled => {
                self.in_a_task(call, Duration::ZERO).await?;
                tokio::time::sleep(STALL).await;
                Err(Refused::Lost)
            }
            Fate::AppliedLate => {
                self.in_a_task(call, STALL).await?;
                Err(Refused::Lost)
            }
        }
    }

    /// Goes on when the caller is gone and this future with it.
    async fn in_a_task(self: &Arc<Self>, call: Call, delay: Duration) -> Result<Reply, Refused> {
        let inner = Arc::clone(self);
        let task = tokio::spawn(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            match &inner.strikes.service {
                Some(faults) => faults.answer(call, &inner.upstream).await,
                None => inner.upstream.send(call).await,
            }
        });
        task.await
            .unwrap_or_else(|error| Err(Refused::NoAnswer(Box::new(error))))
    }
}
