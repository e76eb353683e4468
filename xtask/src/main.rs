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
use std::time::Instant;

use anyhow::{Context, ensure};
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
    /// Everything: format, lints, purity, every test, the templates
    Test,
    /// Format and lints alone
    Lint,
    /// That the protocol depends on no runtime and no SDK
    Purity,
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
        Task::Test => lint()
            .and_then(|()| purity())
            .and_then(|()| test())
            .and_then(|()| infra::run(&infra::Infra::default())),
        Task::Lint => lint(),
        Task::Purity => purity(),
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

fn lint() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    linted(&["build", "--workspace", "--all-targets"])
}

/// Runs a cargo command whose compiler is the linter, for the members of the workspace; a lint fails it.
///
/// It compiles as well, so that what is linted is what is tested, and the SDKs are not read a second time as they
/// would be for `cargo clippy`.
fn linted(arguments: &[&str]) -> anyhow::Result<()> {
    run_cargo(&mut linter(arguments))
}

fn linter(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(arguments)
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        // As `cargo clippy -- -D warnings` hands it on: each argument followed by this word.
        .env(
            "CLIPPY_ARGS",
            "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
        );
    command
}

/// Builds the protocol, and what both functions share without its adapters, and looks at what each build pulls in.
fn purity() -> anyhow::Result<()> {
    ["protocol", "shared"].into_iter().try_for_each(is_pure)
}

fn is_pure(package: &str) -> anyhow::Result<()> {
    cargo(&["check", "-p", package, "--no-default-features"])?;
    let tree = [
        "tree",
        "-p",
        package,
        "--no-default-features",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ];
    let output = Command::new(env!("CARGO"))
        .args(tree)
        .output()
        .context("run cargo tree")?;
    ensure!(
        output.status.success(),
        "cargo tree: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout)?;
    let impure: Vec<&str> = names
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name == "tokio" || name.starts_with("aws-") || name.starts_with("lambda"))
        .collect();
    ensure!(impure.is_empty(), "`{package}` depends on {impure:?}");
    Ok(())
}

fn test() -> anyhow::Result<()> {
    // The end to end suite runs the executables that deploy, and an example: `lint` has built them, with the features
    // of all targets, so that nothing is built twice. More threads than cores: most of the time of the longest suite
    // is waits for timeouts. All of them run, so that one run tells everything that fails.
    let mut tests = linter(&[
        "test",
        "--workspace",
        "--no-fail-fast",
        "--",
        "--test-threads",
        "6",
    ]);
    if let Some(programs) = postgres::install()? {
        tests.env("POSTGRES_BIN", programs);
    }
    run_cargo(&mut tests)?;
    // Once more with its planted bugs, which nothing else is built with.
    linted(&[
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
    let mut test = linter(&[
        "test",
        "--workspace",
        "--test",
        "architecture",
        "configuration",
    ]);
    run_cargo(test.env("UPDATE_CONFIGURATION", "1"))
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
