//! The operations of tasks that move messages out of a dead-letter queue.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::super::attributes::{arn_of_queue, queue_of_arn};
use super::super::error::SqsError;
use super::super::move_task::{MoveStatus, MoveTask};
use super::super::{limits, wire};
use super::{Operations, in_range, queue_of, required};

/// The content of a task handle. AWS's is the same JSON in Base64.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskHandle {
    task_id: String,
    source_arn: String,
}

impl Operations {
    pub(in crate::sqs) fn start_message_move_task(
        &self,
        request: wire::StartMessageMoveTask,
    ) -> Result<wire::MoveTaskHandle, SqsError> {
        let source = queue_in("SourceArn", required("SourceArn", request.source_arn)?)?;
        let destination = request.destination_arn;
        let destination = destination
            .map(|arn| queue_in("DestinationArn", arn))
            .transpose()?;
        let per_second = request.max_number_of_messages_per_second;
        let parameter = "MaxNumberOfMessagesPerSecond";
        let per_second = per_second
            .map(|rate| in_range(parameter, rate, limits::MOVES_PER_SECOND))
            .transpose()?
            .map(|rate| rate as u32);
        let destination = destination.as_deref();
        let id = self.sqs.start_move_task(&source, destination, per_second)?;
        Ok(wire::MoveTaskHandle {
            task_handle: Some(handle(&id, &source)),
        })
    }

    pub(in crate::sqs) fn cancel_message_move_task(
        &self,
        request: wire::MoveTaskHandle,
    ) -> Result<wire::CancelledMoveTask, SqsError> {
        let text = required("TaskHandle", request.task_handle)?;
        let decoded = STANDARD.decode(&text).ok();
        let parsed = decoded.and_then(|json| serde_json::from_slice::<TaskHandle>(&json).ok());
        let handle = parsed.ok_or(SqsError::InvalidParameterValue {
            parameter: "TaskHandle",
            value: text,
            allowed: "a handle that StartMessageMoveTask returned",
        })?;
        let source = queue_in("SourceArn", handle.source_arn)?;
        let moved = self.sqs.cancel_move_task(&source, &handle.task_id)?;
        Ok(wire::CancelledMoveTask {
            approximate_number_of_messages_moved: moved,
        })
    }

    pub(in crate::sqs) fn list_message_move_tasks(
        &self,
        request: wire::ListMessageMoveTasks,
    ) -> Result<wire::MoveTasks, SqsError> {
        let source = queue_in("SourceArn", required("SourceArn", request.source_arn)?)?;
        let max_range = 1..=limits::LIST_MOVE_TASKS_MAX as u64;
        let max = in_range("MaxResults", request.max_results.unwrap_or(1), max_range)?;
        let tasks = self.sqs.move_tasks(&source, max as usize)?;
        let results = tasks.into_iter().map(|task| listed(&source, task));
        Ok(wire::MoveTasks {
            results: results.collect(),
        })
    }

    pub(in crate::sqs) fn list_dead_letter_source_queues(
        &self,
        request: wire::ByUrl,
    ) -> Result<wire::SourceQueueUrls, SqsError> {
        let queue = queue_of(request.queue_url)?;
        self.sqs.describe(&queue)?;
        let names = self.sqs.dead_letter_sources(&queue).into_iter();
        Ok(wire::SourceQueueUrls {
            queue_urls: names.map(|name| self.url(&name).queue_url).collect(),
        })
    }
}

fn listed(source: &str, task: MoveTask) -> wire::MoveTask {
    let running = task.status == MoveStatus::Running;
    wire::MoveTask {
        status: task.status.name(),
        source_arn: arn_of_queue(source),
        destination_arn: task.destination.as_deref().map(arn_of_queue),
        max_number_of_messages_per_second: task.per_second,
        approximate_number_of_messages_moved: task.moved,
        approximate_number_of_messages_to_move: task.to_move,
        started_timestamp: task.started_ms,
        task_handle: running.then(|| handle(&task.id, source)),
        failure_reason: task.status.failure_reason(),
    }
}

fn handle(task_id: &str, source: &str) -> String {
    let handle = TaskHandle {
        task_id: task_id.to_owned(),
        source_arn: arn_of_queue(source),
    };
    STANDARD.encode(serde_json::to_vec(&handle).expect("two strings always serialize"))
}

/// Returns the name of the queue in an ARN.
///
/// # Errors
/// `ResourceNotFound` if it is not the ARN of a queue of this region and account.
fn queue_in(parameter: &'static str, arn: String) -> Result<String, SqsError> {
    let name = queue_of_arn(&arn).map(str::to_owned);
    name.ok_or(SqsError::ResourceNotFound {
        parameter,
        value: arn,
    })
}
