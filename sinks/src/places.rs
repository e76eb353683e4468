//! Checks of the URIs and ARNs that name the destination of a sink.

use http::Uri;
use shared::config::bucket_name;

use crate::arn::{Arn, parse as parse_arn};
use crate::endpoint::is_loopback;

/// The longest prefix. S3 allows names of 1,024 bytes, and the sink appends fewer than 224 bytes to the prefix.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html> (2026-08).
const PREFIX_BYTES_MAX: usize = 800;

/// Returns the bucket and the prefix of a URI; `rest` is the URI without `s3:`.
pub(crate) fn bucket_and_prefix(rest: &str) -> Option<(String, String)> {
    let rest = rest.strip_prefix("//")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let steps = prefix.is_empty() && !rest.ends_with("//")
        || prefix.len() <= PREFIX_BYTES_MAX
            && prefix.split('/').all(|step| !step.is_empty())
            && !prefix.contains(char::is_control);
    (bucket_name(bucket).is_some() && steps).then(|| (bucket.to_owned(), prefix.to_owned()))
}

/// Checks the URL of an endpoint; returns it unchanged.
pub(crate) fn endpoint(text: &str) -> Result<String, String> {
    let wrong = || "expected `https://host/path`, without a user in it".to_owned();
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return Err(wrong());
    }
    let host = authority.host().trim_matches(['[', ']']);
    match uri.scheme_str() {
        Some("https") => Ok(text.to_owned()),
        Some("http") if is_loopback(host) => Ok(text.to_owned()),
        Some("http") => Err(
            "`http://` is allowed only to `localhost` and other loopback addresses, expected `https://host/path`"
                .to_owned(),
        ),
        Some(_) | None => Err(wrong()),
    }
}

/// Checks the URL of a database; returns it unchanged.
#[cfg(feature = "full")]
pub(crate) fn database(text: &str) -> Result<String, String> {
    use tokio_postgres::config::Host;

    let wrong = |words: &str| format!("{words}, expected `postgres://user@host/database`");
    let config: tokio_postgres::Config = text.parse().map_err(|error| {
        wrong(&format!(
            "not a database URL: {}",
            shared::aws::chain(&error)
        ))
    })?;
    if config.get_password().is_some() {
        return Err(wrong(
            "a URL with a password, which belongs in the secret named by `SINK_SECRET` or in `SINK_PASSWORD`",
        ));
    }
    if config.get_user().is_none() || config.get_dbname().is_none() {
        return Err(wrong("the user or the database is missing"));
    }
    match config.get_hosts() {
        [Host::Tcp(_)] => Ok(text.to_owned()),
        _ => Err(wrong("more than one host, or a socket")),
    }
}

#[cfg(not(feature = "full"))]
pub(crate) fn database(_: &str) -> Result<String, String> {
    Err(shared::config::WITHOUT_FULL.to_owned())
}

/// Parses the ARN of a Lambda function; returns `None` if `text` is something else.
/// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>, `FunctionName` (2026-11).
pub(crate) fn function(text: &str) -> Option<Arn<'_>> {
    let arn = parse_arn(text, "lambda", "function")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    arn.name.chars().all(fits).then_some(arn)
}

/// Parses the ARN of a state machine; returns `None` if `text` is something else.
pub(crate) fn state_machine(text: &str) -> Option<Arn<'_>> {
    let arn = parse_arn(text, "states", "stateMachine")?;
    // An ARN with a slash names a map state inside a state machine, which cannot be started.
    let fits =
        |c: char| !c.is_whitespace() && !c.is_control() && !"<>{}[]?*\"#%\\^|~`$&,;/".contains(c);
    arn.name.chars().all(fits).then_some(arn)
}
