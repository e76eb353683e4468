//! Mutation testing of the protocol with cargo-mutants: finds changes of the code that no test notices.
//!
//! A run takes hours on two cores, so it is not part of `cargo xtask test`. `docs/simulation.md` lists the mutants that
//! survive, and why.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::{self, root};

/// The version of cargo-mutants to install.
const CARGO_MUTANTS: &str = "27.0.0";
/// The package that is mutated.
const PROTOCOL: &str = "unique-event-protocol";
/// The share of the mutants that the tests of the crate must catch at least, in percent.
const CAUGHT_BY_CRATE_MIN: f64 = 95.0;
/// The share of the mutants that those tests or a short simulation must catch at least, in percent.
const CAUGHT_BY_ALL_MIN: f64 = 98.0;
/// Excludes mutants that change nothing: the switch of a planted bug is compiled to `false` anyway.
const NO_CHANGE: &str = "replace match guard planted\\(.*\\) with false";
/// The time limit of the tests of a mutant, in seconds. A mutant that exceeds it counts as caught, as an endless loop.
const TIMEOUT: &str = "300";

#[derive(clap::Args)]
pub struct Mutants {
    /// Mutate only these files of `protocol/src`, such as `quota.rs` or `claim/*.rs` [default: all]
    files: Vec<String>,
    /// How many mutants to test at once
    #[arg(long, default_value_t = 2, value_name = "N")]
    jobs: usize,
}

/// The mutants that the tests caught and missed.
struct Outcome {
    caught: usize,
    missed: Vec<String>,
}

impl Outcome {
    /// Reads the result that cargo-mutants wrote to a folder.
    fn read(folder: &Path) -> anyhow::Result<Outcome> {
        let lines = |name: &str| -> anyhow::Result<Vec<String>> {
            let path = folder.join("mutants.out").join(name);
            let text =
                fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            Ok(text.lines().map(str::to_owned).collect())
        };
        Ok(Outcome {
            caught: lines("caught.txt")?.len() + lines("timeout.txt")?.len(),
            missed: lines("missed.txt")?,
        })
    }
}

/// Runs the tests of the crate against each mutant, and a short simulation against the mutants that they miss.
pub fn run(mutants: &Mutants) -> anyhow::Result<()> {
    let tool = tools::install_tool("cargo-mutants", CARGO_MUTANTS)?;
    let folder = tools::target_dir().join("mutants");
    tools::remove_folder(&folder)?;
    fs::create_dir_all(&folder)?;
    let test = |tests_of: &str, jobs: usize, more: &[&str]| {
        let mut command = Command::new(&tool);
        command
            .current_dir(root()?)
            .args(["mutants", "--package", PROTOCOL, "--test-package", tests_of])
            .args(["--timeout", TIMEOUT, "--jobs", &jobs.to_string()])
            .args(["--exclude-re", NO_CHANGE])
            // A mutant changes one function, so that is what is compiled: a third of the time.
            .env("CARGO_INCREMENTAL", "1")
            // Level 1 compiles each mutant quickly and still keeps the property tests fast.
            .arg(format!(
                "--cargo-arg=--config=profile.dev.package.{PROTOCOL}.opt-level=1"
            ))
            .args(["--no-shuffle", "--caught", "--output"])
            .arg(&folder);
        for file in &mutants.files {
            command.args(["--file", &format!("protocol/src/{file}")]);
        }
        command.args(more);
        eprintln!("> {command:?}");
        let status = command.status().context("run cargo-mutants")?;
        // Exit code 2 means missed mutants, 3 means tests that exceeded the time limit.
        let ran = matches!(status.code(), Some(0 | 2 | 3));
        ensure!(ran, "{command:?} failed: {status}");
        Outcome::read(&folder)
    };
    let by_crate = test(PROTOCOL, mutants.jobs, &["--", "--lib"])?;
    let all = by_crate.caught + by_crate.missed.len();
    ensure!(all > 0, "mutants: got none, expected some");
    let of_crate = caught_percent(all, &by_crate.missed);
    // The simulation runs only if needed, because it compiles much for each mutant; `--iterate` skips mutants that were
    // caught. It tests one mutant at a time, because it uses all cores.
    let survivors = if of_crate >= CAUGHT_BY_ALL_MIN {
        by_crate.missed.clone()
    } else {
        test("sim", 1, &["--iterate", "--", "--test", "histories"])?.missed
    };
    let of_all = caught_percent(all, &survivors);
    report(all, &by_crate.missed, &survivors);
    ensure!(
        of_crate >= CAUGHT_BY_CRATE_MIN && of_all >= CAUGHT_BY_ALL_MIN,
        "caught mutants: too few: got {of_crate:.1} % by the crate and {of_all:.1} % by all, \
         expected at least {CAUGHT_BY_CRATE_MIN} % and {CAUGHT_BY_ALL_MIN} %"
    );
    Ok(())
}

/// Returns how many of all mutants were caught, in percent.
fn caught_percent(all: usize, missed: &[String]) -> f64 {
    100.0 * (all - missed.len()) as f64 / all as f64
}

/// Prints what the tests of the crate missed, and what the simulation missed too.
fn report(all: usize, by_crate: &[String], survivors: &[String]) {
    println!("{all} mutants that compile");
    let of_crate = caught_percent(all, by_crate);
    println!("{of_crate:.1} % caught by the tests of the crate; these were not:");
    by_crate.iter().for_each(|mutant| println!("  {mutant}"));
    let of_all = caught_percent(all, survivors);
    println!("{of_all:.1} % caught by them and the simulation; these were not:");
    survivors.iter().for_each(|mutant| println!("  {mutant}"));
}
