//! A service that returns a fixed response, for errors that the embedded services do not produce.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use axum::Router;
use axum::http::{StatusCode, header};
use tokio::net::TcpListener;

use crate::dynamo::dynamodb_of;

/// Starts an endpoint that returns this response to every request.
pub async fn endpoint(status: u16, body: &'static str) -> String {
    let answer = (
        StatusCode::from_u16(status).unwrap(),
        [(header::CONTENT_TYPE, "application/x-amz-json-1.0")],
        body,
    );
    let app = Router::new().fallback(move || std::future::ready(answer.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

/// Returns a client of DynamoDB at such an endpoint.
pub async fn dynamodb(status: u16, body: &'static str) -> Client {
    dynamodb_of(&endpoint(status, body).await, Duration::from_secs(60))
}
