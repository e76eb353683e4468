//! Checks the workflows of `.github` with actionlint, which Go builds into a folder that git ignores.

use std::fs;
use std::process::Command;

use anyhow::Context;

use crate::tools::{install_python, root, status, target_dir};

/// The module of actionlint, and its version.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint";
const VERSION: &str = "v1.7.12";

/// Installs actionlint if it is not there yet, and checks every workflow.
pub fn run() -> anyhow::Result<()> {
    let tools = target_dir().join("tools");
    let tool = tools.join("bin").join(format!("actionlint-{VERSION}"));
    if !tool.is_file() {
        let go = install_python("workflows", "workflows-requirements.txt")?.with_file_name("go");
        status(
            Command::new(go)
                .arg("install")
                .arg(format!("{ACTIONLINT}@{VERSION}"))
                .env("GOBIN", tools.join("bin"))
                .env("GOPATH", tools.join("go"))
                .env("GOCACHE", tools.join("go/cache"))
                .env("GOFLAGS", "-modcacherw"),
        )?;
        fs::rename(tools.join("bin/actionlint"), &tool).context("keep actionlint")?;
        fs::remove_dir_all(tools.join("go"))?;
    }
    // Without the programs that it would use only where they are installed.
    status(
        Command::new(tool)
            .args(["-shellcheck=", "-pyflakes="])
            .current_dir(root()?),
    )
}
