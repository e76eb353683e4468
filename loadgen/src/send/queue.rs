//! One request to the queue.

use std::time::Duration;

use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;

use super::error::Unsent;
use super::send_failure::{self, SendFailure};
use super::trace::{TraceLog, TracedRequest};
use crate::workload::BODY_BYTES_MAX;

/// The most entries of a request, and the most bytes of all its entries.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub(super) const REQUEST_ENTRIES_MAX: usize = 10;
pub(super) const REQUEST_BYTES_MAX: usize = 1_048_576;
const _: () = assert!(BODY_BYTES_MAX <= REQUEST_BYTES_MAX);

/// How long to wait for the reply to a request before it counts as lost.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The queue that a burst is sent to.
pub(super) struct Queue {
    client: aws_sdk_sqs::Client,
    url: String,
    traces: Option<TraceLog>,
}

/// What became of a request.
pub(super) struct Reply {
    /// For each message of the request, why it is not acknowledged; `None` if it is.
    pub failures: Vec<Option<SendFailure>>,
    /// The most severe error, if there is one.
    pub cause: Option<Unsent>,
}

impl Queue {
    /// Uses the client's endpoint, credentials and connections, but not its retry and timeout settings: every attempt is
    /// counted by the sender.
    pub fn new(client: &aws_sdk_sqs::Client, url: &str, traces: Option<TraceLog>) -> Self {
        let timeout = TimeoutConfig::builder().operation_attempt_timeout(REQUEST_TIMEOUT);
        let config = client
            .config()
            .to_builder()
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeout.build());
        Self {
            client: aws_sdk_sqs::Client::from_conf(config.build()),
            url: url.to_owned(),
            traces,
        }
    }

    /// Sends messages in one request.
    pub async fn send(&self, bodies: impl ExactSizeIterator<Item = String>) -> Reply {
        let Some(traces) = &self.traces else {
            return self.request(bodies, None).await;
        };
        let traced = TracedRequest::begin(bodies.len());
        let reply = self.request(bodies, Some(&traced)).await;
        traces.end(traced, reply.cause.is_none());
        reply
    }

    async fn request(
        &self,
        bodies: impl ExactSizeIterator<Item = String>,
        traced: Option<&TracedRequest>,
    ) -> Reply {
        let count = bodies.len();
        let header = traced.map(|request| [request.header()].into());
        let entries = bodies.enumerate().map(|(position, body)| {
            SendMessageBatchRequestEntry::builder()
                .id(position.to_string())
                .message_body(body)
                .set_message_system_attributes(header.clone())
                .build()
                .expect("an entry has its id and body")
        });
        let request = self
            .client
            .send_message_batch()
            .queue_url(&self.url)
            .set_entries(Some(entries.collect()));
        let reply = match request.send().await {
            Ok(reply) => reply,
            Err(error) => {
                return Reply {
                    failures: vec![Some(send_failure::of_request(&error)); count],
                    cause: Some(Unsent::Request(Box::new(error))),
                };
            }
        };
        // A message without a result in the reply may or may not be in the queue.
        let mut failures = vec![Some(SendFailure::RetryUnsure); count];
        let mut set = |id: &str, failure| {
            if let Some(at) = id.parse().ok().filter(|at: &usize| *at < count) {
                failures[at] = failure;
            }
        };
        for entry in reply.successful() {
            set(entry.id(), None);
        }
        for entry in reply.failed() {
            set(entry.id(), Some(send_failure::of_entry(entry)));
        }
        let all = failures.iter().all(Option::is_none);
        let cause = (!all).then(|| Unsent::from_entries(reply.failed()));
        Reply { failures, cause }
    }
}
