//! The payload goes around the runtime.
//!
//! `lambda_runtime` deserialises what it hands over, and notes on the way where it is, in case something is wrong: a
//! string for every name of a field. That is as much work as to read the event, and to take raw JSON instead, which is
//! another pass over all of it, is no less. So the payload is set aside before the runtime looks at it; what it
//! deserialises is the number under which the function finds it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use lambda_runtime::tower::Layer;
use lambda_runtime::{LambdaInvocation, Service};

/// The payloads of the invocations that have not begun.
#[derive(Clone, Debug, Default)]
pub struct Payloads(Arc<Mutex<SetAside>>);

#[derive(Debug, Default)]
struct SetAside {
    last: u64,
    payloads: BTreeMap<u64, Bytes>,
}

impl Payloads {
    fn set_aside(&self, payload: Bytes) -> u64 {
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        aside.last += 1;
        let number = aside.last;
        aside.payloads.insert(number, payload);
        number
    }

    /// Takes the payload with this number; an empty one if there is none.
    pub fn take(&self, number: u64) -> Bytes {
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        aside.payloads.remove(&number).unwrap_or_default()
    }
}

impl<S> Layer<S> for Payloads {
    type Service = Around<S>;

    fn layer(&self, inner: S) -> Around<S> {
        Around {
            inner,
            payloads: self.clone(),
        }
    }
}

/// The runtime, without the payloads.
#[derive(Clone, Debug)]
pub struct Around<S> {
    inner: S,
    payloads: Payloads,
}

impl<S: Service<LambdaInvocation>> Service<LambdaInvocation> for Around<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> S::Future {
        let payload = std::mem::take(&mut invocation.body);
        let number = self.payloads.set_aside(payload);
        invocation.body = number.to_string().into();
        self.inner.call(invocation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_is_found_under_its_number_once() {
        let payloads = Payloads::default();
        let numbers = ["a", "b"].map(|payload| payloads.set_aside(payload.into()));
        assert_eq!(payloads.take(numbers[1]), "b");
        assert_eq!(payloads.take(numbers[0]), "a");
        assert_eq!(payloads.take(numbers[0]), "");
    }
}
