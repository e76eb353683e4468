//! Holds plans against `batch-local burst`, with the same settings and limits: builds both, and runs the example `check_plans` of
//! `planner`.

use std::path::PathBuf;
use std::process::Command;

use crate::tools::{cargo, status, target_dir};

#[derive(clap::Args)]
pub struct CheckPlans {
    /// Run three short settings, with the executables of the tests: the part that `cargo xtask test --all` runs
    #[arg(long)]
    small: bool,
    /// Run only the settings whose name contains this text [default: all]
    #[arg(long, value_name = "TEXT", default_value = "")]
    setting: String,
    /// Use this executable of `local` instead of building one
    #[arg(long, value_name = "PATH")]
    local: Option<PathBuf>,
}

/// Runs the settings, which prints a row for each.
///
/// # Errors
/// A plan is off by more than a tenth, or a burst or plan does not run.
pub fn run(arguments: &CheckPlans) -> anyhow::Result<()> {
    let plans = ["--package=unique-event-planner", "--example=check_plans"];
    let local = match &arguments.local {
        Some(local) => {
            cargo(&[&["build"], &plans[..]].concat())?;
            local.clone()
        }
        // With the executables of the tests, which are built.
        None if arguments.small => {
            cargo(&["build", "--workspace", "--all-targets"])?;
            target_dir().join("debug/batch-local")
        }
        None => {
            cargo(&[&["build"], &plans[..]].concat())?;
            cargo(&["build", "--release", "--package", "local"])?;
            target_dir().join("release/batch-local")
        }
    };
    let mut check = Command::new(target_dir().join("debug/examples/check_plans"));
    check.arg("--local").arg(local);
    check.args(arguments.small.then_some("--small"));
    status(check.args(["--setting", &arguments.setting]))
}
