#[cfg(feature = "full")]
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use aws::{POOL_IDLE_TIMEOUT, Sdk, chain, http_request};
use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use http::HeaderName;
use serde_json::Value;
use shared::config::{Reader, Text, Unset, Variable};

use crate::endpoint::HEADERS;
use crate::sink::SinkError;
use forms::percent_encoded;

/// Where the secret for an endpoint, a database or a server is kept.
pub(crate) const SINK_SECRET: Variable<Text> = Variable {
    name: "SINK_SECRET",
    key: Some("sink.secret"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "`secretsmanager:<name or ARN>` or `ssm:<parameter name>`",
    },
    meaning: "Where a secret is kept: with `https:` the text that goes into `SINK_SECRET_HEADER`, with `postgres:` the password, with \
              `sftp:` the password or the private key.",
};
/// The header in which an endpoint gets the secret.
pub(crate) const SINK_SECRET_HEADER: Variable<Text> = Variable {
    name: "SINK_SECRET_HEADER",
    key: Some("sink.secret_header"),
    value: Text {
        unset: Unset::Default("authorization"),
        allowed: "the name of a header in lower case, which the sink does not set itself",
    },
    meaning: "With `https:`, the header that the secret is sent in.",
};
/// The port of the AWS Parameters and Secrets Lambda Extension; the extension defines the name of this variable.
const SECRETS_PORT: Variable<Text> = Variable {
    name: "PARAMETERS_SECRETS_EXTENSION_HTTP_PORT",
    key: None,
    value: Text {
        unset: Unset::Default("2773"),
        allowed: "a port from 1 to 65535",
    },
    meaning: "The port of the AWS Parameters and Secrets Lambda Extension, which defines this variable.",
};
/// The password or private key of the user of a database or a server, if it is not kept as a secret.
pub(crate) const SINK_PASSWORD: Variable<Text> = Variable {
    name: "SINK_PASSWORD",
    key: None,
    value: Text {
        unset: Unset::Nothing,
        allowed: "a password, or with `sftp:` a private key",
    },
    meaning: "With `postgres:` and `sftp:`, the user's password or private key, if it is not in `SINK_SECRET`.",
};

/// The time limit of one read. The extension replies from its cache, or calls the service first.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest name of a parameter in Systems Manager. ARNs of Secrets Manager are shorter.
/// Source: <https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html> (2026-11).
const NAME_BYTES_MAX: usize = 2_048;

/// A text whose `Debug` output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl Secret {
    /// Reads the password of a database or a server.
    pub(crate) fn read_password(reader: &mut Reader<'_>) -> Option<Secret> {
        let password = reader.text(&SINK_PASSWORD, |text| Some(Secret::from(text.to_owned())));
        reader.rule(
            "`SINK_PASSWORD` and `SINK_SECRET` are not both set.",
            (password.is_some() && reader.is_set(&SINK_SECRET)).then(|| {
                format!("`{SINK_PASSWORD}` and `{SINK_SECRET}` are both set, expected one of them")
            }),
        );
        password
    }

    /// Returns the text. Never log it or put it into an error.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the text without white space at its ends: a secret that was made from a file often ends with a line break.
    pub(crate) fn trimmed(&self) -> &str {
        self.0.trim()
    }
}

