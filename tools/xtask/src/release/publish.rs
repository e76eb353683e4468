//! Checks the crates that others use: they can be published, and their version says what changed for their users.

use std::process::Command;

use anyhow::Context;

use crate::tools::{cargo, install_tool, root, status};

/// The version of cargo-semver-checks to install.
const CARGO_SEMVER_CHECKS: &str = "0.51.0";

/// The crates that others use, with what they depend on.
const CRATES: [&str; 10] = [
    "unique-event-protocol",
    "unique-event-shared",
    "unique-event-aws",
    "unique-event-forms",
    "sinks",
    "batch-processor",
    "emulators",
    "unique-event-planner",
    "unique-event-stack",
    "loadgen",
];

/// Packs each crate as for crates.io, builds what was packed, and uploads nothing.
pub fn dry_run() -> anyhow::Result<()> {
    cargo(&[&["publish", "--dry-run", "--locked"][..], &packages()].concat())
}

/// Compares the interfaces of the crates with those of the last release. There must be one.
pub fn check_versions() -> anyhow::Result<()> {
    let Some(tag) = last_tag()? else {
        eprintln!(
            "versions of crates: not checked: got no tag `v*` before this commit, expected the last release's"
        );
        return Ok(());
    };
    let mut command = Command::new(install_tool("cargo-semver-checks", CARGO_SEMVER_CHECKS)?);
    command.args(["semver-checks", "--baseline-rev", &tag]);
    status(command.args(packages()).current_dir(root()?))
}

fn packages() -> Vec<&'static str> {
    let crates = CRATES.into_iter();
    crates.flat_map(|name| ["--package", name]).collect()
}

/// Returns the last tag `v*` before the commit that is checked out, which may be tagged itself.
fn last_tag() -> anyhow::Result<Option<String>> {
    let output = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"])
        .current_dir(root()?)
        .output()
        .context("run git")?;
    let tag = String::from_utf8(output.stdout)?.trim().to_owned();
    Ok((output.status.success() && !tag.is_empty()).then_some(tag))
}
