//! `batchctl` against a running stack that it knows from a file of variables only.

mod changes;
mod events;
mod interrupts;
mod listing;
mod log;
mod rejects;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::executables::{Ran, command, run};
use crate::rig::Rig;

pub use self::rejects::bodies_at_sink;

/// The arguments of a change that is carried out.
const YES: [&str; 5] = ["--yes", "--why", "a test", "--by", "tester"];

/// The command, in a directory with the variables of a stack.
pub struct Batchctl {
    pub directory: TempDir,
}

impl Batchctl {
    pub fn of(rig: &Rig) -> Batchctl {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let variables = directory.path().join("env");
        std::fs::write(variables, rig.stack.describe()).expect("the directory takes a file");
        Batchctl { directory }
    }

    /// Returns the command with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command("batchctl");
        command.args(["--env-file", "env"]).args(arguments);
        command.current_dir(self.directory.path());
        command
    }

    /// Runs the command without `--json`.
    pub async fn text(&self, arguments: &[&str]) -> Ran {
        run(&mut self.command(arguments)).await
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

    /// Redrives the messages of the quarantine that are wanted, and checks how many they are.
    pub async fn redrive_quarantine(&self, wanted: &[&str], count: usize) {
        let redrive = ["redrive", "--from", "quarantine", "--yes"];
        let redriven = self.json(0, &[&redrive[..], wanted].concat()).await;
        assert_eq!(redriven["counts"]["redriven"], count, "{redriven}");
    }

    /// Carries a change out; returns what it printed.
    pub async fn change(&self, arguments: &[&str]) -> Value {
        self.json(0, &[arguments, &YES].concat()).await
    }
}
