//! Sends at most so many requests a second, whoever asks: for a program that looks at a stack for hours.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use tokio::time::{Instant, sleep_until};

/// How many requests are sent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Requests a second, on average.
    pub per_second: u32,
    /// Requests at once, if none were sent for a while.
    pub at_once: u32,
}

/// When the next requests may be sent.
#[derive(Debug)]
struct Turns {
    pace: Pace,
    /// When all requests that were asked for would have been sent, one after the other.
    sent_by: Mutex<Option<Instant>>,
}

impl Turns {
    /// Returns when a request may be sent that is asked for now.
    fn next(&self, now: Instant) -> Instant {
        let between = Duration::from_secs(1) / self.pace.per_second;
        let ahead = between * self.pace.at_once;
        let mut sent_by = self.sent_by.lock().expect("no panic");
        let by = sent_by.map_or(now, |by| by.max(now)) + between;
        *sent_by = Some(by);
        by.checked_sub(ahead).unwrap_or(now).max(now)
    }
}

#[derive(Debug)]
struct Paced<C> {
    inner: C,
    turns: Arc<Turns>,
}

/// Returns a client that sends requests at a pace. Clones of it have one pace together.
pub(crate) fn paced(inner: SharedHttpClient, pace: Pace) -> SharedHttpClient {
    let turns = Turns {
        pace,
        sent_by: Mutex::default(),
    };
    SharedHttpClient::new(Paced {
        inner,
        turns: Arc::new(turns),
    })
}

impl HttpClient for Paced<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Paced {
            inner: self.inner.http_connector(settings, components),
            turns: Arc::clone(&self.turns),
        })
    }
}

impl HttpConnector for Paced<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (inner, at) = (self.inner.clone(), self.turns.next(Instant::now()));
        HttpConnectorFuture::new(async move {
            sleep_until(at).await;
            inner.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_sent_at_once_after_a_pause_and_then_at_the_pace() {
        let turns = Turns {
            pace: Pace {
                per_second: 5,
                at_once: 10,
            },
            sent_by: Mutex::default(),
        };
        let start = Instant::now();
        let waits = |count: u32, at: Instant| {
            let waits = (0..count).map(|_| turns.next(at).duration_since(at).as_millis());
            Vec::from_iter(waits)
        };
        assert_eq!(waits(10, start), [0; 10]);
        assert_eq!(waits(3, start), [200, 400, 600]);
        let later = start + Duration::from_secs(60);
        assert_eq!(waits(11, later)[9..], [0, 200]);
    }

    #[test]
    fn in_a_minute_no_more_are_sent_than_the_pace_allows() {
        let pace = Pace {
            per_second: 5,
            at_once: 50,
        };
        let turns = Turns {
            pace,
            sent_by: Mutex::default(),
        };
        let start = Instant::now();
        let end = start + Duration::from_secs(60);
        let all = (0..10_000).map(|_| turns.next(start));
        assert_eq!(all.filter(|at| *at < end).count(), 50 + 60 * 5 - 1);
    }
}
