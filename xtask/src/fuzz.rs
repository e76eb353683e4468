//! The long fuzz runs. `cargo xtask test` needs none of this: a short run of every target is a test of `tests/fuzz`.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::tools;

/// Every target of tests/fuzz.
const TARGETS: [&str; 4] = ["event", "event_id", "batch_key", "ticket"];
/// The version that is installed.
const CARGO_FUZZ: &str = "0.13.2";

/// What `cargo xtask fuzz` is told.
#[derive(clap::Args)]
pub struct Fuzz {
    /// How long each target runs
    #[arg(long, default_value_t = 600, value_name = "N")]
    seconds: u64,
    /// One target; all of them if left out
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
}

/// Runs the targets one after the other; the first one that finds something is the last.
///
/// No sanitizer: those need a nightly compiler, and there is no unsafe code of ours to watch. What is found on the way is
/// kept in the target directory, so that the next run goes on from there; what breaks a promise, in
/// `tests/fuzz/artifacts`.
pub fn run(fuzz: &Fuzz) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask is a folder of the workspace")?;
    let target_dir = tools::target_dir();
    let cargo_fuzz = tools::install_tool("cargo-fuzz", CARGO_FUZZ)?;
    let one = fuzz.target.as_deref();
    for target in TARGETS
        .into_iter()
        .filter(|target| one.is_none_or(|one| one == *target))
    {
        let corpus = target_dir.join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus)?;
        let mut command = Command::new(&cargo_fuzz);
        command
            .current_dir(root)
            .args(["run", "--fuzz-dir", "tests/fuzz", "--sanitizer", "none"])
            .args(["--features", "libfuzzer", "--target-dir"])
            .args([&target_dir.join("fuzz"), Path::new(target), &corpus])
            .arg(Path::new("tests/fuzz/seeds").join(target))
            .args([
                "--",
                "-dict=tests/fuzz/dict.txt",
                "-timeout=10",
                "-print_final_stats=1",
            ])
            .arg(format!("-max_total_time={}", fuzz.seconds));
        tools::status(&mut command)?;
    }
    Ok(())
}
