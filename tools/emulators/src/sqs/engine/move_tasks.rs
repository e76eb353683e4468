//! Moves messages out of dead-letter queues: starts, lists and cancels the tasks that do it.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::super::error::SqsError;
use super::super::move_task::{MoveFailure, MoveStatus, MoveTask};
use super::{SharedQueue, Sqs};
use crate::locked::locked;

impl Sqs {
    /// Starts a task that moves the visible messages of a dead-letter queue to `destination` or, with `None`, to the queues that
    /// they came from. Returns the id of the task.
    ///
    /// Without `per_second`, all are moved before this method returns. With it, the first one is.
    ///
    /// # Errors
    /// `ResourceNotFound` if a queue does not exist; `InvalidParameterValue` if `source` is the dead-letter queue of no other
    /// queue, or has a running task.
    ///
    /// # Panics
    /// `per_second` is given, and it is called outside of a Tokio runtime.
    pub(in crate::sqs) fn start_move_task(
        &self,
        source: &str,
        destination: Option<&str>,
        per_second: Option<u32>,
    ) -> Result<String, SqsError> {
        let shared = self.find_resource("SourceArn", source)?;
        if self.dead_letter_sources(source).is_empty() {
            return Err(SqsError::InvalidParameterValue {
                parameter: "SourceArn",
                value: source.to_owned(),
                allowed: "a queue that is the dead-letter queue of another one",
            });
        }
        if let Some(destination) = destination {
            self.find_resource("DestinationArn", destination)?;
        }
        let id = Uuid::now_v7().to_string();
        let now_ms = self.now_ms();
        let mut state = shared.lock();
        let task = MoveTask {
            id: id.clone(),
            destination: destination.map(str::to_owned),
            per_second,
            started_ms: now_ms,
            to_move: state.queue.depth(now_ms).visible,
            moved: 0,
            status: MoveStatus::Running,
        };
        state.move_tasks.start(source, task)?;
        drop(state);
        match per_second {
            None => while self.move_one(&shared, &id) {},
            Some(per_second) => {
                if self.move_one(&shared, &id) {
                    tokio::spawn(self.clone().move_slowly(shared, id.clone(), per_second));
                }
            }
        }
        Ok(id)
    }

    /// Returns the latest tasks of a queue, the newest first.
    ///
    /// # Errors
    /// `ResourceNotFound` if the queue does not exist.
    pub(in crate::sqs) fn move_tasks(
        &self,
        source: &str,
        max: usize,
    ) -> Result<Vec<MoveTask>, SqsError> {
        let shared = self.find_resource("SourceArn", source)?;
        Ok(shared.lock().move_tasks.newest(max))
    }

    /// Cancels a running task; returns the number of messages that it moved.
    ///
    /// # Errors
    /// `ResourceNotFound` if the queue does not exist, or has no such task that is running.
    pub(in crate::sqs) fn cancel_move_task(
        &self,
        source: &str,
        id: &str,
    ) -> Result<usize, SqsError> {
        let shared = self.find_resource("SourceArn", source)?;
        let mut state = shared.lock();
        let task = state.move_tasks.running().filter(|task| task.id == id);
        let Some(task) = task else {
            return Err(SqsError::ResourceNotFound {
                parameter: "TaskHandle",
                value: id.to_owned(),
            });
        };
        task.status = MoveStatus::Cancelled;
        Ok(task.moved)
    }

    /// Returns the names of the queues whose dead-letter queue this one is, in order.
    pub(in crate::sqs) fn dead_letter_sources(&self, queue: &str) -> Vec<String> {
        let mut queues = locked(&self.0.queues).clone();
        queues.retain(|_, shared| {
            let redrive = &shared.lock().queue.attributes.redrive;
            matches!(redrive, Some(redrive) if redrive.dead_letter_queue == queue)
        });
        queues.into_keys().collect()
    }

    /// Moves further messages at a rate, until the task ends.
    async fn move_slowly(self, source: Arc<SharedQueue>, id: String, per_second: u32) {
        let period = Duration::from_secs(1) / per_second.max(1);
        let first = tokio::time::Instant::now() + period;
        let mut ticks = tokio::time::interval_at(first, period);
        loop {
            ticks.tick().await;
            if !self.move_one(&source, &id) {
                return;
            }
        }
    }

    /// Moves one message; returns whether the task is still running. A message on its way is in neither queue.
    fn move_one(&self, source: &SharedQueue, id: &str) -> bool {
        let now_ms = self.now_ms();
        let mut guard = source.lock();
        let state = &mut *guard;
        let task = state.move_tasks.running().filter(|task| task.id == id);
        let Some(task) = task.filter(|_| !state.deleted) else {
            return false;
        };
        let source_of_message = state.queue.source_of_first_visible(now_ms);
        let destination = match (&task.destination, source_of_message) {
            (_, None) => Err(MoveStatus::Completed),
            (Some(destination), Some(_)) => Ok(destination.clone()),
            (None, Some(Some(came_from))) => Ok(came_from.to_owned()),
            (None, Some(None)) => Err(MoveStatus::Failed(MoveFailure::SourceOfMessageUnknown)),
        };
        // A queue that is deleted after this line takes the message with it, as if it had arrived before.
        let destination = destination.and_then(|name| {
            self.find(&name)
                .map_err(|_| MoveStatus::Failed(MoveFailure::DestinationDoesNotExist))
        });
        let destination = match destination {
            Ok(destination) => destination,
            Err(end) => {
                state.move_tasks.end(end);
                return false;
            }
        };
        let Some(letter) = state.queue.take_first_visible(now_ms) else {
            return false;
        };
        state.move_tasks.moved_one();
        let running = state.move_tasks.running().is_some();
        drop(guard);
        let id = Uuid::now_v7().to_string();
        destination.lock().queue.accept_redriven(now_ms, letter, id);
        destination.changed.notify_one();
        running
    }

    fn find_resource(
        &self,
        parameter: &'static str,
        queue: &str,
    ) -> Result<Arc<SharedQueue>, SqsError> {
        self.find(queue).map_err(|_| SqsError::ResourceNotFound {
            parameter,
            value: queue.to_owned(),
        })
    }
}
