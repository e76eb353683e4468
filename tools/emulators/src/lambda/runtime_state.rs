//! The state that the host and the Runtime API of one execution environment share: invocations and the init phase.
//!
//! The host calls `submit`, `expire` and `close`; the Runtime API calls `next` and `respond` for the process. The map of
//! running invocations is under one lock, and the method that removes an invocation from the map decides its outcome, so
//! that each invocation has exactly one outcome.

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::{Notify, oneshot, watch};

use super::invocation::InvokeResponse;
use crate::locked::locked;

/// Number of ids of ended invocations that are kept, to tell a late response (403) from an unknown id (400).
const ENDED_IDS_MAX: usize = 64;

/// How an invocation ended.
#[derive(Debug)]
pub(super) enum InvocationOutcome {
    Responded(InvokeResponse),
    /// The invocation reached its deadline.
    Timeout,
    /// The process exited during the invocation.
    Crashed(Option<ExitStatus>),
    /// The process exited before it took the invocation, so another environment may have it.
    NotDelivered,
}

/// Progress of the init phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Init {
    Starting,
    /// The process has polled for an invocation.
    Ready,
    Failed(Diagnostic),
}

/// An error in the format of the Runtime API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Diagnostic {
    #[serde(default)]
    pub(super) error_type: String,
    #[serde(default)]
    pub(super) error_message: String,
}

impl Diagnostic {
    pub(super) fn new(error_type: &str, error_message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            error_type: error_type.to_owned(),
            error_message: error_message.into(),
        }
    }
}

/// One invocation, to be sent to the process.
pub(super) struct Invocation {
    pub(super) request_id: String,
    /// Absolute deadline, epoch ms.
    pub(super) deadline_ms: u64,
    pub(super) payload: Bytes,
}

/// Why a response does not belong to a running invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotRunning {
    /// No recent invocation has this id.
    Unknown,
    /// The invocation has ended: by a response, or at its deadline.
    Ended,
}

pub(super) struct RuntimeState {
    function_name: Arc<str>,
    state: Mutex<Invocations>,
    /// Has one permit for each queued invocation.
    queued: Notify,
    init: watch::Sender<Init>,
    extension_registered: AtomicBool,
}

#[derive(Default)]
struct Invocations {
    queue: VecDeque<Invocation>,
    running: BTreeMap<String, Running>,
    ended: VecDeque<String>,
    closed: bool,
}

struct Running {
    delivered: bool,
    reply: oneshot::Sender<InvocationOutcome>,
}

impl Invocations {
    /// Removes a running invocation; the caller then sends its outcome. Returns `None` if it does not run.
    fn end(&mut self, request_id: &str) -> Option<Running> {
        let running = self.running.remove(request_id)?;
        if self.ended.len() == ENDED_IDS_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(request_id.to_owned());
        Some(running)
    }
}

impl RuntimeState {
    pub(super) fn new(function_name: Arc<str>) -> Arc<RuntimeState> {
        Arc::new(RuntimeState {
            function_name,
            state: Mutex::default(),
            queued: Notify::new(),
            init: watch::Sender::new(Init::Starting),
            extension_registered: AtomicBool::new(false),
        })
    }

    pub(super) fn function_name(&self) -> &str {
        &self.function_name
    }

    /// Queues an invocation for the next poll; returns the receiver of its outcome. After [`close`](Self::close) the outcome
    /// is `NotDelivered` at once.
    pub(super) fn submit(&self, invocation: Invocation) -> oneshot::Receiver<InvocationOutcome> {
        let (reply, outcome) = oneshot::channel();
        let mut invocations = locked(&self.state);
        if invocations.closed {
            // Does not fail: the receiver is still here.
            let _ = reply.send(InvocationOutcome::NotDelivered);
            return outcome;
        }
        let delivered = false;
        let running = Running { delivered, reply };
        let request_id = invocation.request_id.clone();
        invocations.running.insert(request_id, running);
        invocations.queue.push_back(invocation);
        drop(invocations);
        self.queued.notify_one();
        outcome
    }

    /// Ends an invocation at its deadline, unless it has an outcome already.
    pub(super) fn expire(&self, request_id: &str) {
        let mut invocations = locked(&self.state);
        let queue = &mut invocations.queue;
        queue.retain(|invocation| invocation.request_id != request_id);
        if let Some(running) = invocations.end(request_id) {
            // Fails if the caller is gone.
            let _ = running.reply.send(InvocationOutcome::Timeout);
        }
    }

    /// Records that the process has exited. Invocations that it took end as `Crashed`, queued ones as `NotDelivered`.
    pub(super) fn close(&self, exit: Option<ExitStatus>) {
        let running = {
            let mut invocations = locked(&self.state);
            invocations.closed = true;
            invocations.queue.clear();
            std::mem::take(&mut invocations.running)
        };
        for Running { delivered, reply } in running.into_values() {
            let outcome = match delivered {
                true => InvocationOutcome::Crashed(exit),
                false => InvocationOutcome::NotDelivered,
            };
            // Fails if the caller is gone.
            let _ = reply.send(outcome);
        }
    }

