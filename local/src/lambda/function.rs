//! A function: its configuration, and the pool of execution environments that run it.
//!
//! An invocation takes the most recently used environment with room, or starts one. Nothing waits for an environment
//! to become free: the caller bounds its concurrency, as an event source mapping does. Once the deadline passed or the
//! process ended, an environment is never used again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::REQUEST_BYTES_MAX;
use super::accounting::{EnvironmentState, EnvironmentStatus, FunctionStats};
use super::environment::{Environment, Invocation};
use super::exchange::Diagnostic;
use super::logs::{LogSink, Watch};
use crate::faults::Kills;

/// Environments an invocation is offered before it counts as crashed: each of them ended before it took it.
const DELIVERY_ATTEMPTS_MAX: u32 = 4;

/// The program an environment runs.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// Path of the executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// A function as it is deployed.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// Name, as in the ARN and in log prefixes.
    pub name: String,
    /// What each environment runs.
    pub bootstrap: Bootstrap,
    /// Environment variables besides those Lambda sets.
    pub variables: BTreeMap<String, String>,
    /// Longest invocation; the environment is killed then.
    pub timeout: Duration,
    /// Configured memory, told to the process and not enforced.
    pub memory_mb: u32,
    /// Invocations that run at once in one environment. Over 1 the process is told by `AWS_LAMBDA_MAX_CONCURRENCY`.
    pub concurrency_per_environment: u32,
}

/// What the process answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvokeResponse {
    /// The handler's response.
    Ok(Bytes),
    /// The handler returned an error or panicked, or its response was refused; the environment lives on.
    FunctionError {
        /// Stable name of the error.
        error_type: String,
        /// Its text.
        message: String,
    },
}

/// Why an invocation has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// The environment did not get as far as its first poll. Another attempt starts another environment.
    #[error("initialise an environment: {error_type}: {message}")]
    InitFailed {
        /// AWS's name for the kind of failure, or the one the process reported.
        error_type: String,
        /// Its text.
        message: String,
    },
    /// The deadline passed; the environment was killed.
    #[error("finish the invocation within {after:?}")]
    Timeout {
        /// The function's timeout.
        after: Duration,
    },
    /// The process ended during the invocation.
    #[error("finish the invocation: environment {environment} ended, {}", exit_text(.exit))]
    Crashed {
        /// Number of the environment.
        environment: u32,
        /// How it ended; `None` if that is not known.
        exit: Option<ExitStatus>,
    },
    /// The payload is over the limit and was not sent.
    #[error("send a payload of {size_bytes} bytes, the limit is {limit_bytes}")]
    PayloadTooLarge {
        /// Bytes of the payload.
        size_bytes: usize,
        /// Most bytes allowed.
        limit_bytes: usize,
    },
    /// The function was shut down before or during the invocation.
    #[error("invoke a function that is shut down")]
    ShutDown,
}

fn exit_text(exit: &Option<ExitStatus>) -> String {
    exit.map_or_else(|| "status unknown".to_owned(), |exit| exit.to_string())
}

/// A function and its environments. Clones are the same function; when the last one is dropped without
/// [`shutdown`](Function::shutdown), the processes are killed.
#[derive(Clone)]
pub struct Function {
    inner: Arc<Inner>,
}

struct Inner {
    config: FunctionConfig,
    name: Arc<str>,
    watch: Watch,
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    seats: Vec<Seat>,
    /// Environments that ended, for their figures.
    past: Vec<Arc<Environment>>,
    /// Counts assignments, to tell which environment was used last.
    clock: u64,
    running: u32,
    stats: FunctionStats,
    closed: bool,
}

struct Seat {
    environment: Arc<Environment>,
    assigned: u32,
    last_assigned: u64,
}

impl Function {
    /// A function without environments; the first invocation starts one.
    pub fn new(config: FunctionConfig, logs: LogSink) -> Function {
        Function::with_kills(config, logs, None)
    }

