//! Runs the tasks of this workspace. `cargo xtask` without arguments lists them.
//!
//! A machine needs cargo, a C compiler and Python. Each task installs its other tools itself.

mod bench;
mod browser;
mod check_plans;
mod debian;
mod emulated;
mod fixtures;
mod former;
mod fuzz;
mod infra;
mod mixed_versions;
mod mutants;
mod package;
mod planted;
mod postgres;
mod release;
mod remap;
mod sshd;
mod tools;
mod verify_aws;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use clap::{Parser, Subcommand};

use crate::planted::Build;
use crate::tools::{cargo, run_cargo};

#[derive(Parser)]
#[command(name = "xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the format, run the lints and the tests, and check the templates
    Test {
        /// Run everything, as before a release: every case of a test, every wrong template, plans, 20,000 seeds; takes hours
        #[arg(long)]
        all: bool,
    },
    /// Check the format, run the lints and the unit tests: two minutes after a first build
    Check,
    /// Generate docs/configuration.md, the schema of the file and the list of names from the settings that the functions declare
    Configuration,
    /// Generate docs/metrics.md from the metrics that the functions declare
    Metrics,
    /// Run the simulation: 20,000 seeds, or as its flags say; `test` includes a short run and, with `--planted`, all planted bugs
    Sim {
        /// Flags of the simulation; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Write the patch of a planted bug anew, after `sim --planted` stopped at it and you put the bug in
    RecordBug(planted::RecordBug),
    /// Run the fuzz targets for a long time; `test` includes a short run
    Fuzz(fuzz::Fuzz),
    /// Mutate the protocol, and check that its tests or a short simulation catch the mutants; takes half an hour
    Mutants(mutants::Mutants),
    /// Check the templates of `infra`, as far as that is possible without an AWS account
    Infra(infra::Infra),
    /// Measure CPU and memory per message of the packaged functions: the median of several bursts
    Bench(bench::Bench),
    /// Hold `loadgen plan` against `batch-local burst` with the same settings; `test` includes a small part
    CheckPlans(check_plans::CheckPlans),
    /// Build and check the zips of both functions in target/lambda
    Package(package::Package),
    /// Make a release in `dist`: zips, programs, templates, bills of materials and their hashes
    Release(release::Release),
    /// Run a burst through `local` with the packaged functions
    PackageBurst(package::Burst),
    /// Run a burst through ministack, which deploys the template and runs the packaged functions
    Ministack(package::Ministack),
    /// Run a former version of the functions and the present one together, as during an update: bursts through `local`
    MixedVersions(mixed_versions::MixedVersions),
    /// Record what a former version of the functions stores, in tests/fixtures
    RecordFixtures(fixtures::RecordFixtures),
    /// Ask AWS what only an account can say: creates throw-away resources with your credentials, and deletes them
    #[command(disable_help_flag = true)]
    VerifyAws(verify_aws::VerifyAws),
}

fn main() -> ExitCode {
    let started = Instant::now();
    let result = match Cli::parse().task {
        Task::Test { all } => test(all),
        Task::Check => check(),
        Task::Configuration => generate("configuration", "UPDATE_CONFIGURATION"),
        Task::Metrics => generate("metrics", "UPDATE_METRICS"),
        Task::Sim { arguments } => sim(&arguments),
        Task::RecordBug(bug) => planted::record(&bug),
        Task::Fuzz(fuzz) => fuzz::run(&fuzz),
        Task::Mutants(mutants) => mutants::run(&mutants),
        Task::Infra(infra) => infra::run(&infra),
        Task::Bench(bench) => bench::run(&bench),
        Task::CheckPlans(check) => check_plans::run(&check),
        Task::Package(package) => package::package(&package),
        Task::Release(release) => release::run(&release),
        Task::PackageBurst(burst) => package::burst(&burst),
        Task::Ministack(ministack) => package::ministack(&ministack),
        Task::MixedVersions(mixed) => mixed_versions::run(&mixed),
        Task::RecordFixtures(record) => fixtures::run(&record),
        Task::VerifyAws(verify) => verify_aws::run(&verify),
    };
    match result {
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

fn format() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"])
}

fn lint() -> anyhow::Result<()> {
    format()?;
    let lints = ["clippy", "--workspace", "--all-targets"];
    cargo(&[&lints[..], &["--", "-D", "warnings"]].concat())
}

/// Runs the checks of the templates at the same time as cargo, because each of them uses little more than one core.
fn test(all: bool) -> anyhow::Result<()> {
    // Before both, because the checks and a test of the workspace use the packages.
    phase("packages of node", infra::install)?;
    thread::scope(|scope| {
        let infra = scope.spawn(|| phase("checks of the templates", || infra::run_quietly(all)));
        let tested = phase("format", format).and_then(|()| test_workspace(all));
        tested.and(joined(infra, "the checks of the templates"))
    })?;
    if all { test_more() } else { Ok(()) }
}

/// What only a release needs: no change of a pull request is likely to break it alone. The commands are as they are in the documents.
const MORE: [&str; 10] = [
    "cargo xtask sim",
    "cargo xtask package-burst --arch arm64 --messages 1000 -- --aggregator-timeout=60 --batch-processor-timeout=300",
    "cargo xtask release --check",
    "cargo xtask package --minimal",
    "cargo xtask infra --packages",
    "cargo xtask package-burst",
    "cargo xtask ministack",
    "cargo run --release -p batchctl -- config check docs/examples/service.toml",
    // The last ones when the machine has nothing else to do: other work disturbs the bursts.
    "cargo run --release -p local",
    "cargo xtask check-plans --small",
];

fn test_more() -> anyhow::Result<()> {
    phase("packages by themselves", lint_packages)?;
    MORE.iter().try_for_each(|command| {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        phase(command, || cargo(&words))
    })
}

/// Runs a part of a task, and prints how long it took.
fn phase<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = run();
    eprintln!("{name}: {} s", started.elapsed().as_secs());
    result
}

