//! One execution environment: a child process with a Runtime API of its own, supervised from start to reaping.
//!
//! The supervisor task owns the process. It alone kills it, samples it and waits for it, so nothing here can signal a
//! process id that has been reaped. When the [`Environment`] is dropped the supervisor kills the process.

use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};

use super::accounting::Usage;
use super::exchange::{Diagnostic, Exchange, Init, Outcome, Work};
use super::faults::EnvironmentFaults;
use super::function_config::FunctionConfig;
use super::ids::random_id;
use super::invocation::InvokeResponse;
use super::limits::{INIT_TIME_MAX, INIT_TIMED_OUT, SHUTDOWN_GRACE};
use super::logs::Watch;
use super::orders::{Killer, Order};
use super::process::{LastWords, access_key, pump_both, send_sigterm, spawn};
use super::start_failure::StartFailure;

/// How often a living process is sampled.
const SAMPLE_PERIOD: Duration = Duration::from_millis(200);

/// How long the pipes of an ended process are drained; something it started may hold them open for ever.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// What an invocation in an environment came to.
pub(super) enum Invocation {
    Answered(InvokeResponse),
    Timeout,
    Crashed(Option<ExitStatus>),
    NotDelivered,
}

pub(super) struct Environment {
    pub(super) number: u32,
    pub(super) pid: Option<u32>,
    exchange: Arc<Exchange>,
    usage: Arc<Mutex<Usage>>,
    orders: mpsc::UnboundedSender<Order>,
    /// Set when the process is to end: no further invocation is assigned.
    ending: Arc<AtomicBool>,
    last_words: LastWords,
    init_time: watch::Receiver<Option<Duration>>,
    exit: watch::Receiver<Option<Option<ExitStatus>>>,
}

impl Environment {
    /// Starts the process. Never fails: an environment that cannot start has failed its init.
    pub(super) fn start(
        config: &FunctionConfig,
        function_name: &Arc<str>,
        number: u32,
        watch: &Watch,
    ) -> Environment {
        let exchange = Exchange::new(Arc::clone(function_name));
        let usage = Arc::new(Mutex::new(Usage::default()));
        let (orders, orders_taken) = mpsc::unbounded_channel();
        let ending = Arc::new(AtomicBool::new(false));
        let last_words = LastWords::default();
        let (init_time_set, init_time) = watch::channel(None);
        let (exit_set, exit) = watch::channel(None);
        let started = Instant::now();
        let pid = match spawn(config, number, &exchange) {
            Ok((mut child, server)) => {
                let pid = child.id();
                // Weak: that the environment was dropped shows by there being no sender left.
                let killer = Killer {
                    ending: Arc::clone(&ending),
                    orders: orders.downgrade(),
                };
                let pumps = pump_both(
                    &mut child,
                    (function_name, number),
                    watch,
                    &killer,
                    &last_words,
                );
                let end = End {
                    server,
                    pumps,
                    faults: Arc::clone(&watch.faults),
                    access_key: access_key(function_name, number),
                    ending: Arc::clone(&ending),
                    exit: exit_set,
                };
                let supervisor = Supervisor {
                    child,
                    pid,
                    exchange: Arc::clone(&exchange),
                    usage: Arc::clone(&usage),
                    orders: orders_taken,
                    started,
                    init_time: init_time_set,
                };
                tokio::spawn(async move { end.after(supervisor.run().await).await });
                pid
            }
            Err(error) => {
                spawn_failed(config, &exchange, &error);
                exit_set.send_replace(Some(None));
                None
            }
        };
        ending.fetch_or(pid.is_none(), Ordering::Relaxed);
        Environment {
            number,
            pid,
            exchange,
            usage,
            orders,
            ending,
            last_words,
            init_time,
            exit,
        }
    }

    /// Waits until the process is reaped and its pipes are drained, then returns why the start failed; `None` if the host
    /// killed the process before its first poll.
    pub(super) async fn start_failure(&self, diagnostic: &Diagnostic) -> Option<StartFailure> {
        let told = self.ending.load(Ordering::Relaxed) && self.pid.is_some();
        self.ended().await;
        let said = self.last_words.take();
        (!told).then(|| StartFailure::new(diagnostic, self.exit(), said))
    }

