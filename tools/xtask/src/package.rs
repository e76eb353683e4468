//! Builds both functions as zips and the programs beside them, and runs the zips without an AWS account.
//!
//! `infra/checks/package.py` checks the zips.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::emulated;
use crate::remap;
use crate::tools::{self, status};

#[derive(clap::Args, Default)]
pub struct Package {
    /// Build without the cargo feature `full`: without the sinks `s3://`, `sftp://`, `postgres://` and `arn:`, Parquet, the log in S3,
    /// event buses and traces
    #[arg(long)]
    minimal: bool,
    /// Architecture of the functions, which must be that of the template's `Architecture` [default: this machine's]
    #[arg(long, value_enum, value_name = "ARCH")]
    arch: Option<Architecture>,
}

impl Package {
    pub fn for_arch(arch: Architecture) -> Package {
        Package {
            arch: Some(arch),
            ..Package::default()
        }
    }

    /// Returns the package that the template deploys by default.
    pub fn deployed() -> anyhow::Result<Package> {
        let template = tools::root()?.join("infra/sam/template.yaml");
        let text = fs::read_to_string(&template)
            .with_context(|| format!("read {}", template.display()))?;
        Ok(Package::for_arch(Architecture::default_of(&text)?))
    }

    fn arch(&self) -> anyhow::Result<Architecture> {
        self.arch.map_or_else(Architecture::of_this_machine, Ok)
    }
}

/// A processor architecture of Lambda, by its name in the template.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Intel and AMD.
    #[value(name = "x86_64")]
    X86_64,
    /// Graviton.
    #[value(name = "arm64")]
    Arm64,
}

impl Architecture {
    pub const ALL: [Architecture; 2] = [Architecture::X86_64, Architecture::Arm64];

    pub const fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// Returns Rust's name of the architecture.
    const fn processor(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "aarch64",
        }
    }

    /// Returns Rust's name of the target of the functions.
    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.processor())
    }

    /// Returns Rust's name of the target of executables that need no library.
    pub fn static_target(self) -> String {
        format!("{}-unknown-linux-musl", self.processor())
    }

    fn of_this_machine() -> anyhow::Result<Architecture> {
        let here = env::consts::ARCH;
        let mut all = Architecture::ALL.into_iter();
        all.find(|arch| arch.processor() == here).with_context(|| {
            format!(
                "`--arch`: not set on an unknown machine: got `{here}`, expected `x86_64` or `arm64`"
            )
        })
    }

    /// Returns the default of the template's parameter `Architecture`.
    fn default_of(template: &str) -> anyhow::Result<Architecture> {
        let split = template.split_once("\n  Architecture:\n");
        let (_, parameter) = split.context("the template has no parameter `Architecture`")?;
        let default = parameter
            .lines()
            .take_while(|line| line.starts_with("    "))
            .find_map(|line| line.trim().strip_prefix("Default: "));
        match default {
            Some("x86_64") => Ok(Architecture::X86_64),
            Some("arm64") => Ok(Architecture::Arm64),
            other => bail!(
                "`Architecture` of the template: unknown default: got `{}`, expected `x86_64` or `arm64`",
                other.unwrap_or("none")
            ),
        }
    }
}

/// Fails if Rust's standard library for a target is not installed.
pub fn ensure_std(target: &str) -> anyhow::Result<()> {
    let folder = tools::rustc_prints(&["target-libdir", "--target", target])?;
    ensure_std_in(&folder, target)
}

fn ensure_std_in(folder: &Path, target: &str) -> anyhow::Result<()> {
    let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
    ensure!(
        files.any(|file| file.file_name().to_string_lossy().starts_with("libstd-")),
        "Rust's standard library for `{target}` is not installed; install it with `rustup target add {target}`"
    );
    Ok(())
}

