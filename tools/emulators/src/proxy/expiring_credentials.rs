//! Credentials that expire while their environment still runs: from a random moment on, the proxy refuses every request
//! that is signed with them.
//!
//! The Lambda host gives each environment its own access key, which identifies the environment of a request.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, header};
use serde::Serialize;

use super::request::{Reply, Service};
use crate::locked::locked;
use crate::random::{Percent, RandomStream};

/// Longest time from the first request with an access key until the key expires.
const EXPIRES_WITHIN: Duration = Duration::from_secs(5);

/// The access keys that requests were signed with, and when each expires.
#[derive(Debug)]
pub struct ExpiringCredentials {
    percent: Percent,
    seed: u64,
    keys: Mutex<BTreeMap<String, KeyState>>,
    ended: AtomicBool,
}

/// Counts of environments whose credentials expired, and of their requests.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ExpiredCredentialsReport {
    /// Environments that had a request refused.
    pub environments: u64,
    /// Those of them whose process then exited by itself.
    pub ended_themselves: u64,
    /// Requests refused.
    pub requests_refused: u64,
}

#[derive(Debug)]
struct KeyState {
    /// `None` if the key never expires.
    expires_at: Option<Instant>,
    refused: u64,
    exited_by_itself: bool,
}

impl ExpiringCredentials {
    /// Makes credentials of which `percent` expire, each within 5 s of the first request that is signed with it. Equal seeds
    /// let the same access keys expire.
    pub fn new(seed: u64, percent: Percent) -> ExpiringCredentials {
        ExpiringCredentials {
            percent,
            seed,
            keys: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Ends the fault: no request is refused any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Returns the error for a request whose credentials have expired; `None` for any other request.
    pub(super) fn refusal(&self, service: Service, headers: &HeaderMap) -> Option<Reply> {
        self.refusal_at(service, access_key(headers)?, Instant::now())
    }

    fn refusal_at(&self, service: Service, access_key: &str, now: Instant) -> Option<Reply> {
        if self.ended.load(Ordering::Relaxed) {
            return None;
        }
        let reply = expired(service)?;
        let mut keys = locked(&self.keys);
        let key = keys
            .entry(access_key.to_owned())
            .or_insert_with(|| self.new_key(access_key, now));
        if key.expires_at.is_none_or(|expires_at| now < expires_at) {
            return None;
        }
        key.refused += 1;
        Some(reply)
    }

    /// Draws whether and when an access key expires. Each key has its own random stream, so that the result does not depend
    /// on the order of first requests.
    fn new_key(&self, access_key: &str, now: Instant) -> KeyState {
        let draws = RandomStream::new(self.seed, &format!("credentials of {access_key}"));
        let after = draws.duration_up_to(EXPIRES_WITHIN);
        KeyState {
            expires_at: draws.happens(self.percent).then(|| now + after),
            refused: 0,
            exited_by_itself: false,
        }
    }

    /// Records that the process with this access key has exited. It counts as having exited by itself if `exit` has an exit
    /// code; `None` means that the host ended the process.
    pub fn exited(&self, access_key: &str, exit: Option<ExitStatus>) {
        let by_itself = exit.is_some_and(|exit| exit.code().is_some());
        if let Some(key) = locked(&self.keys).get_mut(access_key)
            && key.refused > 0
        {
            key.exited_by_itself = by_itself;
        }
    }

    /// Returns the counts so far.
    pub fn report(&self) -> ExpiredCredentialsReport {
        let keys = locked(&self.keys);
        let refused = keys.values().filter(|key| key.refused > 0);
        ExpiredCredentialsReport {
            environments: refused.clone().count() as u64,
            ended_themselves: refused.clone().filter(|key| key.exited_by_itself).count() as u64,
            requests_refused: refused.map(|key| key.refused).sum(),
        }
    }
}

/// Returns the access key that a request is signed with; `None` if it is not signed.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-authentication-methods.html> (2026-11).
pub fn access_key(headers: &HeaderMap) -> Option<&str> {
    let authorization = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, credential) = authorization.split_once("Credential=")?;
    let (access_key, _scope) = credential.split_once('/')?;
    Some(access_key)
}

/// Returns the error with which a service refuses expired credentials. SQS's `x-amzn-query-error` header has the code of its
/// older query protocol, which SDKs report.
/// Sources: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html>,
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html>,
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html> (2026-11).
fn expired(service: Service) -> Option<Reply> {
    const SHAPE: &str = "com.amazon.coral.service#ExpiredTokenException";
    const MESSAGE: &str = "The security token included in the request is expired";
    match service {
        Service::DynamoDb => Some(Reply::error(400, SHAPE, MESSAGE)),
        Service::Sqs => {
            let name = HeaderName::from_static("x-amzn-query-error");
            Some(Reply::error(403, SHAPE, MESSAGE).with_header(name, "ExpiredToken;Sender"))
        }
        Service::S3 => {
            let message = "The provided token has expired.";
            Some(Reply::s3_error(400, "ExpiredToken", message))
        }
        // Any other service does not check AWS credentials.
        Service::Http => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn credentials(percent: &str) -> ExpiringCredentials {
        ExpiringCredentials::new(0, percent.parse().unwrap())
    }

    fn expires(credentials: &ExpiringCredentials, access_key: &str) -> bool {
        let now = Instant::now();
        let refused = |at| credentials.refusal_at(Service::DynamoDb, access_key, at);
        refused(now);
        refused(now + EXPIRES_WITHIN).is_some()
    }

    #[test]
    fn the_given_share_of_environments_expires_and_equal_seeds_choose_the_same() {
        let drawn = || {
            let credentials = credentials("30");
            let expires = |number| expires(&credentials, &format!("local.f.{number}"));
            Vec::from_iter((0..200).filter(|number| expires(*number)))
        };
        let first = drawn();
        assert!((30..90).contains(&first.len()), "{}", first.len());
        assert_eq!(first, drawn());
    }

    #[test]
    fn expired_credentials_count_as_ended_by_themselves_only_without_a_signal() {
        let credentials = credentials("100");
        assert!(expires(&credentials, "a") && expires(&credentials, "b"));
        let exit = |raw| Some(ExitStatus::from_raw(raw));
        credentials.exited("a", exit(1 << 8));
        // By SIGKILL.
        credentials.exited("b", exit(9));
        credentials.exited("never seen", exit(0));
        let report = credentials.report();
        assert_eq!((report.environments, report.ended_themselves), (2, 1));
        assert!(report.requests_refused >= 2);
    }

    #[test]
    fn the_access_key_is_read_from_the_signature() {
        let mut headers = HeaderMap::new();
        assert_eq!(access_key(&headers), None);
        let signed = "AWS4-HMAC-SHA256 Credential=local.f.3/20261101/us-east-1/sqs/aws4_request, SignedHeaders=host";
        headers.insert(header::AUTHORIZATION, signed.parse().unwrap());
        assert_eq!(access_key(&headers), Some("local.f.3"));
    }
}
