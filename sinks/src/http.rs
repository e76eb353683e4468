use std::time::Duration;

use async_trait::async_trait;
use aws::{CONNECT_TIMEOUT, POOL_IDLE_TIMEOUT, chain, http_request};
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use protocol::limits::TICKET_AWAY_MAX;
use shared::traces::traceparent;
use tracing::info;

use crate::endpoint::{EXCERPT_BYTES_MAX, check_url, excerpt};
use crate::kind::{Kind, Make, RejectLists};
use crate::rejects::{RejectStore, SINK_REJECTS, store_rejects};
use crate::secret::{SINK_SECRET, SINK_SECRET_HEADER, SecretHeader, SecretReader};
use crate::sink::{Receipt, Sink, SinkError, render_failed};
use forms::Compression;
use forms::Part;
use forms::Rendering;
use forms::percent_encoded;

pub(crate) const KIND: Kind = Kind {
    name: "https:",
    is_named: |uri| uri.starts_with("https:") || uri.starts_with("http://"),
    check: |uri| check_url(uri).map(|()| uri.to_owned()),
    reads: &[&SINK_SECRET, &SINK_SECRET_HEADER, &SINK_REJECTS],
    call_bytes_max: None,
    writes_rows: false,
    reject_lists: RejectLists::Store,
    read: |_, uri| {
        let url = uri?.to_owned();
        Some(Make::new(move |config, sdk| {
            let rejects = config.rejects.as_ref();
            let rejects = rejects.map(|place| RejectStore::new(sdk, place));
            let sink = HttpSink::new(&url, config.rendering.clone(), config.timeout, rejects);
            Ok(match &config.secret {
                Some(secret) => sink.with_secret(secret.header.clone(), secret.reader(sdk)),
                None => sink,
            })
        }))
    },
};

/// Sends a POST request for each part. The `Idempotency-Key` and the body are the same at every attempt.
#[derive(Debug)]
pub struct HttpSink {
    connector: SharedHttpConnector,
    url: String,
    rendering: Rendering,
    timeout: Duration,
    rejects: Option<RejectStore>,
    secret: Option<Box<(SecretHeader, SecretReader)>>,
}

impl HttpSink {
    /// Returns a sink that posts to `url` and waits at most `timeout` for each response. Records that the format cannot
    /// carry go to `rejects`; without `rejects`, a part with such a record is refused.
    pub fn new(
        url: &str,
        rendering: Rendering,
        timeout: Duration,
        rejects: Option<RejectStore>,
    ) -> HttpSink {
        let settings = HttpConnectorSettings::builder()
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .build();
        // The HTTP and TLS libraries of the SDK clients, so that the executable contains only one of each.
        let connector = Connector::builder()
            .connector_settings(settings)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build();
        HttpSink {
            connector: SharedHttpConnector::new(connector),
            url: url.to_owned(),
            rendering,
            timeout,
            rejects,
            secret: None,
        }
    }

    /// Adds a header with a secret. The secret is read again at each attempt, so a rotated secret is noticed.
    pub fn with_secret(mut self, header: SecretHeader, reader: SecretReader) -> HttpSink {
        self.secret = Some(Box::new((header, reader)));
        self
    }

    /// Sets the header with the secret, if the sink has a secret.
    async fn add_secret(&self, request: &mut HttpRequest) -> Result<(), SinkError> {
        let Some((header, reader)) = self.secret.as_deref() else {
            return Ok(());
        };
        let secret = reader.read().await?;
        let value = secret.trimmed().to_owned();
        let headers = request.headers_mut();
        match headers.try_insert(header.as_str().to_owned(), value) {
            Ok(_) => Ok(()),
            // The library's error is dropped, because it may quote the secret.
            Err(_) => Err(reader.failed("the secret has characters that no header can carry")),
        }
    }

