//! What deploys: both functions as zips, and those run as they deploy, without an account.
//!
//! How they are built, and what is demanded of them, is in `infra/checks/package.py`; here is what that needs.

use std::process::Command;

use crate::infra::{self, status};

/// What `cargo xtask package-burst` is told.
#[derive(clap::Args)]
pub struct Burst {
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

/// Builds and checks the zips, for this machine's architecture, and unpacks them.
pub fn build() -> anyhow::Result<()> {
    let checks = infra::root()?.join("infra/checks");
    status(
        Command::new(infra::install_python("infra", "requirements.txt")?)
            .arg("package.py")
            .current_dir(checks),
    )
}

/// A burst through `local`, whose functions are what was packaged.
pub fn burst(burst: &Burst) -> anyhow::Result<()> {
    build()?;
    crate::cargo(&["build", "--release", "--package", "local"])?;
    let packaged = infra::root()?.join("target/lambda");
    status(
        Command::new(crate::target_dir().join("release/local"))
            .args(["burst", "--messages", &burst.messages.to_string()])
            .arg("--aggregator")
            .arg(packaged.join("aggregator/bootstrap"))
            .arg("--batch-processor")
            .arg(packaged.join("batch-processor/bootstrap"))
            .args(&burst.arguments),
    )
}

/// A burst through ministack, which creates the stack of the template and runs what was packaged.
pub fn ministack(ministack: &Ministack) -> anyhow::Result<()> {
    build()?;
    crate::cargo(&["build", "--release", "--package", "loadgen"])?;
    let checks = infra::root()?.join("infra/checks");
    let server = infra::install_python("ministack", "ministack-requirements.txt")?;
    status(
        Command::new(infra::install_python("infra", "requirements.txt")?)
            .arg("ministack.py")
            .arg(server)
            .arg(crate::target_dir().join("release/loadgen"))
            .arg(ministack.messages.to_string())
            .current_dir(checks),
    )
}
