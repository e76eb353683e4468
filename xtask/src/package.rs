//! What deploys: both functions as zips, and those run as they deploy, without an account.
//!
//! What is demanded of the zips is in `infra/checks/package.py`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::infra::{self, status};

/// What `cargo xtask package` is told.
#[derive(clap::Args, Default)]
pub struct Package {
    /// Cargo features of the functions besides the default ones, for example `s3,batch-processor/postgres`
    #[arg(long, value_name = "FEATURES")]
    features: Option<String>,
}

/// What `cargo xtask package-burst` is told.
#[derive(clap::Args)]
pub struct Burst {
    #[command(flatten)]
    package: Package,
    /// Messages in the burst, duplicates included
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    messages: u64,
    /// More flags of `local burst`
    #[arg(last = true, value_name = "FLAGS")]
    arguments: Vec<String>,
}

/// What `cargo xtask ministack` is told.
#[derive(clap::Args)]
pub struct Ministack {
    /// Messages in the burst, duplicates included
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    messages: u64,
}

/// The functions, by the names of their packages and executables.
const FUNCTIONS: [&str; 2] = ["aggregator", "batch-processor"];

/// Where the zips are, whatever `CARGO_TARGET_DIR` says: the template and the CDK app look there.
pub fn packaged() -> anyhow::Result<PathBuf> {
    Ok(infra::root()?.join("target/lambda"))
}

/// Builds the zips, as they deploy, for this machine's architecture. Says nothing unless it fails.
pub fn build(package: &Package) -> anyhow::Result<()> {
    let python = infra::install_python("package", "package-requirements.txt")?;
    let tools = python.parent().context("an interpreter is in a folder")?;
    // cargo-lambda links with the zig of the first Python in PATH.
    let path = infra::path_with_tools_of(&python)?;
    let mut command = Command::new(tools.join("cargo-lambda"));
    command
        .args(["lambda", "build", "--profile", "lambda", "--locked"])
        .args(["--output-format", "zip", "--lambda-dir"])
        .arg(packaged()?)
        .current_dir(infra::root()?)
        .env("PATH", path);
    for function in FUNCTIONS {
        // What an earlier build left must not pass for this one's.
        let zip = packaged()?.join(function).join("bootstrap.zip");
        match fs::remove_file(&zip) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", zip.display()));
            }
            Ok(()) | Err(_) => {}
        }
        command.args(["--package", function]);
    }
    if let Some(features) = &package.features {
        command.args(["--features", features]);
    }
    eprintln!("> {command:?}");
    let output = command.output().context("run cargo lambda")?;
    ensure!(
        output.status.success(),
        "cargo lambda failed: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Builds the zips, checks them, and unpacks them.
pub fn package(package: &Package) -> anyhow::Result<()> {
    build(package)?;
    status(
        Command::new(infra::install_python("infra", "requirements.txt")?)
            .arg("package.py")
            // Whose size is bounded without them alone.
            .args(&package.features)
            .current_dir(infra::root()?.join("infra/checks")),
    )
}

/// Builds what sends, hosts and audits: in one go, so that nothing is built twice with other features.
fn build_tools() -> anyhow::Result<PathBuf> {
    crate::cargo(&[
        "build",
        "--release",
        "--package",
        "local",
        "--package",
        "loadgen",
    ])?;
    Ok(crate::target_dir().join("release"))
}

/// `local burst`, whose functions are what was packaged.
pub fn local_burst(messages: u64) -> anyhow::Result<Command> {
    let bootstrap = |function| Ok::<_, anyhow::Error>(packaged()?.join(function).join("bootstrap"));
    local_burst_of(
        messages,
        &bootstrap("aggregator")?,
        &bootstrap("batch-processor")?,
    )
}

/// `local burst` with these functions.
pub fn local_burst_of(
    messages: u64,
    aggregator: &Path,
    batch_processor: &Path,
) -> anyhow::Result<Command> {
    let mut command = Command::new(build_tools()?.join("local"));
    command
        .args(["burst", "--messages", &messages.to_string()])
        .arg("--aggregator")
        .arg(aggregator)
        .arg("--batch-processor")
        .arg(batch_processor);
    Ok(command)
}

/// A burst through `local`, whose functions are what was packaged.
pub fn burst(burst: &Burst) -> anyhow::Result<()> {
    package(&burst.package)?;
    status(local_burst(burst.messages)?.args(&burst.arguments))
}

/// A burst through ministack, which creates the stack of the template and runs what was packaged.
pub fn ministack(ministack: &Ministack) -> anyhow::Result<()> {
    package(&Package::default())?;
    let checks = infra::root()?.join("infra/checks");
    let server = infra::install_python("ministack", "ministack-requirements.txt")?;
    status(
        Command::new(infra::install_python("infra", "requirements.txt")?)
            .arg("ministack.py")
            .arg(server)
            .arg(build_tools()?.join("loadgen"))
            .arg(ministack.messages.to_string())
            .current_dir(checks),
    )
}