    fn request(&self, part: &Part, body: Vec<u8>) -> Result<HttpRequest, String> {
        let mut request = http_request("POST", &self.url, body)?;
        let mut headers = vec![
            ("idempotency-key", part.key()),
            ("content-type", self.rendering.content_type()),
            ("batch-id", part.batch_id.to_string()),
            ("batch-part", part.part_index.to_string()),
            ("batch-count", part.items.len().to_string()),
        ];
        let compression = self.rendering.compression;
        if compression != Compression::None {
            headers.push(("content-encoding", compression.name().to_owned()));
        }
        let batch_key = part.batch_key.as_ref();
        let batch_key = batch_key.map(|key| percent_encoded(key.as_str()));
        headers.extend(batch_key.map(|key| ("batch-key", key)));
        headers.extend(traceparent().map(|span| ("traceparent", span)));
        for (name, value) in headers {
            let set = request.headers_mut().try_insert(name, value);
            set.map_err(|error| format!("header `{name}`: {error}"))?;
        }
        Ok(request)
    }

    async fn in_time<F: Future>(&self, response: F) -> Result<F::Output, SinkError> {
        let response = tokio::time::timeout(self.timeout, response).await;
        response.map_err(|_| SinkError::Retryable {
            reason: format!("no response within `{}` s", self.timeout.as_secs()),
        })
    }

    async fn send(&self, request: HttpRequest) -> Result<u16, SinkError> {
        let response = self.connector.call(request).await;
        let response = response.map_err(|error| no_response(&error))?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(status);
        }
        let retry_after = response.headers().get("retry-after").map(str::to_owned);
        let excerpt = read_excerpt(response).await;
        let has_secret = self.secret.is_some();
        Err(refusal(
            status,
            retry_after.as_deref(),
            &excerpt,
            has_secret,
        ))
    }
}

#[async_trait]
impl Sink for HttpSink {
    /// Asks for the headers of the URL. Whatever the endpoint replies, it is there.
    async fn dry_run(&self) -> Result<(), SinkError> {
        if let Some(rejects) = &self.rejects {
            rejects.dry_run().await?;
        }
        let request = http_request("HEAD", &self.url, SdkBody::empty());
        let mut request = request.map_err(SinkError::permanent)?;
        self.add_secret(&mut request).await?;
        match self.in_time(self.connector.call(request)).await? {
            Ok(_) => Ok(()),
            Err(error) => Err(no_response(&error)),
        }
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let written = self.rendering.write(part, Vec::new());
        let (body, content) = written.map_err(render_failed)?;
        let rejected = content.rejects.len();
        store_rejects(self.rejects.as_ref(), part, &content.rejects).await?;
        let hash = blake3::hash(&body);
        let mut request = self.request(part, body).map_err(SinkError::permanent)?;
        self.add_secret(&mut request).await?;
        let status = self.in_time(self.send(request)).await??;
        let items = part.items.len();
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %hash, status, "part posted");
        let text = format!("HTTP {status}, blake3:{hash}");
        Ok(Receipt::with_rejects(text, &content.rejects))
    }
}

fn no_response(error: &ConnectorError) -> SinkError {
    SinkError::retryable(format!("no response: {}", chain(error)))
}

/// Returns the error for a response whose status is not 2xx.
fn refusal(status: u16, retry_after: Option<&str>, excerpt: &str, has_secret: bool) -> SinkError {
    match status {
        408 | 425 | 429 | 500.. => {
            let later =
                retry_after.map(|when| format!(", `Retry-After: «{}»`", when.escape_debug()));
            let reason = format!("HTTP status {status}{}", later.unwrap_or_default());
            match retry_after.and_then(|when| when.trim().parse().ok()) {
                // `Retry-After` may also be a date. A date is by the endpoint's clock, so it is ignored.
                Some(secs) => SinkError::Busy {
                    reason,
                    retry_after: Duration::from_secs(secs).min(TICKET_AWAY_MAX),
                },
                None => SinkError::Retryable { reason },
            }
        }
        // The secret may be rotating: the extension may return the former one for a while.
        401 | 403 if has_secret => SinkError::Retryable {
            reason: format!("HTTP status {status}: «{excerpt}»"),
        },
        // Redirects are refusals as well: the sink does not follow them, `SINK` must name the final URL.
        _ => SinkError::permanent(format!("HTTP status {status}: «{excerpt}»")),
    }
}

