//! Builds both functions as zips, and runs the zips without an AWS account.
//!
//! `infra/checks/package.py` checks the zips.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::tools::{self, status};

/// The arguments of `cargo xtask package`.
#[derive(clap::Args, Default)]
pub struct Package {
    /// Cargo features of the functions in addition to the default ones, for example `s3,batch-processor/postgres`
    #[arg(long, value_name = "FEATURES")]
    features: Option<String>,
    /// Architecture of the functions, which must be that of the template's `Architecture` [default: this machine's]
    #[arg(long, value_enum, value_name = "ARCH")]
    arch: Option<Architecture>,
}

impl Package {
    /// Returns the package for this machine with the feature `s3`.
    pub fn with_s3() -> Package {
        Package::with_features("s3")
    }

    /// Returns the package for this machine with more features, separated by commas.
    pub fn with_features(features: &str) -> Package {
        Package {
            features: (!features.is_empty()).then(|| features.to_owned()),
            ..Package::default()
        }
    }

    /// Returns the package that the template deploys by default.
    ///
    /// # Errors
    /// The template has no default for `Architecture`.
    pub fn deployed() -> anyhow::Result<Package> {
        let template = tools::root()?.join("infra/sam/template.yaml");
        let text = fs::read_to_string(&template)
            .with_context(|| format!("read {}", template.display()))?;
        Ok(Package {
            arch: Some(Architecture::default_of(&text)?),
            ..Package::default()
        })
    }

    /// Returns the features of `local` that have the stand-ins for what the functions use with their extra features.
    fn local_features(&self) -> String {
        let features = self.features.as_deref().unwrap_or_default().split(',');
        let local = features.filter_map(|feature| {
            let name = feature.rsplit('/').next().unwrap_or_default().trim();
            LOCAL_FEATURES.contains(&name).then_some(name)
        });
        local.collect::<Vec<_>>().join(",")
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
    const fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// Returns Rust's name of the target.
    const fn target(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64-unknown-linux-gnu",
            Architecture::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns the flag of cargo lambda.
    const fn flag(self) -> &'static str {
        match self {
            Architecture::X86_64 => "--x86-64",
            Architecture::Arm64 => "--arm64",
        }
    }

    fn of_this_machine() -> anyhow::Result<Architecture> {
        match env::consts::ARCH {
            "x86_64" => Ok(Architecture::X86_64),
            "aarch64" => Ok(Architecture::Arm64),
            other => {
                bail!(
                    "`--arch`: not set on an unknown machine: got `{other}`, expected `x86_64` or `arm64`"
                )
            }
        }
    }

    /// Returns the default of the template's parameter `Architecture`.
    fn default_of(template: &str) -> anyhow::Result<Architecture> {
        let (_, parameter) = template
            .split_once("\n  Architecture:\n")
            .context("the template has no parameter `Architecture`")?;
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

    /// Fails if Rust's standard library for this architecture is not installed.
    fn ensure_std(self) -> anyhow::Result<()> {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc)
            .args(["--print", "target-libdir", "--target", self.target()])
            .output()
            .context("run rustc")?;
        let folder = String::from_utf8_lossy(&output.stdout);
        self.ensure_std_in(Path::new(folder.trim()))
    }

    fn ensure_std_in(self, folder: &Path) -> anyhow::Result<()> {
        let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
        ensure!(
            files.any(|file| file.file_name().to_string_lossy().starts_with("libstd-")),
            "`--arch {}`: Rust's standard library for `{target}` is not installed; \
             install it with `rustup target add {target}`",
            self.name(),
            target = self.target(),
        );
        Ok(())
    }
}

/// The arguments of `cargo xtask package-burst`.
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

/// The arguments of `cargo xtask ministack`.
#[derive(clap::Args)]
pub struct Ministack {
    /// Number of messages in the burst, including duplicates
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    messages: u64,
    /// Value of the template's parameter `Bodies`; the test fails if the bodies are not there afterwards
    #[arg(long, value_enum, default_value = "items", value_name = "PLACE")]
    bodies: Bodies,
}

/// Where bodies go, by the value of the template's parameter `Bodies`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Bodies {
    /// Each body in its lock item
    Items,
    /// Chunks in the batch table
    Table,
    /// Chunks in a bucket of the stack; the functions get the cargo feature `s3`
    S3,
}

impl Bodies {
    const fn value(self) -> &'static str {
        match self {
            Bodies::Items => "items",
            Bodies::Table => "table",
            Bodies::S3 => "s3",
        }
    }

    fn package(self) -> Package {
        match self {
            Bodies::Items | Bodies::Table => Package::default(),
            Bodies::S3 => Package::with_s3(),
        }
    }
}

/// The features of `local` that belong to features of the functions with the same names.
const LOCAL_FEATURES: [&str; 10] = [
    "eventbridge",
    "s3",
    "lambda",
    "layouts",
    "parquet",
    "states",
    "postgres",
    "sftp",
    "otel",
    "time-zones",
];

