//! The service behind a proxy: what is sent there is metered.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::call::{Call, DYNAMODB_TARGET, Refused, Reply, Service, TARGET};
use crate::ledger::{self, Meter};

/// The service behind the proxy.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    pub(crate) service: Service,
    endpoint: String,
    client: Client<HttpConnector, Body>,
    meter: Arc<Meter>,
}

impl Upstream {
    /// The service at an endpoint, of which everything is metered.
    pub(crate) fn new(service: Service, endpoint: &str, meter: Arc<Meter>) -> Upstream {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Upstream {
            service,
            endpoint: endpoint.to_owned(),
            client: Client::builder(TokioExecutor::new()).build(connector),
            meter,
        }
    }

    /// Notes which permissions a call needs, whatever becomes of it.
    pub(crate) fn asked(&self, call: &Call) {
        self.meter.asked(&ledger::Request {
            service: self.service,
            operation: &call.operation,
            path_and_query: &call.path_and_query,
            headers: &call.headers,
            body: &call.body,
        });
    }

    /// Hands a call on.
    ///
    /// # Errors
    /// When there is no answer: a bug of this proxy, or the end of the run.
    pub(crate) async fn send(&self, mut call: Call) -> Result<Reply, Refused> {
        let operation = call.operation.clone();
        call.body = self.meter.sends(self.service, &operation, call.body);
        let body = call.body.clone();
        let reply = self.exchange(call).await?;
        self.meter.answered(self.service, &operation, &body, &reply);
        Ok(reply)
    }

    /// Asks the service something on the proxy's own account, for the same caller as `call` and unmetered.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(crate) async fn ask(
        &self,
        call: &Call,
        operation: &str,
        body: &Value,
    ) -> Result<Reply, Refused> {
        let mut question = Call {
            operation: operation.to_owned(),
            body: body.to_string().into(),
            ..call.clone()
        };
        let target = format!("{DYNAMODB_TARGET}{operation}");
        let target =
            HeaderValue::try_from(target).map_err(|error| Refused::NoAnswer(Box::new(error)))?;
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

    /// Meters a call that was answered in the service's place.
    pub(crate) fn stood_in_for(&self, call: &Call, reply: &Reply) {
        let (operation, body) = (&call.operation, call.body.clone());
        let body = self.meter.sends(self.service, operation, body);
        self.meter.answered(self.service, operation, &body, reply);
    }
}
