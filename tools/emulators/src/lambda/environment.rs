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
use super::limits::{INIT_TIME_MAX, INIT_TIMED_OUT, SHUTDOWN_GRACE};
use super::logs::EnvironmentHooks;
use super::process::{LastLogLines, access_key, drain_pipes, send_sigterm, spawn};
use super::runtime_state::{Diagnostic, Init, Invocation, InvocationOutcome, RuntimeState};
use super::start_failure::StartFailure;
use super::stats::{EnvironmentState, EnvironmentStatus, EnvironmentUsage};
use crate::locked::locked;

const SAMPLE_PERIOD: Duration = Duration::from_millis(200);

/// Longest time that the pipes of an ended process are read. A process that it started may keep them open for ever.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

pub(super) struct Environment {
    pub(super) number: u32,
    pid: Option<u32>,
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
                // A weak sender, because the supervisor recognises a dropped environment by the channel having no sender.
                let killer = Killer {
                    ending: Arc::clone(&environment.ending),
                    commands: environment.commands.downgrade(),
                };
                let named = (function_name, number);
                let last_log_lines = &environment.last_log_lines;
                let supervisor = Supervisor {
                    drains: drain_pipes(&mut child, named, hooks, &killer, last_log_lines),
                    child,
                    pid: environment.pid,
                    server,
                    faults: Arc::clone(&hooks.faults),
                    access_key: access_key(function_name, number),
                    ending: Arc::clone(&environment.ending),
                    exit: exit_set,
                    runtime: Arc::clone(&environment.runtime),
                    usage: Arc::clone(&environment.usage),
                    commands: commands_taken,
                    started,
                    init_time: init_time_set,
                };
                tokio::spawn(supervisor.run());
            }
            Err(error) => {
                spawn_failed(config, &environment.runtime, &error);
                exit_set.send_replace(Some(None));
                environment.ending.store(true, Ordering::Relaxed);
            }
        }
        environment
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
        let ended = tokio::select! {
            biased;
            ended = &mut outcome => ended,
            () = sleep_until(started + timeout) => {
                // A response that arrived at the deadline counts if the runtime state has recorded it.
                self.runtime.expire(&request_id);
                outcome.await
            }
        };
        // Does not fail: the supervisor closes the runtime state, which sends each outcome, before dropping it.
        let outcome = ended.unwrap_or(InvocationOutcome::Crashed(None));
        match &outcome {
            InvocationOutcome::Responded(_) => {
                self.pid.inspect(|pid| locked(&self.usage).sample(*pid));
            }
            InvocationOutcome::Timeout => self.kill(),
            InvocationOutcome::Crashed(_) | InvocationOutcome::NotDelivered => {}
        }
        outcome
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

    fn exit(&self) -> Option<ExitStatus> {
        self.exit.borrow().flatten()
    }

    /// Waits until the process is reaped and its pipes are read to their ends.
    pub(super) async fn ended(&self) {
        // Fails if the supervisor was dropped, which kills the process.
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }

    /// Returns the status of an environment to which so many invocations are assigned.
    pub(super) fn status(&self, assigned: u32) -> EnvironmentStatus {
        let state = match assigned {
            _ if self.is_ended() => EnvironmentState::Ended { exit: self.exit() },
            _ if self.is_ending() => EnvironmentState::Ending,
            _ if *self.runtime.init().borrow() != Init::Ready => EnvironmentState::Starting,
            0 => EnvironmentState::Idle,
            invocations => EnvironmentState::Busy { invocations },
        };
        let used = *locked(&self.usage);
        EnvironmentStatus {
            number: self.number,
            pid: self.pid,
            state,
            init_time: *self.init_time.borrow(),
            cpu: used.cpu,
            peak_rss_bytes: used.peak_rss_bytes,
        }
    }
}

struct Supervisor {
    child: Child,
    pid: Option<u32>,
    server: JoinHandle<()>,
    drains: Vec<JoinHandle<()>>,
    faults: Arc<dyn EnvironmentFaults>,
    access_key: String,
    /// Whether the host decided to end the process.
    ending: Arc<AtomicBool>,
    exit: watch::Sender<Option<Option<ExitStatus>>>,
    runtime: Arc<RuntimeState>,
    usage: Arc<Mutex<EnvironmentUsage>>,
    commands: mpsc::UnboundedReceiver<EndCommand>,
    started: Instant,
    init_time: watch::Sender<Option<Duration>>,
}

impl Supervisor {
    /// Supervises the process until it is reaped. Every invocation it took has an outcome then.
    async fn run(mut self) {
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
        self.clean_up(exit).await;
    }

    /// Stops the Runtime API, notifies the faults, and reads the pipes to their ends.
    async fn clean_up(self, exit: Option<ExitStatus>) {
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