/// Reads and returns the first bytes of a response, or fewer if the connection breaks.
async fn read_excerpt(mut response: HttpResponse) -> String {
    let mut body = ByteStream::new(response.take_body());
    let mut bytes = Vec::new();
    while bytes.len() < EXCERPT_BYTES_MAX {
        match body.next().await {
            Some(Ok(piece)) => bytes.extend_from_slice(&piece),
            Some(Err(_)) | None => break,
        }
    }
    excerpt(&bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::endpoint::HEADERS;
    use crate::secret::tests::{ANSWER, reader};
    use crate::stand_in::StandIn;
    use crate::tests_support::{BATCH, part, refused, rendering};
    use forms::Format;

    fn sink(endpoint: &StandIn, format: Format, compression: Compression) -> HttpSink {
        let url = format!("{}/in?x=y", endpoint.url());
        let rendering = rendering(format, compression);
        HttpSink::new(&url, rendering, Duration::from_secs(5), None)
    }

    fn envelopes(endpoint: &StandIn) -> HttpSink {
        sink(endpoint, Format::Envelope, Compression::None)
    }

    #[tokio::test]
    async fn every_attempt_sends_the_same_part_under_the_same_key() {
        let endpoint = StandIn::start().await;
        let sink = envelopes(&endpoint);
        let mut part = part(2, &["a", "b"]);
        part.batch_key = Some("Zoë".parse().unwrap());
        endpoint.answer(503, "");
        sink.deliver(&part).await.unwrap_err();
        let receipt = sink.deliver(&part).await.unwrap();
        let [first, second] = &endpoint.requests()[..] else {
            panic!("two requests");
        };
        assert_eq!(
            (&first.body, &first.headers),
            (&second.body, &second.headers)
        );
        assert_eq!(
            (second.method.as_str(), second.path.as_str()),
            ("POST", "/in?x=y")
        );
        assert_eq!(
            receipt.text,
            format!("HTTP 200, blake3:{}", blake3::hash(&second.body))
        );
        for (name, value) in [
            ("idempotency-key", "0190163d-8694-739b-aea5-966c26f8ad91/2"),
            ("batch-id", BATCH),
            ("batch-part", "2"),
            ("batch-count", "2"),
            ("batch-key", "Zo%C3%AB"),
            ("content-type", "application/x-ndjson"),
        ] {
            assert_eq!(second.headers[name], value, "{name}");
        }
        assert!(!second.headers.contains_key("content-encoding"));
    }

    #[tokio::test]
    async fn a_compressed_part_has_its_content_encoding() {
        let endpoint = StandIn::start().await;
        for compression in [Compression::Gzip, Compression::Zstd] {
            let sink = sink(&endpoint, Format::Envelope, compression);
            sink.deliver(&part(0, &["a"])).await.unwrap();
            let request = endpoint.requests().pop().unwrap();
            assert_eq!(request.headers["content-encoding"], compression.name());
            let mut text = String::new();
            let mut reader = compression.reader(&request.body[..]).unwrap();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text.lines().count(), 1);
        }
    }

    #[tokio::test]
    async fn transient_statuses_are_retryable_and_others_permanent() {
        for (status, permanent) in [
            (302, true),
            (400, true),
            (401, true),
            (409, true),
            (408, false),
            (425, false),
            (429, false),
            (500, false),
            (503, false),
        ] {
            let endpoint = StandIn::start().await;
            endpoint.answer(status, &"no\n".repeat(1_000));
            let sink = envelopes(&endpoint);
            match sink.deliver(&part(0, &["a"])).await.unwrap_err() {
                SinkError::Permanent { reason } if permanent => {
                    assert!(
                        reason.starts_with(&format!("HTTP status {status}: «no\\nno")),
                        "{reason}"
                    );
                    assert!(reason.len() < 2 * EXCERPT_BYTES_MAX, "{reason}");
                }
                SinkError::Busy {
                    reason,
                    retry_after,
                } if !permanent => {
                    assert_eq!(reason, format!("HTTP status {status}, `Retry-After: «7»`"));
                    assert_eq!(retry_after, Duration::from_secs(7));
                }
                other => panic!("{status}: {other}"),
            }
        }
    }

    #[tokio::test]
    async fn an_unreachable_or_silent_endpoint_is_retryable() {
        let endpoint = StandIn::start().await;
        let mut sink = envelopes(&endpoint);
        sink.timeout = Duration::from_millis(50);
        endpoint.answer(0, "");
        let reason = refused(&sink, &part(0, &["a"]), false).await;
        assert!(reason.contains("within"), "{reason}");
        endpoint.stop().await;
        let reason = refused(&envelopes(&endpoint), &part(0, &["a"]), false).await;
        assert!(reason.contains("no response: "), "{reason}");
    }

    #[tokio::test]
    async fn a_secret_is_read_for_each_attempt_and_sent_in_its_header() {
        let (endpoint, extension) = (StandIn::start().await, StandIn::start().await);
        let header = "x-api-key".parse().unwrap();
        let reader = reader(&extension, "secretsmanager:key");
        let sink = envelopes(&endpoint).with_secret(header, reader);
        for answer in [ANSWER, "{\"SecretString\":\"rotated\"}"] {
            extension.answer(200, answer);
            sink.deliver(&part(0, &["a"])).await.unwrap();
        }
        let requests = endpoint.requests();
        let values = requests.iter().map(|request| &request.headers["x-api-key"]);
        assert_eq!(Vec::from_iter(values), ["Bearer hush", "rotated"]);
        // Until then the extension may return the former secret.
        for status in [401, 403] {
            endpoint.answer(status, "");
            refused(&sink, &part(0, &["a"]), false).await;
        }
    }

    #[tokio::test]
    async fn without_a_readable_secret_nothing_is_sent_and_no_error_quotes_it() {
        let (endpoint, extension) = (StandIn::start().await, StandIn::start().await);
        let reader = reader(&extension, "ssm:/key");
        let sink = envelopes(&endpoint).with_secret(SecretHeader::default(), reader);
        for answer in ["", "{\"Parameter\":{\"Value\":\"hush\\nhush\"}}"] {
            extension.answer(200, answer);
            let reason = refused(&sink, &part(0, &["a"]), false).await;
            assert!(reason.starts_with("secret `ssm:/key`: "), "{reason}");
            assert!(!reason.contains("hush"), "{reason}");
        }
        assert!(endpoint.requests().is_empty());
    }

    #[tokio::test]
    async fn every_header_of_a_request_is_in_the_list_of_reserved_ones() {
        let endpoint = StandIn::start().await;
        let mut part = part(0, &["a"]);
        part.batch_key = Some("key".parse().unwrap());
        let sink = sink(&endpoint, Format::Envelope, Compression::Gzip);
        sink.deliver(&part).await.unwrap();
        for name in endpoint.requests()[0].headers.keys() {
            assert!(HEADERS.contains(&name.as_str()), "{name}");
        }
    }

    #[tokio::test]
    async fn a_dry_run_posts_nothing_and_takes_any_response() {
        let endpoint = StandIn::start().await;
        let sink = sink(&endpoint, Format::Body, Compression::None);
        endpoint.answer(405, "");
        sink.dry_run().await.unwrap();
        assert_eq!(endpoint.requests().pop().unwrap().method, "HEAD");
        endpoint.stop().await;
        let error = sink.dry_run().await.unwrap_err().to_string();
        assert!(error.contains("no response"), "{error}");
    }

    #[tokio::test]
    async fn rejects_are_stored_before_the_part_is_sent() {
        let endpoint = StandIn::start().await;
        let directory = tempfile::tempdir().unwrap();
        let mut sink = sink(&endpoint, Format::Body, Compression::None);
        refused(&sink, &part(0, &["a\n"]), true).await;
        sink.rejects = Some(RejectStore::below(directory.path()));
        for _ in 0..2 {
            let receipt = sink.deliver(&part(0, &["a\n", "b"])).await.unwrap();
            assert_eq!(receipt.rejected.len(), 1);
        }
        assert_eq!(endpoint.requests().pop().unwrap().body, "b\n");
        let list = directory.path().join(format!("{BATCH}/0.rejects"));
        let list = std::fs::read_to_string(list).unwrap();
        assert!(list.contains("\"eventId\":\"e0\""), "{list}");
        sink.deliver(&part(0, &["c\n"])).await.unwrap_err();
        assert_eq!(
            endpoint.requests().len(),
            2,
            "nothing is sent if the stored rejects differ"
        );
    }
}
