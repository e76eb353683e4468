//! A function that runs the example `echo_lambda`, its logs, and a queue.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use emulators::lambda::{
    Bootstrap, EnvironmentState, EnvironmentStatus, EventSourceMapping, Function, FunctionConfig,
    InvokeError, InvokeResponse, LogLine, LogSink, MappingConfig,
};
use emulators::sqs::{QueueAttributes, Sqs};
use serde_json::{Value, json};

/// Longest wait for a condition.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Name of the queue.
pub const QUEUE: &str = "input";

/// A function that runs the example `echo_lambda`, its logs, and a queue.
pub struct Host {
    pub function: Function,
    logs: Arc<Mutex<Vec<LogLine>>>,
    pub sqs: Sqs,
}

impl Host {
    pub fn start() -> Host {
        Host::with(|_| ())
    }

    /// Starts a host whose function fails its init phase, or registers an extension, as `ECHO_INIT` says.
    pub fn with_init(init: &str) -> Host {
        let variables = BTreeMap::from([("ECHO_INIT".to_owned(), init.to_owned())]);
        Host::with(|config| config.variables = variables)
    }

    pub fn with(change: impl FnOnce(&mut FunctionConfig)) -> Host {
        Host::with_visibility(Duration::from_secs(30), change)
    }

    pub fn with_visibility(
        visibility_timeout: Duration,
        change: impl FnOnce(&mut FunctionConfig),
    ) -> Host {
        let attributes = QueueAttributes {
            visibility_timeout,
            ..QueueAttributes::default()
        };
        Host::with_queue(attributes, change)
    }

    /// Also creates the dead-letter queue of the queue, if `attributes` name one.
    pub fn with_queue(
        attributes: QueueAttributes,
        change: impl FnOnce(&mut FunctionConfig),
    ) -> Host {
        let mut config = FunctionConfig {
            name: "echo".into(),
            bootstrap: Bootstrap {
                program: bootstrap(),
                args: Vec::new(),
            },
            variables: BTreeMap::new(),
            timeout: Duration::from_secs(30),
            memory_mb: 256,
            concurrency_per_environment: 1,
        };
        change(&mut config);
        let logs = Arc::new(Mutex::new(Vec::new()));
        let sink: LogSink = {
            let logs = Arc::clone(&logs);
            Arc::new(move |line| logs.lock().expect("no sink panics").push(line.clone()))
        };
        let sqs = Sqs::new();
        if let Some(redrive) = &attributes.redrive {
            sqs.create_queue(&redrive.dead_letter_queue, QueueAttributes::default())
                .expect("a new engine takes a queue");
        }
        sqs.create_queue(QUEUE, attributes)
            .expect("a new engine takes a queue");
        Host {
            function: Function::new(config, sink),
            logs,
            sqs,
        }
    }

    pub async fn invoke(&self, command: &str) -> Result<InvokeResponse, InvokeError> {
        let payload = json!({ "do": command }).to_string();
        self.function.invoke(payload.into()).await
    }

    pub async fn response_to(&self, command: &str) -> Value {
        match self.invoke(command).await {
            Ok(InvokeResponse::Ok(body)) => {
                serde_json::from_slice(&body).expect("the example returns JSON")
            }
            other => panic!("{other:?}, logs: {:?}", self.logged()),
        }
    }

    pub fn environments(&self) -> Vec<EnvironmentStatus> {
        self.function.environments()
    }

    pub fn logged(&self) -> Vec<LogLine> {
        self.logs.lock().expect("no sink panics").clone()
    }

    pub fn send(&self, bodies: impl IntoIterator<Item = String>) {
        for body in bodies {
            let sent = self.sqs.send(QUEUE, body, None, BTreeMap::new());
            sent.expect("the queue takes the body");
        }
    }

    pub fn map(
        &self,
        batch_size: usize,
        window: Duration,
        concurrency_max: u32,
    ) -> EventSourceMapping {
        let config = mapping_config(batch_size, window, concurrency_max);
        EventSourceMapping::start(self.sqs.clone(), self.function.clone(), config)
            .expect("the mapping is valid")
    }

    pub async fn until_all_is_processed(&self, mapping: &EventSourceMapping) {
        let processed = || {
            let depth = self.sqs.depth(QUEUE).expect("the queue exists");
            depth.visible + depth.in_flight == 0 && mapping.idle()
        };
        self.until("every message is processed", processed).await;
    }

    pub async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let started = Instant::now();
        while !condition() {
            let (environments, logs) = (self.environments(), self.logged());
            assert!(
                started.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {what}; environments: {environments:?}, logs: {logs:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until an environment has as many invocations as this says, for each busy one.
    pub async fn until_busy(&self, invocations: &[u32]) {
        let is_busy = || busy(self) == invocations;
        self.until("the invocations run", is_busy).await;
    }

    /// Waits until the process of an environment is reaped.
    pub async fn until_ended(&self, number: u32) {
        let ended = || exit_of(self, number).is_some();
        self.until("the process is reaped", ended).await;
    }

    /// Shuts the function down, and checks that none of its processes remains.
    pub async fn end(&self) {
        self.function.shutdown().await;
        for environment in self.environments() {
            assert!(
                matches!(environment.state, EnvironmentState::Ended { .. }),
                "{environment:?}"
            );
            if let Some(pid) = environment.pid {
                let process = PathBuf::from(format!("/proc/{pid}/exe"));
                assert!(!process.exists(), "{environment:?}");
            }
        }
    }
}

pub fn mapping_config(batch_size: usize, window: Duration, concurrency_max: u32) -> MappingConfig {
    MappingConfig {
        queue: QUEUE.into(),
        batch_size,
        window,
        concurrency_max,
        report_batch_item_failures: true,
    }
}

/// Returns the number of invocations in each busy environment.
pub fn busy(host: &Host) -> Vec<u32> {
    let mut busy = Vec::new();
    for environment in host.environments() {
        if let EnvironmentState::Busy { invocations } = environment.state {
            busy.push(invocations);
        }
    }
    busy
}

/// Returns the exit status of an environment; `None` if it is not reaped yet.
pub fn exit_of(host: &Host, number: u32) -> Option<String> {
    let mut environments = host.environments().into_iter();
    let state = environments.find(|one| one.number == number)?.state;
    let EnvironmentState::Ended { exit } = state else {
        return None;
    };
    Some(exit?.to_string())
}

/// Returns the path of the example, `<target>/<profile>/examples/echo_lambda`.
///
/// Cargo builds the example together with all tests of the package, but not if the command selects some tests. This function
/// then builds it, if it is missing or older than its source.
pub fn bootstrap() -> PathBuf {
    static BOOTSTRAP: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("a test knows its executable");
        let profile = test.parent().and_then(Path::parent);
        let profile = profile.expect("a test is in <profile>/deps");
        let bootstrap = profile.join("examples/echo_lambda");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/echo_lambda.rs");
        let modified = |path: &Path| path.metadata().ok()?.modified().ok();
        if modified(&bootstrap) < modified(&source) {
            build(profile);
        }
        assert!(bootstrap.exists(), "`{}` is missing", bootstrap.display());
        bootstrap
    });
    BOOTSTRAP.clone()
}

fn build(profile: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = profile.parent().expect("a profile is in <target>");
    // The directory of the profile `dev` is named `debug`.
    let name = profile.file_name().filter(|name| *name != "debug");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "emulators"])
        .args(["--example", "echo_lambda", "--profile"])
        .arg(name.unwrap_or("dev".as_ref()))
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs these tests, so it is installed");
    assert!(built.success(), "build the example `echo_lambda`: {built}");
}
