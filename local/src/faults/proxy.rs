//! A proxy in front of DynamoDB, or of the queues as the functions see them: replies are lost, requests fail.
//!
//! A request goes through in a task of its own: a caller that has given up, or has been killed, does not take back
//! what it sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Counter;
use super::draws::{Draws, Percent};
use super::options::FaultOptions;
use super::report::{LostRepliesReport, RequestErrorsReport};
use super::tables::TableFaults;

/// Longer than any caller waits for one attempt (`ATTEMPT_TIMEOUT_MAX`).
const STALL: Duration = Duration::from_millis(2_000);
const _: () = assert!(STALL.as_millis() > shared::limits::ATTEMPT_TIMEOUT_MAX.as_millis());

/// Most bytes of a request or a reply: DynamoDB's limit, and some for what is around it.
const BODY_BYTES_MAX: usize = 32 << 20;

/// What may strike any request, whatever it asks.
#[derive(Debug)]
pub(super) struct RequestFaults {
    lost_replies: Percent,
    lost_draws: Draws,
    error_rate: Percent,
    error_draws: Draws,
    cut: Counter,
    stalled: Counter,
    applied_late: Counter,
    server_errors: Counter,
    throttled: Counter,
}

/// What becomes of a reply.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    /// The request is applied, and the connection closed in place of the reply. The most frequent: the caller knows
    /// at once and goes on, so that much of it fits a run.
    Cut,
    /// The request is applied, and nothing is said until the caller has given up.
    Stalled,
    /// The request is applied only after the caller has given up.
    AppliedLate,
}

impl RequestFaults {
    pub(super) fn new(options: &FaultOptions) -> RequestFaults {
        RequestFaults {
            lost_replies: options.lost_replies,
            lost_draws: Draws::new(options.seed, "lost replies"),
            error_rate: options.error_rate,
            error_draws: Draws::new(options.seed, "errors"),
            cut: Counter::default(),
            stalled: Counter::default(),
            applied_late: Counter::default(),
            server_errors: Counter::default(),
            throttled: Counter::default(),
        }
    }

    pub(super) fn lost_report(&self) -> LostRepliesReport {
        LostRepliesReport {
            cut: self.cut.get(),
            stalled: self.stalled.get(),
            applied_late: self.applied_late.get(),
        }
    }

    pub(super) fn error_report(&self) -> RequestErrorsReport {
        RequestErrorsReport {
            server_errors: self.server_errors.get(),
            throttled: self.throttled.get(),
        }
    }

    fn fate(&self) -> Fate {
        if !self.lost_draws.strikes(self.lost_replies) {
            return Fate::Arrives;
        }
        let (fate, counter) = match self.lost_draws.below(10) {
            0 => (Fate::Stalled, &self.stalled),
            1 => (Fate::AppliedLate, &self.applied_late),
            _ => (Fate::Cut, &self.cut),
        };
        counter.add(1);
        fate
    }

