use async_trait::async_trait;
use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::primitives::DateTime;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use shared::ports::{NoticeMessage, NoticeTarget, PortError};

use crate::errors::{EVENTBRIDGE, meaning, target_error};

/// The `source` of the events, by which rules select them.
const SOURCE: &str = "unique-event-batch-aggregator";

/// Notices to an event bus of EventBridge: the manifest as the `detail` of an event.
#[derive(Clone, Debug)]
pub struct EventBus {
    client: Client,
    arn: String,
}

impl EventBus {
    /// Returns the bus with this ARN. The client must be one of its region.
    pub fn new(client: Client, arn: impl Into<String>) -> EventBus {
        EventBus {
            client,
            arn: arn.into(),
        }
    }
}

#[async_trait]
impl NoticeTarget for EventBus {
    async fn send(&self, notice: &NoticeMessage) -> Result<(), PortError> {
        let detail_type = match notice.kind {
            "complete" => "Batch Complete",
            _ => "Batch In Error",
        };
        let at = i64::try_from(notice.at.as_ms()).unwrap_or(i64::MAX);
        let entry = PutEventsRequestEntry::builder()
            .event_bus_name(&self.arn)
            .source(SOURCE)
            .detail_type(detail_type)
            .time(DateTime::from_millis(at))
            .detail(&notice.manifest)
            .build();
        let sent = self.client.put_events().entries(entry).send().await;
        let output = sent.map_err(|error| target_error(EVENTBRIDGE, &self.arn, &error))?;
        // A reply without an error may still say that the entry failed.
        let Some(entry) = output.entries().first() else {
            let message = format!("{}: entry not in the reply", self.arn);
            return Err(PortError::unknown(EVENTBRIDGE, message));
        };
        match (entry.error_code(), output.failed_entry_count()) {
            (None, 0) => Ok(()),
            (code, _) => {
                let code = code.unwrap_or("no code");
                let message = entry.error_message().unwrap_or("no message");
                let message = format!("{}: {code}: {message}", self.arn);
                Err(meaning(code, None).error(EVENTBRIDGE, message))
            }
        }
    }
}
