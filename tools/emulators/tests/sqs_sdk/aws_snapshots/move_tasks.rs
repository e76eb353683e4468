//! Tasks that move messages out of a dead-letter queue: `StartMessageMoveTask`, `ListMessageMoveTasks`,
//! `CancelMessageMoveTask`.
//!
//! Besides the snapshots, there are facts of getmoto/moto at c046d90d, `tests/test_sqs/test_sqs_message_move_tasks.py`, which
//! were not run against AWS.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::operation::start_message_move_task::{
    StartMessageMoveTaskError, StartMessageMoveTaskOutput,
};
use aws_sdk_sqs::types::{
    ListMessageMoveTasksResultEntry as Task, MessageSystemAttributeName, QueueAttributeName,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::support::{Served, code, served};

type Started = Result<StartMessageMoveTaskOutput, SdkError<StartMessageMoveTaskError>>;

/// A server with `queue`, its dead-letter queue `dead`, and another queue.
struct Queues {
    served: Served,
    dead: String,
    other: String,
}

impl Queues {
    /// Starts with `n` dead letters of `queue`.
    async fn with_dead_letters(n: usize) -> Queues {
        let served = served().await;
        let dead = served.create_dead_letter_queue(1).await;
        let other = served.create("other").await;
        for body in 0..n {
            served.send(&body.to_string()).await;
        }
        while served.sqs.depth("dead").unwrap().visible < n {
            served.receive(0).await;
        }
        Queues {
            served,
            dead,
            other,
        }
    }

    fn visible(&self, queue: &str) -> usize {
        self.served.sqs.depth(queue).unwrap().visible
    }

    fn arn(&self, queue: &str) -> String {
        self.served.sqs.arn(queue)
    }

    async fn start(
        &self,
        source: &str,
        destination: Option<&str>,
        per_second: Option<i32>,
    ) -> Started {
        let start = self.served.client.start_message_move_task();
        start
            .source_arn(self.arn(source))
            .set_destination_arn(destination.map(|queue| self.arn(queue)))
            .set_max_number_of_messages_per_second(per_second)
            .send()
            .await
    }

    async fn tasks(&self, max: Option<i32>) -> Vec<Task> {
        let list = self.served.client.list_message_move_tasks();
        let list = list.source_arn(self.arn("dead")).set_max_results(max);
        list.send().await.unwrap().results.unwrap_or_default()
    }

    async fn newest_task(&self) -> Task {
        self.tasks(None).await.remove(0)
    }

    /// Waits until the newest task is no longer running.
    async fn ended_task(&self) -> Task {
        loop {
            let task = self.newest_task().await;
            if task.status() != Some("RUNNING") {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn bodies(&self, url: &str) -> BTreeSet<String> {
        let messages = self.served.receive_from(url, 0).await;
        messages.into_iter().filter_map(|m| m.body).collect()
    }
}

/// Asserts that a task has ended in this way, after it moved so many messages.
fn assert_ended(task: &Task, status: &str, moved: i64) {
    assert_eq!(task.status(), Some(status));
    assert_eq!(task.approximate_number_of_messages_moved(), moved);
    assert_eq!(task.task_handle(), None);
}

fn bodies(range: std::ops::Range<usize>) -> BTreeSet<String> {
    range.map(|n| n.to_string()).collect()
}

/// Source: `test_basic_move_task_workflow` (30 April 2024), which also decodes the handle.
#[tokio::test]
async fn a_task_moves_every_message_and_is_listed_as_completed() {
    let queues = Queues::with_dead_letters(2).await;
    let started = queues.start("dead", Some("other"), None).await.unwrap();
    let handle = STANDARD.decode(started.task_handle.unwrap()).unwrap();
    let handle: serde_json::Value = serde_json::from_slice(&handle).unwrap();
    assert_eq!(handle["sourceArn"], queues.arn("dead"));
    assert_eq!(handle["taskId"].as_str().unwrap().len(), 36, "a UUID");

    let task = queues.newest_task().await;
    assert_ended(&task, "COMPLETED", 2);
    assert_eq!(task.approximate_number_of_messages_to_move(), Some(2));
    assert_eq!(task.source_arn, Some(queues.arn("dead")));
    assert_eq!(task.destination_arn, Some(queues.arn("other")));
    assert!(task.started_timestamp() > 1_600_000_000_000);
    assert_eq!(task.failure_reason(), None);
    assert_eq!(task.max_number_of_messages_per_second(), None);
    assert_eq!(queues.bodies(&queues.other).await, bodies(0..2));
    assert!(queues.bodies(&queues.dead).await.is_empty());
}

/// Source: `test_move_task_workflow_with_default_destination`,
/// `test_move_task_workflow_with_multiple_sources_as_default_destination` (30 April 2024). That a moved message is a new one:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html>.
#[tokio::test]
async fn without_a_destination_each_message_returns_to_its_queue_as_a_new_message() {
    let queues = Queues::with_dead_letters(2).await;
    let served = &queues.served;
    let arn = queues.arn("dead");
    let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}"#);
    let set = served.client.set_queue_attributes();
    let set = set.queue_url(&queues.other);
    let set = set.attributes(QueueAttributeName::RedrivePolicy, policy);
    set.send().await.unwrap();
    let send = served.client.send_message().queue_url(&queues.other);
    let sent = send.message_body("of other").send().await.unwrap();
    for _ in 0..2 {
        served.receive_from(&queues.other, 0).await;
    }

    queues.start("dead", None, None).await.unwrap();
    let task = queues.newest_task().await;
    assert_ended(&task, "COMPLETED", 3);
    assert_eq!(task.destination_arn(), None);
    assert_eq!(queues.bodies(&served.url).await, bodies(0..2));
    let moved = served.receive_from(&queues.other, 0).await.remove(0);
    assert_eq!(moved.body.as_deref(), Some("of other"));
    assert_ne!(moved.message_id, sent.message_id);
    let attributes = moved.attributes.unwrap();
    let receives = MessageSystemAttributeName::ApproximateReceiveCount;
    assert_eq!(attributes[&receives], "1");
    let source = MessageSystemAttributeName::DeadLetterQueueSourceArn;
    assert_eq!(attributes.get(&source), None);
}

/// Source: `test_move_task_cancel`, `test_start_multiple_move_tasks` (30 April 2024); that an ended task cannot be cancelled is
/// from moto.
#[tokio::test]
async fn a_task_with_a_rate_runs_alone_until_it_is_cancelled_and_leaves_the_others() {
    let queues = Queues::with_dead_letters(100).await;
    let started = queues.start("dead", Some("other"), Some(1)).await.unwrap();
    let task = queues.newest_task().await;
    assert_eq!(task.status(), Some("RUNNING"));
    assert_eq!(task.task_handle(), started.task_handle());
    assert_eq!(task.max_number_of_messages_per_second(), Some(1));
    assert_eq!(task.approximate_number_of_messages_to_move(), Some(100));
    let second = queues.start("dead", Some("other"), None).await;
    assert_eq!(code(second), "InvalidParameterValue");

    let cancel = || {
        let cancel = queues.served.client.cancel_message_move_task();
        cancel.set_task_handle(started.task_handle.clone()).send()
    };
    let moved = cancel().await.unwrap();
    let moved = moved.approximate_number_of_messages_moved();
    assert_ended(&queues.newest_task().await, "CANCELLED", moved);
    let depths = || (queues.visible("dead"), queues.visible("other"));
    let (dead, other) = depths();
    assert_eq!((dead + other, dead > 0), (100, true));
    assert_eq!(code(cancel().await), "ResourceNotFoundException");
    queues.start("dead", Some("other"), None).await.unwrap();
    assert_eq!(depths(), (0, 100));
}

/// Source: `test_move_task_with_throughput_limit` (30 April 2024).
#[tokio::test]
async fn a_task_with_a_rate_moves_every_message_in_the_end() {
    let queues = Queues::with_dead_letters(20).await;
    let started = queues.start("dead", Some("other"), Some(500)).await;
    started.unwrap();
    assert_ended(&queues.ended_task().await, "COMPLETED", 20);
    assert_eq!(queues.visible("other"), 20);
}

/// Source: `test_move_task_delete_destination_queue_while_running` (30 April 2024).
#[tokio::test]
async fn a_task_whose_destination_is_deleted_fails_and_leaves_the_others() {
    let queues = Queues::with_dead_letters(100).await;
    queues.start("dead", Some("other"), Some(10)).await.unwrap();
    let delete = queues.served.client.delete_queue();
    delete.queue_url(&queues.other).send().await.unwrap();
    let task = queues.ended_task().await;
    assert_eq!(task.status(), Some("FAILED"));
    let reason = "AWS.SimpleQueueService.NonExistentQueue";
    assert_eq!(task.failure_reason(), Some(reason));
    assert!(queues.visible("dead") > 0);
}

/// Source: moto, `test_start_message_move_task_without_known_source_fails`.
#[tokio::test]
async fn a_message_that_was_sent_to_the_dead_letter_queue_needs_a_destination() {
    let queues = Queues::with_dead_letters(0).await;
    let send = queues.served.client.send_message().queue_url(&queues.dead);
    send.message_body("direct").send().await.unwrap();
    queues.start("dead", None, None).await.unwrap();
    let task = queues.newest_task().await;
    assert_ended(&task, "FAILED", 0);
    let reason = "CouldNotDetermineMessageSource";
    assert_eq!(task.failure_reason(), Some(reason));
    let direct = BTreeSet::from(["direct".to_owned()]);
    assert_eq!(queues.bodies(&queues.dead).await, direct);
    queues.start("dead", Some("other"), None).await.unwrap();
    assert!(queues.bodies(&queues.dead).await.is_empty());
}

/// Source: `test_source_needs_redrive_policy`, `test_destination_needs_to_exist`, `test_cancel_with_invalid_task_handle`,
/// `test_cancel_with_invalid_source_arn_in_task_handle`, `test_cancel_with_invalid_task_id_in_task_handle` (30 April 2024);
/// the ranges and the source that does not exist are from moto, and in the API reference.
#[tokio::test]
async fn a_task_is_refused_without_its_queues_and_out_of_its_ranges() {
    let queues = Queues::with_dead_letters(0).await;
    for (source, destination, per_second, expected) in [
        ("queue", Some("other"), None, "InvalidParameterValue"),
        ("dead", Some("nowhere"), None, "ResourceNotFoundException"),
        ("nowhere", None, None, "ResourceNotFoundException"),
        ("dead", None, Some(0), "InvalidParameterValue"),
        ("dead", None, Some(501), "InvalidParameterValue"),
    ] {
        let case = format!("{source} {destination:?} {per_second:?}");
        let started = queues.start(source, destination, per_second).await;
        let response = started.as_ref().err().and_then(SdkError::raw_response);
        let status = response.map(|response| response.status().as_u16());
        let not_found = expected == "ResourceNotFoundException";
        assert_eq!(status, Some(if not_found { 404 } else { 400 }), "{case}");
        assert_eq!(code(started), expected, "{case}");
    }
    assert!(queues.tasks(Some(10)).await.is_empty());

    let list = |source: &str, max: i32| {
        let list = queues.served.client.list_message_move_tasks();
        list.source_arn(queues.arn(source)).max_results(max).send()
    };
    assert_eq!(code(list("dead", 0).await), "InvalidParameterValue");
    assert_eq!(code(list("dead", 11).await), "InvalidParameterValue");
    assert_eq!(code(list("nowhere", 1).await), "ResourceNotFoundException");

    let cancel = |handle: String| {
        let cancel = queues.served.client.cancel_message_move_task();
        cancel.task_handle(handle).send()
    };
    let handle = |queue: &str| {
        let (id, arn) = ("10f57157-fc38-4da9-a113-4de7e12d05aa", queues.arn(queue));
        STANDARD.encode(format!(r#"{{"taskId":"{id}","sourceArn":"{arn}"}}"#))
    };
    let invalid = cancel("foobared".into()).await;
    assert_eq!(code(invalid), "InvalidParameterValue");
    for queue in ["nowhere", "dead"] {
        let cancelled = cancel(handle(queue)).await;
        assert_eq!(code(cancelled), "ResourceNotFoundException", "{queue}");
    }
}

/// Source: moto, `test_list_message_move_tasks`; the API reference has the default and the maximum.
#[tokio::test]
async fn a_listing_has_the_newest_task_first_and_one_by_default() {
    let queues = Queues::with_dead_letters(0).await;
    for rate in 1..=11 {
        let started = queues.start("dead", Some("other"), Some(rate)).await;
        started.unwrap();
    }
    for (max, expected) in [(None, 11..=11), (Some(10), 2..=11)] {
        let tasks = queues.tasks(max).await.into_iter();
        let rates = tasks.map(|task| task.max_number_of_messages_per_second);
        assert!(rates.eq(expected.rev().map(Some)), "{max:?}");
    }
}
