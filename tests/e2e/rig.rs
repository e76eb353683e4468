//! A stack for one test: its set-up, the conditions to wait for, and the checks at the end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_sqs::types::QueueAttributeName;
use axum::Router;
use emulators::lambda::LogLine;
use emulators::sqs::{Message, MessageAttribute};
use loadgen::{Duplicates, SendOptions, TraceLog, Workload, WorkloadConfig};
use local::bodies::BodiesKind;
use local::faults::FaultOptions;
use local::options::StackOptions;
use local::sink::SinkKind;
use local::stack::{
    BATCH_DEAD_LETTER_QUEUE, BATCH_QUEUE, INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE,
    Stack,
};
use local::template;
use protocol::batch::Status;
use tests::runs_all_cases;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::executables::{CAP, bootstrap};

/// The longest time for which SQS waits for messages.
const LONG_POLL: Duration = Duration::from_secs(20);
/// Time between two checks of a condition. Many checks send requests: when every test made them more often, the stacks under
/// test had too little processor time.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// If this variable is set, log lines are printed at once; for use with `--nocapture`.
pub const SHOW_LOGS: &str = "E2E_LOGS";
/// Number of log lines that are kept.
const LOG_LINES_MAX: usize = 50_000;
/// Number of log lines that are printed when a test fails.
const LOG_LINES_SHOWN: usize = 200;

/// Every queue. The last three have what is set aside.
pub const QUEUES: [&str; 5] = [
    INPUT_QUEUE,
    BATCH_QUEUE,
    QUARANTINE_QUEUE,
    INPUT_DEAD_LETTER_QUEUE,
    BATCH_DEAD_LETTER_QUEUE,
];

/// The set-up of a stack.
pub struct Setup {
    pub options: StackOptions,
    redeliver: Vec<(&'static str, u32)>,
}

impl Setup {
    /// Returns a set-up in which batches end when they are full or their queue is empty. The event id is the `id` of the body.
    ///
    /// A request may take 1.5 s, the longest time there is, so that a machine under load loses few replies.
    pub fn new() -> Setup {
        let variables = [
            ("EVENT_ID", "json:id"),
            ("SEAL_WHEN_DRAINED", "on"),
            ("MAX_SECONDARY_BATCHING_WINDOW", "1"),
            ("VERIFY_DELAY", "1"),
            ("DEADLINE_MARGIN_MS", "6000"),
            ("LOG_FORMAT", "text"),
        ];
        let options = StackOptions {
            aggregator: bootstrap("aggregator"),
            batch_processor: bootstrap("batch-processor"),
            template: template::deployed().expect("it can be read"),
            variables: owned(&variables),
            completion: None,
            sink: SinkKind::File,
            not_used: None,
            port: None,
            out: None,
            batch_size: 10_000,
            aggregators: 2,
            batch_processors: 2,
            concurrency_per_environment: 1,
            aggregator_timeout: Duration::from_secs(15),
            batch_processor_timeout: Duration::from_secs(15),
            traces: None,
            logs: std::env::var_os(SHOW_LOGS).is_some(),
            sweep_every: Some(Duration::from_secs(5)),
            faults: FaultOptions::default(),
        };
        Setup {
            options,
            redeliver: Vec::new(),
        }
    }

    /// Disables the sweep, which would fail without a table.
    pub fn without_sweep(mut self) -> Setup {
        self.options.sweep_every = None;
        self
    }

    /// Sets a variable of both functions.
    pub fn var(mut self, name: &str, value: impl ToString) -> Setup {
        let variables = &mut self.options.variables;
        variables.insert(name.to_owned(), value.to_string());
        self
    }

    /// Makes a batch full with this number of events.
    pub fn batches_of(self, events: usize) -> Setup {
        self.var("MAX_BATCH_SIZE", events)
    }

    /// Keeps a batch open until it is full or its window closes, this many seconds after the deadline of the invocation that
    /// opened it.
    pub fn window(self, secs: u64) -> Setup {
        self.var("SEAL_WHEN_DRAINED", "off")
            .var("MAX_SECONDARY_BATCHING_WINDOW", secs)
    }

    /// Gives an invocation 5 s, and closes windows 1 s after that. Failures repeat within seconds, as alarms need it here.
    pub fn quick(mut self) -> Setup {
        self.options.aggregator_timeout = Duration::from_secs(5);
        self.options.batch_processor_timeout = Duration::from_secs(5);
        self.window(1).var("DEADLINE_MARGIN_MS", 3_000)
    }