    /// As [`new`](Self::new); some of the environments are killed.
    pub fn with_kills(
        config: FunctionConfig,
        logs: LogSink,
        kills: Option<Arc<Kills>>,
    ) -> Function {
        let name = Arc::from(config.name.as_str());
        Function {
            inner: Arc::new(Inner {
                config,
                name,
                watch: Watch { logs, kills },
                pool: Mutex::default(),
            }),
        }
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &FunctionConfig {
        &self.inner.config
    }

    /// One synchronous invocation; starts an environment if none is free. The time is counted from when the
    /// environment is initialised. An invocation goes on when this future is dropped, as it does on Lambda when the
    /// caller goes away.
    ///
    /// # Errors
    /// Each means that there is no answer, not that nothing was done.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn invoke(&self, payload: Bytes) -> Result<InvokeResponse, InvokeError> {
        if payload.len() > REQUEST_BYTES_MAX {
            return Err(InvokeError::PayloadTooLarge {
                size_bytes: payload.len(),
                limit_bytes: REQUEST_BYTES_MAX,
            });
        }
        let inner = Arc::clone(&self.inner);
        match tokio::spawn(async move { inner.invoke(payload).await }).await {
            Ok(result) => result,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            // The Tokio runtime is shutting down.
            Err(_) => Err(InvokeError::ShutDown),
        }
    }

    /// Kills an environment with SIGKILL, to see what its invocations and its caller make of it. False if there is no
    /// such environment or it is ending already.
    pub fn kill_environment(&self, number: u32) -> bool {
        let pool = self.inner.pool();
        let seat = pool
            .seats
            .iter()
            .find(|seat| seat.environment.number == number && !seat.environment.is_ending());
        seat.inspect(|seat| seat.environment.kill()).is_some()
    }

    /// Every environment there is and was, by number.
    pub fn environments(&self) -> Vec<EnvironmentStatus> {
        let pool = self.inner.pool();
        let living = pool
            .seats
            .iter()
            .map(|seat| status(&seat.environment, seat.assigned));
        let mut all: Vec<EnvironmentStatus> = pool
            .past
            .iter()
            .map(|past| status(past, 0))
            .chain(living)
            .collect();
        all.sort_by_key(|environment| environment.number);
        all
    }

    /// Totals over all environments, those that ended included.
    pub fn stats(&self) -> FunctionStats {
        let environments = self.environments();
        let mut stats = self.inner.pool().stats.clone();
        for environment in environments {
            stats.init_time += environment.init_time.unwrap_or_default();
            stats.cpu.user += environment.cpu.user;
            stats.cpu.system += environment.cpu.system;
            stats.peak_rss_bytes_max = stats.peak_rss_bytes_max.max(environment.peak_rss_bytes);
        }
        stats
    }

    /// Ends every environment and waits until all are reaped and their logs drained. What was running ends as
    /// [`InvokeError::ShutDown`], and so does every later invocation. May be called again.
    pub async fn shutdown(&self) {
        let environments: Vec<Arc<Environment>> = {
            let mut pool = self.inner.pool();
            pool.closed = true;
            pool.seats
                .iter()
                .map(|seat| Arc::clone(&seat.environment))
                .collect()
        };
        environments
            .iter()
            .for_each(|environment| environment.terminate());
        for environment in environments {
            environment.ended().await;
        }
    }
}

impl Inner {
    async fn invoke(&self, payload: Bytes) -> Result<InvokeResponse, InvokeError> {
        let timeout = self.config.timeout;
        let mut last = 0;
        for _ in 0..DELIVERY_ATTEMPTS_MAX {
            let assignment = self.assign()?;
            let environment = &assignment.environment;
            last = environment.number;
            if let Err(Diagnostic {
                error_type,
                error_message: message,
            }) = environment.initialised().await
            {
                return self.ended(
                    Err(InvokeError::InitFailed {
                        error_type,
                        message,
                    }),
                    Duration::ZERO,
                );
            }
            let started = Instant::now();
            self.kill_at_some_moment(environment);
            let result = match environment.invoke(payload.clone(), timeout).await {
                Invocation::Answered(response) => {
                    if let Some(kills) = &self.watch.kills {
                        kills.took(started.elapsed());
                    }
                    Ok(response)
                }
                Invocation::Timeout => Err(InvokeError::Timeout { after: timeout }),
                Invocation::Crashed(exit) => Err(InvokeError::Crashed {
                    environment: environment.number,
                    exit,
                }),
                Invocation::NotDelivered => continue,
            };
            return self.ended(result, started.elapsed());
        }
        self.ended(
            Err(InvokeError::Crashed {
                environment: last,
                exit: None,
            }),
            Duration::ZERO,
        )
    }

