//! Who is shown what passes a proxy.

use std::fmt::Debug;

use bytes::Bytes;

use super::call::{Call, Reply, Service};

/// Sees the requests that pass a proxy, and their replies.
pub trait Observer: Debug + Send + Sync {
    /// Takes note of a request that has come, whatever becomes of it.
    fn asked(&self, service: Service, call: &Call) {
        let _ = (service, call);
    }

    /// Takes note of a request that goes on to the service. Returns the body with which it goes on.
    fn sends(&self, service: Service, operation: &str, body: Bytes) -> Bytes {
        let _ = (service, operation);
        body
    }

    /// Takes note of a reply of the service; `request` is the body that [`sends`](Self::sends) returned.
    fn answered(&self, service: Service, operation: &str, request: &[u8], reply: &Reply) {
        let _ = (service, operation, request, reply);
    }
}

/// Observes nothing.
impl Observer for () {}
