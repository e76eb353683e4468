//! Builds the two functions of a former revision of this repository.
//!
//! The revision is checked out as a git worktree below `target`, where it is also built, so nothing of the present tree
//! changes and a second run builds nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::{root, run_cargo, status, target_dir};

/// The revision of the last release, 0.2.0. Set this, and record fixtures, when a release is made: see CONTRIBUTING.md.
pub const LAST_RELEASE: &str = "610bed74ba9d";

/// Settings of a profile that builds in a few minutes. The functions only run for tests, and what they compute does not
/// depend on it.
const QUICK_PROFILE: [&str; 4] = [
    r#"profile.former.inherits="release""#,
    "profile.former.opt-level=1",
    "profile.former.debug=false",
    r#"profile.former.package."*".opt-level=0"#,
];

/// The executables of a former revision.
pub struct Former {
    /// The version in its manifest, such as `0.1.0`.
    pub version: String,
    pub aggregator: PathBuf,
    pub batch_processor: PathBuf,
}

/// Builds the functions of a revision; returns where they are.
pub fn build(revision: &str) -> anyhow::Result<Former> {
    let commit = commit(revision)?;
    let folder = target_dir().join("former").join(&commit[..12]);
    let tree = folder.join("tree");
    if !tree.join("Cargo.toml").is_file() {
        check_out(&tree, &commit)?;
    }
    let target = folder.join("target");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "--profile", "former"]);
    for setting in QUICK_PROFILE {
        build.args(["--config", setting]);
    }
    build.args(["--package", "aggregator", "--package", "batch-processor"]);
    // Fixtures are delivered to the sink `s3:`, whose fingerprint names no directory of this machine. Up to 0.2.0, a build had it
    // only with these features.
    let manifest = fs::read_to_string(tree.join("aggregator/Cargo.toml"))?;
    if manifest.contains("\ns3 = ") {
        build.args(["--features", "aggregator/s3,batch-processor/s3"]);
    }
    build.env("CARGO_TARGET_DIR", &target).current_dir(&tree);
    run_cargo(&mut build)?;
    let built = |name| target.join("former").join(name);
    Ok(Former {
        version: version(&tree)?,
        aggregator: built("aggregator"),
        batch_processor: built("batch-processor"),
    })
}

/// Returns the full hash of a revision.
fn commit(revision: &str) -> anyhow::Result<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet"])
        .arg(format!("{revision}^{{commit}}"))
        .current_dir(root()?)
        .output()
        .context("run git")?;
    ensure!(
        output.status.success(),
        "`--from`: no such revision: got `{revision}`, expected a commit of this repository; a shallow clone lacks former ones"
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn check_out(tree: &Path, commit: &str) -> anyhow::Result<()> {
    let root = root()?;
    // Forgets a worktree whose folder somebody removed, for example with the whole of `target`.
    let mut prune = Command::new("git");
    status(prune.args(["worktree", "prune"]).current_dir(root))?;
    let mut add = Command::new("git");
    add.args(["worktree", "add", "--detach", "--force"]);
    status(add.arg(tree).arg(commit).current_dir(root))
}

/// Returns the version in the manifest of a workspace.
fn version(tree: &Path) -> anyhow::Result<String> {
    let manifest = tree.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    version_in(&text).with_context(|| format!("`{}` has no version", manifest.display()))
}

fn version_in(manifest: &str) -> Option<String> {
    let (_, package) = manifest.split_once("[workspace.package]")?;
    let mut lines = package.lines();
    let line = lines.find(|line| line.starts_with("version"))?;
    Some(line.split('"').nth(1)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_workspace() {
        let manifest =
            "[workspace]\nversion = \"9\"\n[workspace.package]\nversion = \"0.1.0\"\n[x]\n";
        assert_eq!(version_in(manifest).as_deref(), Some("0.1.0"));
        assert_eq!(version_in("[workspace]\n"), None);
        assert_eq!(version(root().unwrap()).unwrap(), env!("CARGO_PKG_VERSION"));
    }
}
