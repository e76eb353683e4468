//! Tests of the built binary: exit codes, standard output, and a burst over a real connection.

// `cfg(test)` allows helpers to unwrap; clippy allows that in tests only.
#[cfg(test)]
mod audit;
#[cfg(test)]
mod fake_queue;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod report;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod send;

use std::process::{Command, Output};

use serde_json::Value;

/// Returns the binary, with no environment variables except credentials.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command
        .args(args)
        .env_clear()
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    command
}

/// Runs the binary.
fn loadgen(args: &[&str]) -> Output {
    let output = command(args).output();
    output.expect("the binary was built for this test")
}

/// Parses the JSON object on standard output.
fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in `{text}` of {output:?}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the counts of problems in the report of an audit: lost, repeated, foreign, corrupt and mixed.
fn problems(report: &Value) -> [u64; 5] {
    ["lost", "repeated", "foreign", "corrupt", "mixed"]
        .map(|name| report[name].as_u64().expect("a count"))
}
