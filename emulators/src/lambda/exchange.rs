//! What the host and the process of one execution environment hand each other: invocations, answers, the end of init.
//!
//! The host calls `submit`, `expire` and `close`; the Runtime API calls `next` and `answer` for the process. Between
//! them is one map of running invocations under one lock: whoever takes an invocation out of it decides its outcome,
//! so each has exactly one.

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::{Notify, oneshot, watch};

use super::invocation::InvokeResponse;

/// Ids of ended invocations remembered, to tell a late answer (403) from an unknown id (400).
const ENDED_IDS_MAX: usize = 64;

/// How an invocation ended, as the environment sees it.
#[derive(Debug)]
pub(super) enum Outcome {
    Answered(InvokeResponse),
    /// The process ended while it had the invocation.
    Crashed(Option<ExitStatus>),
    /// The process ended before it took the invocation: another environment may have it.
    NotDelivered,
}

/// Progress of the init phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Init {
    Starting,
    /// The process has polled.
    Ready,
    Failed(Diagnostic),
}

/// An error as runtimes report it.
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

/// One invocation, ready to be sent to the process.
pub(super) struct Work {
    pub(super) request_id: String,
    pub(super) deadline_ms: u64,
    pub(super) payload: Bytes,
}

/// Why an answer belongs to no running invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotRunning {
    /// There was no such invocation.
    Unknown,
    /// It has been answered, or it has timed out.
    Ended,
}

pub(super) struct Exchange {
    function_name: Arc<str>,
    state: Mutex<Calls>,
    /// One permit for each invocation queued.
    queued: Notify,
    init: watch::Sender<Init>,
    extension_registered: AtomicBool,
}

#[derive(Default)]
struct Calls {
    queue: VecDeque<Work>,
    running: BTreeMap<String, Running>,
    ended: VecDeque<String>,
    closed: bool,
}

struct Running {
    delivered: bool,
    reply: oneshot::Sender<Outcome>,
}

impl Calls {
    /// Takes an invocation out: the caller alone decides its outcome.
    fn end(&mut self, request_id: &str) -> Option<Running> {
        let running = self.running.remove(request_id)?;
        if self.ended.len() == ENDED_IDS_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(request_id.to_owned());
        Some(running)
    }
}

