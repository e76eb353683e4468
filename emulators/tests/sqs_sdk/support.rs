//! An SQS server with one queue, and a client.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use emulators::sqs::Sqs;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// An SQS server with one queue, named `queue`.
pub struct Served {
    pub sqs: Sqs,
    pub client: Client,
    pub url: String,
    pub stop: oneshot::Sender<()>,
    pub server: tokio::task::JoinHandle<std::io::Result<()>>,
}

/// Starts a server on a free port, and creates the queue.
pub async fn served() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sqs = Sqs::new();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(sqs.clone().serve(listener, async {
        // A test that does not stop its server drops the sender. The server then runs until the runtime ends.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(format!("http://{address}"))
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "static"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let client = Client::from_conf(config);
    let created = client
        .create_queue()
        .queue_name("queue")
        .send()
        .await
        .unwrap();
    let url = created.queue_url.unwrap();
    assert_eq!(url, format!("http://{address}/000000000000/queue"));
    Served {
        sqs,
        client,
        url,
        stop,
        server,
    }
}

/// Returns the code of the error of a request that must fail.
pub fn code<T: std::fmt::Debug, E: ProvideErrorMetadata>(result: Result<T, SdkError<E>>) -> String {
    let error = result.expect_err("the service refuses this");
    assert!(error.message().is_some(), "an error has a message");
    error.code().expect("an error has a code").to_owned()
}

pub fn entry(id: &str, body: impl Into<String>) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder()
        .id(id)
        .message_body(body)
        .build()
        .unwrap()
}

pub fn string_attribute(value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder()
        .data_type("String")
        .string_value(value)
        .build()
        .unwrap()
}