    /// An answer in place of the service's, if this request is to fail.
    fn error(&self, service: Service) -> Option<Reply> {
        if !self.error_draws.strikes(self.error_rate) {
            return None;
        }
        let throttled = self.error_draws.below(3) == 0;
        let counter = if throttled {
            &self.throttled
        } else {
            &self.server_errors
        };
        counter.add(1);
        Some(match (service, throttled) {
            (Service::DynamoDb, false) => Reply::error(
                500,
                "com.amazonaws.dynamodb.v20120810#InternalServerError",
                "Internal server error",
            ),
            (Service::DynamoDb, true) => Reply::error(
                400,
                "com.amazonaws.dynamodb.v20120810#RequestLimitExceeded",
                "Throughput exceeds the current throughput limit for your account.",
            ),
            (Service::Sqs, false) => {
                Reply::error(500, "com.amazonaws.sqs#InternalError", "Internal error")
            }
            (Service::Sqs, true) => Reply::error(
                400,
                "com.amazonaws.sqs#RequestThrottled",
                "The request was denied due to request throttling.",
            ),
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Service {
    DynamoDb,
    Sqs,
}

/// A request on its way.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Its name, without the prefix of the service's protocol.
    pub(super) operation: String,
    method: Method,
    path: String,
    headers: HeaderMap,
    pub(super) body: Bytes,
}

/// An answer on its way back.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    pub(super) body: Bytes,
}

/// No answer: the connection is to be closed in its place.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("the reply is lost")]
    Lost,
    #[error("the service behind the proxy did not answer: {0}")]
    NoAnswer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Reply {
    pub(super) fn json(status: u16, body: &Value) -> Reply {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/x-amz-json-1.0");
        headers.insert(header::CONTENT_TYPE, json);
        Reply {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers,
            body: body.to_string().into(),
        }
    }

    pub(super) fn error(status: u16, name: &str, message: &str) -> Reply {
        Reply::json(status, &json!({ "__type": name, "message": message }))
    }

    /// The same with another body, and without what was said about the one before.
    pub(super) fn with_body(mut self, body: &Value) -> Reply {
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
pub(super) struct Upstream {
    endpoint: String,
    client: Client<HttpConnector, Body>,
}

impl Upstream {
    /// Hands a call on.
    ///
    /// # Errors
    /// When there is no answer: a bug of this proxy, or the end of the run.
    pub(super) async fn send(&self, call: Call) -> Result<Reply, Refused> {
        let no_answer = |error: Box<dyn std::error::Error + Send + Sync>| Refused::NoAnswer(error);
        let uri: Uri = format!("{}{}", self.endpoint, call.path)
            .parse()
            .map_err(|error| no_answer(Box::new(error)))?;
        let mut request = Request::new(Body::from(call.body));
        *request.method_mut() = call.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = call.headers;
        // The body may be another by now, and says its length itself.
        request.headers_mut().remove(header::CONTENT_LENGTH);
        let response = self
            .client
            .request(request)
            .await
            .map_err(|error| no_answer(Box::new(error)))?;
        let (parts, body) = response.into_parts();
        let body = to_bytes(Body::new(body), BODY_BYTES_MAX)
            .await
            .map_err(|error| no_answer(Box::new(error)))?;
        Ok(Reply {
            status: parts.status,
            headers: parts.headers,
            body,
        })
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

    pub(super) async fn start(
        endpoint: &str,
        requests: Arc<RequestFaults>,
        tables: Option<Arc<TableFaults>>,
        service: Service,
    ) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let upstream = Upstream {
            endpoint: endpoint.to_owned(),
            client: Client::builder(TokioExecutor::new()).build(connector),
        };
        let inner = Arc::new(Inner {
            requests,
            tables,
            service,
            upstream,
        });
        Ok(Proxy {
            address,
            accepting: tokio::spawn(accept(listener, inner)),
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Inner {
    requests: Arc<RequestFaults>,
    tables: Option<Arc<TableFaults>>,
    service: Service,
    upstream: Upstream,
}

async fn accept(listener: TcpListener, inner: Arc<Inner>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, as a rule: some will be closed soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // A connection whose options cannot be set has been closed by its peer, and says so when it is read.
        let _ = stream.set_nodelay(true);
        let inner = Arc::clone(&inner);
        tokio::spawn(async move {
            let service = service_fn(|request| Arc::clone(&inner).answer(request));
            // An error is a reply that was lost on purpose, or a caller that went away.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Inner {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refused> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(Body::new(body), BODY_BYTES_MAX)
            .await
            .map_err(|error| Refused::NoAnswer(Box::new(error)))?;
        if let Some(error) = self.requests.error(self.service) {
            return Ok(error.into_response());
        }
        let target = parts.headers.get("x-amz-target");
        let target = target.and_then(|target| target.to_str().ok());
        let call = Call {
            operation: target
                .and_then(|target| target.rsplit('.').next())
                .unwrap_or_default()
                .to_owned(),
            method: parts.method,
            path: parts.uri.path().to_owned(),
            headers: parts.headers,
            body,
        };
        match self.requests.fate() {
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
            match &inner.tables {
                Some(tables) => tables.answer(call, &inner.upstream).await,
                None => inner.upstream.send(call).await,
            }
        });
        task.await
            .unwrap_or_else(|error| Err(Refused::NoAnswer(Box::new(error))))
    }
}
