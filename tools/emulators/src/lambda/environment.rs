//! One execution environment: a child process with its own Runtime API, and the task that supervises it.
//!
//! Only the supervisor task kills, samples and reaps the process, so no signal can go to a process id that was reaped and
//! reused. When the [`Environment`] is dropped, the supervisor kills the process.

use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};

use super::end_command::{EndCommand, Killer};
use super::faults::EnvironmentFaults;
use super::function_config::FunctionConfig;
use super::ids::random_id;
use super::invocation::InvokeResponse;
use super::limits::{INIT_TIME_MAX, INIT_TIMED_OUT, SHUTDOWN_GRACE};
use super::logs::EnvironmentHooks;
use super::process::{LastLogLines, access_key, drain_pipes, send_sigterm, spawn};
use super::runtime_state::{Diagnostic, Init, Invocation, ProcessOutcome, RuntimeState};
use super::start_failure::StartFailure;
use super::stats::EnvironmentUsage;
use crate::locked::locked;

/// Time between two samples of a running process.
const SAMPLE_PERIOD: Duration = Duration::from_millis(200);

/// Longest time that the pipes of an ended process are read. A process that it started may keep them open for ever.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// The result of an invocation in one environment.
pub(super) enum InvocationOutcome {
    Responded(InvokeResponse),
    /// The invocation reached its deadline.
    Timeout,
    /// The process exited during the invocation.
    Crashed(Option<ExitStatus>),
    /// The process exited before it took the invocation, so another environment may have it.
    NotDelivered,
}

pub(super) struct Environment {
    pub(super) number: u32,
    pub(super) pid: Option<u32>,
    runtime: Arc<RuntimeState>,
    usage: Arc<Mutex<EnvironmentUsage>>,
    commands: mpsc::UnboundedSender<EndCommand>,
    /// Set when the host has decided to end the process. No further invocation is assigned then.
    ending: Arc<AtomicBool>,
    last_log_lines: LastLogLines,
    init_time: watch::Receiver<Option<Duration>>,
    exit: watch::Receiver<Option<Option<ExitStatus>>>,
}

impl Environment {
    /// Starts the process. If that fails, the environment counts as one whose init failed.
    pub(super) fn start(
        config: &FunctionConfig,
        function_name: &Arc<str>,
        number: u32,
        hooks: &EnvironmentHooks,
    ) -> Environment {
        let (commands, commands_taken) = mpsc::unbounded_channel();
        let (init_time_set, init_time) = watch::channel(None);
        let (exit_set, exit) = watch::channel(None);
        let mut environment = Environment {
            number,
            pid: None,
            runtime: RuntimeState::new(Arc::clone(function_name)),
            usage: Arc::default(),
            commands,
            ending: Arc::default(),
            last_log_lines: LastLogLines::default(),
            init_time,
            exit,
        };
        let started = Instant::now();
        match spawn(config, number, &environment.runtime) {
            Ok((mut child, server)) => {
                environment.pid = child.id();
                let cleanup = Cleanup {
                    server,
                    drains: environment.drain_pipes(&mut child, function_name, hooks),
                    faults: Arc::clone(&hooks.faults),
                    access_key: access_key(function_name, number),
                    ending: Arc::clone(&environment.ending),
                    exit: exit_set,
                };
                let supervisor = Supervisor {
                    child,
                    pid: environment.pid,
                    runtime: Arc::clone(&environment.runtime),
                    usage: Arc::clone(&environment.usage),
                    commands: commands_taken,
                    started,
                    init_time: init_time_set,
                };
                tokio::spawn(async move { cleanup.run(supervisor.run().await).await });
            }
            Err(error) => {
                spawn_failed(config, &environment.runtime, &error);
                exit_set.send_replace(Some(None));
            }
        }
        let without_process = environment.pid.is_none();
        environment
            .ending
            .fetch_or(without_process, Ordering::Relaxed);
        environment
    }

    /// Starts to read the pipes of the process; returns the tasks that do.
    fn drain_pipes(
        &self,
        child: &mut Child,
        function_name: &Arc<str>,
        hooks: &EnvironmentHooks,
    ) -> Vec<JoinHandle<()>> {
        // A weak sender, because the supervisor recognises a dropped environment by the channel having no sender.
        let killer = Killer {
            ending: Arc::clone(&self.ending),
            commands: self.commands.downgrade(),
        };
        let environment = (function_name, self.number);
        drain_pipes(child, environment, hooks, &killer, &self.last_log_lines)
    }