/// The functions: names of packages and of executables.
const FUNCTIONS: [&str; 2] = ["aggregator", "batch-processor"];

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
    arch.ensure_std()?;
    let python = tools::install_python("package", "package-requirements.txt")?;
    let tools = python
        .parent()
        .context("find the folder of the interpreter")?;
    // cargo-lambda links with zig, which it finds through the first Python in PATH.
    let path = tools::path_with_tools_of(&python)?;
    let mut command = Command::new(tools.join("cargo-lambda"));
    command
        .args(["lambda", "build", "--profile", "lambda", "--locked"])
        .args(["--output-format", "zip", "--lambda-dir"])
        .arg(packaged()?)
        .current_dir(tools::root()?)
        .env("PATH", path);
    for function in FUNCTIONS {
        // A zip of an earlier build must not be taken for this build's.
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
    // Without the flag, cargo lambda builds for this machine, in the same folder as other builds.
    if Some(arch) != Architecture::of_this_machine().ok() {
        command.arg(arch.flag());
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
        Command::new(tools::install_python("infra", "requirements.txt")?)
            .arg("package.py")
            .args(["--arch", package.arch()?.name()])
            // With extra features, package.py does not check the size.
            .args(&package.features)
            .current_dir(tools::root()?.join("infra/checks")),
    )
}

/// Builds `local` and `loadgen` with one command, so that no dependency is built twice with different features. `features`
/// has more flags of cargo.
pub fn build_tools(features: &[&str]) -> anyhow::Result<PathBuf> {
    let mut build = vec!["build", "--release", "--package", "local"];
    build.extend(["--package", "loadgen"].iter().chain(features));
    tools::cargo(&build)?;
    Ok(tools::target_dir().join("release"))
}

/// Returns the command `batch-local burst` with the packaged functions.
pub fn local_burst(messages: u64) -> anyhow::Result<Command> {
    local_burst_with(&[], messages)
}

/// Returns the command `batch-local burst` with the functions of a package, which must have been built.
pub fn local_burst_of_package(package: &Package, messages: u64) -> anyhow::Result<Command> {
    let features = package.local_features();
    let features: &[&str] = match features.as_str() {
        "" => &[],
        features => &["--features", features],
    };
    local_burst_with(features, messages)
}

fn local_burst_with(features: &[&str], messages: u64) -> anyhow::Result<Command> {
    let local = build_tools(features)?.join("batch-local");
    let bootstrap = |function| Ok::<_, anyhow::Error>(packaged()?.join(function).join("bootstrap"));
    let (aggregator, batch_processor) = (bootstrap("aggregator")?, bootstrap("batch-processor")?);
    Ok(burst_command(
        &local,
        messages,
        &aggregator,
        &batch_processor,
    ))
}

/// Returns the command `batch-local burst` with the given functions.
pub fn local_burst_of(
    messages: u64,
    aggregator: &Path,
    batch_processor: &Path,
) -> anyhow::Result<Command> {
    let local = build_tools(&[])?.join("batch-local");
    Ok(burst_command(&local, messages, aggregator, batch_processor))
}

fn burst_command(
    local: &Path,
    messages: u64,
    aggregator: &Path,
    batch_processor: &Path,
) -> Command {
    let mut command = Command::new(local);
    command
        .args(["burst", "--messages", &messages.to_string()])
        .arg("--aggregator")
        .arg(aggregator)
        .arg("--batch-processor")
        .arg(batch_processor);
    command
}

/// Runs a burst through `local` with the packaged functions.
pub fn burst(burst: &Burst) -> anyhow::Result<()> {
    let (arch, here) = (burst.package.arch()?, Architecture::of_this_machine()?);
    ensure!(
        arch == here,
        "`--arch`: this machine cannot run the functions: got `{}`, expected `{}`",
        arch.name(),
        here.name()
    );
    package(&burst.package)?;
    let mut command = local_burst_of_package(&burst.package, burst.messages)?;
    status(command.args(&burst.arguments))
}

/// Runs a burst through ministack, which creates the stack of the template and runs the packaged functions.
pub fn ministack(ministack: &Ministack) -> anyhow::Result<()> {
    package(&ministack.bodies.package())?;
    let checks = tools::root()?.join("infra/checks");
    let server = tools::install_python("ministack", "ministack-requirements.txt")?;
    status(
        Command::new(tools::install_python("infra", "requirements.txt")?)
            .arg("ministack.py")
            .arg(server)
            .arg(build_tools(&[])?.join("loadgen"))
            .arg(ministack.messages.to_string())
            .arg(ministack.bodies.value())
            .current_dir(checks),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_deploys_the_architecture_that_is_tested() {
        assert_eq!(Package::deployed().unwrap().arch, Some(Architecture::Arm64));
    }

    #[test]
    fn local_gets_the_stand_ins_for_the_features_of_the_functions() {
        let features = |features: &str| {
            let package = Package {
                features: Some(features.to_owned()),
                ..Package::default()
            };
            package.local_features()
        };
        assert_eq!(features("s3"), "s3");
        assert_eq!(
            features("aggregator/s3,batch-processor/lambda"),
            "s3,lambda"
        );
        assert_eq!(features("batch-processor/unknown"), "");
        assert_eq!(Package::default().local_features(), "");
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
        let error = Architecture::Arm64.ensure_std_in(&nowhere).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`--arch arm64`: Rust's standard library for `aarch64-unknown-linux-gnu` is not installed; \
             install it with `rustup target add aarch64-unknown-linux-gnu`"
        );
        // This test was built with the standard library of this machine.
        let here = Architecture::of_this_machine().unwrap();
        here.ensure_std().unwrap();
    }
}
