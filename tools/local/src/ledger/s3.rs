//! Counts the requests to S3, and their bytes.

use std::collections::BTreeSet;

use emulators::proxy::{Reply, ServiceRequest};
use planner::MILLION;
use protocol::limits::LOG_RETENTION;
use serde::Serialize;

use super::prices::PRICES;
use crate::sink;

/// Who requested what of which bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct S3Key {
    pub function: String,
    pub bucket: String,
    pub operation: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct S3Requests {
    /// Requests that S3 charges: it does not charge those that it failed itself.
    pub count: u64,
    /// Bytes of the objects that were written or read.
    pub bytes: u64,
}

impl S3Key {
    /// Returns the key of a request of a function.
    pub(super) fn of(function: &str, request: &ServiceRequest) -> S3Key {
        let bucket = request.path_and_query.trim_start_matches('/');
        let end = bucket.find(['/', '?']).unwrap_or(bucket.len());
        S3Key {
            function: function.to_owned(),
            bucket: bucket[..end].to_owned(),
            operation: request.operation.clone(),
        }
    }

    /// Returns the price of requests and of the storage of what they wrote, in dollars. Storage has a price only in the
    /// buckets of loads, which stay for weeks: other bodies are removed right after their delivery.
    pub(super) fn dollars(
        &self,
        requests: S3Requests,
        load_buckets: &BTreeSet<String>,
    ) -> (f64, f64) {
        let put = PRICES.s3_million_puts.dollars;
        let (million, stored) = match &*self.operation {
            // The cost of the sink is not in the ledger.
            _ if [sink::BUCKET, sink::PAYLOADS].contains(&&*self.bucket) => (0.0, 0),
            "PutObject" if load_buckets.contains(&self.bucket) => (put, requests.bytes),
            "PutObject" | "ListObjectsV2" => (put, 0),
            "DeleteObject" => (0.0, 0),
            _ => (PRICES.s3_million_gets.dollars, 0),
        };
        let gb_months = planner::gb_months(stored as f64, LOG_RETENTION);
        (
            requests.count as f64 * (million / MILLION),
            gb_months * PRICES.s3_gb_month.dollars,
        )
    }
}

impl S3Requests {
    /// Counts a request that got this reply.
    pub(super) fn add(&mut self, request: &ServiceRequest, reply: &Reply) {
        if reply.status.is_server_error() {
            return;
        }
        self.count += 1;
        if reply.status.is_success() {
            self.bytes += match &*request.operation {
                "PutObject" => object_bytes(request),
                _ => reply.body.len() as u64,
            };
        }
    }
}

/// Returns the length of the object in a request. The body is longer if it has a checksum in a trailer.
fn object_bytes(request: &ServiceRequest) -> u64 {
    let decoded = request.headers.get("x-amz-decoded-content-length");
    let decoded = decoded.and_then(|length| length.to_str().ok()?.parse().ok());
    decoded.unwrap_or(request.body.len() as u64)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, Method};

    use super::*;

    fn request(operation: &str, path: &str) -> ServiceRequest {
        ServiceRequest {
            operation: operation.to_owned(),
            method: Method::PUT,
            path_and_query: path.to_owned(),
            headers: HeaderMap::new(),
            body: vec![0; 100].into(),
        }
    }

    fn reply(status: u16) -> Reply {
        Reply::json(status, &"12345678".into())
    }

    #[test]
    fn objects_are_counted_by_bytes_and_failures_of_s3_not_at_all() {
        let mut put = request("PutObject", "/loads/a/b");
        let mut counted = S3Requests::default();
        counted.add(&put, &reply(200));
        let length = HeaderValue::from_static("90");
        put.headers.insert("x-amz-decoded-content-length", length);
        [200, 412, 503]
            .into_iter()
            .for_each(|status| counted.add(&put, &reply(status)));
        assert_eq!((counted.count, counted.bytes), (3, 190));
        counted.add(&request("GetObject", "/loads/a/b"), &reply(200));
        assert_eq!((counted.count, counted.bytes), (4, 200));
    }

    #[test]
    fn bodies_have_a_price_and_the_sink_has_none() {
        let requests = S3Requests {
            count: 1_000,
            bytes: 1 << 30,
        };
        let dollars = |operation, path| {
            let key = S3Key::of("f", &request(operation, path));
            key.dollars(requests, &BTreeSet::from(["loads".to_owned()]))
        };
        let (put, storage) = dollars("PutObject", "/loads/a/b?x-id=PutObject");
        assert!(
            (put - 0.005).abs() < 1e-9 && (0.030..0.031).contains(&storage),
            "{put} {storage}"
        );
        assert_eq!(dollars("GetObject", "/loads/a"), (0.4 / 1e3, 0.0));
        // A body of `OVERFLOW_BUCKET` is removed after its delivery.
        assert_eq!(dollars("PutObject", "/large/a"), (0.005, 0.0));
        assert_eq!(dollars("PutObject", "/batches/a"), (0.0, 0.0));
    }
}