/// Databases and servers.
#[cfg(feature = "full")]
impl Secret {
    /// Returns the password in a secret: the field `password` if the secret is a JSON object, as AWS stores database secrets,
    /// and otherwise the whole text.
    /// Source: <https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_secret_json_structure.html> (2026-11).
    pub(crate) fn password(&self) -> Cow<'_, str> {
        let json: Value = serde_json::from_str(self.trimmed()).unwrap_or(Value::Null);
        match json.get("password").and_then(Value::as_str) {
            Some(password) => Cow::Owned(password.to_owned()),
            None => Cow::Borrowed(self.trimmed()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// Where a secret is kept: `SINK_SECRET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretName {
    /// `secretsmanager:<name or ARN>`.
    SecretsManager(String),
    /// `ssm:<name>`, a parameter of Systems Manager.
    Parameter(String),
}

impl FromStr for SecretName {
    type Err = String;

    /// The error does not quote the text: an operator may have set the secret itself by mistake.
    fn from_str(text: &str) -> Result<SecretName, String> {
        let fits = |name: &str| {
            (1..=NAME_BYTES_MAX).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_graphic())
        };
        match text.split_once(':') {
            Some(("secretsmanager", name)) if fits(name) => {
                Ok(SecretName::SecretsManager(name.to_owned()))
            }
            Some(("ssm", name)) if fits(name) => Ok(SecretName::Parameter(name.to_owned())),
            Some(_) | None => {
                Err("expected `secretsmanager:<name or ARN>` or `ssm:<parameter name>`".to_owned())
            }
        }
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretName::SecretsManager(name) => write!(f, "secretsmanager:{name}"),
            SecretName::Parameter(name) => write!(f, "ssm:{name}"),
        }
    }
}

impl SecretName {
    /// Returns the path and query of the request to the extension.
    fn path(&self) -> String {
        match self {
            SecretName::SecretsManager(name) => {
                format!("/secretsmanager/get?secretId={}", percent_encoded(name))
            }
            SecretName::Parameter(name) => {
                let name = percent_encoded(name);
                format!("/systemsmanager/parameters/get?name={name}&withDecryption=true")
            }
        }
    }

    /// Returns the JSON pointer to the secret in the extension's response.
    const fn pointer(&self) -> &'static str {
        match self {
            SecretName::SecretsManager(_) => "/SecretString",
            SecretName::Parameter(_) => "/Parameter/Value",
        }
    }
}

/// The header that a secret is sent in: `SINK_SECRET_HEADER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretHeader(String);

impl Default for SecretHeader {
    fn default() -> SecretHeader {
        SecretHeader("authorization".to_owned())
    }
}

impl FromStr for SecretHeader {
    type Err = String;

    fn from_str(text: &str) -> Result<SecretHeader, String> {
        if HeaderName::from_lowercase(text.as_bytes()).is_err() {
            return Err("expected the name of a header in lower case".to_owned());
        }
        if HEADERS.contains(&text) {
            return Err("expected a header that the sink does not set itself".to_owned());
        }
        Ok(SecretHeader(text.to_owned()))
    }
}

impl SecretHeader {
    /// Returns the name in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a secret is kept and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretConfig {
    /// The service that keeps the secret, and its name there.
    pub name: SecretName,
    /// The header that carries the secret; used by the sink `https:` only.
    pub header: SecretHeader,
    /// The port of the AWS Parameters and Secrets Lambda Extension.
    pub port: u16,
}

impl SecretConfig {
    /// Reads where the secret is kept. Errors do not quote a wrong `SINK_SECRET`: it may be the secret itself.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<SecretConfig> {
        let name = reader.text(&SINK_SECRET, |text| Some(text.parse::<SecretName>()));
        let header = reader.text_with(&SINK_SECRET_HEADER, str::parse::<SecretHeader>);
        let port = reader.text(&SECRETS_PORT, |text| {
            text.parse::<u16>().ok().filter(|port| *port > 0)
        });
        let header_alone = header.is_some() && reader.is_set(&SINK_SECRET_HEADER) && name.is_none();
        reader.rule(
            "`SINK_SECRET_HEADER` is set only with `SINK_SECRET`.",
            header_alone
                .then(|| format!("`{SINK_SECRET_HEADER}` is set, but `{SINK_SECRET}` is not")),
        );
        match name? {
            Ok(name) => Some(SecretConfig {
                name,
                header: header?,
                port: port?,
            }),
            Err(words) => {
                reader.problem(format!("`{SINK_SECRET}`: wrong value (not shown): {words}"));
                None
            }
        }
    }

    pub(crate) fn reader(&self, sdk: &Sdk) -> SecretReader {
        SecretReader::new(&self.name, self.port, sdk.session_token())
    }
}