fn test_workspace(all: bool) -> anyhow::Result<()> {
    let programs = thread::scope(|scope| {
        let programs = scope.spawn(|| phase("programs for tests", install_programs));
        // The end-to-end suite runs the built executables, among them an example.
        let built = phase("build and lints", || {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--workspace", "--all-targets"]);
            run_cargo(build.envs(tools::lints()?))
        });
        built.and(joined(programs, "the installation of programs for tests"))
    })?;
    thread::scope(|scope| {
        let simulated = scope.spawn(|| phase("simulation", simulate));
        let tested = phase("tests", || test_but_simulation(programs, all));
        tested.and(joined(simulated, "the simulation"))
    })
}

/// Waits for a thread, and returns its result.
fn joined<T>(thread: ScopedJoinHandle<'_, anyhow::Result<T>>, what: &str) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow!("{what} panicked"))?
}

/// The tests of the simulation that take long. All planted bugs, those of the second test among them, are tried in a copy.
const LONG_SIMULATIONS: [&str; 2] = ["no_promise_is_broken", "every_planted_bug"];

/// Ignored tests that something else runs: `cargo xtask record-fixtures`, and another test.
const NOT_BY_THEMSELVES: [&str; 2] = ["fixtures::record::", "the_child_calls_both_services"];

/// The variables by which tests find programs that were installed for them.
type Programs = Vec<(&'static str, PathBuf)>;

/// Installs the programs that tests run, except those that the machine has.
fn install_programs() -> anyhow::Result<Programs> {
    let programs = [
        ("POSTGRES_BIN", postgres::install()?),
        ("SSHD_BIN", sshd::install()?),
        ("CHROMIUM_BIN", browser::install()?),
        ("OUTSIDERS_PYTHON", Some(outsiders()?)),
    ];
    let installed = programs.into_iter();
    let installed = installed.filter_map(|(variable, path)| Some((variable, path?)));
    Ok(installed.collect())
}

/// Installs programs of others that read what the service writes. Returns the interpreter that has them.
fn outsiders() -> anyhow::Result<PathBuf> {
    tools::install_python("outsiders", "tests/outsiders/requirements.txt")
}

fn test_but_simulation(programs: Programs, all: bool) -> anyhow::Result<()> {
    // More threads than cores, because the longest suite mostly waits for timeouts. `--no-fail-fast` reports all failures
    // of a run.
    let mut tests = Command::new(env!("CARGO"));
    tests.envs(tools::lints()?);
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    tests.args(["--", "--test-threads", "12"]);
    tests.args(LONG_SIMULATIONS.map(|name| format!("--skip={name}")));
    if all {
        tests.env("TEST_ALL", "1");
        tests.arg("--include-ignored");
        tests.args(NOT_BY_THEMSELVES.map(|name| format!("--skip={name}")));
    }
    run_cargo(tests.envs(programs))
}

/// Runs cargo in the time that other tests spend waiting. It uses what the tests' build compiled.
fn cargo_beside(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = tools::beside(env!("CARGO"));
    tools::status(command.args(arguments).envs(tools::lints()?))
}

fn simulate() -> anyhow::Result<()> {
    let histories = ["test", "--workspace", "--test", "histories", "--"];
    let [long, _] = LONG_SIMULATIONS;
    cargo_beside(&[&histories[..], &[long]].concat())?;
    // After the histories: while the copy is built, no test can be.
    let planted = ["--planted".to_owned()];
    phase("planted bugs", || planted::hunt(&planted))
}

/// Lints the packages that users build by themselves, as the documents say. In the whole workspace, others switch on features
/// that a package needs and does not ask for.
fn lint_packages() -> anyhow::Result<()> {
    let minimal = ["--no-default-features", "--features", "aggregator/function"];
    let functions = ["--package", "aggregator", "--package", "batch-processor"];
    for package in [
        &["--package", "local"],
        &["--package", "batchctl"],
        &[&functions[..], &minimal].concat()[..],
    ] {
        cargo_beside(&[&["clippy"], package, &["--", "-D", "warnings"]].concat())?;
    }
    Ok(())
}

/// Runs the test that compares a document with the code. If the variable is set, that test writes the document instead.
fn generate(document: &str, variable: &str) -> anyhow::Result<()> {
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--workspace", "--test", "architecture"]);
    test.arg(format!("{document}::")).env(variable, "1");
    run_cargo(&mut test)
}

fn sim(arguments: &[String]) -> anyhow::Result<()> {
    if arguments.iter().any(|argument| argument == "--planted") {
        return planted::hunt(arguments);
    }
    // Not as in other tasks: this profile takes some minutes to build, and then runs nearly three times as many histories a second.
    cargo(Build::Optimised.arguments())?;
    let status = Command::new(Build::Optimised.executable())
        .args(arguments)
        .status()
        .context("run the simulation")?;
    ensure!(status.success(), "the simulation failed: {status}");
    Ok(())
}
