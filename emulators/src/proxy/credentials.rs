//! Credentials that expire before their environment is gone: from a drawn moment on, every request that is signed with
//! them is refused, until the process ends.
//!
//! Every environment of the Lambda host has an access key of its own, by which its requests are known.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use serde::Serialize;

use super::call::{Reply, Service};
use crate::draws::{Draws, Percent};

/// Credentials that expire do so within this time from their first use.
const EXPIRES_WITHIN: Duration = Duration::from_secs(5);

/// The credentials of all environments that have asked for anything.
#[derive(Debug)]
pub struct Credentials {
    percent: Percent,
    seed: u64,
    lives: Mutex<BTreeMap<String, Life>>,
}

/// Environments whose credentials expired.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ExpiredCredentialsReport {
    /// How many have been refused a request.
    pub environments: u64,
    /// How many of those have ended by themselves.
    pub ended_themselves: u64,
    /// Requests that were refused.
    pub requests_refused: u64,
}

#[derive(Debug)]
struct Life {
    /// `None` if they outlive their environment.
    expires_at: Option<Instant>,
    refused: u64,
    ended: bool,
}

impl Credentials {
    /// Lets the credentials of this share of the environments expire within 5 s of their first request.
    pub fn new(seed: u64, percent: Percent) -> Credentials {
        Credentials {
            percent,
            seed,
            lives: Mutex::default(),
        }
    }

    /// Returns the reply to a request whose credentials have expired, and `None` for any other.
    pub(super) fn refusal(&self, service: Service, headers: &HeaderMap) -> Option<Reply> {
        self.refusal_at(service, access_key(headers)?, Instant::now())
    }

    fn refusal_at(&self, service: Service, access_key: &str, now: Instant) -> Option<Reply> {
        let reply = expired(service)?;
        let mut lives = self.lives();
        let life = lives
            .entry(access_key.to_owned())
            .or_insert_with(|| self.life(access_key, now));
        if life.expires_at.is_none_or(|expires_at| now < expires_at) {
            return None;
        }
        life.refused += 1;
        Some(reply)
    }

    /// A stream of draws for each, so that it does not matter who asks first.
    fn life(&self, access_key: &str, now: Instant) -> Life {
        let draws = Draws::new(self.seed, &format!("credentials of {access_key}"));
        let after = draws.within(EXPIRES_WITHIN);
        Life {
            expires_at: draws.strikes(self.percent).then(|| now + after),
            refused: 0,
            ended: false,
        }
    }

    /// Takes note that the process that had these credentials has exited; with a signal, somebody ended it.
    pub fn exited(&self, access_key: &str, exit: Option<ExitStatus>) {
        let by_itself = exit.is_some_and(|exit| exit.code().is_some());
        if let Some(life) = self.lives().get_mut(access_key)
            && life.refused > 0
        {
            life.ended = by_itself;
        }
    }

    /// Returns what expired credentials have done so far.
    pub fn report(&self) -> ExpiredCredentialsReport {
        let lives = self.lives();
        let refused = lives.values().filter(|life| life.refused > 0);
        ExpiredCredentialsReport {
            environments: refused.clone().count() as u64,
            ended_themselves: refused.clone().filter(|life| life.ended).count() as u64,
            requests_refused: refused.map(|life| life.refused).sum(),
        }
    }

    fn lives(&self) -> MutexGuard<'_, BTreeMap<String, Life>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Each service has its own name for it. `x-amzn-query-error` has the code that SQS's older protocol had, which SDKs report.
/// Sources: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html>,
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html>,
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html> (2026-11).
fn expired(service: Service) -> Option<Reply> {
    const SHAPE: &str = "com.amazon.coral.service#ExpiredTokenException";
    const MESSAGE: &str = "The security token included in the request is expired";
    match service {
        Service::DynamoDb => Some(Reply::error(400, SHAPE, MESSAGE)),
        Service::Sqs => Some(
            Reply::error(403, SHAPE, MESSAGE)
                .with_header("x-amzn-query-error", "ExpiredToken;Sender"),
        ),
        Service::S3 => Some(Reply::s3_error(
            400,
            "ExpiredToken",
            "The provided token has expired.",
        )),
        // Any other service knows nothing of these credentials.
        Service::Http => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn credentials(percent: &str) -> Credentials {
        Credentials::new(0, percent.parse().unwrap())
    }

    fn expires(credentials: &Credentials, access_key: &str) -> bool {
        let now = Instant::now();
        let refused = |at| credentials.refusal_at(Service::DynamoDb, access_key, at);
        refused(now);
        refused(now + EXPIRES_WITHIN).is_some()
    }

    #[test]
    fn so_many_environments_expire_and_the_same_ones_for_the_same_seed() {
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
    fn what_has_expired_stays_so_until_its_process_ends_by_itself() {
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
    fn whose_request_it_is_stands_in_its_signature() {
        let mut headers = HeaderMap::new();
        assert_eq!(access_key(&headers), None);
        let signed = "AWS4-HMAC-SHA256 Credential=local.f.3/20261101/us-east-1/sqs/aws4_request, SignedHeaders=host";
        headers.insert(header::AUTHORIZATION, signed.parse().unwrap());
        assert_eq!(access_key(&headers), Some("local.f.3"));
    }
}
