//! The executables under test, from the same build as the test.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use emulators::lambda::Bootstrap;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The limit of every wait. Only a test that would never end reaches it: how long a wait takes decides about no test.
pub const CAP: Duration = Duration::from_secs(600);

/// Returns the path of the executable `name` of this build.
///
/// # Panics
/// If the executable was not built.
pub fn executable(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    // The path of the test is `<profile>/deps/e2e-<hash>`, and those of the executables are `<profile>/<name>`.
    let profile = test.ancestors().nth(2);
    let profile = profile.expect("a test is two directories deep");
    let path = profile.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.is_file(),
        "`{}` is not there: run `cargo build --workspace` first, with the same profile and target directory",
        path.display()
    );
    path
}

/// Returns the executable `name` as a Lambda bootstrap.
pub fn bootstrap(name: &str) -> Bootstrap {
    Bootstrap {
        program: executable(name),
        args: Vec::new(),
    }
}

/// Returns a command that runs the executable `name` without variables and without input.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(executable(name));
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Starts a command whose output is read later.
pub fn started(command: &mut Command) -> Child {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs a command to its end.
pub async fn run(command: &mut Command) -> Ran {
    end(started(command)).await
}

/// Waits until a command ends; returns what was not read yet.
pub async fn end(child: Child) -> Ran {
    let output = timeout(CAP, child.wait_with_output()).await;
    let output: Output = output.expect("it ends in time").expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    Ran {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Sends a signal to a command.
pub async fn signal(name: &str, child: &Child) {
    let pid = child.id().expect("it runs").to_string();
    let sent = Command::new("kill").args([name, &pid]).status().await;
    assert!(sent.expect("`kill` runs").success());
}
