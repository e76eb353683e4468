//! Writes a bill of materials of each executable: one CycloneDX file, from the lock file and the features that are built.
//!
//! Cargo resolves features for the whole workspace at once, so a file may list a crate that only another executable needs. It
//! lacks none.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::Executable;
use crate::tools::{install_tool, status};

/// The version of cargo-cyclonedx to install.
const CARGO_CYCLONEDX: &str = "0.5.9";

/// Returns the bill of materials of an executable. `tree` is a copy of this repository, into which the tool writes.
pub fn of(executable: &Executable, tree: &Path, time_secs: u64) -> anyhow::Result<Vec<u8>> {
    let folder = tree.join(executable.package);
    let mut command = Command::new(install_tool("cargo-cyclonedx", CARGO_CYCLONEDX)?);
    command
        .args(["cyclonedx", "--quiet", "--format", "json"])
        .args(["--describe", "binaries", "--target", executable.target])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .args(executable.all_features.then_some("--all-features"))
        // Sets the time, and leaves out the serial number, which would be random.
        .env("SOURCE_DATE_EPOCH", time_secs.to_string());
    status(&mut command)?;
    let path = folder.join(format!("{}_bin.cdx.json", executable.name));
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(without_folder(&text, tree)?.into_bytes())
}

/// Returns the text with the paths of crates of this repository relative to it.
fn without_folder(text: &str, tree: &Path) -> anyhow::Result<String> {
    let Some(tree) = tree.to_str() else {
        bail!(
            "{}: not text: expected a folder whose name is",
            tree.display()
        );
    };
    Ok(text.replace(&format!("{tree}/"), "").replace(tree, "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_of_materials_names_no_folder_of_this_machine() {
        let text = r#""path+file:///home/me/tree/protocol#0.2.0", "file:///home/me/tree""#;
        assert_eq!(
            without_folder(text, Path::new("/home/me/tree")).unwrap(),
            r#""path+file://protocol#0.2.0", "file://.""#
        );
    }
}