    /// Has messages come back soon and as often as it takes, and gives an invocation 5 s, because the lease of a killed one
    /// lasts until its deadline.
    pub fn mortal(self) -> Setup {
        self.quick()
            .var("SEAL_WHEN_DRAINED", "on")
            .redeliver(INPUT_QUEUE, 1_000)
            .redeliver(BATCH_QUEUE, 1_000)
    }

    /// Sets where the bodies of batches go.
    pub fn bodies(self, bodies: BodiesKind) -> Setup {
        self.var("BODIES", bodies.value())
    }

    /// Runs all invocations of the aggregator in one environment, so that they share their batches.
    pub fn one_aggregator_environment(mut self) -> Setup {
        self.options.concurrency_per_environment = self.options.aggregators;
        self
    }

    /// Has messages of `queue` come back as soon as no invocation can hold them any more, and sets the number of receives after
    /// which a message is a dead letter.
    pub fn redeliver(mut self, queue: &'static str, receives_max: u32) -> Setup {
        self.redeliver.push((queue, receives_max));
        self
    }

    pub async fn start(self) -> Rig {
        let log = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&log);
        let watch = Arc::new(move |line: &LogLine| {
            let mut log = lock(&kept);
            log.push_back(line.to_string());
            if log.len() > LOG_LINES_MAX {
                log.pop_front();
            }
        });
        let stack = Stack::start_watched(&self.options, watch).await;
        let stack = stack.expect("the stack starts");
        let rig = Rig { stack, log };
        let options = &self.options;
        let timeouts = [options.aggregator_timeout, options.batch_processor_timeout];
        let timeout = timeouts.into_iter().max().unwrap_or_default();
        for (queue, receives_max) in self.redeliver {
            let visibility = timeout + Duration::from_secs(1);
            rig.set_redelivery(queue, visibility, receives_max).await;
        }
        rig
    }
}

/// A running stack and the log of its functions.
pub struct Rig {
    pub stack: Stack,
    log: Arc<Mutex<VecDeque<String>>>,
}

