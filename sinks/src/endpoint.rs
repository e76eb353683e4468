//! What sinks that call somebody share.

/// How much of an answer that refuses a part is kept.
#[cfg(any(feature = "http", feature = "lambda"))]
pub(crate) const ANSWER_BYTES_MAX: usize = 200;

/// The first bytes of an answer, for an error.
#[cfg(any(feature = "http", feature = "lambda"))]
pub(crate) fn beginning(answer: &[u8]) -> String {
    let bytes = &answer[..answer.len().min(ANSWER_BYTES_MAX)];
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

/// Whether a host is this machine, to which nothing needs to be encrypted.
#[cfg(feature = "http")]
pub(crate) fn is_loopback(host: &str) -> bool {
    let ip = host.parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}
