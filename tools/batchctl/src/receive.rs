//! Receives, sends and deletes messages of queues in SQS.

use std::time::Duration;

use async_trait::async_trait;
use aws::{from_sqs, to_sqs};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::error::{DisplayErrorContext, SdkError};
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use protocol::limits::SQS_BATCH_ENTRIES_MAX;
use shared::message_attributes::AttributeMap;

use crate::failure::Failure;
use crate::ports::{MessageQueue, MessageQueues, Received, Sent};

/// How long a receive waits for messages.
const WAIT_SECS: i32 = 1;

/// A queue, by its URL.
#[derive(Clone, Debug)]
struct SqsQueue {
    client: Client,
    url: String,
}

impl SqsQueue {
    fn failure(&self, message: impl std::fmt::Display) -> Failure {
        Failure::Queue {
            queue: self.url.clone(),
            message: message.to_string(),
        }
    }
}

impl MessageQueues for Client {
    fn queue(&self, url: String) -> Box<dyn MessageQueue> {
        let client = self.clone();
        Box::new(SqsQueue { client, url })
    }
}

#[async_trait]
impl MessageQueue for SqsQueue {
    async fn receive(&self, invisible_for: Duration) -> Result<Vec<Received>, Failure> {
        let names = [
            MessageSystemAttributeName::ApproximateFirstReceiveTimestamp,
            MessageSystemAttributeName::SentTimestamp,
            MessageSystemAttributeName::MessageGroupId,
        ];
        let sent = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(SQS_BATCH_ENTRIES_MAX as i32)
            .visibility_timeout(invisible_for.as_secs() as i32)
            .wait_time_seconds(WAIT_SECS)
            .set_message_system_attribute_names(Some(names.to_vec()))
            .message_attribute_names("All")
            .send()
            .await;
        let reply = sent.map_err(|error| self.failure(DisplayErrorContext(&error)))?;
        let messages = reply.messages.unwrap_or_default().into_iter();
        Ok(messages.map(received).collect())
    }

    async fn send(&self, body: &str, attributes: AttributeMap) -> Result<Sent, Failure> {
        let attributes = to_sqs(attributes);
        let once = aws_sdk_sqs::config::Builder::new().retry_config(RetryConfig::disabled());
        let sent = self
            .client
            .send_message()
            .queue_url(&self.url)
            .message_body(body)
            .set_message_attributes(attributes.message_attributes)
            .set_message_group_id(attributes.message_group_id)
            .customize()
            .config_override(once)
            .send()
            .await;
        match sent {
            Ok(_) => Ok(Sent::Yes),
            Err(error @ (SdkError::ServiceError(_) | SdkError::ConstructionFailure(_))) => {
                match error.raw_response() {
                    Some(reply) if reply.status().is_server_error() => {
                        Ok(Sent::Unknown(DisplayErrorContext(&error).to_string()))
                    }
                    _ => Err(self.failure(DisplayErrorContext(&error))),
                }
            }
            Err(error) => Ok(Sent::Unknown(DisplayErrorContext(&error).to_string())),
        }
    }

    async fn delete(&self, receipt: &str) -> Result<(), Failure> {
        let call = self.client.delete_message().queue_url(&self.url);
        let sent = call.receipt_handle(receipt).send().await;
        sent.map(|_| ())
            .map_err(|error| self.failure(DisplayErrorContext(&error)))
    }

    async fn give_back(&self, receipt: &str) {
        let call = self.client.change_message_visibility();
        let call = call.queue_url(&self.url).receipt_handle(receipt);
        let _ = call.visibility_timeout(0).send().await;
    }
}

fn received(message: Message) -> Received {
    let number = |name: MessageSystemAttributeName| {
        let all = message.attributes()?;
        all.get(&name)?.parse().ok()
    };
    Received {
        first_received_at: number(MessageSystemAttributeName::ApproximateFirstReceiveTimestamp),
        sent_at: number(MessageSystemAttributeName::SentTimestamp),
        attributes: from_sqs(&message),
        message_id: message.message_id.unwrap_or_default(),
        receipt: message.receipt_handle.unwrap_or_default(),
        body: message.body.unwrap_or_default(),
    }
}

/// Returns the ARN of a queue.
pub async fn arn_of(client: &Client, url: &str) -> Result<String, Failure> {
    let failure = |message: String| Failure::Queue {
        queue: url.to_owned(),
        message,
    };
    let call = client.get_queue_attributes().queue_url(url);
    let call = call.attribute_names(QueueAttributeName::QueueArn);
    let sent = call.send().await;
    let reply = sent.map_err(|error| failure(DisplayErrorContext(&error).to_string()))?;
    let all = reply.attributes();
    let arn = all.and_then(|all| all.get(&QueueAttributeName::QueueArn));
    arn.cloned()
        .ok_or_else(|| failure("has no attribute `QueueArn`".to_owned()))
}
