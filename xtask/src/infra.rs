//! The checks of the templates in `infra`. What they are is in `infra/checks/main.py`; here is what they need.
//!
//! Python 3.11 and node 20 must be there. Everything else is installed at the versions pinned in
//! `infra/checks/requirements.txt` and `infra/cdk/package-lock.json`, into folders that git ignores.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

/// What `cargo xtask infra` is told.
#[derive(clap::Args)]
pub struct Infra {
    /// Ask the linters about every wrong template, not only where nothing else catches it; some minutes more
    #[arg(long)]
    all: bool,
}

/// Installs what is missing, and runs every check.
pub fn run(arguments: &Infra) -> anyhow::Result<()> {
    let infra = root()?.join("infra");
    let started = Instant::now();
    let python = install_python("infra", "requirements.txt")?;
    eprintln!("tools of Python: {} s", started.elapsed().as_secs());
    let started = Instant::now();
    install_node(&infra.join("cdk"))?;
    eprintln!("tools of node: {} s", started.elapsed().as_secs());
    status(
        Command::new(python)
            .arg("main.py")
            .args(arguments.all.then_some("--all"))
            .current_dir(infra.join("checks")),
    )
}

/// The folder of the workspace.
pub fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask is a folder of the workspace")
}

/// A virtualenv of this name with exactly what a file of `infra/checks` requires; answers its interpreter.
pub fn install_python(name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let requirements = &root()?.join("infra/checks").join(requirements);
    let environment = crate::target_dir().join("tools").join(name);
    let python = environment.join("bin/python");
    let installed = environment.join("requirements.txt");
    let required = fs::read(requirements)?;
    if fs::read(&installed).is_ok_and(|there| there == required) {
        return Ok(python);
    }
    status(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment),
    )?;
    status(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(["--disable-pip-version-check", "--requirement"])
            .arg(requirements),
    )?;
    // Last, so that an installation that was cut short is made again.
    fs::write(installed, required)?;
    Ok(python)
}

/// The packages of the lock file, in `node_modules`.
fn install_node(cdk: &Path) -> anyhow::Result<()> {
    let installed = cdk.join("node_modules/.installed-lock.json");
    let locked = fs::read(cdk.join("package-lock.json"))?;
    if fs::read(&installed).is_ok_and(|there| there == locked) {
        return Ok(());
    }
    status(Command::new("npm").arg("ci").current_dir(cdk))?;
    fs::write(installed, locked)?;
    Ok(())
}

/// Runs a tool, which must succeed.
pub fn status(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("> {command:?}");
    let status = command
        .status()
        .with_context(|| format!("run {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
