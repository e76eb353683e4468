use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::MessageAttributeValue;
use shared::ports::{NoticeMessage, NoticeTarget, PortError};
use shared::sqs_text::sqs_text;

use crate::errors::{SQS, target_error};

/// Notices to an SQS queue: the manifest as the body, with the message attributes `id` and `kind`.
#[derive(Clone, Debug)]
pub struct SqsNoticeQueue {
    client: Client,
    queue_url: String,
}

impl SqsNoticeQueue {
    pub fn new(client: Client, queue_url: impl Into<String>) -> SqsNoticeQueue {
        SqsNoticeQueue {
            client,
            queue_url: queue_url.into(),
        }
    }

    /// Returns whether the queue is the source with this ARN. The notice would become an event there, whose batch would have
    /// a notice in turn, without end.
    fn is(&self, source: &str) -> bool {
        let mut fields = source.rsplit(':');
        match (fields.next(), fields.next()) {
            (Some(name), Some(account)) => self.queue_url.ends_with(&format!("/{account}/{name}")),
            _ => false,
        }
    }
}

#[async_trait]
impl NoticeTarget for SqsNoticeQueue {
    async fn send(&self, notice: &NoticeMessage) -> Result<(), PortError> {
        if self.is(notice.source.as_str()) {
            let message = format!(
                "`COMPLETION`: the queue that the events of the batch came from: got `{}`, expected another queue",
                self.queue_url
            );
            return Err(PortError::refused(SQS, message));
        }
        let text = |value: &str| {
            MessageAttributeValue::builder()
                .data_type("String")
                .string_value(value)
                .build()
                .expect("a message attribute with a type can be built")
        };
        let sent = self
            .client
            .send_message()
            .queue_url(&self.queue_url)
            .message_body(sqs_text(&notice.manifest))
            .message_attributes("id", text(&notice.id))
            .message_attributes("kind", text(notice.kind))
            .send()
            .await;
        sent.map_err(|error| target_error(SQS, &self.queue_url, &error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_queue_of_the_events_is_recognised() {
        let sdk = crate::Sdk::from_env(1);
        let queue = super::SqsNoticeQueue::new(
            sdk.sqs(std::time::Duration::from_secs(1)),
            "https://sqs.eu-west-1.amazonaws.com/123456789012/input",
        );
        assert!(queue.is("arn:aws:sqs:eu-west-1:123456789012:input"));
        assert!(!queue.is("arn:aws:sqs:eu-west-1:123456789012:put"));
        assert!(!queue.is("unknown"));
    }
}