    /// Waits until the process is reaped and its pipes are read to their ends; returns why the start failed, or `None` if
    /// the host killed the process before its first poll.
    pub(super) async fn start_failure(&self, diagnostic: &Diagnostic) -> Option<StartFailure> {
        let killed_by_host = self.ending.load(Ordering::Relaxed) && self.pid.is_some();
        self.ended().await;
        let last_log_line = self.last_log_lines.take();
        (!killed_by_host).then(|| StartFailure::new(diagnostic, self.exit(), last_log_line))
    }

    /// Waits for the end of the init phase.
    ///
    /// # Errors
    /// The error of an init phase that failed.
    pub(super) async fn initialised(&self) -> Result<(), Diagnostic> {
        let mut init = self.runtime.init();
        let ended = init.wait_for(|init| *init != Init::Starting).await;
        match ended.as_deref() {
            Ok(Init::Ready) => Ok(()),
            Ok(Init::Failed(diagnostic)) => Err(diagnostic.clone()),
            Ok(Init::Starting) | Err(_) => Err(Diagnostic::new(
                "Runtime.Unknown",
                "the environment is gone",
            )),
        }
    }

    /// Runs one invocation. At its deadline the process is killed, together with other invocations that run in it.
    pub(super) async fn invoke(&self, payload: Bytes, timeout: Duration) -> InvocationOutcome {
        let request_id = random_id();
        let started = Instant::now();
        let deadline_ms = epoch_ms(SystemTime::now() + timeout);
        let mut outcome = self.runtime.submit(Invocation {
            request_id: request_id.clone(),
            deadline_ms,
            payload,
        });
        let outcome = tokio::select! {
            biased;
            outcome = &mut outcome => Some(outcome),
            () = sleep_until(started + timeout) => {
                // A response that arrived at the deadline counts if the runtime state has recorded it.
                if self.runtime.expire(&request_id) { None } else { Some(outcome.await) }
            }
        };
        let invocation = match outcome {
            None => InvocationOutcome::Timeout,
            Some(Ok(ProcessOutcome::Responded(response))) => InvocationOutcome::Responded(response),
            Some(Ok(ProcessOutcome::Crashed(exit))) => InvocationOutcome::Crashed(exit),
            Some(Ok(ProcessOutcome::NotDelivered)) => return InvocationOutcome::NotDelivered,
            // Does not happen: the supervisor closes the runtime state, which sends each outcome, before dropping it.
            Some(Err(_)) => InvocationOutcome::Crashed(None),
        };
        let mut usage = locked(&self.usage);
        usage.invocations += 1;
        usage.invoke_time += started.elapsed();
        match (&invocation, self.pid) {
            (InvocationOutcome::Timeout, pid) => {
                usage.timeouts += 1;
                pid.inspect(|pid| usage.sample(*pid));
                self.kill();
            }
            (InvocationOutcome::Crashed(_), _) => usage.crashes += 1,
            (InvocationOutcome::Responded(_) | InvocationOutcome::NotDelivered, pid) => {
                pid.inspect(|pid| usage.sample(*pid));
            }
        }
        drop(usage);
        invocation
    }

    /// Kills the process. No further invocation is assigned to it.
    pub(super) fn kill(&self) {
        self.send(EndCommand::Kill);
    }

    /// Ends the process as Lambda shuts an environment down: see [`EndCommand::Terminate`].
    pub(super) fn terminate(&self) {
        self.send(EndCommand::Terminate);
    }

    fn send(&self, command: EndCommand) {
        self.ending.store(true, Ordering::Relaxed);
        // Fails if the supervisor has ended, which means that the process is reaped.
        let _ = self.commands.send(command);
    }

    /// Returns whether the process was asked to end, or has ended.
    pub(super) fn is_ending(&self) -> bool {
        // A process that has ended and is not reaped yet has a failed init or a closed runtime state.
        self.ending.load(Ordering::Relaxed) || self.runtime.is_over() || self.is_ended()
    }

    /// Returns whether the process is reaped and its pipes are read to their ends.
    pub(super) fn is_ended(&self) -> bool {
        self.exit.borrow().is_some()
    }

    /// Returns the exit status of an ended process.
    pub(super) fn exit(&self) -> Option<ExitStatus> {
        self.exit.borrow().flatten()
    }

    /// Waits until the process is reaped and its pipes are read to their ends.
    pub(super) async fn ended(&self) {
        // Fails if the supervisor was dropped, which kills the process.
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }

    pub(super) fn is_initialised(&self) -> bool {
        *self.runtime.init().borrow() == Init::Ready
    }

    pub(super) fn init_time(&self) -> Option<Duration> {
        *self.init_time.borrow()
    }

