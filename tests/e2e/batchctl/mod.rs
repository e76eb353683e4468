//! `batchctl` against a running stack that it knows from a file of variables only.

mod changes;
mod events;
mod interrupts;
mod listing;
mod log;
mod rejects;

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::executables::executable;
use crate::rig::{CAP, Rig};

pub use self::rejects::bodies_at_sink;

/// The arguments of a change that is carried out.
const YES: [&str; 5] = ["--yes", "--why", "a test", "--by", "tester"];

/// The command, in a directory with the variables of a stack.
pub struct Batchctl {
    pub directory: TempDir,
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Batchctl {
    /// Returns the command for a stack.
    pub fn of(rig: &Rig) -> Batchctl {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let variables = directory.path().join("env");
        std::fs::write(variables, rig.stack.describe()).expect("the directory takes a file");
        Batchctl { directory }
    }

    /// Runs the command without `--json`.
    pub async fn text(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(executable("batchctl"));
        command.env_clear();
        command.args(["--env-file", "env"]).args(arguments);
        self.run(&mut command).await
    }

    /// Runs a command in the directory with the variables of the stack.
    pub async fn run(&self, command: &mut Command) -> Ran {
        let output = command
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = tokio::time::timeout(CAP, output).await;
        let output = ended.expect("it ends").expect("it starts");
        Ran {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs the command with `--json`; returns what it printed.
    ///
    /// # Panics
    /// If it ends with another code, or prints no JSON.
    pub async fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let ran = self.text(&[&["--json"], arguments].concat()).await;
        assert_eq!(ran.code, Some(code), "{ran:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// Carries a change out; returns what it printed.
    pub async fn change(&self, arguments: &[&str]) -> Value {
        self.json(0, &[arguments, &YES].concat()).await
    }
}
