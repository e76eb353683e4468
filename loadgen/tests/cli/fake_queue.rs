//! A queue over plain HTTP with chosen faults.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

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
}

#[derive(Default)]
struct State {
    bodies: Vec<String>,
    failed_once: BTreeSet<String>,
    requests: u64,
}

#[derive(Clone)]
pub struct FakeQueue {
    fault: Fault,
    state: Arc<Mutex<State>>,
}

impl FakeQueue {
    /// Starts a queue that serves until the runtime ends.
    pub async fn start(fault: Fault) -> (Self, SocketAddr) {
        let queue = Self {
            fault,
            state: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = queue.clone();
        let router = Router::new().fallback(move |body: String| async move { served.take(&body) });
        tokio::spawn(async move { axum::serve(listener, router).await });
        (queue, address)
    }

    pub fn bodies(&self) -> Vec<String> {
        self.state.lock().unwrap().bodies.clone()
    }

    pub fn requests(&self) -> u64 {
        self.state.lock().unwrap().requests
    }

    fn take(&self, request: &str) -> Response {
        let request: Value = serde_json::from_str(request).unwrap();
        let entries = request["Entries"].as_array().unwrap();
        assert!(entries.len() <= 10);
        let mut state = self.state.lock().unwrap();
        state.requests += 1;
        if self.fault == Fault::NoQueue {
            let body = json!({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "gone"});
            return (StatusCode::BAD_REQUEST, body.to_string()).into_response();
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
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        json!({"Successful": successful, "Failed": failed})
            .to_string()
            .into_response()
    }
}
