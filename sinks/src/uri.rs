//! The URIs and ARNs that `SINK`, `SINK_REJECTS` and `SINK_PAYLOADS` take.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(any(
    feature = "http",
    feature = "lambda",
    feature = "postgres",
    feature = "s3",
    feature = "states"
))]
use crate::places;
#[cfg(feature = "sftp")]
use crate::sftp::Address;

/// A destination: the value of `SINK`, `SINK_REJECTS` or `SINK_PAYLOADS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkUri {
    /// `log:` logs the counts of each part, and stores nothing.
    Log,
    /// `file:///directory`.
    File(PathBuf),
    /// `s3://bucket/prefix`.
    #[cfg(feature = "s3")]
    S3 {
        /// The name of the bucket.
        bucket: String,
        /// The prefix of all object names, without the slash that follows it; may be empty.
        prefix: String,
    },
    /// `https://host/path`, or `http://` with a loopback host.
    #[cfg(feature = "http")]
    Http(String),
    /// `postgres://user@host/database`.
    #[cfg(feature = "postgres")]
    Postgres(String),
    /// `sftp://user@host[:port]/path`.
    #[cfg(feature = "sftp")]
    Sftp(Address),
    /// `arn:<partition>:lambda:<region>:<account>:function:<name>[:<qualifier>]`.
    #[cfg(feature = "lambda")]
    Lambda {
        /// The whole ARN.
        arn: String,
        /// The region in the ARN.
        region: String,
    },
    /// `arn:<partition>:states:<region>:<account>:stateMachine:<name>[:<qualifier>]`.
    #[cfg(feature = "states")]
    States {
        /// The whole ARN.
        arn: String,
        /// The region in the ARN.
        region: String,
    },
}

/// The kind of destination that a [`SinkUri`] names. It has all kinds, whatever features this executable was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// The log, which stores nothing.
    Log,
    /// Files in a directory.
    File,
    /// Objects in a bucket.
    S3,
    /// An HTTP endpoint.
    Http,
    /// A table of a PostgreSQL database.
    Postgres,
    /// Files on an SSH server.
    Sftp,
    /// A Lambda function.
    Lambda,
    /// A state machine of Step Functions.
    States,
}

impl fmt::Display for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SinkKind::Log => "log:",
            SinkKind::File => "file:",
            SinkKind::S3 => "s3:",
            SinkKind::Http => "https:",
            SinkKind::Postgres => "postgres:",
            SinkKind::Sftp => "sftp:",
            SinkKind::Lambda => "arn:…:lambda:…",
            SinkKind::States => "arn:…:states:…",
        })
    }
}

/// The forms of a [`SinkUri`], for errors and documentation.
pub(crate) const SINK_URIS: &str = "`file:///directory`, `s3://bucket/prefix`, `https://host/path`, `postgres://user@host/database`, \
                                    `sftp://user@host/path`, the ARN of a Lambda function or of a state machine, or `log:`, which delivers nowhere";

impl SinkUri {
    /// Returns the kind of the destination.
    pub const fn kind(&self) -> SinkKind {
        match self {
            SinkUri::Log => SinkKind::Log,
            SinkUri::File(_) => SinkKind::File,
            #[cfg(feature = "s3")]
            SinkUri::S3 { .. } => SinkKind::S3,
            #[cfg(feature = "http")]
            SinkUri::Http(_) => SinkKind::Http,
            #[cfg(feature = "postgres")]
            SinkUri::Postgres(_) => SinkKind::Postgres,
            #[cfg(feature = "sftp")]
            SinkUri::Sftp(_) => SinkKind::Sftp,
            #[cfg(feature = "lambda")]
            SinkUri::Lambda { .. } => SinkKind::Lambda,
            #[cfg(feature = "states")]
            SinkUri::States { .. } => SinkKind::States,
        }
    }
}

impl FromStr for SinkUri {
    type Err = String;