    pub(super) fn used(&self) -> EnvironmentUsage {
        *locked(&self.usage)
    }
}

struct Supervisor {
    child: Child,
    pid: Option<u32>,
    runtime: Arc<RuntimeState>,
    usage: Arc<Mutex<EnvironmentUsage>>,
    commands: mpsc::UnboundedReceiver<EndCommand>,
    started: Instant,
    init_time: watch::Sender<Option<Duration>>,
}

impl Supervisor {
    /// Supervises the process until it is reaped; returns its exit status. Every invocation it took has an outcome then.
    async fn run(mut self) -> Option<ExitStatus> {
        let init_ends_at = self.started + INIT_TIME_MAX;
        let mut init = self.runtime.init();
        let mut starting = true;
        let mut killed = false;
        let mut grace_ends_at = None;
        let mut sampling = interval(SAMPLE_PERIOD);
        sampling.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let exit = loop {
            tokio::select! {
                exit = self.child.wait() => break exit.ok(),
                command = self.commands.recv(), if !killed => match command {
                    Some(EndCommand::Terminate) if self.runtime.extension_registered() && send_sigterm(self.pid).await => {
                        grace_ends_at.get_or_insert(Instant::now() + SHUTDOWN_GRACE);
                    }
                    // `None` means that the environment was dropped.
                    Some(EndCommand::Kill | EndCommand::Terminate) | None => killed = self.kill(),
                },
                () = sleep_until(grace_ends_at.unwrap_or(init_ends_at)), if grace_ends_at.is_some() && !killed => {
                    killed = self.kill();
                }
                () = sleep_until(init_ends_at), if starting => {
                    let message = format!("the process did not poll within {INIT_TIME_MAX:?}");
                    self.runtime.init_ended(Init::Failed(Diagnostic::new(INIT_TIMED_OUT, message)));
                }
                ready = init_ended(&mut init), if starting => {
                    starting = false;
                    if ready {
                        self.init_time.send_replace(Some(self.started.elapsed()));
                    } else {
                        killed = self.kill();
                    }
                }
                _ = sampling.tick() => self.sample(),
            }
        };
        let status = exit.map_or_else(|| "exited".to_owned(), |exit| exit.to_string());
        let message = format!("the process ended before its first poll: {status}");
        self.runtime
            .init_ended(Init::Failed(Diagnostic::new("Runtime.ExitError", message)));
        self.runtime.close(exit);
        exit
    }

    /// Kills the process; returns `true`.
    fn kill(&mut self) -> bool {
        self.sample();
        // Fails if the process has exited already; the next `wait` returns then.
        let _ = self.child.start_kill();
        true
    }

    fn sample(&self) {
        if let Some(pid) = self.pid {
            locked(&self.usage).sample(pid);
        }
    }
}

/// The steps that follow after a process was reaped.
struct Cleanup {
    server: JoinHandle<()>,
    drains: Vec<JoinHandle<()>>,
    faults: Arc<dyn EnvironmentFaults>,
    access_key: String,
    /// Whether the host decided to end the process.
    ending: Arc<AtomicBool>,
    exit: watch::Sender<Option<Option<ExitStatus>>>,
}

impl Cleanup {
    /// Stops the Runtime API, notifies the faults, and reads the pipes to their ends.
    async fn run(self, exit: Option<ExitStatus>) {
        self.server.abort();
        let by_itself = !self.ending.load(Ordering::Relaxed);
        self.faults
            .exited(&self.access_key, exit.filter(|_| by_itself));
        let drained_by = Instant::now() + DRAIN_TIME_MAX;
        for mut drain in self.drains {
            if timeout_at(drained_by, &mut drain).await.is_err() {
                drain.abort();
            }
        }
        self.exit.send_replace(Some(exit));
    }
}

/// Fails the init phase of an environment whose process could not be started.
fn spawn_failed(config: &FunctionConfig, runtime: &RuntimeState, error: &io::Error) {
    let program = config.bootstrap.program.display();
    runtime.init_ended(Init::Failed(Diagnostic::new(
        "Runtime.InvalidEntrypoint",
        format!("start `{program}`: {error}"),
    )));
    runtime.close(None);
}

/// Waits for the end of the init phase; returns whether it succeeded. Returns at once if it has ended before.
async fn init_ended(init: &mut watch::Receiver<Init>) -> bool {
    let ended = init.wait_for(|init| *init != Init::Starting).await;
    ended.is_ok_and(|init| *init == Init::Ready)
}

fn epoch_ms(time: SystemTime) -> u64 {
    let since_epoch = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
