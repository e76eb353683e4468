//! Runs the fuzz targets with cargo-fuzz. `cargo xtask test` does not: it runs each target briefly as a test of `tests/fuzz`.

use std::path::Path;
use std::process::Command;

use crate::tools;

/// The targets of `tests/fuzz`.
const TARGETS: [&str; 4] = ["event", "event_id", "batch_key", "ticket"];
/// The version of cargo-fuzz to install.
const CARGO_FUZZ: &str = "0.13.2";

#[derive(clap::Args)]
pub struct Fuzz {
    /// How long each target runs, in seconds
    #[arg(long, default_value_t = 600, value_name = "N")]
    seconds: u64,
    /// Run only this target [default: all]
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
}

/// Runs the targets one after the other, and stops at the first failure.
///
/// The runs use no sanitizer: sanitizers need a nightly compiler, and the workspace has no unsafe code. The corpus is kept in
/// the target directory for later runs. An input that fails is kept in `tests/fuzz/artifacts`.
pub fn run(fuzz: &Fuzz) -> anyhow::Result<()> {
    let root = tools::root()?;
    let target_dir = tools::target_dir();
    let cargo_fuzz = tools::install_tool("cargo-fuzz", CARGO_FUZZ)?;
    let only = fuzz.target.as_deref();
    let targets = TARGETS.into_iter();
    for target in targets.filter(|target| only.is_none_or(|only| only == *target)) {
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
