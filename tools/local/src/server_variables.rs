//! Variables that tell the batch-processor where a stand-in is.

/// Returns the variables of a sink that logs in to a server.
pub(crate) fn server_variables(
    url: String,
    host_key: String,
    password: String,
) -> Vec<(&'static str, String)> {
    vec![
        ("SINK", url),
        ("SINK_HOST_KEY", host_key),
        ("SINK_PASSWORD", password),
    ]
}
