//! The service behind a proxy: its observer is shown what is sent there.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::call::{Call, Refused, Reply, Service, TARGET};
use super::observer::Observer;

/// The service behind the proxy.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub(super) service: Service,
    endpoint: String,
    client: Client<HttpConnector, Body>,
    observer: Arc<dyn Observer>,
}

impl Upstream {
    /// Returns the service at an endpoint; `observer` is shown all that is sent there.
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

    /// Shows the observer a call that has come, whatever becomes of it.
    pub(super) fn asked(&self, call: &Call) {
        self.observer.asked(self.service, call);
    }

    /// Hands a call on to the service and returns its reply.
    ///
    /// # Errors
    /// When the service does not reply: it is not there, or it has ended.
    pub async fn send(&self, mut call: Call) -> Result<Reply, Refused> {
        let operation = call.operation.clone();
        call.body = self.observer.sends(self.service, &operation, call.body);
        let body = call.body.clone();
        let reply = self.exchange(call).await?;
        self.observer
            .answered(self.service, &operation, &body, &reply);
        Ok(reply)
    }

    /// Asks the service something for the faults of the proxy itself, signed as `call` is; the observer is not shown this.
    /// `target` names the request, with the prefix of the service's protocol.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn ask(
        &self,
        call: &Call,
        target: &'static str,
        body: &Value,
    ) -> Result<Reply, Refused> {
        let mut question = Call {
            body: body.to_string().into(),
            ..call.clone()
        };
        let target = HeaderValue::from_static(target);
        question.headers.insert(TARGET, target);
        self.exchange(question).await
    }

    async fn exchange(&self, call: Call) -> Result<Reply, Refused> {
        let Call {
            operation: _,
            method,
            path_and_query,
            mut headers,
            body,
        } = call;
        // The body may be another by now, and is here as a whole. A length that was said may have been signed, also of
        // nothing.
        if headers.contains_key(header::CONTENT_LENGTH) {
            headers.insert(header::CONTENT_LENGTH, body.len().into());
        }
        headers.remove(header::TRANSFER_ENCODING);
        let no_answer = |error: Box<dyn std::error::Error + Send + Sync>| Refused::NoAnswer(error);
        let uri: Uri = format!("{}{path_and_query}", self.endpoint)
            .parse()
            .map_err(|error| no_answer(Box::new(error)))?;
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let response = self
            .client
            .request(request)
            .await
            .map_err(|error| no_answer(Box::new(error)))?;
        let (parts, answer) = response.into_parts();
        let answer = to_bytes(Body::new(answer), self.service.body_bytes_max())
            .await
            .map_err(|error| no_answer(Box::new(error)))?;
        Ok(Reply {
            status: parts.status,
            headers: parts.headers,
            body: answer,
        })
    }

    /// Shows the observer a call that was answered in the service's place, as if the service had replied.
    pub fn stood_in_for(&self, call: &Call, reply: &Reply) {
        let (operation, body) = (&call.operation, call.body.clone());
        let body = self.observer.sends(self.service, operation, body);
        self.observer
            .answered(self.service, operation, &body, reply);
    }
}
