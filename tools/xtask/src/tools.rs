//! Runs cargo and other tools, and installs tools into folders that git ignores.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Returns the folder of the workspace.
pub fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .context("find the folder of the workspace above `tools/xtask`")
}

/// Installs the requirements in a file of the workspace into a virtualenv of this name; returns its interpreter.
pub fn install_python(name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let requirements = &root()?.join(requirements);
    let environment = target_dir().join("tools").join(name);
    let python = environment.join("bin/python");
    let installed = environment.join("requirements.txt");
    let required = fs::read(requirements)?;
    if fs::read(&installed).is_ok_and(|installed| installed == required) {
        return Ok(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&environment);
    status(&mut make)
        .context("make a virtualenv, which needs Python 3.11 or later with its module `venv`")?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet"]);
    install.args(["--disable-pip-version-check", "--requirement"]);
    status(install.arg(requirements))?;
    // Written last, so that an interrupted installation is repeated.
    fs::write(installed, required)?;
    Ok(python)
}

/// Returns the search path with the programs of a virtualenv, such as node, first.
pub fn path_with_tools_of(python: &Path) -> anyhow::Result<OsString> {
    let tools = python.parent().map(Path::to_owned);
    let others = env::var_os("PATH").unwrap_or_default();
    let all = tools.into_iter().chain(env::split_paths(&others));
    Ok(env::join_paths(all)?)
}

/// Runs a tool; fails if the tool does.
pub fn status(command: &mut Command) -> anyhow::Result<()> {
    let line = format!("{command:?}");
    eprintln!("> {line}");
    hide_xtask(command);
    let status = command.status();
    let status = status.with_context(|| format!("run {:?}", command.get_program()))?;
    ensure!(status.success(), "{line} failed: {status}");
    Ok(())
}

/// Returns a command that runs a program at the lowest priority, in the time that tests spend waiting.
pub fn beside(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program);
    command
}

/// Removes the variables in which `cargo run` describes this program. The build script of `ring` watches them, so with them cargo
/// would compile it, and all that depends on it, anew.
fn hide_xtask(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Installs a cargo tool into a folder that git ignores, if it is not there yet; returns its path.
pub fn install_tool(name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let tools = target_dir().join("tools");
    let tool = tools.join("bin").join(name);
    if !tool.exists() {
        let mut command = Command::new(env!("CARGO"));
        command.args(["install", name, "--locked", "--version", version, "--root"]);
        status(command.arg(&tools))?;
    }
    Ok(tool)
}

/// Removes a folder, if it is there.
pub fn remove_folder(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

pub fn target_dir() -> PathBuf {
    let of_workspace = || root().unwrap_or(Path::new(".")).join("target");
    env::var_os("CARGO_TARGET_DIR").map_or_else(of_workspace, PathBuf::from)
}

pub fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    run_cargo(Command::new(env!("CARGO")).args(arguments))
}

/// Returns the folder that `rustc --print` names.
pub fn rustc_prints(arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("--print")
        .args(arguments)
        .output()
        .context("run rustc")?;
    ensure!(output.status.success(), "rustc failed: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

/// Returns the variables with which cargo lints the members of the workspace while it compiles them; a warning is an error.
///
/// `cargo clippy` runs `cargo check` with the same two. A build with them compiles each dependency once, where `cargo clippy` and a
/// build analyse each of them twice.
pub fn lints() -> anyhow::Result<[(&'static str, OsString); 2]> {
    let driver = rustc_prints(&["sysroot"])?.join("bin/clippy-driver");
    ensure!(
        driver.exists(),
        "clippy is not installed: {} does not exist; install it with `rustup component add clippy`",
        driver.display()
    );
    Ok([
        ("RUSTC_WORKSPACE_WRAPPER", driver.into()),
        // cargo-clippy ends each of its arguments with this word.
        ("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__".into()),
    ])
}

pub fn run_cargo(command: &mut Command) -> anyhow::Result<()> {
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let line = format!("cargo {}", arguments.join(" "));
    eprintln!("> {line}");
    hide_xtask(command);
    let status = command.status().context("run cargo")?;
    ensure!(status.success(), "{line} failed: {status}");
    Ok(())
}
