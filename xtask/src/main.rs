//! Every task of this workspace. `cargo xtask` alone lists them.
//!
//! A fresh machine has cargo, a C compiler and Python: whatever a task needs beyond that, it installs itself.

mod bench;
mod fuzz;
mod infra;
mod mutants;
mod package;
mod postgres;
mod tools;

use std::process::{Command, ExitCode};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use clap::{Parser, Subcommand};

use crate::tools::{cargo, run_cargo, target_dir};

#[derive(Parser)]
#[command(name = "xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lints, every test, and the checks of the templates
    Test,
    /// Format, lints, and the unit tests: two minutes, once it is built
    Check,
    /// Writes docs/configuration.md anew, from the variables that the functions declare
    Configuration,
    /// Seeds of the simulation: 20,000, or what `sim --help` says; a short run is part of `test`
    Sim {
        /// Flags of the simulation
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Long fuzz runs; a short one is part of `test`
    Fuzz(fuzz::Fuzz),
    /// Mutants of the protocol that the tests of its crate, or a short simulation, must catch; an hour and more
    Mutants(mutants::Mutants),
    /// The templates of `infra`: everything that can be checked without an account
    Infra(infra::Infra),
    /// CPU and memory a message, of the functions as they deploy: the median of some bursts
    Bench(bench::Bench),
    /// Both functions as they deploy: zips in target/lambda for this machine's processor or another, checked
    Package(package::Package),
    /// A burst through `local`, with the packaged functions
    PackageBurst(package::Burst),
    /// A burst through ministack, which runs the packaged functions from the template's queues
    Ministack(package::Ministack),
}

fn main() -> ExitCode {
    let started = Instant::now();
    let done = match Cli::parse().task {
        Task::Test => test(),
        Task::Check => check(),
        Task::Configuration => configuration(),
        Task::Sim { arguments } => sim(&arguments),
        Task::Fuzz(fuzz) => fuzz::run(&fuzz),
        Task::Mutants(mutants) => mutants::run(&mutants),
        Task::Infra(infra) => infra::run(&infra),
        Task::Bench(bench) => bench::run(&bench),
        Task::Package(package) => package::package(&package),
        Task::PackageBurst(burst) => package::burst(&burst),
        Task::Ministack(ministack) => package::ministack(&ministack),
    };
    match done {
        Ok(()) => {
            eprintln!("done in {} s", started.elapsed().as_secs());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> anyhow::Result<()> {
    lint()?;
    cargo(&["test", "--workspace", "--lib", "--bins", "--no-fail-fast"])
}

fn lint() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

/// Checks the templates while cargo builds and tests: either uses little more than one core at a time.
fn test() -> anyhow::Result<()> {
    thread::scope(|scope| {
        let infra = scope.spawn(infra::run_quietly);
        let tested = lint().and_then(|()| test_workspace());
        let infra = infra
            .join()
            .map_err(|_| anyhow!("the checks of the templates panicked"))?;
        tested.and(infra)
    })
}

fn test_workspace() -> anyhow::Result<()> {
    // The end to end suite runs the executables that deploy, and an example.
    cargo(&["build", "--workspace", "--all-targets"])?;
    // More threads than cores: most of the time of the longest suite is waits for timeouts. All of them run, so that one
    // run tells everything that fails.
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    tests.args(["--", "--test-threads", "6"]);
    if let Some(programs) = postgres::install()? {
        tests.env("POSTGRES_BIN", programs);
    }
    run_cargo(&mut tests)?;
    // Once more with its planted bugs, which nothing else is built with.
    cargo(&[
        "test",
        "--workspace",
        "--test",
        "histories",
        "--features",
        PLANTED_BUGS,
    ])
}

/// The test that compares the document writes it instead, when it is told so.
fn configuration() -> anyhow::Result<()> {
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--workspace", "--test", "architecture"]);
    test.arg("configuration").env("UPDATE_CONFIGURATION", "1");
    run_cargo(&mut test)
}

/// The feature that compiles planted bugs in.
const PLANTED_BUGS: &str = "sim/planted-bugs";

fn sim(arguments: &[String]) -> anyhow::Result<()> {
    // The whole workspace is selected, so that dependencies are built with the features of every other task.
    cargo(&[
        "build",
        "--workspace",
        "--bin",
        "sim",
        "--features",
        PLANTED_BUGS,
    ])?;
    let status = Command::new(target_dir().join("debug/sim"))
        .args(arguments)
        .status()
        .context("run the simulation")?;
    ensure!(status.success(), "the simulation failed: {status}");
    Ok(())
}
