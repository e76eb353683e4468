//! Helpers of the sinks that call an endpoint, a function or a database.

use http::Uri;

/// How much of a response an error quotes.
pub(crate) const EXCERPT_BYTES_MAX: usize = 200;

/// The headers that the sink `https:` or the connection sets. A secret cannot be sent in one of them.
pub(crate) const HEADERS: [&str; 11] = [
    "idempotency-key",
    "content-type",
    "batch-id",
    "batch-part",
    "batch-count",
    "content-encoding",
    "batch-key",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
];

/// Returns the first bytes of a response, escaped, for an error.
pub(crate) fn excerpt(response: &[u8]) -> String {
    let bytes = &response[..response.len().min(EXCERPT_BYTES_MAX)];
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

/// Returns whether a host is this machine. Connections to it need no encryption.
pub(crate) fn is_loopback(host: &str) -> bool {
    let ip = host.parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// Checks the URL of an endpoint.
pub(crate) fn check_url(url: &str) -> Result<(), String> {
    let wrong = || "expected `https://host/path`, without a user in it".to_owned();
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return Err(wrong());
    }
    let host = authority.host().trim_matches(['[', ']']);
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_loopback(host) => Ok(()),
        Some("http") => Err(
            "`http://` is allowed only to `localhost` and other loopback addresses, expected `https://host/path`"
                .to_owned(),
        ),
        Some(_) | None => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::check_url;
    use crate::tests_support::assert_has;

    #[test]
    fn http_without_tls_is_only_for_loopback_hosts() {
        for url in [
            "https://host/path?x=y",
            "https://host",
            "http://localhost:8080/",
            "http://127.0.0.1/in",
            "http://[::1]:8080",
        ] {
            assert_eq!(check_url(url), Ok(()));
        }
        for wrong in [
            "http://host/",
            "http://127.0.0.1.example/",
            "http://10.0.0.1",
            "http://localhost.example:80",
        ] {
            let error = check_url(wrong).unwrap_err();
            assert_has(&error, &["`http://` is allowed only to `localhost`"]);
        }
        for wrong in [
            "https:",
            "https://",
            "https:///path",
            "https://user:word@host/",
            "https://ho st/",
        ] {
            let error = check_url(wrong).unwrap_err();
            assert!(error.contains("`https://host/path`"), "{wrong}: {error}");
        }
    }
}
