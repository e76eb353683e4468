//! Helpers of the sinks that call an endpoint, a function or a database.

/// How much of a response an error quotes.
pub(crate) const EXCERPT_BYTES_MAX: usize = 200;

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
