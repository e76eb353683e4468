//! Reserved headers of the sink `https:`.

/// The headers that the sink or the connection sets. A secret cannot be sent in one of them.
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