/// Reads a secret at each use through the AWS Parameters and Secrets Lambda Extension, which is a layer of the function. The
/// extension calls Secrets Manager or Systems Manager and caches the secret, by default for 300 s. It replies only during
/// invocations, not during a cold start.
///
/// Sources: <https://docs.aws.amazon.com/secretsmanager/latest/userguide/retrieving-secrets_lambda.html>,
/// <https://docs.aws.amazon.com/systems-manager/latest/userguide/ps-integration-lambda-extensions.html> (2026-11).
#[derive(Debug)]
pub struct SecretReader {
    connector: SharedHttpConnector,
    /// The URL of the extension, without a path.
    url: String,
    /// The function's session token, which the extension requires in a header.
    token: Option<Secret>,
    name: SecretName,
}

impl SecretReader {
    /// Returns a reader that calls the extension at `port` of this machine.
    pub fn new(name: &SecretName, port: u16, token: Option<String>) -> SecretReader {
        // No TLS: the request does not leave the machine.
        let connector = Connector::builder()
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .build_http();
        SecretReader {
            connector: SharedHttpConnector::new(connector),
            url: format!("http://localhost:{port}"),
            token: token.map(Secret::from),
            name: name.clone(),
        }
    }

    /// Reads the secret.
    ///
    /// # Errors
    /// Retryable, with the name of the secret: an operator can create the secret while the batch waits.
    pub async fn read(&self) -> Result<Secret, SinkError> {
        match tokio::time::timeout(READ_TIMEOUT, self.request()).await {
            Ok(secret) => secret.map_err(|problem| self.failed(&problem)),
            Err(_) => {
                let secs = READ_TIMEOUT.as_secs();
                Err(self.failed(&format!("the extension did not respond within `{secs}` s")))
            }
        }
    }

    /// Returns the error of a secret that cannot be read or used.
    pub(crate) fn failed(&self, problem: &str) -> SinkError {
        SinkError::retryable(format!("secret `{}`: {problem}", self.name))
    }

