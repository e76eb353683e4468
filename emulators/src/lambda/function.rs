//! A function: invocations in the environments of its pool.
//!
//! Nothing waits for an environment to become free: the caller bounds its concurrency, as an event source mapping does.
//! Once the deadline passed or the process ended, an environment is never used again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::accounting::{EnvironmentStatus, FunctionStats};
use super::environment::{Environment, Invocation};
use super::exchange::Diagnostic;
use super::faults::{EnvironmentFaults, NoFaults};
use super::function_config::FunctionConfig;
use super::invocation::{InvokeError, InvokeResponse};
use super::limits::{INIT_TIMED_OUT, REQUEST_BYTES_MAX};
use super::logs::{LogSink, Watch};
use super::pool::Pool;
use super::start_failure::StartFailure;

/// Environments an invocation is offered before it counts as crashed: each of them ended before it took it.
const DELIVERY_ATTEMPTS_MAX: u32 = 4;

/// A function and its environments. Clones are the same function; when the last one is dropped without
/// [`shutdown`](Function::shutdown), the processes are killed.
#[derive(Clone)]
pub struct Function {
    inner: Arc<Inner>,
}

struct Inner {
    name: Arc<str>,
    watch: Watch,
    pool: Mutex<Pool>,
    /// Set when cold starts fail, and do so in the same way.
    broken: watch::Sender<Option<StartFailure>>,
}

impl Function {
    /// A function without environments; the first invocation starts one.
    pub fn new(config: FunctionConfig, logs: LogSink) -> Function {
        Function::with_faults(config, logs, Arc::new(NoFaults))
    }

    /// As [`new`](Self::new), with faults.
    pub fn with_faults(
        config: FunctionConfig,
        logs: LogSink,
        faults: Arc<dyn EnvironmentFaults>,
    ) -> Function {
        let name = Arc::from(config.name.as_str());
        Function {
            inner: Arc::new(Inner {
                name,
                watch: Watch { logs, faults },
                pool: Mutex::new(Pool::new(config)),
                broken: watch::Sender::new(None),
            }),
        }
    }

    /// The configuration that environments start with from now on.
    pub fn config(&self) -> Arc<FunctionConfig> {
        Arc::clone(self.inner.pool().config())
    }

    /// Updates the configuration: environments that start from now on have these variables over those of before. Those that
    /// are there end, each after the invocations it is in. Returns how many they are.
    ///
    /// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_UpdateFunctionConfiguration.html> (2026-11).
    pub fn redeploy(&self, variables: &BTreeMap<String, String>) -> u64 {
        self.inner.pool().redeploy(variables)
    }

    /// Waits until two cold starts have failed in the same way with no successful one between them; returns the second
    /// failure.
    pub async fn start_fails_again(&self) -> StartFailure {
        let mut broken = self.inner.broken.subscribe();
        let failure = broken.wait_for(Option::is_some).await;
        match failure.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            // The sender is this function's own.
            Ok(None) | Err(_) => std::future::pending().await,
        }
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
        self.inner.pool().kill(number)
    }

    /// Every environment there is and was, by number.
    pub fn environments(&self) -> Vec<EnvironmentStatus> {
        self.inner.pool().environments()
    }

    /// Totals over all environments, those that ended included.
    pub fn stats(&self) -> FunctionStats {
        let (environments, mut stats) = {
            let pool = self.inner.pool();
            (pool.environments(), pool.stats.clone())
        };
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
        let environments = self.inner.pool().close();
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
        let mut last = 0;
        let mut start_retried = false;
        for _ in 0..DELIVERY_ATTEMPTS_MAX {
            let assignment = self.assign()?;
            let environment = &assignment.environment;
            last = environment.number;
            if let Err(diagnostic) = environment.initialised().await {
                let failed_again = std::mem::replace(&mut start_retried, true);
                if self
                    .is_retried(environment, &diagnostic, failed_again)
                    .await
                {
                    continue;
                }
                let Diagnostic {
                    error_type,
                    error_message: message,
                } = diagnostic;
                return self.ended(
                    Err(InvokeError::InitFailed {
                        error_type,
                        message,
                    }),
                    Duration::ZERO,
                );
            }
            self.pool().last_start_failure = None;
            let timeout = assignment.timeout;
            let started = Instant::now();
            self.kill_at_some_moment(environment);
            let result = match environment.invoke(payload.clone(), timeout).await {
                Invocation::Answered(response) => {
                    self.watch.faults.answered(started.elapsed());
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

    /// Takes in a cold start that failed. Lambda starts another process for the same invocation, once, unless the time of
    /// the first was over.
    ///
    /// Source: <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>, "Failures during the Init
    /// phase" (2026-11).
    async fn is_retried(
        &self,
        environment: &Environment,
        diagnostic: &Diagnostic,
        failed_again: bool,
    ) -> bool {
        let Some(failure) = environment.start_failure(diagnostic).await else {
            return false;
        };
        let mut pool = self.pool();
        if pool.is_closed() {
            return false;
        }
        let before = pool.last_start_failure.replace(failure.clone());
        if before.is_some_and(|before| before.is_like(&failure)) {
            self.broken.send_replace(Some(failure));
        }
        let retried = !failed_again && diagnostic.error_type != INIT_TIMED_OUT;
        if retried {
            pool.stats.init_failures += 1;
        }
        retried
    }

    /// Draws whether and when the environment of this invocation is killed.
    fn kill_at_some_moment(&self, environment: &Arc<Environment>) {
        let Some(after) = self.watch.faults.kill_after() else {
            return;
        };
        let (environment, faults) = (Arc::clone(environment), Arc::clone(&self.watch.faults));
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            if !environment.is_ending() {
                environment.kill();
                faults.killed();
            }
        });
    }

    /// The most recently used environment with room, else a new one.
    fn assign(&self) -> Result<Assignment<'_>, InvokeError> {
        let mut pool = self.pool();
        let environment = pool
            .assign(|config, number| Environment::start(config, &self.name, number, &self.watch))
            .ok_or(InvokeError::ShutDown)?;
        Ok(Assignment {
            inner: self,
            environment,
            timeout: pool.config().timeout,
        })
    }

    fn ended(
        &self,
        result: Result<InvokeResponse, InvokeError>,
        time: Duration,
    ) -> Result<InvokeResponse, InvokeError> {
        let mut pool = self.pool();
        let closed = pool.is_closed();
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

/// An invocation's place in an environment, given back on drop.
struct Assignment<'a> {
    inner: &'a Inner,
    environment: Arc<Environment>,
    timeout: Duration,
}

impl Drop for Assignment<'_> {
    fn drop(&mut self) {
        self.inner.pool().give_back(self.environment.number);
    }
}
