//! Runs the checks of the templates in `infra`, which are in `infra/checks/main.py`, and packs the CDK construct.
//!
//! The machine must have Python 3.11 or later. This module installs everything else, including node, into folders that git
//! ignores, at the versions pinned in `infra/checks/requirements.txt` and `infra/cdk/package-lock.json`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::package;
use crate::tools::{install_python, path_with_tools_of, root, status};

#[derive(clap::Args)]
pub struct Infra {
    /// Run the linters on every wrong template, not only on those that no other check catches; takes some minutes more
    #[arg(long)]
    all: bool,
    /// Plant one wrong template for each check, as `cargo xtask test` does
    #[arg(long, conflicts_with = "all")]
    few: bool,
    /// Build the zips, and check the templates against them; takes some minutes more
    #[arg(long)]
    packages: bool,
}

/// Installs missing tools, and runs the checks.
pub fn run(arguments: &Infra) -> anyhow::Result<()> {
    let mut check = checks()?;
    check.args(arguments.all.then_some("--all"));
    status(check.args(arguments.few.then_some("--few")))?;
    if arguments.packages {
        // For the architecture in the template, which may differ from this machine's.
        package::build(&package::Package::deployed()?)?;
        status(checks()?.arg("--packages"))?;
    }
    Ok(())
}

/// Runs the checks in the background, and prints their output when they end. Plants one wrong template for each check, or with
/// `all` every wrong template.
pub fn run_quietly(all: bool) -> anyhow::Result<()> {
    let mut checks = checks()?;
    let output = checks.args((!all).then_some("--few")).output();
    let output = output.context("run the checks")?;
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    ensure!(
        output.status.success(),
        "the checks of the templates failed: {}",
        output.status
    );
    Ok(())
}

/// Installs missing tools, and the packages of node; returns the interpreter of Python and the search path.
///
/// Of the packages, `tests/e2e/console.rs` uses `axe-core`.
pub fn install() -> anyhow::Result<(PathBuf, OsString)> {
    let python = install_python("infra", "infra/checks/requirements.txt")?;
    let path = path_with_tools_of(&python)?;
    install_node_packages(&root()?.join("infra/cdk"), &path)?;
    Ok((python, path))
}

/// Returns the command that checks the templates.
fn checks() -> anyhow::Result<Command> {
    let (python, path) = install()?;
    let mut command = Command::new(&python);
    command.arg("main.py").env("PATH", &path);
    command.current_dir(root()?.join("infra/checks"));
    Ok(command)
}

/// Checks the template of a release as CloudFormation gets it.
pub fn validate(template: &Path) -> anyhow::Result<()> {
    status(checks()?.arg("--release").arg(template))
}

/// Writes the CDK package into a folder, as npm would publish it.
pub fn pack_cdk(folder: &Path) -> anyhow::Result<()> {
    let path = path_with_tools_of(&install_python("infra", "infra/checks/requirements.txt")?)?;
    let cdk = root()?.join("infra/cdk");
    install_node_packages(&cdk, &path)?;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--quiet", "--pack-destination"]);
    status(pack.arg(folder).env("PATH", &path).current_dir(cdk))
}

/// Installs the packages of the lock file into `node_modules`.
fn install_node_packages(cdk: &Path, path: &OsStr) -> anyhow::Result<()> {
    let installed = cdk.join("node_modules/.installed-lock.json");
    let locked = fs::read(cdk.join("package-lock.json"))?;
    if fs::read(&installed).is_ok_and(|installed| installed == locked) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    status(install.arg("ci").env("PATH", path).current_dir(cdk))?;
    fs::write(installed, locked)?;
    Ok(())
}
