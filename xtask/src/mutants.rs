//! Mutation testing of the protocol, by the rules of cargo-mutants: what no test notices when it is changed.
//!
//! Half an hour on two cores, so it is not part of `cargo xtask test`. What survives, and why, stands in
//! `docs/simulation.md`.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::{self, root};

/// The version that is installed.
const CARGO_MUTANTS: &str = "27.0.0";
/// What is mutated, in `protocol/src`.
const FILES: [&str; 5] = ["claim", "batch", "allocator", "pace", "retry"];
/// Least share of the mutants that the tests of the crate must catch, in percent.
const CAUGHT_BY_CRATE_MIN: f64 = 95.0;
/// Least share that they and a short simulation must catch.
const CAUGHT_BY_ALL_MIN: f64 = 98.0;
/// Mutants that are the program itself: the switch of a planted bug, compiled to `false`, replaced by `false`.
const NONE_AT_ALL: &str = "replace match guard planted\\(.*\\) with false";
/// A mutant whose tests take longer than this loops for ever, and counts as caught. In seconds.
const TIMEOUT: &str = "300";

/// What `cargo xtask mutants` is told.
#[derive(clap::Args)]
pub struct Mutants {
    /// One file of the protocol; all of them if left out
    #[arg(value_parser = FILES)]
    file: Option<String>,
    /// How many mutants are tested at once
    #[arg(long, default_value_t = 2, value_name = "N")]
    jobs: usize,
}

/// Which mutants the tests caught.
struct Outcome {
    caught: usize,
    missed: Vec<String>,
}

impl Outcome {
    /// Reads what cargo-mutants left in a folder.
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

/// Mutates, has the tests of the crate look at each mutant, and a short simulation at those they miss.
pub fn run(mutants: &Mutants) -> anyhow::Result<()> {
    let tool = tools::install_tool("cargo-mutants", CARGO_MUTANTS)?;
    let folder = tools::target_dir().join("mutants");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir_all(&folder)?,
    }
    let test = |tests_of: &str, jobs: usize, more: &[&str]| {
        let mut command = Command::new(&tool);
        command
            .current_dir(root()?)
            .args([
                "mutants",
                "--package",
                "protocol",
                "--test-package",
                tests_of,
            ])
            .args(["--timeout", TIMEOUT, "--jobs", &jobs.to_string()])
            .args(["--exclude-re", NONE_AT_ALL])
            // Optimised as little as keeps the property tests quick: each mutant is compiled anew.
            .arg("--cargo-arg=--config=profile.dev.package.protocol.opt-level=1")
            .args(["--no-shuffle", "--caught", "--output"])
            .arg(&folder);
        let one = mutants.file.as_deref();
        for file in FILES
            .iter()
            .filter(|file| one.is_none_or(|one| one == **file))
        {
            command.args(["--file", &format!("protocol/src/{file}.rs")]);
        }
        command.args(more);
        eprintln!("> {command:?}");
        let status = command.status().context("run cargo-mutants")?;
        // 2: mutants were missed; 3: the tests of some took too long.
        let ran = matches!(status.code(), Some(0 | 2 | 3));
        ensure!(ran, "{command:?} failed: {status}");
        Outcome::read(&folder)
    };
    let by_crate = test("protocol", mutants.jobs, &["--", "--lib"])?;
    let all = by_crate.caught + by_crate.missed.len();
    ensure!(all > 0, "there are no mutants");
    let of_crate = caught_percent(all, &by_crate.missed);
    // The simulation is asked only where it is needed: it compiles everything anew for each mutant. What was caught is not
    // tried again. One at once: it takes all cores.
    let survivors = if of_crate >= CAUGHT_BY_ALL_MIN {
        by_crate.missed.clone()
    } else {
        test("sim", 1, &["--iterate", "--", "--test", "histories"])?.missed
    };
    let of_all = caught_percent(all, &survivors);
    report(all, &by_crate.missed, &survivors);
    ensure!(
        of_crate >= CAUGHT_BY_CRATE_MIN && of_all >= CAUGHT_BY_ALL_MIN,
        "at least {CAUGHT_BY_CRATE_MIN} % and {CAUGHT_BY_ALL_MIN} % must be caught"
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
