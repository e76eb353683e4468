//! An HTTP server for the tests of sinks. It records requests, returns prepared responses, and otherwise acts as the part of
//! S3 that the sink uses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The time limit of a request of the clients.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A recorded request. An object is stored as the request that put it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Bytes,
}

struct Reply {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

#[derive(Default)]
struct ServerState {
    requests: Vec<ReceivedRequest>,
    objects: BTreeMap<String, ReceivedRequest>,
    answers: VecDeque<Reply>,
}

/// A server on a port of its own; every test starts its own server.
pub(crate) struct StandIn {
    seen: Arc<Mutex<ServerState>>,
    url: String,
    server: JoinHandle<()>,
}

impl StandIn {
    pub(crate) async fn start() -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(ServerState::default()));
        let router = Router::new().fallback(answer).with_state(seen.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        StandIn { seen, url, server }
    }

    fn seen(&self) -> MutexGuard<'_, ServerState> {
        self.seen.lock().unwrap()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns all requests, in order.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen().requests.clone()
    }

    /// Prepares the response to the next request, which then has no other effect. With status 0, there is no response.
    pub(crate) fn answer(&self, status: u16, body: &str) {
        self.answer_with(status, &[], body);
    }

    /// Prepares a response as [`answer`](StandIn::answer) does, with headers.
    pub(crate) fn answer_with(
        &self,
        status: u16,
        headers: &[(&'static str, &'static str)],
        body: &str,
    ) {
        self.seen().answers.push_back(Reply {
            status,
            headers: headers.to_vec(),
            body: body.to_owned(),
        });
    }

    /// Returns an SDK whose requests all go here.
    pub(crate) fn sdk(&self) -> aws::Sdk {
        let url = self.url.clone();
        let variables = move |name: &str| match name {
            "AWS_ENDPOINT_URL" => Some(url.clone()),
            "AWS_REGION" => Some("eu-west-1".to_owned()),
            "AWS_ACCESS_KEY_ID" => Some("key".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
            _ => None,
        };
        aws::Sdk::from_variables(variables, 1)
    }

    pub(crate) async fn stop(&self) {
        self.server.abort();
        while !self.server.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn object(&self, path: &str) -> Option<ReceivedRequest> {
        self.seen().objects.get(path).cloned()
    }

    pub(crate) fn remove(&self, path: &str) -> Option<ReceivedRequest> {
        self.seen().objects.remove(path)
    }

    /// Puts an object that the sink did not write.
    pub(crate) fn put(&self, path: &str, body: &'static str) {
        let object = ReceivedRequest {
            method: Method::PUT,
            path: path.to_owned(),
            headers: BTreeMap::new(),
            body: Bytes::from(body),
        };
        self.seen().objects.insert(path.to_owned(), object);
    }

    pub(crate) fn lambda_client(&self) -> aws_sdk_lambda::Client {
        self.sdk().lambda("eu-west-1", TIMEOUT)
    }

    pub(crate) fn states_client(&self) -> aws_sdk_sfn::Client {
        self.sdk().step_functions("eu-west-1", TIMEOUT)
    }
}

async fn answer(State(seen): State<Arc<Mutex<ServerState>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let headers = parts.headers.iter();
    // The SDK's S3 client names the operation in the query.
    let uri = parts.uri.to_string();
    let (path, operation) = uri.split_once("?x-id=").unwrap_or((&uri, ""));
    let asked = ReceivedRequest {
        method: parts.method,
        path: path.to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect(),
        body: to_bytes(body, usize::MAX).await.unwrap(),
    };
    let response = |status: u16, body: Body| {
        Response::builder()
            .status(StatusCode::from_u16(status).unwrap())
            .header("retry-after", "7")
            .body(body)
            .unwrap()
    };
    let next = {
        let mut seen = seen.lock().unwrap();
        seen.requests.push(asked.clone());
        seen.answers.pop_front()
    };
    match next {
        Some(Reply { status: 0, .. }) => {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            response(500, Body::empty())
        }
        Some(answer) => {
            let mut response = response(answer.status, Body::from(answer.body));
            for (name, value) in answer.headers {
                response
                    .headers_mut()
                    .insert(name, HeaderValue::from_static(value));
            }
            response
        }
        None => as_s3(&mut seen.lock().unwrap(), asked, operation, response),
    }
}

fn as_s3(
    seen: &mut ServerState,
    asked: ReceivedRequest,
    operation: &str,
    response: impl Fn(u16, Body) -> Response,
) -> Response {
    match asked.method {
        Method::GET if operation == "GetObject" => match seen.objects.get(&asked.path) {
            Some(object) => response(200, Body::from(object.body.clone())),
            None => {
                let words = "<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>";
                response(404, Body::from(words))
            }
        },
        Method::PUT if seen.objects.contains_key(&asked.path) => {
            let words = "<Error><Code>PreconditionFailed</Code><Message>exists</Message></Error>";
            response(412, Body::from(words))
        }
        Method::PUT => {
            seen.objects.insert(asked.path.clone(), asked);
            response(200, Body::empty())
        }
        Method::HEAD => match seen.objects.get(&asked.path) {
            Some(object) => {
                let mut response = response(200, Body::empty());
                if let Some(hash) = object.headers.get("x-amz-meta-content-hash") {
                    let headers = response.headers_mut();
                    headers.insert("x-amz-meta-content-hash", hash.parse().unwrap());
                }
                response
            }
            None => response(404, Body::empty()),
        },
        _ => response(200, Body::empty()),
    }
}