    /// Waits for the end of the init phase.
    pub(super) async fn initialised(&self) -> Result<(), Diagnostic> {
        let mut init = self.exchange.init();
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

    /// Runs one invocation; at its deadline the process is killed, with whatever else runs in it.
    pub(super) async fn invoke(&self, payload: Bytes, timeout: Duration) -> Invocation {
        let request_id = random_id();
        let started = Instant::now();
        let deadline_ms = epoch_ms(SystemTime::now() + timeout);
        let mut outcome = self.exchange.submit(Work {
            request_id: request_id.clone(),
            deadline_ms,
            payload,
        });
        let outcome = tokio::select! {
            biased;
            outcome = &mut outcome => Some(outcome),
            () = sleep_until(started + timeout) => {
                // An answer that came just now counts: the exchange decides, not the clock.
                if self.exchange.expire(&request_id) { None } else { Some(outcome.await) }
            }
        };
        let invocation = match outcome {
            None => Invocation::Timeout,
            Some(Ok(Outcome::Answered(response))) => Invocation::Answered(response),
            Some(Ok(Outcome::Crashed(exit))) => Invocation::Crashed(exit),
            Some(Ok(Outcome::NotDelivered)) => return Invocation::NotDelivered,
            // Every invocation is answered before it is dropped; a lost one would be a process nobody knows of.
            Some(Err(_)) => Invocation::Crashed(None),
        };
        let mut usage = self.usage();
        usage.invocations += 1;
        usage.invoke_time += started.elapsed();
        match (&invocation, self.pid) {
            (Invocation::Timeout, pid) => {
                usage.timeouts += 1;
                pid.inspect(|pid| usage.sample(*pid));
                self.kill();
            }
            (Invocation::Crashed(_), _) => usage.crashes += 1,
            (Invocation::Answered(_) | Invocation::NotDelivered, pid) => {
                pid.inspect(|pid| usage.sample(*pid));
            }
        }
        drop(usage);
        invocation
    }

    /// Kills the process; it takes no invocation from here on.
    pub(super) fn kill(&self) {
        self.end(Order::Kill);
    }

    /// Ends the process as Lambda shuts an environment down.
    pub(super) fn terminate(&self) {
        self.end(Order::Terminate);
    }

    fn end(&self, order: Order) {
        self.ending.store(true, Ordering::Relaxed);
        // A supervisor that is gone has reaped the process.
        let _ = self.orders.send(order);
    }

    /// True if the process was told to end or has ended.
    pub(super) fn is_ending(&self) -> bool {
        // Between its end and its reaping, a process shows it by a failed init or a closed exchange.
        self.ending.load(Ordering::Relaxed) || self.exchange.is_over() || self.is_ended()
    }

    /// True once the process is reaped and its pipes are drained.
    pub(super) fn is_ended(&self) -> bool {
        self.exit.borrow().is_some()
    }

    /// The exit status of an ended process.
    pub(super) fn exit(&self) -> Option<ExitStatus> {
        self.exit.borrow().flatten()
    }

    /// Waits until the process is reaped and its pipes are drained.
    pub(super) async fn ended(&self) {
        // An error means that the supervisor is gone, and with it the process.
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }

    pub(super) fn is_initialised(&self) -> bool {
        *self.exchange.init().borrow() == Init::Ready
    }

    pub(super) fn init_time(&self) -> Option<Duration> {
        *self.init_time.borrow()
    }

    pub(super) fn used(&self) -> Usage {
        *self.usage()
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Supervisor {
    child: Child,
    pid: Option<u32>,
    exchange: Arc<Exchange>,
    usage: Arc<Mutex<Usage>>,
    orders: mpsc::UnboundedReceiver<Order>,
    started: Instant,
    init_time: watch::Sender<Option<Duration>>,
}

impl Supervisor {
    /// Watches over the process until it is reaped; every invocation it had has an outcome then.
    async fn run(mut self) -> Option<ExitStatus> {
        let init_ends_at = self.started + INIT_TIME_MAX;
        let mut init = self.exchange.init();
        let mut starting = true;
        let mut killed = false;
        let mut grace_ends_at = None;
        let mut sampling = interval(SAMPLE_PERIOD);
        sampling.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let exit = loop {
            tokio::select! {
                exit = self.child.wait() => break exit.ok(),
                order = self.orders.recv(), if !killed => match order {
                    Some(Order::Terminate) if self.exchange.extension_registered() && send_sigterm(self.pid).await => {
                        grace_ends_at.get_or_insert(Instant::now() + SHUTDOWN_GRACE);
                    }
                    // No sender left: the environment was dropped.
                    Some(Order::Kill | Order::Terminate) | None => killed = self.kill(),
                },
                () = sleep_until(grace_ends_at.unwrap_or(init_ends_at)), if grace_ends_at.is_some() && !killed => {
                    killed = self.kill();
                }
                () = sleep_until(init_ends_at), if starting => {
                    let message = format!("the process did not poll within {INIT_TIME_MAX:?}");
                    self.exchange.init_ended(Init::Failed(Diagnostic::new(INIT_TIMED_OUT, message)));
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
        self.exchange
            .init_ended(Init::Failed(Diagnostic::new("Runtime.ExitError", message)));
        self.exchange.close(exit);
        exit
    }

    fn kill(&mut self) -> bool {
        self.sample();
        // An error means that the process has ended by itself: the wait is about to say so.
        let _ = self.child.start_kill();
        true
    }

    fn sample(&self) {
        if let Some(pid) = self.pid {
            self.usage
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .sample(pid);
        }
    }
}

/// What the host does after a process was reaped.
struct End {
    server: JoinHandle<()>,
    pumps: Vec<JoinHandle<()>>,
    faults: Arc<dyn EnvironmentFaults>,
    access_key: String,
    /// Whether the host ended the process.
    ending: Arc<AtomicBool>,
    exit: watch::Sender<Option<Option<ExitStatus>>>,
}

impl End {
    /// Stops the Runtime API, tells the faults, and drains the pipes.
    async fn after(self, exit: Option<ExitStatus>) {
        self.server.abort();
        let by_itself = !self.ending.load(Ordering::Relaxed);
        self.faults
            .exited(&self.access_key, exit.filter(|_| by_itself));
        let drained_by = Instant::now() + DRAIN_TIME_MAX;
        for mut pump in self.pumps {
            if timeout_at(drained_by, &mut pump).await.is_err() {
                pump.abort();
            }
        }
        self.exit.send_replace(Some(exit));
    }
}

/// Ends the init of an environment whose process could not be started.
fn spawn_failed(config: &FunctionConfig, exchange: &Exchange, error: &io::Error) {
    let program = config.bootstrap.program.display();
    exchange.init_ended(Init::Failed(Diagnostic::new(
        "Runtime.InvalidEntrypoint",
        format!("start `{program}`: {error}"),
    )));
    exchange.close(None);
}

/// Waits for the end of the init phase; true if it succeeded. It may have ended before this is asked.
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
