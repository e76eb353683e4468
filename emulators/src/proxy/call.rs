//! Requests to a service and its replies, as a proxy between has them.

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};

use crate::OBJECT_BYTES_MAX;

/// Most bytes of a request to DynamoDB or SQS, or of its reply: DynamoDB's limit, and some for what is around it.
const BODY_BYTES_MAX: usize = 32 << 20;

/// The header with the name of what a request asks, of the JSON protocols.
pub(super) const TARGET: &str = "x-amz-target";

/// What is behind a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// DynamoDB.
    DynamoDb,
    /// SQS.
    Sqs,
    /// S3.
    S3,
    /// Any other service that speaks HTTP.
    Http,
}

impl Service {
    pub(super) fn body_bytes_max(self) -> usize {
        match self {
            Service::DynamoDb | Service::Sqs => BODY_BYTES_MAX,
            Service::S3 | Service::Http => OBJECT_BYTES_MAX,
        }
    }

    /// Returns the name of what a request asks; empty where it has none.
    pub(super) fn operation(self, request: &Parts) -> String {
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
pub struct Call {
    /// Its name, without the prefix of the service's protocol.
    pub operation: String,
    /// The HTTP method.
    pub method: Method,
    /// The path with the query, if there is one.
    pub path_and_query: String,
    /// The headers, as they came.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// A reply on its way back.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no reply: the connection is closed in its place.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A fault took it.
    #[error("the reply is lost")]
    Lost,
    /// The service could not be reached.
    #[error("the service behind the proxy did not answer: {0}")]
    NoAnswer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Reply {
    /// Returns a reply of the JSON protocols.
    pub fn json(status: u16, body: &Value) -> Reply {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/x-amz-json-1.0");
        headers.insert(header::CONTENT_TYPE, json);
        Reply {
            headers,
            body: body.to_string().into(),
            ..Reply::bare(status)
        }
    }

    /// Returns an error of the JSON protocols.
    pub fn error(status: u16, name: &str, message: &str) -> Reply {
        Reply::json(status, &json!({ "__type": name, "message": message }))
    }

    /// Returns an error of S3; the texts are the caller's own, and nothing in them must be escaped.
    pub(super) fn s3_error(status: u16, code: &str, message: &str) -> Reply {
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

    /// Returns a status without headers and body.
    pub(super) fn bare(status: u16) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// Returns the same with one header more.
    pub(super) fn with_header(mut self, name: &'static str, value: &'static str) -> Reply {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Returns the same with another body, and without what was said about the one before.
    pub fn with_body(mut self, body: &Value) -> Reply {
        self.headers.remove(header::CONTENT_LENGTH);
        self.headers.remove("x-amz-crc32");
        self.body = body.to_string().into();
        self
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}
