//! The URIs and ARNs that `SINK`, `SINK_REJECTS` and `SINK_PAYLOADS` take.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use shared::config::in_full_build;

use crate::address::Address;
use crate::places;

/// A destination: the value of `SINK`, `SINK_REJECTS` or `SINK_PAYLOADS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkUri {
    /// `log:` logs the counts of each part, and stores nothing.
    Log,
    /// `file:///directory`.
    File(PathBuf),
    /// `s3://bucket/prefix`.
    S3 {
        /// The name of the bucket.
        bucket: String,
        /// The prefix of all object names, without the slash that follows it; may be empty.
        prefix: String,
    },
    /// `https://host/path`, or `http://` with a loopback host.
    Http(String),
    /// `postgres://user@host/database`.
    Postgres(String),
    /// `sftp://user@host[:port]/path`.
    Sftp(Address),
    /// `arn:<partition>:lambda:<region>:<account>:function:<name>[:<qualifier>]`.
    Lambda {
        /// The whole ARN.
        arn: String,
        /// The region in the ARN.
        region: String,
    },
    /// `arn:<partition>:states:<region>:<account>:stateMachine:<name>[:<qualifier>]`.
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
            SinkUri::S3 { .. } => SinkKind::S3,
            SinkUri::Http(_) => SinkKind::Http,
            SinkUri::Postgres(_) => SinkKind::Postgres,
            SinkUri::Sftp(_) => SinkKind::Sftp,
            SinkUri::Lambda { .. } => SinkKind::Lambda,
            SinkUri::States { .. } => SinkKind::States,
        }
    }
}

impl FromStr for SinkUri {
    type Err = String;

    fn from_str(text: &str) -> Result<SinkUri, String> {
        let full = |uri: Result<SinkUri, String>| in_full_build(()).and(uri);
        match text.split_once(':') {
            Some(("log", "")) => Ok(SinkUri::Log),
            Some(("file", path)) if path.starts_with("///") && path.len() > 3 => {
                Ok(SinkUri::File(PathBuf::from(&path[2..])))
            }
            Some(("https", _)) => places::endpoint(text).map(SinkUri::Http),
            Some(_) if text.starts_with("http://") => places::endpoint(text).map(SinkUri::Http),
            Some(("s3", rest)) => full(s3_uri(rest)),
            Some(("postgres" | "postgresql", _)) => {
                full(places::database(text).map(SinkUri::Postgres))
            }
            Some(("sftp", _)) => full(text.parse().map(SinkUri::Sftp)),
            Some(("arn", rest)) if rest.split(':').nth(1) == Some("lambda") => {
                full(lambda_uri(text))
            }
            Some(("arn", rest)) if rest.split(':').nth(1) == Some("states") => {
                full(states_uri(text))
            }
            Some(_) | None => Err(format!("expected {SINK_URIS}")),
        }
    }
}

fn s3_uri(rest: &str) -> Result<SinkUri, String> {
    places::bucket_and_prefix(rest)
        .map(|(bucket, prefix)| SinkUri::S3 { bucket, prefix })
        .ok_or_else(|| {
            "expected `s3://bucket/prefix`: a bucket of 3 to 63 of `a-z 0-9 . -`, and a prefix of at most 800 bytes \
             in which no two slashes meet"
                .to_owned()
        })
}

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

impl fmt::Display for SinkUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkUri::Log => f.write_str("log:"),
            SinkUri::File(path) => write!(f, "file://{}", path.display()),
            SinkUri::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            SinkUri::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            SinkUri::Http(url) => f.write_str(url),
            SinkUri::Postgres(url) => f.write_str(url),
            SinkUri::Sftp(address) => address.fmt(f),
            SinkUri::Lambda { arn, .. } => f.write_str(arn),
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
}
