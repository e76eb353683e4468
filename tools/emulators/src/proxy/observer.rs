//! The trait that is shown the requests and replies of a proxy.

use std::fmt::Debug;

use bytes::Bytes;

use super::request::{Reply, Service, ServiceRequest};

/// Sees the requests that a proxy receives and forwards, and the replies of the service. `()` ignores them.
pub trait Observer: Debug + Send + Sync {
    /// Is called with each request that the proxy neither failed nor refused for expired credentials. Other faults may
    /// still keep the request from the service.
    fn received(&self, _service: Service, _request: &ServiceRequest) {}

    /// Is called before a request is sent to the service; returns the body to send in place of its own.
    fn forwards(&self, _service: Service, request: &ServiceRequest) -> Bytes {
        request.body.clone()
    }

    /// Is called with each reply of the service, also if the proxy then loses the reply. `request` has the body that
    /// [`forwards`](Self::forwards) returned.
    fn replied(&self, _service: Service, _request: &ServiceRequest, _reply: &Reply) {}
}

impl Observer for () {}