/// Locks a mutex that no test poisons.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rig {
    /// Sets the visibility timeout of a queue, and the number of receives after which a message is a dead letter.
    pub async fn set_redelivery(&self, queue: &str, visibility: Duration, receives_max: u32) {
        let dead_letter_queue = match queue {
            INPUT_QUEUE => INPUT_DEAD_LETTER_QUEUE,
            BATCH_QUEUE => BATCH_DEAD_LETTER_QUEUE,
            other => panic!("`{other}` has no dead-letter queue"),
        };
        let redrive = serde_json::json!({
            "deadLetterTargetArn": self.stack.sqs.arn(dead_letter_queue),
            "maxReceiveCount": receives_max,
        });
        self.stack
            .sqs_client()
            .set_queue_attributes()
            .queue_url(self.stack.queue_url(queue))
            .attributes(
                QueueAttributeName::VisibilityTimeout,
                visibility.as_secs().to_string(),
            )
            .attributes(QueueAttributeName::RedrivePolicy, redrive.to_string())
            .send()
            .await
            .expect("the queue takes valid attributes");
    }

    /// Waits until `holds` returns true.
    ///
    /// # Panics
    /// If it takes too long, with the state of the stack.
    pub async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let waited = async {
            while !holds().await {
                sleep(LOOK_EVERY).await;
            }
        };
        if timeout(CAP, waited).await.is_err() {
            panic!("not within {CAP:?}: {what}\n{}", self.state().await);
        }
    }

    /// Deploys both functions with other values of these variables.
    pub fn redeploy_with(&self, variables: &[(&str, &str)]) {
        let variables = owned(variables);
        for function in [&self.stack.aggregator, &self.stack.batch_processor] {
            function.redeploy(&variables);
        }
    }

    /// Stops the event source mapping of the input queue, whatever is in it, and waits until every batch is complete.
    pub async fn stop_and_complete(&self) {
        self.stack.input_mapping.stop().await;
        let what = "every batch is complete";
        self.until(what, async || self.under_way().await == 0).await;
    }

    /// Waits until the input queue is empty and no batch is under way.
    pub async fn until_drained(&self) {
        self.until("the stack is drained", async || {
            self.all_taken() && self.under_way().await == 0
        })
        .await;
    }

    /// Waits until the input queue is empty and no invocation of the aggregator runs.
    pub async fn until_taken(&self) {
        self.until("all is taken", async || self.all_taken()).await;
    }

    /// Waits until one batch is in error.
    pub async fn until_in_error(&self) {
        self.until("a batch is in error", async || {
            self.statuses().await[&Status::Error] == 1
        })
        .await;
    }

    /// Waits until a function has logged a line that contains `words`.
    pub async fn until_logged(&self, words: &str) {
        self.until(words, async || self.has_logged(words)).await;
    }

    /// Waits until [`has_complained`](Self::has_complained).
    pub async fn until_complained(&self, words: &str) {
        self.until(words, async || self.has_complained(words)).await;
    }

    /// Waits until a queue holds `count` messages, in any state.
    pub async fn until_depth(&self, queue: &str, count: usize) {
        let what = format!("{count} messages in `{queue}`");
        self.until(&what, async || self.depth(queue) == count).await;
    }

    /// Waits until the sum of a metric is at least `sum`.
    pub async fn until_metric(&self, name: &str, sum: u64) {
        let what = format!("{name} is {sum}");
        self.until(&what, async || self.stack.function_logs.sum(name) >= sum)
            .await;
    }

    /// Returns whether the input queue is empty and no invocation of the aggregator runs.
    pub fn all_taken(&self) -> bool {
        self.depth(INPUT_QUEUE) == 0 && self.stack.input_mapping.idle()
    }

    /// Returns the number of messages in a queue: visible, in flight and delayed.
    pub fn depth(&self, queue: &str) -> usize {
        let depth = self.stack.sqs.depth(queue);
        let depth = depth.expect("the stack has the queue");
        depth.visible + depth.in_flight + depth.delayed
    }

    /// Returns how many batches have each status; complete batches are not counted.
    pub async fn statuses(&self) -> BTreeMap<Status, usize> {
        let statuses = self.stack.batches_by_status().await;
        statuses.expect("the batch table can be read")
    }

    /// Returns the number of batches that are neither complete nor in error.
    pub async fn under_way(&self) -> usize {
        let mut statuses = self.statuses().await;
        statuses.remove(&Status::Error);
        statuses.values().sum()
    }

    /// Sends one message to the input queue.
    pub fn send(&self, body: impl Into<String>) {
        self.send_to(INPUT_QUEUE, body);
    }

    /// Sends one message; returns its id.
    pub fn send_to(&self, queue: &str, body: impl Into<String>) -> String {
        self.send_with(queue, body, BTreeMap::new())
    }

    /// Sends one message with attributes; returns its id.
    pub fn send_with(
        &self,
        queue: &str,
        body: impl Into<String>,
        attributes: BTreeMap<String, MessageAttribute>,
    ) -> String {
        let sqs = &self.stack.sqs;
        let sent = sqs.send(queue, body.into(), None, attributes);
        sent.expect("the queue takes the message")
    }

    /// Sends a burst through the SDK.
    pub async fn burst(&self, workload: &Workload) {
        self.burst_with(workload, None).await;
    }

    /// Sends a burst whose requests have spans of their own.
    pub async fn traced_burst(&self, workload: &Workload) {
        let collector = self.stack.collector().expect("the setup has a file");
        self.burst_with(workload, Some(collector.log())).await;
        collector.end_burst();
    }

    async fn burst_with(&self, workload: &Workload, traces: Option<TraceLog>) {
        let options = SendOptions {
            concurrency: 8,
            traces,
            ..SendOptions::new(self.stack.queue_url(INPUT_QUEUE))
        };
        let sent = loadgen::send(self.stack.sqs_client(), workload, &options, &|_| {}).await;
        let sent = sent.expect("the queue takes the burst");
        assert_eq!(sent.sent, workload.len());
    }

    /// Receives `count` messages of a queue that no other consumer reads.
    pub async fn take(&self, queue: &str, count: usize) -> Vec<Message> {
        self.until_depth(queue, count).await;
        let mut messages = Vec::new();
        while messages.len() < count {
            let received = self.stack.sqs.receive(queue, 10, LONG_POLL, None).await;
            messages.extend(received.expect("the stack has the queue"));
        }
        messages
    }

    /// Receives `count` messages as [`take`](Self::take) does; returns their bodies, sorted.
    pub async fn take_bodies(&self, queue: &str, count: usize) -> Vec<String> {
        let messages = self.take(queue, count).await;
        let mut bodies = Vec::from_iter(messages.iter().map(|one| one.body.to_string()));
        bodies.sort();
        bodies
    }

    /// Returns whether a function has logged a line that contains `words`.
    pub fn has_logged(&self, words: &str) -> bool {
        !self.logged(words).is_empty()
    }

    /// Returns the log lines that contain `words`.
    pub fn logged(&self, words: &str) -> Vec<String> {
        let log = lock(&self.log);
        let lines = log.iter().filter(|line| line.contains(words));
        lines.cloned().collect()
    }

    /// Returns whether a function has logged a warning or an error that contains `words`. Other lines do not count,
    /// because the configuration, which is logged at every start, may contain the same words.
    pub fn has_complained(&self, words: &str) -> bool {
        let complaint = |line: &String| line.contains(" WARN ") || line.contains("ERROR ");
        self.logged(words).iter().any(complaint)
    }

    /// Returns how many sweeps failed because a request had no reply in time, by a fault or on a machine under load. The
    /// next sweep does their work.
    fn sweeps_without_reply(&self) -> u64 {
        let mut failed = self.logged("error_type: \"Sweep\"");
        let in_time = ["no reply from", "deadline reached"];
        failed.retain(|line| in_time.iter().any(|words| line.contains(words)));
        failed.len() as u64
    }

    /// Describes the state of the stack, to explain a wait that failed.
    pub async fn state(&self) -> String {
        let depths = QUEUES.map(|queue| format!("{queue}: {:?}", self.stack.sqs.depth(queue)));
        format!(
            "{}\ninput {:?}\nbatch {:?}\nstatuses {:?}\naggregator {:?}\nbatch processor {:?}",
            depths.join("\n"),
            self.stack.input_mapping.stats(),
            self.stack.batch_mapping.stats(),
            self.stack.batches_by_status().await,
            self.stack.aggregator.stats(),
            self.stack.batch_processor.stats(),
        )
    }

    /// Ends a test. Checks that no message is in the quarantine or a dead-letter queue, that no invocation returned an error,
    /// and that no process ended by itself. An invocation that a busy machine kept from its end in time is not counted: the
    /// simulation checks that none overruns its deadline.
    pub async fn end(&self) {
        self.end_with_set_aside(0, 0).await;
    }

    /// As [`end`](Self::end), but expects this number of messages in the quarantine and dead-letter queues, and
    /// this number of killed processes.
    pub async fn end_with_set_aside(&self, set_aside: usize, killed: u64) {
        self.stack.stop().await;
        let depths = QUEUES[2..].iter().map(|queue| self.depth(queue));
        let found: usize = depths.sum();
        assert_eq!(found, set_aside, "set aside\n{}", self.state().await);
        let mut crashes = 0;
        let functions = [&self.stack.aggregator, &self.stack.batch_processor];
        for (function, excused) in functions.into_iter().zip([0, self.sweeps_without_reply()]) {
            let stats = function.stats();
            let unanswered = stats.function_errors + stats.init_failures;
            assert_eq!(unanswered, excused, "{stats:?}");
            // The other invocations of an environment that is killed at the deadline of one count as crashes.
            if stats.timeouts == 0 {
                crashes += stats.crashes;
            }
        }
        // A killed process may end several invocations.
        assert_eq!(crashes > 0, killed > 0, "{}", self.state().await);
    }
}

/// Serves a router on the loopback interface; returns its URL.
pub async fn served(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// Returns variables and their values as a function takes them.
pub fn owned(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    variables.iter().map(owned).collect()
}

/// Returns the cases that a test runs: the first, or all of them if [`runs_all_cases`]. They differ only in a way that the
/// simulation draws, or that other tests show.
pub fn cases<T: Copy>(all: &[T]) -> Vec<T> {
    let count = if runs_all_cases() { all.len() } else { 1 };
    all[..count].to_vec()
}

/// Returns a burst of small messages.
pub fn workload(seed: u64, messages: u64, duplicates_percent: f64) -> Workload {
    let config = WorkloadConfig {
        seed,
        messages,
        duplicates: Duplicates::any(duplicates_percent),
        ..WorkloadConfig::default()
    };
    Workload::new(config).expect("the workload is sound")
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = lock(&self.log);
            let hidden = log.len().saturating_sub(LOG_LINES_SHOWN);
            eprintln!("--- what the functions said last ({hidden} lines before that)");
            log.iter().skip(hidden).for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Returns the time, epoch ms.
pub fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.expect("the clock is past 1970").as_millis() as u64
}
