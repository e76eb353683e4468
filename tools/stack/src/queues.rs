//! How many messages are in a queue.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;

use crate::error::WatchError;

/// Messages of a queue. SQS counts approximately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages that no consumer has.
    pub visible: u64,
    /// Messages that a consumer has.
    pub in_flight: u64,
    /// Messages that are not due yet.
    pub delayed: u64,
}

impl Depth {
    /// Returns the number of all messages.
    pub fn all(self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

/// Returns how many messages a queue has.
///
/// # Errors
/// The queue does not exist, or the caller may not read its attributes.
pub async fn depth(client: &Client, url: &str) -> Result<Depth, WatchError> {
    use QueueAttributeName as Name;
    let names = [
        Name::ApproximateNumberOfMessages,
        Name::ApproximateNumberOfMessagesNotVisible,
        Name::ApproximateNumberOfMessagesDelayed,
    ];
    let reply = client
        .get_queue_attributes()
        .queue_url(url)
        .set_attribute_names(Some(names.to_vec()))
        .send()
        .await
        .map_err(|error| WatchError::request("queue", url, &error))?;
    let [visible, in_flight, delayed] = names.map(|name| {
        let value = reply.attributes().and_then(|all| all.get(&name));
        value.and_then(|text| text.parse().ok()).unwrap_or_default()
    });
    Ok(Depth {
        visible,
        in_flight,
        delayed,
    })
}

/// Returns how many messages some queues have together.
///
/// # Errors
/// As [`depth`].
pub async fn total(client: &Client, urls: &[String]) -> Result<u64, WatchError> {
    let mut total = 0;
    for url in urls {
        total += depth(client, url).await?.all();
    }
    Ok(total)
}
