//! The checks of the templates in `infra`. What they are is in `infra/checks/main.py`; here is what they need.
//!
//! Python from 3.11 on must be there. Everything else, node included, is installed at the versions pinned in
//! `infra/checks/requirements.txt` and `infra/cdk/package-lock.json`, into folders that git ignores.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::anyhow;

use crate::package;
use crate::tools::{install_python, path_with_tools_of, root, status};

/// What `cargo xtask infra` is told.
#[derive(clap::Args, Default)]
pub struct Infra {
    /// Ask the linters about every wrong template, not only where nothing else catches it; some minutes more
    #[arg(long)]
    all: bool,
}

/// Installs what is missing, and runs every check, those of the packages when they are built.
pub fn run(arguments: &Infra) -> anyhow::Result<()> {
    let checks = root()?.join("infra/checks");
    let started = Instant::now();
    let say = |what: &str| eprintln!("{what} after {} s", started.elapsed().as_secs());
    thread::scope(|scope| {
        // The build is the longest by far: the other checks are done while it is under way. For the processor that the
        // template deploys, whatever this machine has.
        let build = scope
            .spawn(|| package::build(&package::Package::deployed()?).inspect(|()| say("packages")));
        let python = install_python("infra", "requirements.txt")?;
        say("tools of Python");
        let path = path_with_tools_of(&python)?;
        install_node_packages(&root()?.join("infra/cdk"), &path)?;
        say("packages of node");
        let check = |flag: Option<&str>| {
            status(
                Command::new(&python)
                    .arg("main.py")
                    .args(flag)
                    .env("PATH", &path)
                    .current_dir(&checks),
            )
        };
        let checked = check(arguments.all.then_some("--all"));
        build.join().map_err(|_| anyhow!("the build panicked"))??;
        check(Some("--packages")).and(checked)
    })
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