    /// Draws whether and when the environment of this invocation is killed.
    fn kill_at_some_moment(&self, environment: &Arc<Environment>) {
        let Some((kills, after)) = self
            .watch
            .kills
            .as_ref()
            .and_then(|kills| Some((Arc::clone(kills), kills.moment()?)))
        else {
            return;
        };
        let environment = Arc::clone(environment);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            if !environment.is_ending() {
                environment.kill();
                kills.killed();
            }
        });
    }

    /// The most recently used environment with room, else a new one.
    fn assign(&self) -> Result<Assignment<'_>, InvokeError> {
        let mut pool = self.pool();
        if pool.closed {
            return Err(InvokeError::ShutDown);
        }
        pool.retire_ended();
        pool.clock += 1;
        pool.running += 1;
        let (clock, running) = (pool.clock, pool.running);
        pool.stats.concurrency_max = pool.stats.concurrency_max.max(running);
        let room = self.config.concurrency_per_environment.max(1);
        let free = pool
            .seats
            .iter_mut()
            .filter(|seat| seat.assigned < room && !seat.environment.is_ending());
        if let Some(seat) = free.max_by_key(|seat| seat.last_assigned) {
            seat.assigned += 1;
            seat.last_assigned = clock;
            return Ok(Assignment {
                inner: self,
                environment: Arc::clone(&seat.environment),
            });
        }
        pool.stats.cold_starts += 1;
        // Under the lock, so that a shutdown that comes now finds the environment; starting one takes about 1 ms.
        let number = u32::try_from(pool.stats.cold_starts).unwrap_or(u32::MAX);
        let environment = Arc::new(Environment::start(
            &self.config,
            &self.name,
            number,
            &self.watch,
        ));
        pool.seats.push(Seat {
            environment: Arc::clone(&environment),
            assigned: 1,
            last_assigned: clock,
        });
        Ok(Assignment {
            inner: self,
            environment,
        })
    }

    fn ended(
        &self,
        result: Result<InvokeResponse, InvokeError>,
        time: Duration,
    ) -> Result<InvokeResponse, InvokeError> {
        let mut pool = self.pool();
        let closed = pool.closed;
        let stats = &mut pool.stats;
        stats.invocations += 1;
        stats.invoke_time += time;
        stats.invoke_time_max = stats.invoke_time_max.max(time);
        match &result {
            Ok(InvokeResponse::Ok(_)) => {}
            Ok(InvokeResponse::FunctionError { .. }) => stats.function_errors += 1,
            Err(InvokeError::Timeout { .. }) => stats.timeouts += 1,
            // The shutdown ended the process: that is not the process's failure.
            Err(InvokeError::InitFailed { .. } | InvokeError::Crashed { .. }) if closed => {
                return Err(InvokeError::ShutDown);
            }
            Err(InvokeError::InitFailed { .. }) => stats.init_failures += 1,
            Err(InvokeError::Crashed { .. }) => stats.crashes += 1,
            Err(InvokeError::PayloadTooLarge { .. } | InvokeError::ShutDown) => {}
        }
        result
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Moves what has ended out of the way of the search.
    fn retire_ended(&mut self) {
        let ended = |seat: &mut Seat| seat.assigned == 0 && seat.environment.is_ended();
        self.past.extend(
            self.seats
                .extract_if(.., ended)
                .map(|seat| seat.environment),
        );
    }
}

/// An invocation's place in an environment, given back on drop.
struct Assignment<'a> {
    inner: &'a Inner,
    environment: Arc<Environment>,
}

impl Drop for Assignment<'_> {
    fn drop(&mut self) {
        let mut pool = self.inner.pool();
        pool.running -= 1;
        if let Some(seat) = pool
            .seats
            .iter_mut()
            .find(|seat| seat.environment.number == self.environment.number)
        {
            seat.assigned -= 1;
        }
    }
}

fn status(environment: &Environment, assigned: u32) -> EnvironmentStatus {
    let state = match assigned {
        _ if environment.is_ended() => EnvironmentState::Ended {
            exit: environment.exit(),
        },
        _ if environment.is_ending() => EnvironmentState::Ending,
        _ if !environment.is_initialised() => EnvironmentState::Starting,
        0 => EnvironmentState::Idle,
        invocations => EnvironmentState::Busy { invocations },
    };
    let used = environment.used();
    EnvironmentStatus {
        number: environment.number,
        pid: environment.pid,
        state,
        invocations: used.invocations,
        invoke_time: used.invoke_time,
        timeouts: used.timeouts,
        crashes: used.crashes,
        init_time: environment.init_time(),
        cpu: used.cpu,
        peak_rss_bytes: used.peak_rss_bytes,
    }
}