#[derive(clap::Args)]
pub struct Burst {
    #[command(flatten)]
    package: Package,
    /// Number of messages in the burst, including duplicates
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    messages: u64,
    /// More flags of `batch-local burst`
    #[arg(last = true, value_name = "FLAGS")]
    arguments: Vec<String>,
}

#[derive(clap::Args)]
pub struct Ministack {
    /// Number of messages in the burst, including duplicates
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    messages: u64,
    /// Value of the template's parameter `Bodies`: each body in its lock item, or the log, with its loads in the batch table or in the
    /// bucket of the stack; the test fails if the bodies are not there afterwards
    #[arg(long, value_parser = BODIES, default_value = "items", value_name = "PLACE")]
    bodies: String,
}

/// The places for bodies, by the value of the template's parameter `Bodies`.
pub const BODIES: [&str; 3] = ["items", "log:table", "log:s3"];

/// The functions: names of packages and of executables.
pub const FUNCTIONS: [&str; 2] = ["aggregator", "batch-processor"];

/// Returns the folder of the zips. It does not depend on `CARGO_TARGET_DIR`, because the template and the CDK app name it.
pub fn packaged() -> anyhow::Result<PathBuf> {
    Ok(tools::root()?.join("target/lambda"))
}

/// Builds the zips. Prints the output of cargo lambda only if it fails.
///
/// # Errors
/// Rust's standard library for the architecture is not installed, or the build failed.
pub fn build(package: &Package) -> anyhow::Result<()> {
    let arch = package.arch()?;
    ensure_std(&arch.target())?;
    let mut command = with_zig("cargo-lambda")?;
    command.args(["lambda", "build", "--profile", "lambda", "--locked"]);
    command.args(["--output-format", "zip", "--lambda-dir"]);
    command.arg(packaged()?);
    for function in FUNCTIONS {
        // A zip of an earlier build must not be taken for this build's.
        tools::remove_folder(&packaged()?.join(function))?;
        command.args(["--package", function]);
    }
    if package.minimal {
        command.args(["--no-default-features", "--features", "aggregator/function"]);
    }
    // Without the flag, cargo lambda builds for this machine, in the same folder as other builds.
    if Some(arch) != Architecture::of_this_machine().ok() {
        command.arg(format!("--{}", arch.name().replace('_', "-")));
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

/// Builds programs with all their features, linked statically, in the folder of the target `arch.static_target()` and of the
/// profile `release`.
///
/// # Errors
/// Rust's standard library for the target is not installed, or the build failed.
pub fn build_static(packages: &[&str], arch: Architecture) -> anyhow::Result<()> {
    let target = arch.static_target();
    ensure_std(&target)?;
    let mut command = with_zig("cargo-zigbuild")?;
    command.args(["zigbuild", "--release", "--locked", "--bins"]);
    command.args(["--all-features", "--target", &target]);
    command.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    for package in packages {
        command.args(["--package", package]);
    }
    status(&mut command)
}

/// Returns the command of a tool that has zig compile C and link. No path of this machine gets into what it builds.
fn with_zig(tool: &str) -> anyhow::Result<Command> {
    let python = tools::install_python("package", "infra/checks/package-requirements.txt")?;
    let mut command = Command::new(python.with_file_name(tool));
    command
        .current_dir(tools::root()?)
        // The tool finds zig through the first Python in PATH.
        .env("PATH", tools::path_with_tools_of(&python)?)
        .env(remap::VARIABLE, remap::flags()?);
    Ok(command)
}

/// Builds the zips, checks them, and unpacks them.
pub fn package(package: &Package) -> anyhow::Result<()> {
    build(package)?;
    let mut check = Command::new(tools::install_python(
        "infra",
        "infra/checks/requirements.txt",
    )?);
    check.args(["package.py", "--arch", package.arch()?.name()]);
    status(check.current_dir(tools::root()?.join("infra/checks")))
}

/// Builds `local`, with every stand-in, and `loadgen` with one command, so that no dependency is built twice with different
/// features.
pub fn build_tools() -> anyhow::Result<PathBuf> {
    let packages = ["--package", "local", "--package", "loadgen"];
    let build = ["build", "--release", "--features", "local/full"];
    tools::cargo(&[&build[..], &packages].concat())?;
    Ok(tools::target_dir().join("release"))
}

/// Returns the command `batch-local burst` with the packaged functions, which must have been built.
pub fn local_burst(messages: u64) -> anyhow::Result<Command> {
    local_burst_for(Architecture::of_this_machine()?, messages)
}

fn local_burst_for(arch: Architecture, messages: u64) -> anyhow::Result<Command> {
    let here = Architecture::of_this_machine()?;
    let bootstrap = |function| {
        let bootstrap = packaged()?.join(function).join("bootstrap");
        if arch == here {
            Ok(bootstrap)
        } else {
            emulated::script(&bootstrap)
        }
    };
    let [aggregator, batch_processor] = FUNCTIONS.map(bootstrap);
    local_burst_of(messages, &aggregator?, &batch_processor?)
}

/// Returns the command `batch-local burst` with the given functions.
pub fn local_burst_of(
    messages: u64,
    aggregator: &Path,
    batch_processor: &Path,
) -> anyhow::Result<Command> {
    let mut command = Command::new(build_tools()?.join("batch-local"));
    command.args(["burst", "--messages", &messages.to_string()]);
    command.arg("--aggregator").arg(aggregator);
    command.arg("--batch-processor").arg(batch_processor);
    Ok(command)
}

/// Runs a burst through `local` with the packaged functions; those for arm64 are emulated on another machine.
pub fn burst(burst: &Burst) -> anyhow::Result<()> {
    package(&burst.package)?;
    let mut command = local_burst_for(burst.package.arch()?, burst.messages)?;
    status(command.args(&burst.arguments))
}

/// Runs a burst through ministack, which creates the stack of the template and runs the packaged functions.
pub fn ministack(ministack: &Ministack) -> anyhow::Result<()> {
    package(&Package::default())?;
    let checks = tools::root()?.join("infra/checks");
    let server = tools::install_python("ministack", "infra/checks/ministack-requirements.txt")?;
    let mut run = Command::new(tools::install_python(
        "infra",
        "infra/checks/requirements.txt",
    )?);
    run.arg("ministack.py").arg(server);
    run.arg(build_tools()?.join("loadgen"));
    run.args([&ministack.messages.to_string(), &ministack.bodies]);
    status(run.current_dir(checks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_deploys_the_architecture_that_is_tested() {
        assert_eq!(Package::deployed().unwrap().arch, Some(Architecture::Arm64));
    }

    #[test]
    fn the_default_is_read_from_its_own_parameter() {
        let template = |default: &str| {
            format!(
                "Parameters:\n  Architecture:\n    Type: String\n{default}    AllowedValues: [x86_64, arm64]\n  \
                 MemorySize:\n    Default: 1769\n"
            )
        };
        let read = |default| Architecture::default_of(&template(default));
        assert_eq!(read("    Default: arm64\n").unwrap(), Architecture::Arm64);
        for wrong in ["", "    Default: arm65\n"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("expected `x86_64` or `arm64`"), "{error}");
        }
        assert!(Architecture::default_of("Resources:\n").is_err());
    }

    #[test]
    fn the_error_of_a_missing_standard_library_says_how_to_install_it() {
        let nowhere = Path::new(env!("CARGO_MANIFEST_DIR")).join("no such folder");
        let target = Architecture::Arm64.static_target();
        let error = ensure_std_in(&nowhere, &target).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Rust's standard library for `aarch64-unknown-linux-musl` is not installed; \
             install it with `rustup target add aarch64-unknown-linux-musl`"
        );
        // This test was built with the standard library of this machine.
        ensure_std(&Architecture::of_this_machine().unwrap().target()).unwrap();
    }
}
