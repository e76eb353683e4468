//! A Lambda function: runs invocations in the environments of its pool.
//!
//! An invocation never waits for an environment to become free. It starts a new one, so the caller must bound its
//! concurrency, as an event source mapping does. An environment is not used again after a deadline or the end of its process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::environment::Environment;
use super::faults::EnvironmentFaults;
use super::function_config::{Bootstrap, FunctionConfig};
use super::invocation::{InvokeError, InvokeResponse};
use super::limits::{INIT_TIMED_OUT, REQUEST_BYTES_MAX};
use super::logs::{EnvironmentHooks, LogSink};
use super::pool::Pool;
use super::runtime_state::{Diagnostic, InvocationOutcome};
use super::start_failure::StartFailure;
use super::stats::{EnvironmentStatus, FunctionStats};
use crate::locked::locked;

/// Number of environments that may exit before they take an invocation, until the invocation counts as crashed.
const DELIVERY_ATTEMPTS_MAX: u32 = 4;

/// A Lambda function with its environments. Clones share the environments. When the last clone is dropped without
/// [`shutdown`](Function::shutdown), the processes are killed.
#[derive(Clone)]
pub struct Function {
    inner: Arc<Inner>,
}

struct Inner {
    name: Arc<str>,
    hooks: EnvironmentHooks,
    pool: Mutex<Pool>,
    /// Set when two cold starts in a row failed in the same way.
    repeated_failure: watch::Sender<Option<StartFailure>>,
}

impl Function {
    /// Makes a function without environments. The first invocation starts one.
    pub fn new(config: FunctionConfig, logs: LogSink) -> Function {
        Function::with_faults(config, logs, Arc::new(()))
    }

    /// Makes a function as [`new`](Self::new) does, with faults of its environments.
    pub fn with_faults(
        config: FunctionConfig,
        logs: LogSink,
        faults: Arc<dyn EnvironmentFaults>,
    ) -> Function {
        let inner = Inner {
            name: Arc::from(config.name.as_str()),
            hooks: EnvironmentHooks { logs, faults },
            pool: Mutex::new(Pool::new(config)),
            repeated_failure: watch::Sender::new(None),
        };
        Function {
            inner: Arc::new(inner),
        }
    }

    /// Returns the configuration that new environments start with.
    pub fn config(&self) -> Arc<FunctionConfig> {
        Arc::clone(locked(&self.inner.pool).config())
    }

    /// Adds variables to the configuration of new environments, and replaces variables of the same names. Each existing
    /// environment ends once no invocation runs in it. Returns the number of these environments.
    ///
    /// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_UpdateFunctionConfiguration.html> (2026-11).
    pub fn redeploy(&self, variables: &BTreeMap<String, String>) -> u64 {
        let changed = |config: &mut FunctionConfig| config.variables.extend(variables.clone());
        locked(&self.inner.pool).redeploy(changed)
    }

    /// Gives new environments another executable. Existing environments end as they do after [`redeploy`](Self::redeploy).
    /// Returns the number of these environments.
    ///
    /// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_UpdateFunctionCode.html> (2026-11).
    pub fn redeploy_code(&self, bootstrap: &Bootstrap) -> u64 {
        let changed = |config: &mut FunctionConfig| config.bootstrap = bootstrap.clone();
        locked(&self.inner.pool).redeploy(changed)
    }

