//! A proxy in front of DynamoDB, or of the queues or a sink as the functions see them: here requests are metered, and here
//! faults strike them.
//!
//! A request goes through in a task of its own: a caller that has given up, or has been killed, does not take back
//! what it sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::faults::{Fate, STALL, Strikes};
use crate::ledger::{self, Meter};

/// Most bytes of a request or a reply to tables and queues: DynamoDB's limit, and some for what is around it.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Most bytes of a request to a sink, or of its reply.
const SINK_BODY_BYTES_MAX: usize = emulators::s3::OBJECT_BYTES_MAX;

/// The header with the name of what a request asks, of the JSON protocols.
const TARGET: &str = "x-amz-target";
/// What the name begins with at DynamoDB.
const DYNAMODB_TARGET: &str = "DynamoDB_20120810.";

/// What is behind a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// The tables.
    DynamoDb,
    /// The queues.
    Sqs,
    /// The buckets.
    S3,
    /// Whatever takes batches by HTTP.
    Http,
}

impl Service {
    fn body_bytes_max(self) -> usize {
        match self {
            Service::DynamoDb | Service::Sqs => BODY_BYTES_MAX,
            Service::S3 | Service::Http => SINK_BODY_BYTES_MAX,
        }
    }

    /// The name of what a request asks.
    fn operation(self, request: &Parts) -> String {
        let of_object = request.uri.path().trim_matches('/').contains('/');
        match (self, request.method.as_str()) {
            (Service::DynamoDb | Service::Sqs, _) => {
                let target = request.headers.get(TARGET);
                let target = target.and_then(|target| target.to_str().ok());
                let name = target.and_then(|target| target.rsplit('.').next());
                name.unwrap_or_default().to_owned()
            }
            (Service::S3, "PUT") if of_object => "PutObject".to_owned(),
            (Service::S3, "GET") if of_object => "GetObject".to_owned(),
            (Service::S3, "HEAD") if of_object => "HeadObject".to_owned(),
            (Service::S3, "DELETE") if of_object => "DeleteObject".to_owned(),
            (Service::S3, "GET") => "ListObjectsV2".to_owned(),
            (Service::S3 | Service::Http, method) => method.to_owned(),
        }
    }
}

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Its name, without the prefix of the service's protocol.
    pub(crate) operation: String,
    method: Method,
    path_and_query: String,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An answer on its way back.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// No answer: the connection is to be closed in its place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the reply is lost")]
    Lost,
    #[error("the service behind the proxy did not answer: {0}")]
    NoAnswer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Reply {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/x-amz-json-1.0");
        headers.insert(header::CONTENT_TYPE, json);
        Reply {
            headers,
            body: body.to_string().into(),
            ..Reply::bare(status)
        }
    }

    pub(crate) fn error(status: u16, name: &str, message: &str) -> Reply {
        Reply::json(status, &json!({ "__type": name, "message": message }))
    }

    /// An error of S3; the texts are the caller's own, and nothing in them must be escaped.
    pub(crate) fn s3_error(status: u16, code: &str, message: &str) -> Reply {
        let xml = HeaderValue::from_static("application/xml");
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        );
        Reply {
            headers: HeaderMap::from_iter([(header::CONTENT_TYPE, xml)]),
            body: body.into(),
            ..Reply::bare(status)
        }
    }

    /// A status, and nothing else.
    pub(crate) fn bare(status: u16) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// The same with one header more.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Reply {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// The same with another body, and without what was said about the one before.
    pub(crate) fn with_body(mut self, body: &Value) -> Reply {
        self.headers.remove(header::CONTENT_LENGTH);
        self.headers.remove("x-amz-crc32");
        self.body = body.to_string().into();
        self
    }

    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// The service behind the proxy.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    service: Service,
    endpoint: String,
    client: Client<HttpConnector, Body>,
    meter: Arc<Meter>,
}

impl Upstream {
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

/// A running proxy; it ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Where it listens.
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
        meter: Arc<Meter>,
        strikes: Strikes,
    ) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let upstream = Upstream {
            service,
            endpoint: endpoint.to_owned(),
            client: Client::builder(TokioExecutor::new()).build(connector),
            meter,
        };
        let inner = Arc::new(Inner { strikes, upstream });
        Ok(Proxy {
            address,
            accepting: tokio::spawn(emulators::loopback::serve(
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
        self.upstream.meter.asked(&ledger::Request {
            service,
            operation: &call.operation,
            path_and_query: &call.path_and_query,
            headers: &call.headers,
            body: &call.body,
        });
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
            match &inner.strikes.tables {
                Some(tables) => tables.answer(call, &inner.upstream).await,
                None => inner.upstream.send(call).await,
            }
        });
        task.await
            .unwrap_or_else(|error| Err(Refused::NoAnswer(Box::new(error))))
    }
}
