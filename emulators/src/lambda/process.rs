//! The process of an execution environment: how it is started, with which variables, and how its pipes are drained.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::serve::ListenerExt;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::exchange::Exchange;
use super::function_config::FunctionConfig;
use super::limits::REGION;
use super::logs::{LogLine, LogStream, Watch, pump};
use super::orders::Killer;
use super::runtime_api::router;

/// The access key that an environment signs its requests with; the secret is the same for all.
pub(crate) fn access_key(function: &str, environment: u32) -> String {
    format!("local.{function}.{environment}")
}

/// The last line that says anything, of each pipe.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords(Arc<Mutex<[String; 2]>>);

impl LastWords {
    fn heard(&self, stream: LogStream, text: &str) {
        let words = text.trim();
        if !words.is_empty() {
            let index = usize::from(stream == LogStream::Stderr);
            self.lock()[index].replace_range(.., words);
        }
    }

    /// What was said last, on standard error if there was anything.
    pub(super) fn take(&self) -> String {
        let [out, err] = std::mem::take(&mut *self.lock());
        if err.is_empty() { out } else { err }
    }

    fn lock(&self) -> MutexGuard<'_, [String; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if the signal was sent. The standard library only knows SIGKILL, and every shell has `kill` built in.
pub(super) async fn send_sigterm(pid: Option<u32>) -> bool {
    let Some(pid) = pid else { return false };
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -TERM {pid}")])
        .stderr(Stdio::null())
        .status()
        .await;
    sent.is_ok_and(|status| status.success())
}

/// Starts the process, and its Runtime API.
pub(super) fn spawn(
    config: &FunctionConfig,
    number: u32,
    exchange: &Arc<Exchange>,
) -> io::Result<(Child, JoinHandle<()>)> {
    // Bound by the standard library because that needs no await: the environment exists once this returns.
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    // Without nodelay, the last part of a large event waits for the acknowledgement of the part before.
    let listener = tokio::net::TcpListener::from_std(listener)?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let child = Command::new(&config.bootstrap.program)
        .args(&config.bootstrap.args)
        .env_clear()
        .envs(process_variables(config, number, &address.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let server = axum::serve(listener, router(Arc::clone(exchange)));
    let server = tokio::spawn(async move {
        // Accepting never ends by itself; the task is aborted when the process has.
        let _ = server.await;
    });
    Ok((child, server))
}

/// The process's whole environment. The caller's variables win over the defaults, but not over what the process needs
/// to find its Runtime API and to know how many invocations it takes at once.
///
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html>
pub fn process_variables(
    config: &FunctionConfig,
    number: u32,
    runtime_api: &str,
) -> BTreeMap<String, String> {
    let name = &config.name;
    let task_root = config
        .bootstrap
        .program
        .parent()
        .unwrap_or(Path::new("/"))
        .display();
    let mut variables: BTreeMap<String, String> = [
        ("AWS_LAMBDA_FUNCTION_NAME", name.clone()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        (
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
            config.memory_mb.to_string(),
        ),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
        (
            "AWS_LAMBDA_LOG_STREAM_NAME",
            format!("local/[$LATEST]{number}"),
        ),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".to_owned()),
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_DEFAULT_REGION", REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", access_key(name, number)),
        ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
        ("_HANDLER", "bootstrap".to_owned()),
        ("LAMBDA_TASK_ROOT", task_root.to_string()),
        ("TZ", ":UTC".to_owned()),
        ("PATH", "/usr/local/bin:/usr/bin/:/bin:/opt/bin".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    variables.extend(
        config
            .variables
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    variables.insert("AWS_LAMBDA_RUNTIME_API".to_owned(), runtime_api.to_owned());
    if config.concurrency_per_environment > 1 {
        variables.insert(
            "AWS_LAMBDA_MAX_CONCURRENCY".to_owned(),
            config.concurrency_per_environment.to_string(),
        );
    }
    variables
}

/// Drains both pipes of the process, and watches what it says.
pub(super) fn pump_both(
    child: &mut Child,
    (function, environment): (&Arc<str>, u32),
    watch: &Watch,
    killer: &Killer,
    last_words: &LastWords,
) -> Vec<JoinHandle<()>> {
    let emit = |stream| {
        let (function, logs) = (Arc::clone(function), Arc::clone(&watch.logs));
        let (faults, killer) = (Arc::clone(&watch.faults), killer.clone());
        let last_words = last_words.clone();
        move |text: String| {
            // First, so that what is slow about the sink does not give the process time. One kill is enough.
            if !killer.ending.load(Ordering::Relaxed) && faults.kills_at(&text) {
                killer.kill();
            }
            last_words.heard(stream, &text);
            logs(&LogLine {
                function: Arc::clone(&function),
                environment,
                stream,
                text,
            })
        }
    };
    let stdout = child
        .stdout
        .take()
        .map(|pipe| tokio::spawn(pump(pipe, emit(LogStream::Stdout))));
    let stderr = child
        .stderr
        .take()
        .map(|pipe| tokio::spawn(pump(pipe, emit(LogStream::Stderr))));
    stdout.into_iter().chain(stderr).collect()
}
