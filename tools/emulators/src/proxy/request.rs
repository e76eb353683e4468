//! Requests and replies as the proxy passes them on.

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};

use crate::OBJECT_BYTES_MAX;

/// Maximum number of bytes of a request to DynamoDB or SQS, and of its reply. DynamoDB returns up to 16 MB of data; its JSON
/// is larger.
const BODY_BYTES_MAX: usize = 32 << 20;

/// The header in which AWS's JSON protocols name the operation: `DynamoDB_20120810.PutItem`.
pub(super) const TARGET: &str = "x-amz-target";

/// The service behind a proxy. It decides how requests are named and what errors look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Amazon DynamoDB, JSON 1.0.
    DynamoDb,
    /// Amazon SQS, JSON 1.0.
    Sqs,
    /// Amazon S3, with the bucket in the path.
    S3,
    /// Any other HTTP service. Its operations are HTTP methods.
    Http,
}

impl Service {
    /// Returns the most bytes of a request or reply body.
    pub(super) fn body_bytes_max(self) -> usize {
        match self {
            Service::DynamoDb | Service::Sqs => BODY_BYTES_MAX,
            Service::S3 | Service::Http => OBJECT_BYTES_MAX,
        }
    }

    /// Returns the operation of a request, such as `PutItem`; empty if a JSON request names none.
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

/// A request to the service behind a proxy.
#[derive(Clone, Debug)]
pub struct ServiceRequest {
    /// The operation, such as `PutItem`; the HTTP method for [`Service::Http`].
    pub operation: String,
    /// HTTP method.
    pub method: Method,
    /// Path, with the query string if there is one.
    pub path_and_query: String,
    /// Headers as the client sent them, signature included.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// A reply of the service, or of a fault in its place.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why a request gets no reply. The proxy then closes the connection of the client.
#[derive(Debug, thiserror::Error)]
pub enum NoReply {
    /// A fault dropped the reply.
    #[error("reply dropped by a fault")]
    Lost,
    /// A body could not be read, or the service could not be reached.
    #[error("request or reply not transferred: {0}")]
    TransferFailed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl NoReply {
    /// Makes the error of a transfer that failed.
    pub(super) fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> NoReply {
        NoReply::TransferFailed(error.into())
    }
}

impl Reply {
    /// Makes a reply of AWS's JSON 1.0 protocol.
    pub fn json(status: u16, body: &Value) -> Reply {
        Reply::typed(status, "application/x-amz-json-1.0", body.to_string())
    }

    /// Makes an error of AWS's JSON 1.0 protocol. `name` is the exception with its namespace.
    pub fn error(status: u16, name: &str, message: &str) -> Reply {
        Reply::json(status, &json!({ "__type": name, "message": message }))
    }

    /// Makes an error of S3. `code` and `message` are not escaped, so they must not contain XML markup.
    pub(super) fn s3_error(status: u16, code: &str, message: &str) -> Reply {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        );
        Reply::typed(status, "application/xml", body)
    }

    fn typed(status: u16, content_type: &'static str, body: String) -> Reply {
        let reply = Reply {
            body: body.into(),
            ..Reply::bare(status)
        };
        reply.with_header(header::CONTENT_TYPE, content_type)
    }

    /// Makes a reply without headers and body.
    pub(super) fn bare(status: u16) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// Returns the reply with one more header.
    pub(super) fn with_header(mut self, name: HeaderName, value: &'static str) -> Reply {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Returns the reply with another body, without the length and checksum headers of the previous body.
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
