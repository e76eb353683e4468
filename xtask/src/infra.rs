//! The checks of the templates in `infra`. What they are is in `infra/checks/main.py`; here is what they need.
//!
//! Python from 3.11 on must be there. Everything else, node included, is installed at the versions pinned in
//! `infra/checks/requirements.txt` and `infra/cdk/package-lock.json`, into folders that git ignores.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::package;
use crate::tools::{install_python, path_with_tools_of, root, status};

/// What `cargo xtask infra` is told.
#[derive(clap::Args)]
pub struct Infra {
    /// Ask the linters about every wrong template, not only where nothing else catches it; some minutes more
    #[arg(long)]
    all: bool,
    /// Build what deploys, and check the templates against it; some minutes more
    #[arg(long)]
    packages: bool,
}

/// Installs what is missing, and runs the checks.
pub fn run(arguments: &Infra) -> anyhow::Result<()> {
    let mut check = checks()?;
    status(check.args(arguments.all.then_some("--all")))?;
    if arguments.packages {
        // For the processor that the template deploys, whatever this machine has.
        package::build(&package::Package::deployed()?)?;
        status(checks()?.arg("--packages"))?;
    }
    Ok(())
}

/// Runs the checks beside other work: prints what they say at their end.
pub fn run_quietly() -> anyhow::Result<()> {
    let output = checks()?.output().context("run the checks")?;
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    ensure!(
        output.status.success(),
        "the checks of the templates failed: {}",
        output.status
    );
    Ok(())
}

/// Installs what is missing; returns the command that checks the templates.
fn checks() -> anyhow::Result<Command> {
    let python = install_python("infra", "requirements.txt")?;
    let path = path_with_tools_of(&python)?;
    install_node_packages(&root()?.join("infra/cdk"), &path)?;
    let mut command = Command::new(&python);
    command
        .arg("main.py")
        .env("PATH", &path)
        .current_dir(root()?.join("infra/checks"));
    Ok(command)
}

/// The packages of the lock file, in `node_modules`.
fn install_node_packages(cdk: &Path, path: &OsStr) -> anyhow::Result<()> {
    let installed = cdk.join("node_modules/.installed-lock.json");
    let locked = fs::read(cdk.join("package-lock.json"))?;
    if fs::read(&installed).is_ok_and(|there| there == locked) {
        return Ok(());
    }
    status(
        Command::new("npm")
            .arg("ci")
            .env("PATH", path)
            .current_dir(cdk),
    )?;
    fs::write(installed, locked)?;
    Ok(())
}