    fn from_str(text: &str) -> Result<SinkUri, String> {
        match text.split_once(':') {
            Some(("log", "")) => Ok(SinkUri::Log),
            Some(("file", path)) if path.starts_with("///") && path.len() > 3 => {
                Ok(SinkUri::File(PathBuf::from(&path[2..])))
            }
            Some(("s3", rest)) => s3_uri(rest),
            Some(("https", _)) => http_uri(text),
            Some(_) if text.starts_with("http://") => http_uri(text),
            Some(("postgres" | "postgresql", _)) => postgres_uri(text),
            Some(("sftp", _)) => sftp_uri(text),
            Some(("arn", rest)) if rest.split(':').nth(1) == Some("lambda") => lambda_uri(text),
            Some(("arn", rest)) if rest.split(':').nth(1) == Some("states") => states_uri(text),
            Some(_) | None => Err(format!("expected {SINK_URIS}")),
        }
    }
}

#[cfg(feature = "s3")]
fn s3_uri(rest: &str) -> Result<SinkUri, String> {
    places::bucket_and_prefix(rest)
        .map(|(bucket, prefix)| SinkUri::S3 { bucket, prefix })
        .ok_or_else(|| {
            "expected `s3://bucket/prefix`: a bucket of 3 to 63 of `a-z 0-9 . -`, and a prefix of at most 800 bytes \
             in which no two slashes meet"
                .to_owned()
        })
}

#[cfg(not(feature = "s3"))]
fn s3_uri(_: &str) -> Result<SinkUri, String> {
    not_built("s3")
}

#[cfg(feature = "http")]
fn http_uri(text: &str) -> Result<SinkUri, String> {
    places::endpoint(text).map(SinkUri::Http)
}

#[cfg(not(feature = "http"))]
fn http_uri(_: &str) -> Result<SinkUri, String> {
    not_built("http")
}

#[cfg(feature = "postgres")]
fn postgres_uri(text: &str) -> Result<SinkUri, String> {
    places::database(text).map(SinkUri::Postgres)
}

#[cfg(not(feature = "postgres"))]
fn postgres_uri(_: &str) -> Result<SinkUri, String> {
    not_built("postgres")
}

#[cfg(feature = "sftp")]
fn sftp_uri(text: &str) -> Result<SinkUri, String> {
    text.parse().map(SinkUri::Sftp)
}

#[cfg(not(feature = "sftp"))]
fn sftp_uri(_: &str) -> Result<SinkUri, String> {
    not_built("sftp")
}

#[cfg(feature = "lambda")]
fn lambda_uri(text: &str) -> Result<SinkUri, String> {
    let arn = places::function(text);
    let uri = arn.map(|arn| SinkUri::Lambda {
        arn: text.to_owned(),
        region: arn.region.to_owned(),
    });
    uri.ok_or_else(|| {
        "expected `arn:<partition>:lambda:<region>:<account>:function:<name>`, optionally followed by `:<version or alias>`"
            .to_owned()
    })
}

#[cfg(not(feature = "lambda"))]
fn lambda_uri(_: &str) -> Result<SinkUri, String> {
    not_built("lambda")
}

#[cfg(feature = "states")]
fn states_uri(text: &str) -> Result<SinkUri, String> {
    let arn = places::state_machine(text);
    let uri = arn.map(|arn| SinkUri::States {
        arn: text.to_owned(),
        region: arn.region.to_owned(),
    });
    uri.ok_or_else(|| {
        "expected `arn:<partition>:states:<region>:<account>:stateMachine:<name>`, optionally followed by `:<version or alias>`"
            .to_owned()
    })
}

#[cfg(not(feature = "states"))]
fn states_uri(_: &str) -> Result<SinkUri, String> {
    not_built("states")
}

#[cfg(not(all(
    feature = "s3",
    feature = "http",
    feature = "postgres",
    feature = "sftp",
    feature = "lambda",
    feature = "states"
)))]
fn not_built(feature: &str) -> Result<SinkUri, String> {
    Err(shared::config::not_built(feature))
}

