//! The client of the service behind a proxy.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::observer::Observer;
use super::request::{NoReply, Reply, Service, ServiceRequest, TARGET};

/// The service behind a proxy. Shows the observer what is sent there.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub(super) service: Service,
    endpoint: String,
    client: Client<HttpConnector, Body>,
    observer: Arc<dyn Observer>,
}

impl Upstream {
    /// Makes a client of the service at `endpoint`.
    pub(super) fn new(service: Service, endpoint: &str, observer: Arc<dyn Observer>) -> Upstream {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Upstream {
            service,
            endpoint: endpoint.to_owned(),
            client: Client::builder(TokioExecutor::new()).build(connector),
            observer,
        }
    }

    /// Shows the observer a request that the proxy received.
    pub(super) fn received(&self, request: &ServiceRequest) {
        self.observer.received(self.service, request);
    }

    /// Sends a request to the service, with the body that the observer returns for it, and returns the reply.
    ///
    /// # Errors
    /// [`NoReply::TransferFailed`] if the service returned no complete reply: it does not run, or has stopped.
    pub async fn send(&self, mut request: ServiceRequest) -> Result<Reply, NoReply> {
        request.body = self.observer.forwards(self.service, &request);
        let reply = self.forward(request.clone()).await?;
        self.observer.replied(self.service, &request, &reply);
        Ok(reply)
    }

    /// Sends a request that a fault needs for its own purpose, and returns the reply. The observer does not see it.
    ///
    /// The new request has the headers of `request`, signature included, with `target` as the operation: AWS's JSON
    /// protocols only. `target` has the prefix of the service's protocol, as in `DynamoDB_20120810.GetItem`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_unobserved(
        &self,
        request: &ServiceRequest,
        target: &'static str,
        body: &Value,
    ) -> Result<Reply, NoReply> {
        let mut unobserved = ServiceRequest {
            body: body.to_string().into(),
            ..request.clone()
        };
        let target = HeaderValue::from_static(target);
        unobserved.headers.insert(TARGET, target);
        self.forward(unobserved).await
    }

    async fn forward(&self, request: ServiceRequest) -> Result<Reply, NoReply> {
        let ServiceRequest {
            operation: _,
            method,
            path_and_query,
            mut headers,
            body,
        } = request;
        // The observer or a fault may have replaced the body. A length header is kept, even of an empty body, because
        // the signature may cover it.
        if headers.contains_key(header::CONTENT_LENGTH) {
            headers.insert(header::CONTENT_LENGTH, body.len().into());
        }
        headers.remove(header::TRANSFER_ENCODING);
        let uri = format!("{}{path_and_query}", self.endpoint);
        let uri = uri.parse::<Uri>().map_err(NoReply::failed)?;
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let response = self.client.request(request).await;
        let (parts, body) = response.map_err(NoReply::failed)?.into_parts();
        let body = to_bytes(Body::new(body), self.service.body_bytes_max()).await;
        Ok(Reply {
            status: parts.status,
            headers: parts.headers,
            body: body.map_err(NoReply::failed)?,
        })
    }

    /// Shows the observer a request and the reply that a fault returned in place of the service, as if the service had
    /// returned it.
    pub fn observe_substitute(&self, request: &ServiceRequest, reply: &Reply) {
        let request = ServiceRequest {
            body: self.observer.forwards(self.service, request),
            ..request.clone()
        };
        self.observer.replied(self.service, &request, reply);
    }
}
