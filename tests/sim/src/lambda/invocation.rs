//! Execution environments, and the invocations that run in them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use protocol::ids::BatchId;
use protocol::time::Timestamp;

use crate::queue::Received;

/// The handler that an environment runs.
pub(super) enum Function {
    Aggregator(Arc<aggregator::Handler>),
    Processor(Arc<batch_processor::Handler>),
    /// An operator runs commands.
    Operator,
}

/// An execution environment.
pub(super) struct Execution {
    pub function: Function,
    pub frozen_until_ms: u64,
    /// Whether the environment ends with its invocation, because it passed a deadline or ran the sweep.
    pub last: bool,
}

/// The event of an invocation.
pub(super) enum Work {
    Input {
        source: usize,
        messages: Vec<Received<usize>>,
    },
    Ticket(Received<String>),
    /// The sweep, with the batches that it must send a ticket, and their due times.
    Sweep(Vec<(BatchId, Timestamp)>),
    Operator,
}

/// The message ids that an invocation reported as failed; `None` for an error.
pub(super) type Outcome = Option<Vec<String>>;

/// An invocation that has not ended.
pub(super) struct Task {
    pub environment: u64,
    pub work: Work,
    /// In the time of the world, not by the environment's clock.
    pub deadline_ms: u64,
    pub was_frozen: bool,
    pub timed_out: bool,
    pub future: Pin<Box<dyn Future<Output = Outcome>>>,
    pub waker: Waker,
}

/// The numbers of the tasks whose future was woken.
#[derive(Default)]
pub(super) struct Ready(Mutex<Vec<u64>>);

impl Ready {
    pub(super) fn add(&self, task: u64) {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&task) {
            ready.push(task);
        }
    }

    pub(super) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) struct TaskWaker {
    pub task: u64,
    pub ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.add(self.task);
    }
}