    /// Waits for the next invocation and returns it. Ends the init phase. Cancel-safe: a dropped poll takes no invocation.
    pub(super) async fn next(&self) -> Invocation {
        self.init_ended(Init::Ready);
        loop {
            let queued = self.queued.notified();
            if let Some(invocation) = self.take_queued() {
                return invocation;
            }
            queued.await;
        }
    }

    /// Returns whether the process takes no more invocations, because it has exited or its init failed.
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.init.borrow(), Init::Failed(_)) || locked(&self.state).closed
    }

    pub(super) fn init(&self) -> watch::Receiver<Init> {
        self.init.subscribe()
    }

    /// Ends the init phase with this result. Only the first call has an effect.
    pub(super) fn init_ended(&self, result: Init) {
        self.init.send_if_modified(|init| {
            let starting = *init == Init::Starting;
            if starting {
                *init = result;
            }
            starting
        });
    }

    pub(super) fn register_extension(&self) {
        self.extension_registered.store(true, Ordering::Relaxed);
    }

    pub(super) fn extension_registered(&self) -> bool {
        self.extension_registered.load(Ordering::Relaxed)
    }

    /// Ends an invocation with the response of the process.
    ///
    /// # Errors
    /// No such invocation runs.
    pub(super) fn respond(
        &self,
        request_id: &str,
        response: InvokeResponse,
    ) -> Result<(), NotRunning> {
        let running = {
            let mut invocations = locked(&self.state);
            match invocations.end(request_id) {
                Some(running) => running,
                None if invocations.ended.iter().any(|ended| ended == request_id) => {
                    return Err(NotRunning::Ended);
                }
                None => return Err(NotRunning::Unknown),
            }
        };
        // Fails if the caller is gone.
        let _ = running.reply.send(InvocationOutcome::Responded(response));
        Ok(())
    }

    fn take_queued(&self) -> Option<Invocation> {
        let mut invocations = locked(&self.state);
        let invocation = invocations.queue.pop_front()?;
        if let Some(running) = invocations.running.get_mut(&invocation.request_id) {
            running.delivered = true;
        }
        Some(invocation)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[tokio::test]
    async fn an_invocation_has_exactly_one_outcome() {
        let runtime = RuntimeState::new("echo".into());
        let ok = || InvokeResponse::Ok(Bytes::new());
        let answered = runtime.submit(invocation("answered", b"{}"));
        assert_eq!(runtime.respond("answered", ok()), Ok(()));
        runtime.expire("answered");
        assert_eq!(runtime.respond("answered", ok()), Err(NotRunning::Ended));
        let answered = answered.await.unwrap();
        assert!(matches!(answered, InvocationOutcome::Responded(_)));

        let expired = runtime.submit(invocation("expired", b"{}"));
        runtime.expire("expired");
        assert!(matches!(expired.await, Ok(InvocationOutcome::Timeout)));
        assert_eq!(runtime.respond("expired", ok()), Err(NotRunning::Ended));
        assert_eq!(runtime.respond("never", ok()), Err(NotRunning::Unknown));
    }

    #[tokio::test]
    async fn several_polls_get_an_invocation_each() {
        let runtime = RuntimeState::new("echo".into());
        let polls = futures::future::join(runtime.next(), runtime.next());
        let submitted = async { ["1", "2"].map(|id| runtime.submit(invocation(id, b"{}"))) };
        let ((one, two), _outcomes) = futures::future::join(polls, submitted).await;
        let mut ids = [one.request_id, two.request_id];
        ids.sort();
        assert_eq!(ids, ["1", "2"]);
    }

    #[tokio::test]
    async fn when_a_process_exits_taken_invocations_crash_and_queued_ones_are_not_delivered() {
        let runtime = RuntimeState::new("echo".into());
        let [taken, waiting] = ["1", "2"].map(|id| runtime.submit(invocation(id, b"{}")));
        runtime.take_queued().unwrap();
        runtime.close(None);
        let late = runtime.submit(invocation("3", b"{}"));
        assert!(matches!(taken.await, Ok(InvocationOutcome::Crashed(None))));
        for undelivered in [waiting.await, late.await] {
            assert!(matches!(undelivered, Ok(InvocationOutcome::NotDelivered)));
        }
    }

    pub(in crate::lambda) fn invocation(request_id: &str, payload: &'static [u8]) -> Invocation {
        Invocation {
            request_id: request_id.into(),
            deadline_ms: 1_700_000_000_000,
            payload: Bytes::from_static(payload),
        }
    }
}
