//! Tasks that move messages out of a dead-letter queue: what is known of each, and how one ends. The moves are in
//! `engine/move_tasks`.
//!
//! Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html>

use std::collections::VecDeque;

use super::error::SqsError;
use super::limits;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveStatus {
    Running,
    Completed,
    Cancelled,
    Failed(MoveFailure),
}

/// Why a task ended before it had moved its messages. What is left stays in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveFailure {
    /// The destination was deleted.
    DestinationDoesNotExist,
    /// The next message was sent to the dead-letter queue directly, and the task has no destination.
    SourceOfMessageUnknown,
}

#[derive(Clone, Debug)]
pub(super) struct MoveTask {
    pub(super) id: String,
    /// Name of the queue to move to; `None` means the queue that each message came from.
    pub(super) destination: Option<String>,
    /// Maximum number of messages moved in a second; `None` means all at once.
    pub(super) per_second: Option<u32>,
    pub(super) started_ms: u64,
    /// Number of messages that were visible when the task was started. The task moves no more than these.
    pub(super) to_move: usize,
    pub(super) moved: usize,
    pub(super) status: MoveStatus,
}

/// The latest tasks of one queue.
#[derive(Debug, Default)]
pub(super) struct MoveTasks {
    /// Newest first. At most the newest is running.
    tasks: VecDeque<MoveTask>,
}

impl MoveTasks {
    /// Adds a task, and forgets the oldest if there are more than a listing has. A task without messages is complete.
    ///
    /// # Errors
    /// `InvalidParameterValue` if another task is running. `queue` is the name of the queue, for the error.
    pub(super) fn start(&mut self, queue: &str, task: MoveTask) -> Result<(), SqsError> {
        if self.running().is_some() {
            return Err(SqsError::InvalidParameterValue {
                parameter: "SourceArn",
                value: queue.to_owned(),
                allowed: "a queue without a running task",
            });
        }
        self.tasks.push_front(task);
        self.tasks.truncate(limits::LIST_MOVE_TASKS_MAX);
        self.end_if_all_is_moved();
        Ok(())
    }

    pub(super) fn running(&mut self) -> Option<&mut MoveTask> {
        let newest = self.tasks.front_mut();
        newest.filter(|task| task.status == MoveStatus::Running)
    }

    /// Counts a message that the running task moved.
    pub(super) fn moved_one(&mut self) {
        if let Some(task) = self.running() {
            task.moved += 1;
        }
        self.end_if_all_is_moved();
    }

    pub(super) fn end(&mut self, status: MoveStatus) {
        if let Some(task) = self.running() {
            task.status = status;
        }
    }

    /// Returns up to `max` tasks, the newest first.
    pub(super) fn newest(&self, max: usize) -> Vec<MoveTask> {
        self.tasks.iter().take(max).cloned().collect()
    }

    fn end_if_all_is_moved(&mut self) {
        if let Some(task) = self.running()
            && task.moved >= task.to_move
        {
            task.status = MoveStatus::Completed;
        }
    }
}

impl MoveStatus {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed(_) => "FAILED",
        }
    }

    /// Returns the reason of a failure by its name in the protocol.
    pub(super) fn failure_reason(self) -> Option<&'static str> {
        match self {
            Self::Running | Self::Completed | Self::Cancelled => None,
            Self::Failed(MoveFailure::DestinationDoesNotExist) => {
                Some("AWS.SimpleQueueService.NonExistentQueue")
            }
            Self::Failed(MoveFailure::SourceOfMessageUnknown) => {
                Some("CouldNotDetermineMessageSource")
            }
        }
    }
}
