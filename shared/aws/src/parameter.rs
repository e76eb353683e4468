//! Reads a parameter of Systems Manager.
//!
//! The client of the SDK for this service is larger than all others of this service together, and would be used for one
//! request of each cold start, so the request is made here.
//! Source: <https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html> (2026-11).

use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::ProvideCredentials as _;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::byte_stream::ByteStream;
use serde_json::{Value, json};

use crate::errors::{Meaning, chain, meaning};
use crate::sdk::{Sdk, connector, http_request};

/// The headers of the request, without those of the signature.
const HEADERS: [(&str, &str); 2] = [
    ("content-type", "application/x-amz-json-1.1"),
    ("x-amz-target", "AmazonSSM.GetParameter"),
];

/// Why one attempt failed.
pub(crate) struct Failed {
    pub(crate) words: String,
    /// Whether a retry may succeed.
    pub(crate) may_pass: bool,
}

impl Failed {
    /// Returns the failure of an attempt whose retry may succeed.
    pub(crate) fn passing(words: String) -> Failed {
        Failed {
            words,
            may_pass: true,
        }
    }

    /// Returns the failure of an attempt whose retry would fail too.
    pub(crate) fn lasting(words: String) -> Failed {
        Failed {
            words,
            may_pass: false,
        }
    }
}

/// Returns the value of a parameter, decrypted if it is a `SecureString`.
pub(crate) async fn parameter(
    sdk: &Sdk,
    name: &str,
    attempt_time: Duration,
) -> Result<Vec<u8>, Failed> {
    let request = signed(sdk, name).await.map_err(Failed::lasting)?;
    let sent = tokio::time::timeout(attempt_time, send(request)).await;
    sent.unwrap_or_else(|_| {
        let secs = attempt_time.as_secs_f64();
        let words = format!("Systems Manager did not respond within {secs} s");
        Err(Failed::passing(words))
    })
}

async fn send(request: HttpRequest) -> Result<Vec<u8>, Failed> {
    let passing = |words: String| Failed::passing(format!("Systems Manager: {words}"));
    let response = connector(1).call(request).await;
    let mut response = response.map_err(|error| passing(chain(&error)))?;
    let status = response.status().as_u16();
    let body = ByteStream::new(response.take_body()).collect().await;
    let body = body.map_err(|error| passing(chain(&error)))?.into_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if let Some(value) = body.pointer("/Parameter/Value").and_then(Value::as_str) {
        return Ok(value.as_bytes().to_vec());
    }
    let text = |key: &str| body[key].as_str().unwrap_or_default();
    let code = text("__type").rsplit('#').next().unwrap_or_default();
    let message = match text("message") {
        "" => text("Message"),
        message => message,
    };
    Err(Failed {
        words: format!("Systems Manager: HTTP status {status}: {code}: {message}"),
        may_pass: meaning(code, Some(status)) != Meaning::Refused,
    })
}

/// Returns the request, signed with the credentials of the function.
async fn signed(sdk: &Sdk, name: &str) -> Result<HttpRequest, String> {
    let config = sdk.config();
    let region = config.region().ok_or("`AWS_REGION` is not set")?.as_ref();
    let provider = config.credentials_provider();
    let provider = provider.ok_or("`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` are not set")?;
    let credentials = provider.provide_credentials().await;
    let identity = credentials.map_err(|error| chain(&error))?.into();
    let url = sdk.endpoint("SSM").unwrap_or_else(|| {
        let fips = if config.use_fips() == Some(true) {
            "-fips"
        } else {
            ""
        };
        let china = if region.starts_with("cn-") { ".cn" } else { "" };
        format!("https://ssm{fips}.{region}.amazonaws.com{china}")
    });
    let body = json!({"Name": name, "WithDecryption": true}).to_string();
    let parameters = SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("ssm")
        .time(SystemTime::now())
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| chain(&error))?
        .into();
    let signable = SignableBody::Bytes(body.as_bytes());
    let signable = SignableRequest::new("POST", &url, HEADERS.into_iter(), signable);
    let signed = sign(signable.map_err(|error| chain(&error))?, &parameters);
    let (signature, _) = signed.map_err(|error| chain(&error))?.into_parts();
    let mut request = http_request("POST", &url, body.clone())?;
    for (name, value) in HEADERS.into_iter().chain(signature.headers()) {
        let headers = request.headers_mut();
        headers
            .try_insert(name.to_owned(), value.to_owned())
            .map_err(|error| chain(&error))?;
    }
    Ok(request)
}
