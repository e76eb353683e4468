//! How many messages are in the queues of a stack.

use std::fmt;

use futures::future::join_all;
use serde::Serialize;
use stack::queues::depth;

use crate::service::Service;

/// What a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    Input,
    /// Tickets.
    Batch,
    Quarantine,
    InputDeadLetters,
    BatchDeadLetters,
}

impl Role {
    pub const ALL: [Role; 5] = [
        Role::Input,
        Role::Batch,
        Role::Quarantine,
        Role::InputDeadLetters,
        Role::BatchDeadLetters,
    ];

    /// Returns whether its messages wait for an operator.
    pub const fn is_set_aside(self) -> bool {
        match self {
            Role::Input | Role::Batch => false,
            Role::Quarantine | Role::InputDeadLetters | Role::BatchDeadLetters => true,
        }
    }

    /// Returns the variable that has the URL.
    const fn variable(self) -> &'static str {
        match self {
            Role::Input => "INPUT_QUEUE_URL",
            Role::Batch => "BATCH_QUEUE_URL",
            Role::Quarantine => "QUARANTINE_SQS_URL",
            Role::InputDeadLetters => "INPUT_DEAD_LETTER_QUEUE_URL",
            Role::BatchDeadLetters => "BATCH_DEAD_LETTER_QUEUE_URL",
        }
    }

    /// Returns the role in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Batch => "batch",
            Role::Quarantine => "quarantine",
            Role::InputDeadLetters => "input dead letters",
            Role::BatchDeadLetters => "batch dead letters",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The messages of a queue. SQS counts approximately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDepth {
    pub role: Role,
    /// The name of the queue.
    pub name: String,
    /// Messages that no consumer has.
    pub visible: u64,
    /// Messages that a consumer has.
    pub in_flight: u64,
    /// Messages that are not due yet.
    pub delayed: u64,
}

/// Reads the queues whose URLs are known, with the errors of those that cannot be read. In the simulation, there are none.
pub(super) async fn read(service: &Service) -> (Vec<QueueDepth>, Vec<String>) {
    let Some(connection) = &service.connection else {
        return (Vec::new(), Vec::new());
    };
    let known = Role::ALL.into_iter().filter_map(|role| {
        let url = service.settings.value(role.variable())?;
        Some((role, url))
    });
    let reads = known.map(|(role, url)| async move {
        let depth = depth(&connection.sqs, url).await?;
        Ok(QueueDepth {
            role,
            name: name_of(url).to_owned(),
            visible: depth.visible,
            in_flight: depth.in_flight,
            delayed: depth.delayed,
        })
    });
    let (mut queues, mut unread) = (Vec::new(), Vec::new());
    for read in join_all(reads).await {
        match read {
            Ok(queue) => queues.push(queue),
            Err(error) => {
                let error: stack::WatchError = error;
                unread.push(error.to_string());
            }
        }
    }
    (queues, unread)
}

/// Returns the name of a queue, with which its URL ends.
fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_queue_is_the_end_of_its_url() {
        let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders";
        assert_eq!(name_of(url), "orders");
        assert_eq!(name_of("orders"), "orders");
    }
}
