//! An SQS server with one queue, and a client.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::change_message_visibility::{
    ChangeMessageVisibilityError, ChangeMessageVisibilityOutput,
};
use aws_sdk_sqs::operation::delete_message::{DeleteMessageError, DeleteMessageOutput};
use aws_sdk_sqs::operation::send_message::SendMessageOutput;
use aws_sdk_sqs::operation::send_message_batch::{SendMessageBatchError, SendMessageBatchOutput};
use aws_sdk_sqs::operation::set_queue_attributes::{
    SetQueueAttributesError, SetQueueAttributesOutput,
};
use aws_sdk_sqs::types::{
    Message, MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName,
    SendMessageBatchRequestEntry,
};
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
    let created = client.create_queue().queue_name("queue").send().await;
    let url = created.unwrap().queue_url.unwrap();
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
    let entry = SendMessageBatchRequestEntry::builder().id(id);
    entry.message_body(body).build().unwrap()
}

pub fn string_attribute(value: &str) -> MessageAttributeValue {
    attribute("String", value)
}

/// Returns an attribute of a type whose values are texts.
pub fn attribute(data_type: &str, value: &str) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type(data_type);
    attribute.string_value(value).build().unwrap()
}

impl Served {
    pub async fn send(&self, body: &str) -> SendMessageOutput {
        let send = self.client.send_message().queue_url(&self.url);
        send.message_body(body).send().await.unwrap()
    }

    /// Receives up to ten messages of the queue, with all their attributes.
    pub async fn receive(&self, visibility_secs: i32) -> Vec<Message> {
        self.receive_from(&self.url, visibility_secs).await
    }

    /// Receives up to ten messages of any queue, with all their attributes.
    pub async fn receive_from(&self, url: &str, visibility_secs: i32) -> Vec<Message> {
        let receive = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(10)
            .visibility_timeout(visibility_secs)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All);
        receive.send().await.unwrap().messages.unwrap_or_default()
    }

    pub async fn delete(
        &self,
        handle: &str,
    ) -> Result<DeleteMessageOutput, SdkError<DeleteMessageError>> {
        let delete = self.client.delete_message().queue_url(&self.url);
        delete.receipt_handle(handle).send().await
    }

    pub async fn change_visibility(
        &self,
        handle: &str,
        secs: i32,
    ) -> Result<ChangeMessageVisibilityOutput, SdkError<ChangeMessageVisibilityError>> {
        let change = self.client.change_message_visibility().queue_url(&self.url);
        let change = change.receipt_handle(handle).visibility_timeout(secs);
        change.send().await
    }

    /// Returns the attributes of the queue that a name selects.
    pub async fn attributes(
        &self,
        name: QueueAttributeName,
    ) -> HashMap<QueueAttributeName, String> {
        let get = self.client.get_queue_attributes().queue_url(&self.url);
        let got = get.attribute_names(name).send().await;
        got.unwrap().attributes.unwrap()
    }

    pub async fn send_batch(
        &self,
        entries: Vec<SendMessageBatchRequestEntry>,
    ) -> Result<SendMessageBatchOutput, SdkError<SendMessageBatchError>> {
        let send = self.client.send_message_batch().queue_url(&self.url);
        send.set_entries(Some(entries)).send().await
    }

    /// Creates another queue; returns its URL.
    pub async fn create(&self, name: &str) -> String {
        let create = self.client.create_queue().queue_name(name);
        create.send().await.unwrap().queue_url.unwrap()
    }

    pub async fn set(
        &self,
        name: QueueAttributeName,
        value: &str,
    ) -> Result<SetQueueAttributesOutput, SdkError<SetQueueAttributesError>> {
        let set = self.client.set_queue_attributes().queue_url(&self.url);
        set.attributes(name, value).send().await
    }

    /// Creates a dead-letter queue of the queue, named `dead`, which takes messages after `receives_max` receives; returns its
    /// URL.
    pub async fn create_dead_letter_queue(&self, receives_max: u32) -> String {
        let dead = self.create("dead").await;
        let arn = self.sqs.arn("dead");
        let policy =
            format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{receives_max}}}"#);
        let set = self.set(QueueAttributeName::RedrivePolicy, &policy).await;
        set.unwrap();
        dead
    }
}