impl fmt::Display for SinkUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkUri::Log => f.write_str("log:"),
            SinkUri::File(path) => write!(f, "file://{}", path.display()),
            #[cfg(feature = "s3")]
            SinkUri::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            #[cfg(feature = "s3")]
            SinkUri::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            #[cfg(feature = "http")]
            SinkUri::Http(url) => f.write_str(url),
            #[cfg(feature = "postgres")]
            SinkUri::Postgres(url) => f.write_str(url),
            #[cfg(feature = "sftp")]
            SinkUri::Sftp(address) => address.fmt(f),
            #[cfg(feature = "lambda")]
            SinkUri::Lambda { arn, .. } => f.write_str(arn),
            #[cfg(feature = "states")]
            SinkUri::States { arn, .. } => f.write_str(arn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_uri_is_displayed_as_it_was_parsed_and_others_are_refused() {
        for text in ["log:", "file:///data/batches"] {
            assert_eq!(text.parse::<SinkUri>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "log",
            "log:x",
            "file:",
            "file://host/x",
            "file:///",
            "s3",
            "arn:aws:s3:::bucket",
            "http:",
        ] {
            assert!(
                wrong
                    .parse::<SinkUri>()
                    .unwrap_err()
                    .contains("file:///directory"),
                "{wrong}"
            );
        }
    }

    #[cfg(feature = "s3")]
    #[test]
    fn an_s3_uri_has_a_bucket_and_maybe_a_prefix() {
        for text in ["s3://bucket", "s3://my.bucket-1/a/b c"] {
            assert_eq!(text.parse::<SinkUri>().unwrap().to_string(), text);
        }
        assert_eq!("s3://bucket/".parse(), "s3://bucket".parse::<SinkUri>());
        assert_eq!("s3://bucket/a/".parse(), "s3://bucket/a".parse::<SinkUri>());
        for wrong in [
            "s3:bucket",
            "s3://",
            "s3://b",
            "s3://Bucket",
            "s3://bucket//",
            "s3://bucket/a//b",
            "s3:///a",
        ] {
            let error = wrong.parse::<SinkUri>().unwrap_err();
            assert!(error.contains("a bucket of 3 to 63"), "{wrong}: {error}");
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn http_without_tls_is_only_for_loopback_hosts() {
        for text in [
            "https://host/path?x=y",
            "https://host",
            "http://localhost:8080/",
            "http://127.0.0.1/in",
            "http://[::1]:8080",
        ] {
            assert_eq!(text.parse::<SinkUri>().unwrap().to_string(), text);
        }
        for wrong in [
            "http://host/",
            "http://127.0.0.1.example/",
            "http://10.0.0.1",
            "http://localhost.example:80",
        ] {
            let error = wrong.parse::<SinkUri>().unwrap_err();
            assert!(
                error.contains("`http://` is allowed only to `localhost`"),
                "{wrong}: {error}"
            );
        }
        for wrong in [
            "https:",
            "https://",
            "https:///path",
            "https://user:word@host/",
            "https://ho st/",
        ] {
            let error = wrong.parse::<SinkUri>().unwrap_err();
            assert!(error.contains("`https://host/path`"), "{wrong}: {error}");
        }
    }

    #[cfg(feature = "lambda")]
    #[cfg(feature = "states")]
    #[test]
    fn functions_and_state_machines_are_named_by_their_arns() {
        const LAMBDA: &str = "arn:aws:lambda:eu-west-1:123456789012:function:f";
        const STATES: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:m";
        for text in [LAMBDA, STATES] {
            for text in [text.to_owned(), format!("{text}:live")] {
                assert_eq!(text.parse::<SinkUri>().unwrap().to_string(), text);
            }
            let error = format!("{text}:a:b").parse::<SinkUri>().unwrap_err();
            assert!(error.contains("<region>:<account>"), "{error}");
        }
    }

    #[test]
    fn the_error_of_a_sink_that_was_not_built_names_its_feature() {
        for (built, feature, text) in [
            (cfg!(feature = "s3"), "s3", "s3://bucket"),
            (cfg!(feature = "lambda"), "lambda", "arn:aws:lambda:x"),
            (cfg!(feature = "states"), "states", "arn:aws:states:x"),
            (cfg!(feature = "sftp"), "sftp", "sftp://u@h/in"),
        ] {
            if built {
                continue;
            }
            let error = text.parse::<SinkUri>().unwrap_err();
            let words = format!("cargo feature `{feature}`");
            assert!(error.contains(&words), "{error}");
        }
    }
}
