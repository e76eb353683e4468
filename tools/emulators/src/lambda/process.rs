//! Starts the process of an execution environment, sets its variables, and reads its log pipes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use axum::serve::ListenerExt;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::end_command::Killer;
use super::function_config::FunctionConfig;
use super::limits::REGION;
use super::logs::{EnvironmentHooks, LogLine, LogStream, drain};
use super::runtime_api::router;
use super::runtime_state::RuntimeState;
use crate::locked::locked;

/// Returns the access key of an environment, `local.<function>.<environment>`. All environments have the same secret key.
pub(crate) fn access_key(function: &str, environment: u32) -> String {
    format!("local.{function}.{environment}")
}

/// The last non-empty line of each log pipe.
#[derive(Clone, Debug, Default)]
pub(super) struct LastLogLines(Arc<Mutex<[String; 2]>>);

impl LastLogLines {
    fn note(&self, stream: LogStream, text: &str) {
        let words = text.trim();
        if !words.is_empty() {
            let index = usize::from(stream == LogStream::Stderr);
            locked(&self.0)[index].replace_range(.., words);
        }
    }

    /// Removes and returns the last line of standard error; of standard output if standard error had none.
    pub(super) fn take(&self) -> String {
        let [out, err] = std::mem::take(&mut *locked(&self.0));
        if err.is_empty() { out } else { err }
    }
}

/// Sends SIGTERM; returns whether that succeeded. It runs the shell's `kill`, because the standard library can only send
/// SIGKILL.
pub(super) async fn send_sigterm(pid: Option<u32>) -> bool {
    let Some(pid) = pid else { return false };
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -TERM {pid}")])
        .stderr(Stdio::null())
        .status()
        .await;
    sent.is_ok_and(|status| status.success())
}

/// Starts the process and the server of its Runtime API.
///
/// # Errors
/// No port could be bound, or the executable could not be started.
pub(super) fn spawn(
    config: &FunctionConfig,
    number: u32,
    runtime: &Arc<RuntimeState>,
) -> io::Result<(Child, JoinHandle<()>)> {
    // Binds with the standard library, because this function is not async: the pool calls it under its lock.
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    // Without TCP_NODELAY, the last packet of a large event waits until the previous one is acknowledged.
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
        // Ctrl-C on a terminal signals the whole group. The host stops its functions itself.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let server = axum::serve(listener, router(Arc::clone(runtime)));
    let server = tokio::spawn(async move {
        // Never returns; the task is aborted when the process has ended.
        let _ = server.await;
    });
    Ok((child, server))
}

/// Returns all environment variables of the process. Variables of `config` override Lambda's, except
/// `AWS_LAMBDA_RUNTIME_API` and `AWS_LAMBDA_MAX_CONCURRENCY`. `number` is the number of the environment, `runtime_api` its
/// `<host>:<port>`.
///
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html>
pub fn process_variables(
    config: &FunctionConfig,
    number: u32,
    runtime_api: &str,
) -> BTreeMap<String, String> {
    let name = &config.name;
    let task_root = config.bootstrap.program.parent();
    let task_root = task_root.unwrap_or(Path::new("/")).display();
    let memory_mb = config.memory_mb.to_string();
    let log_stream = format!("local/[$LATEST]{number}");
    let mut variables: BTreeMap<String, String> = [
        ("AWS_LAMBDA_FUNCTION_NAME", name.clone()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory_mb),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
        ("AWS_LAMBDA_LOG_STREAM_NAME", log_stream),
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
    variables.extend(config.variables.clone());
    variables.insert("AWS_LAMBDA_RUNTIME_API".to_owned(), runtime_api.to_owned());
    let concurrency = config.concurrency_per_environment;
    if concurrency > 1 {
        let name = "AWS_LAMBDA_MAX_CONCURRENCY".to_owned();
        variables.insert(name, concurrency.to_string());
    }
    variables
}

/// Starts a task for each log pipe, which reads it to its end. Each line goes to the faults, which may kill the process, and
/// to the log sink.
pub(super) fn drain_pipes(
    child: &mut Child,
    (function, environment): (&Arc<str>, u32),
    hooks: &EnvironmentHooks,
    killer: &Killer,
    last_log_lines: &LastLogLines,
) -> Vec<JoinHandle<()>> {
    let emit = |stream| {
        let (function, logs) = (Arc::clone(function), Arc::clone(&hooks.logs));
        let (faults, killer) = (Arc::clone(&hooks.faults), killer.clone());
        let last_log_lines = last_log_lines.clone();
        move |text: String| {
            // Before the sink, because a slow sink would give the process time to go on.
            if !killer.ending.load(Ordering::Relaxed) && faults.kills_at_line(&text) {
                killer.kill();
            }
            last_log_lines.note(stream, &text);
            logs(&LogLine {
                function: Arc::clone(&function),
                environment,
                stream,
                text,
            })
        }
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = stdout.map(|pipe| tokio::spawn(drain(pipe, emit(LogStream::Stdout))));
    let stderr = stderr.map(|pipe| tokio::spawn(drain(pipe, emit(LogStream::Stderr))));
    stdout.into_iter().chain(stderr).collect()
}
