//! Headers of the sink `https:`.

/// The headers that a request has anyway, by the sink and by the connection.
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
