//! A queue over plain HTTP with chosen faults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use loadgen::{Workload, WorkloadConfig};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// How the queue misbehaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Every third entry of a request fails inside a 200, once per body.
    SomeEntries,
    /// The queue takes the messages of every fourth request, and then returns 500.
    LostReplies,
    /// The queue refuses one body at every attempt.
    Refusal,
    /// The queue does not exist.
    NoQueue,
    /// The queue takes the messages of 20 requests. It takes those of later requests too, but replies only once they are
    /// released.
    Held,
}

/// Returns how often each body comes.
pub fn counts(bodies: impl IntoIterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for body in bodies {
        *counts.entry(body).or_default() += 1;
    }
    counts
}

/// Returns how often each body of a burst of 995 messages is planned.
pub fn planned(seed: u64, duplicates: &str, sizes: &str, sources: u32) -> BTreeMap<String, u64> {
    let config = WorkloadConfig {
        seed,
        messages: 995,
        duplicates: duplicates.parse().unwrap(),
        sizes: sizes.parse().unwrap(),
        sources,
        ..WorkloadConfig::default()
    };
    let workload = Workload::new(config).unwrap();
    counts((0..workload.len()).map(|index| workload.message(index).body))
}

/// How many requests get a reply at once from a queue that holds the others.
pub const UNHELD_REQUESTS: u64 = 20;

#[derive(Default)]
struct State {
    bodies: Vec<String>,
    failed_once: BTreeSet<String>,
    requests: u64,
    released: bool,
}

#[derive(Clone)]
pub struct FakeQueue {
    fault: Fault,
    state: Arc<Mutex<State>>,
    release: Arc<Notify>,
}

impl FakeQueue {
    /// Starts a queue that serves until the runtime ends.
    pub async fn start(fault: Fault) -> (Self, SocketAddr) {
        let queue = Self {
            fault,
            state: Arc::default(),
            release: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = queue.clone();
        let router = Router::new().fallback(move |body: String| async move {
            let (number, reply) = served.take(&body);
            served.hold(number).await;
            reply
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        (queue, address)
    }

    pub fn bodies(&self) -> Vec<String> {
        self.state.lock().unwrap().bodies.clone()
    }

    pub fn requests(&self) -> u64 {
        self.state.lock().unwrap().requests
    }

    /// Waits until the queue holds this number of requests.
    pub async fn holds(&self, requests: u64) {
        while self.requests() < UNHELD_REQUESTS + requests {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Replies to all requests from now on, also to those that are held.
    pub fn release(&self) {
        self.state.lock().unwrap().released = true;
        self.release.notify_waiters();
    }

    /// Waits while the queue holds its request of this number.
    async fn hold(&self, number: u64) {
        let released = self.release.notified();
        if self.fault == Fault::Held
            && number > UNHELD_REQUESTS
            && !self.state.lock().unwrap().released
        {
            released.await;
        }
    }

    /// Takes a request; returns its number, from 1, and the reply.
    fn take(&self, request: &str) -> (u64, Response) {
        let request: Value = serde_json::from_str(request).unwrap();
        let entries = request["Entries"].as_array().unwrap();
        assert!(entries.len() <= 10);
        let mut state = self.state.lock().unwrap();
        state.requests += 1;
        let number = state.requests;
        if self.fault == Fault::NoQueue {
            let body = json!({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "gone"});
            let reply = (StatusCode::BAD_REQUEST, body.to_string());
            return (number, reply.into_response());
        }
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        for (position, entry) in entries.iter().enumerate() {
            let body = entry["MessageBody"].as_str().unwrap().to_owned();
            let id = &entry["Id"];
            if self.fault == Fault::Refusal && body.contains(r#""n":57,"#) {
                failed.push(json!({"Id": id, "SenderFault": true,
                    "Code": "InvalidMessageContents", "Message": "not today"}));
            } else if self.fault == Fault::SomeEntries
                && position % 3 == 0
                && state.failed_once.insert(body.clone())
            {
                failed.push(json!({"Id": id, "SenderFault": false, "Code": "InternalError"}));
            } else {
                let message_id = state.bodies.len().to_string();
                state.bodies.push(body);
                successful.push(json!({"Id": id, "MessageId": message_id, "MD5OfMessageBody": ""}));
            }
        }
        if self.fault == Fault::LostReplies && state.requests.is_multiple_of(4) {
            return (number, StatusCode::INTERNAL_SERVER_ERROR.into_response());
        }
        let reply = json!({"Successful": successful, "Failed": failed}).to_string();
        (number, reply.into_response())
    }
}