    /// Waits until two cold starts in a row have failed in the same way; returns the second failure. Digits in the messages
    /// may differ. Callers use it to give up on a function that cannot start.
    pub async fn repeated_start_failure(&self) -> StartFailure {
        let mut repeated_failure = self.inner.repeated_failure.subscribe();
        let failure = repeated_failure.wait_for(Option::is_some).await;
        match failure.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            // Does not happen: the function owns the sender.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Runs one synchronous invocation; starts an environment if none is free. The timeout counts from the moment when the
    /// environment is initialised. The invocation continues if the returned future is dropped, as it does on Lambda when a
    /// caller disconnects.
    ///
    /// # Errors
    /// There is no response. Apart from [`InvokeError::PayloadTooLarge`], the function may have done some or all of its work.
    ///
    /// # Panics
    /// It is called outside of a Tokio runtime.
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

    /// Kills an environment with SIGKILL. Its invocations end as [`InvokeError::Crashed`]. Returns `false` if no environment has
    /// this number, or if it is ending already.
    pub fn kill_environment(&self, number: u32) -> bool {
        locked(&self.inner.pool).kill(number)
    }

    /// Returns the status of every environment, ended ones included, ordered by number.
    pub fn environments(&self) -> Vec<EnvironmentStatus> {
        locked(&self.inner.pool).environments()
    }

    /// Returns the totals over all environments, ended ones included.
    pub fn stats(&self) -> FunctionStats {
        let (environments, mut stats) = {
            let pool = locked(&self.inner.pool);
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

    /// Ends every environment, and waits until all processes are reaped and their logs are read. Running invocations and
    /// later ones end as [`InvokeError::ShutDown`]. May be called more than once.
    pub async fn shutdown(&self) {
        let environments = locked(&self.inner.pool).close();
        environments.iter().for_each(|one| one.terminate());
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
                let recorded = self.record_start_failure(environment, &diagnostic, failed_again);
                if recorded.await {
                    continue;
                }
                let failed = InvokeError::InitFailed {
                    error_type: diagnostic.error_type,
                    message: diagnostic.error_message,
                };
                return self.ended(Err(failed), Duration::ZERO);
            }
            locked(&self.pool).last_start_failure = None;
            let timeout = assignment.timeout;
            let started = Instant::now();
            self.schedule_kill(environment);
            let result = match environment.invoke(payload.clone(), timeout).await {
                InvocationOutcome::Responded(response) => {
                    self.hooks.faults.completed(started.elapsed());
                    Ok(response)
                }
                InvocationOutcome::Timeout => Err(InvokeError::Timeout { after: timeout }),
                InvocationOutcome::Crashed(exit) => Err(InvokeError::Crashed {
                    environment: environment.number,
                    exit,
                }),
                InvocationOutcome::NotDelivered => continue,
            };
            return self.ended(result, started.elapsed());
        }
        let crashed = InvokeError::Crashed {
            environment: last,
            exit: None,
        };
        self.ended(Err(crashed), Duration::ZERO)
    }

    /// Records a failed cold start; returns whether the invocation starts a second environment. Lambda does so once per
    /// invocation, unless the first environment reached the time limit of the init phase.
    ///
    /// Source: <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>, "Failures during the Init
    /// phase" (2026-11).
    async fn record_start_failure(
        &self,
        environment: &Environment,
        diagnostic: &Diagnostic,
        failed_again: bool,
    ) -> bool {
        let Some(failure) = environment.start_failure(diagnostic).await else {
            return false;
        };
        let mut pool = locked(&self.pool);
        if pool.is_closed() {
            return false;
        }
        let before = pool.last_start_failure.replace(failure.clone());
        if before.is_some_and(|before| before.is_like(&failure)) {
            self.repeated_failure.send_replace(Some(failure));
        }
        let retried = !failed_again && diagnostic.error_type != INIT_TIMED_OUT;
        if retried {
            pool.stats.init_failures += 1;
        }
        retried
    }

    /// Kills the environment of an invocation later, if the faults say so.
    fn schedule_kill(&self, environment: &Arc<Environment>) {
        let Some(after) = self.hooks.faults.kill_after() else {
            return;
        };
        let (environment, faults) = (Arc::clone(environment), Arc::clone(&self.hooks.faults));
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            if !environment.is_ending() {
                environment.kill();
                faults.killed();
            }
        });
    }

    /// Assigns an invocation to an environment.
    fn assign(&self) -> Result<Assignment<'_>, InvokeError> {
        let mut pool = locked(&self.pool);
        let environment = pool
            .assign(|config, number| Environment::start(config, &self.name, number, &self.hooks))
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
        let mut pool = locked(&self.pool);
        let closed = pool.is_closed();
        let stats = &mut pool.stats;
        stats.invocations += 1;
        stats.invoke_time += time;
        match &result {
            Ok(InvokeResponse::Ok(_)) => {}
            Ok(InvokeResponse::FunctionError { .. }) => stats.function_errors += 1,
            Err(InvokeError::Timeout { .. }) => stats.timeouts += 1,
            // The shutdown ended the process, so this is not a failure of the function.
            Err(InvokeError::InitFailed { .. } | InvokeError::Crashed { .. }) if closed => {
                return Err(InvokeError::ShutDown);
            }
            Err(InvokeError::InitFailed { .. }) => stats.init_failures += 1,
            Err(InvokeError::Crashed { .. }) => stats.crashes += 1,
            Err(InvokeError::PayloadTooLarge { .. } | InvokeError::ShutDown) => {}
        }
        result
    }
}

/// An invocation that is assigned to an environment. Dropping it makes room for the next one.
struct Assignment<'a> {
    inner: &'a Inner,
    environment: Arc<Environment>,
    timeout: Duration,
}

impl Drop for Assignment<'_> {
    fn drop(&mut self) {
        locked(&self.inner.pool).release(self.environment.number);
    }
}
