//! The ports of the services that other clients connect to.

use std::net::TcpListener;

use anyhow::Context;

/// The listeners of the services. All are bound before anything starts.
pub(super) struct Ports {
    pub(super) sqs: TcpListener,
    pub(super) dynamodb: TcpListener,
    pub(super) s3: TcpListener,
}

impl Ports {
    /// Binds SQS to the port `base`, DynamoDB to the next one, and S3 to the one after that; each to a free port if there is no
    /// `base`.
    pub(super) fn bind(base: Option<u16>) -> anyhow::Result<Ports> {
        let bind = |service: &str, offset: u16| {
            let port = base.map_or(0, |base| base.saturating_add(offset));
            TcpListener::bind(("127.0.0.1", port)).with_context(|| {
                format!("`--port`: {service} cannot listen: got port {port}, expected a free one")
            })
        };
        Ok(Ports {
            sqs: bind("SQS", 0)?,
            dynamodb: bind("DynamoDB", 1)?,
            s3: bind("S3", 2)?,
        })
    }
}
