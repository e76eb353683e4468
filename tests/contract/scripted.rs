//! A service that returns a fixed response, for errors that the embedded services do not produce.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use tokio::net::TcpListener;

use crate::dynamo::dynamodb_of;

const JSON: &str = "application/x-amz-json-1.0";

/// Starts an endpoint that returns this response to every request.
pub async fn endpoint(status: u16, body: &'static str) -> String {
    let answer = (
        StatusCode::from_u16(status).unwrap(),
        [(header::CONTENT_TYPE, JSON)],
        body,
    );
    served(Router::new().fallback(move || std::future::ready(answer.clone()))).await
}

async fn served(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

/// Returns a client of DynamoDB at an endpoint with this response to `BatchExecuteStatement` and an empty one to every other operation,
/// and the operations that were called.
pub async fn dynamodb_without_partiql(
    status: u16,
    body: &'static str,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let status = StatusCode::from_u16(status).unwrap();
    let called = Arc::<Mutex<Vec<String>>>::default();
    let calls = called.clone();
    let answer = move |headers: HeaderMap| {
        let target = headers["x-amz-target"].to_str().unwrap();
        let operation = target.rsplit('.').next().unwrap().to_owned();
        let (status, body) = match operation.as_str() {
            "BatchExecuteStatement" => (status, body),
            _ => (StatusCode::OK, "{}"),
        };
        calls.lock().unwrap().push(operation);
        std::future::ready((status, [(header::CONTENT_TYPE, JSON)], body))
    };
    let endpoint = served(Router::new().fallback(answer)).await;
    (dynamodb_of(&endpoint, Duration::from_secs(60)), called)
}

/// Returns a client of DynamoDB at such an endpoint.
pub async fn dynamodb(status: u16, body: &'static str) -> Client {
    dynamodb_of(&endpoint(status, body).await, Duration::from_secs(60))
}
