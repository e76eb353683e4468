use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use protocol::ids::SourceArn;
use shared::locked::locked;
use shared::ports::{PortError, QueueDepth, SourceQueues};

use crate::errors::{SQS, port_error};
use crate::sqs_requests::depth;

/// The queues that events come from, on SQS.
///
/// The URL of a queue is requested once in a process. It is not built from the ARN, because AWS may change its form.
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>.
/// The queue is in the region of the client, because Lambda receives messages only from its own region.
#[derive(Debug)]
pub struct SqsSourceQueues {
    client: Client,
    /// The URLs so far. A function seldom has more than one queue.
    urls: Mutex<BTreeMap<SourceArn, String>>,
}

impl SqsSourceQueues {
    pub fn new(client: Client) -> SqsSourceQueues {
        SqsSourceQueues {
            client,
            urls: Mutex::default(),
        }
    }

    async fn url(&self, source: &SourceArn) -> Result<String, PortError> {
        if let Some(url) = locked(&self.urls).get(source) {
            return Ok(url.clone());
        }
        let Some((account, name)) = account_and_name(source) else {
            let message = format!("source: not the ARN of a queue: got `{source}`");
            return Err(PortError::refused(SQS, message));
        };
        let reply = self
            .client
            .get_queue_url()
            .queue_name(name)
            .queue_owner_aws_account_id(account)
            .send()
            .await
            .map_err(|error| port_error(SQS, source.as_str(), &error))?;
        let lack = || PortError::unknown(SQS, format!("{source}: no URL in the reply"));
        let url = reply.queue_url.ok_or_else(lack)?;
        locked(&self.urls).insert(source.clone(), url.clone());
        Ok(url)
    }
}

#[async_trait]
impl SourceQueues for SqsSourceQueues {
    async fn depth(&self, source: &SourceArn) -> Result<QueueDepth, PortError> {
        let url = self.url(source).await?;
        depth(&self.client, &url).await
    }
}

/// Returns account and name from `arn:<partition>:sqs:<region>:<account>:<name>`.
fn account_and_name(source: &SourceArn) -> Option<(&str, &str)> {
    let mut parts = source.as_str().split(':');
    let mut part = || parts.next().filter(|part| !part.is_empty());
    match [part()?, part()?, part()?, part()?, part()?, part()?] {
        ["arn", _, "sqs", _, account, name] => parts.next().is_none().then_some((account, name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_and_name_come_only_from_the_arn_of_a_queue() {
        let queue = "arn:aws-cn:sqs:cn-north-1:123456789012:input-queue";
        let queue: SourceArn = queue.parse().unwrap();
        let found = account_and_name(&queue);
        assert_eq!(found, Some(("123456789012", "input-queue")));
        for other in [
            "unknown",
            "arn:aws:sqs:eu-west-1:123456789012:",
            "arn:aws:sqs:eu-west-1::queue",
            "arn:aws:sqs:eu-west-1:123456789012:queue:more",
            "arn:aws:kinesis:eu-west-1:123456789012:stream",
        ] {
            assert_eq!(account_and_name(&other.parse().unwrap()), None, "{other}");
        }
    }
}
