//! A server with one queue, and the SDK's client of it.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use emulators::sqs::Sqs;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A served SQS, with one queue named `queue`.
pub struct Served {
    pub sqs: Sqs,
    pub client: Client,
    pub url: String,
    pub stop: oneshot::Sender<()>,
    pub server: tokio::task::JoinHandle<std::io::Result<()>>,
}

/// Serves an SQS on a free port, and makes the queue.
pub async fn served() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sqs = Sqs::new();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(sqs.clone().serve(listener, async {
        // A test that does not stop its server drops the sender; the server then lives as long as the runtime.
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

/// Returns the code of the error that a request must end in.
pub fn code<T: std::fmt::Debug, E: ProvideErrorMetadata>(result: Result<T, SdkError<E>>) -> String {
    let error = result.expect_err("the service refuses this");
    assert!(error.message().is_some(), "an error says what is wrong");
    error.code().expect("an error has its code").to_owned()
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
