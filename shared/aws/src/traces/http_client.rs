//! Sends spans with the HTTP and TLS libraries of the SDK clients, so that the executable contains only one of each.

use async_trait::async_trait;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use protocol::limits::EXPORT_RESPONSE_BYTES_MAX;

/// The client of the exporter.
#[derive(Debug)]
pub(super) struct ExportClient(pub(super) SharedHttpConnector);

#[async_trait]
impl HttpClient for ExportClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method(parts.method.as_str())?;
        request.set_uri(parts.uri)?;
        for (name, value) in &parts.headers {
            let value = value.to_str()?.to_owned();
            let headers = request.headers_mut();
            headers.try_insert(name.as_str().to_owned(), value)?;
        }
        let mut response = self.0.call(request).await?;
        let status = response.status().as_u16();
        let mut body = ByteStream::new(response.take_body());
        let mut bytes = BytesMut::new();
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() > EXPORT_RESPONSE_BYTES_MAX {
                return Err(Box::new(ResponseBodyTooLarge::new()));
            }
        }
        Ok(Response::builder().status(status).body(bytes.freeze())?)
    }
}