    async fn request(&self) -> Result<Secret, String> {
        let token = self.token.as_ref();
        let token = token.ok_or("`AWS_SESSION_TOKEN` is not set")?;
        let url = format!("{}{}", self.url, self.name.path());
        let mut request = http_request("GET", &url, SdkBody::empty())?;
        request
            .headers_mut()
            .try_insert("x-aws-parameters-secrets-token", token.0.clone())
            .map_err(|_| "`AWS_SESSION_TOKEN` has characters that no header can carry")?;
        let response = self.connector.call(request).await;
        let mut response = response.map_err(|error| {
            let (url, error) = (&self.url, chain(&error));
            format!(
                "no response from the extension at `{url}`: {error}; is its layer in the function?"
            )
        })?;
        let status = response.status().as_u16();
        if status != 200 {
            // The body is not quoted, because it might contain the secret. The extension logs the cause.
            return Err(format!(
                "the extension returned HTTP status {status}, expected 200; its log has the cause"
            ));
        }
        let body = ByteStream::new(response.take_body()).collect().await;
        let body = body.map_err(|error| chain(&error))?.into_bytes();
        // The parser's error is dropped, because it may quote the secret.
        let response: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let pointer = self.name.pointer();
        match response.pointer(pointer).and_then(Value::as_str) {
            Some(text) if !text.is_empty() => Ok(Secret(text.to_owned())),
            Some(_) | None => Err(format!(
                "the extension's response has no text at `{pointer}`"
            )),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::stand_in::StandIn;
    use crate::tests_support::reason;

    pub(crate) const ANSWER: &str = r#"{"Name":"key","SecretString":"Bearer hush\n"}"#;

    pub(crate) fn reader(extension: &StandIn, name: &str) -> SecretReader {
        let name = name.parse().unwrap();
        let mut reader = SecretReader::new(&name, 1, Some("token".to_owned()));
        reader.url = extension.url().to_owned();
        reader
    }

    #[test]
    fn a_password_is_a_whole_secret_or_its_field_and_is_never_debugged() {
        for (text, expected) in [
            ("word\n", "word"),
            ("{word", "{word"),
            ("\"word\"", "\"word\""),
            (r#"{"username":"u","password":"wo\"rd"}"#, "wo\"rd"),
            (r#"{"password":7}"#, r#"{"password":7}"#),
        ] {
            let secret = Secret::from(text.to_owned());
            assert_eq!(secret.password(), expected);
            assert_eq!(format!("{secret:?}"), "(not shown)");
        }
    }

    #[test]
    fn a_secret_has_a_service_and_a_name() {
        for text in [
            "secretsmanager:a/b",
            "secretsmanager:arn:aws:x:y",
            "ssm:/a/b",
        ] {
            assert_eq!(text.parse::<SecretName>().unwrap().to_string(), text);
        }
        for wrong in [
            "hunter2",
            "ssm:",
            "secretsmanager:hunter 2",
            "vault:hunter2",
        ] {
            let error = wrong.parse::<SecretName>().unwrap_err();
            assert!(error.contains("`ssm:<parameter name>`"), "{error}");
            assert!(!error.contains("hunter"), "{error}");
        }
    }

    #[test]
    fn a_secret_may_be_in_any_header_that_the_sink_does_not_set() {
        assert_eq!(SecretHeader::default(), "authorization".parse().unwrap());
        assert_eq!(
            "x-api-key".parse::<SecretHeader>().unwrap().as_str(),
            "x-api-key"
        );
        for wrong in ["", "X-Api-Key", "x api", "x:y"] {
            let error = wrong.parse::<SecretHeader>().unwrap_err();
            assert!(error.contains("in lower case"), "{wrong}: {error}");
        }
        for wrong in ["idempotency-key", "batch-key", "content-encoding", "host"] {
            let error = wrong.parse::<SecretHeader>().unwrap_err();
            assert!(error.contains("does not set itself"), "{wrong}: {error}");
        }
    }

    #[tokio::test]
    async fn each_service_has_its_own_path_and_response() {
        let extension = StandIn::start().await;
        for (name, answer, path) in [
            (
                "secretsmanager:prod/key:1",
                ANSWER,
                "/secretsmanager/get?secretId=prod%2Fkey%3A1",
            ),
            (
                "ssm:/prod/key",
                r#"{"Parameter":{"Value":"Bearer hush\n"}}"#,
                "/systemsmanager/parameters/get?name=%2Fprod%2Fkey&withDecryption=true",
            ),
        ] {
            extension.answer(200, answer);
            let secret = reader(&extension, name).read().await.unwrap();
            assert_eq!(secret.expose(), "Bearer hush\n");
            let request = extension.requests().pop().unwrap();
            assert_eq!((request.method.as_str(), &*request.path), ("GET", path));
            assert_eq!(request.headers["x-aws-parameters-secrets-token"], "token");
        }
    }

    #[tokio::test]
    async fn an_unreadable_secret_is_retryable_and_in_no_error() {
        let extension = StandIn::start().await;
        for (status, answer, words) in [
            (400, "hush", "HTTP status 400"),
            (200, "hush", "no text at `/SecretString`"),
            (
                200,
                r#"{"SecretString":["hush"]}"#,
                "no text at `/SecretString`",
            ),
            (200, r#"{"SecretString":""}"#, "no text at `/SecretString`"),
        ] {
            extension.answer(status, answer);
            let reader = reader(&extension, "secretsmanager:key");
            let reason = reason(reader.read().await.unwrap_err(), false);
            assert!(reason.contains("secret `secretsmanager:key`"), "{reason}");
            assert!(reason.contains(words), "{words} in {reason}");
            assert!(!reason.contains("hush"), "{reason}");
        }
        let mut reader = reader(&extension, "secretsmanager:key");
        reader.token = None;
        let error = reader.read().await.unwrap_err().to_string();
        assert!(error.contains("`AWS_SESSION_TOKEN` is not set"), "{error}");
        reader.token = Some("token".to_owned().into());
        extension.stop().await;
        let error = reader.read().await.unwrap_err().to_string();
        assert!(error.contains("is its layer in the function?"), "{error}");
        assert!(!format!("{reader:?}").contains("token\""), "{reader:?}");
    }
}