impl Exchange {
    pub(super) fn new(function_name: Arc<str>) -> Arc<Exchange> {
        Arc::new(Exchange {
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

    /// Queues an invocation for the next poll. After [`close`](Self::close) the answer is `NotDelivered` at once.
    pub(super) fn submit(&self, work: Work) -> oneshot::Receiver<Outcome> {
        let (reply, outcome) = oneshot::channel();
        let mut calls = self.calls();
        if calls.closed {
            // The receiver may be gone already: then nobody asks.
            let _ = reply.send(Outcome::NotDelivered);
            return outcome;
        }
        calls.running.insert(
            work.request_id.clone(),
            Running {
                delivered: false,
                reply,
            },
        );
        calls.queue.push_back(work);
        drop(calls);
        self.queued.notify_one();
        outcome
    }

    /// Ends an invocation at its deadline. False if its outcome is already on its way.
    pub(super) fn expire(&self, request_id: &str) -> bool {
        let mut calls = self.calls();
        calls.queue.retain(|work| work.request_id != request_id);
        calls.end(request_id).is_some()
    }

    /// The process is gone: every invocation it had crashed, every invocation it had not taken is given back.
    pub(super) fn close(&self, exit: Option<ExitStatus>) {
        let running = {
            let mut calls = self.calls();
            calls.closed = true;
            calls.queue.clear();
            std::mem::take(&mut calls.running)
        };
        for Running { delivered, reply } in running.into_values() {
            let outcome = if delivered {
                Outcome::Crashed(exit)
            } else {
                Outcome::NotDelivered
            };
            // The receiver is dropped only by an invocation that has timed out.
            let _ = reply.send(outcome);
        }
    }

    /// The next invocation for the process, as soon as there is one. Cancel-safe: a poll that breaks off takes none.
    pub(super) async fn next(&self) -> Work {
        self.init_ended(Init::Ready);
        loop {
            let queued = self.queued.notified();
            if let Some(work) = self.take_queued() {
                return work;
            }
            queued.await;
        }
    }

    /// True if no invocation will be taken any more: the process is gone or its init failed.
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.init.borrow(), Init::Failed(_)) || self.calls().closed
    }

    pub(super) fn init(&self) -> watch::Receiver<Init> {
        self.init.subscribe()
    }

    /// Ends the init phase; later calls change nothing.
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

    /// Ends an invocation with the process's answer.
    pub(super) fn answer(
        &self,
        request_id: &str,
        answer: InvokeResponse,
    ) -> Result<(), NotRunning> {
        let running = {
            let mut calls = self.calls();
            match calls.end(request_id) {
                Some(running) => running,
                None if calls.ended.iter().any(|ended| ended == request_id) => {
                    return Err(NotRunning::Ended);
                }
                None => return Err(NotRunning::Unknown),
            }
        };
        // The receiver is dropped only by an invocation that has timed out.
        let _ = running.reply.send(Outcome::Answered(answer));
        Ok(())
    }

    fn take_queued(&self) -> Option<Work> {
        let mut calls = self.calls();
        let work = calls.queue.pop_front()?;
        if let Some(running) = calls.running.get_mut(&work.request_id) {
            running.delivered = true;
        }
        Some(work)
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        // No code under this lock leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_invocation_has_one_outcome_whoever_comes_first() {
        let exchange = Exchange::new("echo".into());
        let ok = || InvokeResponse::Ok(Bytes::new());
        let answered = exchange.submit(work("answered", b"{}"));
        assert_eq!(exchange.answer("answered", ok()), Ok(()));
        assert!(!exchange.expire("answered"));
        assert_eq!(exchange.answer("answered", ok()), Err(NotRunning::Ended));
        assert!(matches!(answered.await, Ok(Outcome::Answered(_))));

        let _expired = exchange.submit(work("expired", b"{}"));
        assert!(exchange.expire("expired"));
        assert!(!exchange.expire("expired"));
        assert_eq!(exchange.answer("expired", ok()), Err(NotRunning::Ended));
        assert_eq!(exchange.answer("never", ok()), Err(NotRunning::Unknown));
    }

    #[tokio::test]
    async fn several_polls_get_an_invocation_each() {
        let exchange = Exchange::new("echo".into());
        let polls = futures::future::join(exchange.next(), exchange.next());
        let submitted = async {
            [
                exchange.submit(work("1", b"{}")),
                exchange.submit(work("2", b"{}")),
            ]
        };
        let ((one, two), _outcomes) = futures::future::join(polls, submitted).await;
        let mut ids = [one.request_id, two.request_id];
        ids.sort();
        assert_eq!(ids, ["1", "2"]);
    }

    #[tokio::test]
    async fn a_process_that_ends_crashes_what_it_took_and_gives_back_the_rest() {
        let exchange = Exchange::new("echo".into());
        let (taken, waiting) = (
            exchange.submit(work("id-1", b"{}")),
            exchange.submit(work("id-2", b"{}")),
        );
        exchange.take_queued().unwrap();
        exchange.close(None);
        assert!(matches!(taken.await, Ok(Outcome::Crashed(None))));
        assert!(matches!(waiting.await, Ok(Outcome::NotDelivered)));
        assert!(matches!(
            exchange.submit(work("id-3", b"{}")).await,
            Ok(Outcome::NotDelivered)
        ));
    }

    fn work(request_id: &str, payload: &'static [u8]) -> Work {
        Work {
            request_id: request_id.into(),
            deadline_ms: 1_700_000_000_000,
            payload: Bytes::from_static(payload),
        }
    }
}
