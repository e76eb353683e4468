//! The built binary: exit codes, standard output, and a burst through a real connection.

// Marked as tests for the lints' sake: helpers may unwrap, too.
#[cfg(test)]
mod audit;
#[cfg(test)]
mod fake_queue;
#[cfg(test)]
mod send;

use std::process::{Command, Output};

use serde_json::Value;

/// Runs the binary with an environment of its own.
fn loadgen(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(args)
        .env_clear()
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .output()
        .expect("the binary was built for this test")
}

/// The one JSON object on standard output.
fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in `{text}` of {output:?}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
