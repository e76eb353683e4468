//! Writes bills of materials: a CycloneDX file an executable, from the lock file.
//!
//! Cargo resolves features for the whole workspace at once. So a file lists what the executable would need with the features of
//! all others; it lacks nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::{install_tool, status};

/// The version of cargo-cyclonedx to install.
const CARGO_CYCLONEDX: &str = "0.5.9";

/// Writes the bills of materials of all executables of a workspace beside their manifests.
pub fn write_all(workspace: &Path, target: &str, time_secs: u64) -> anyhow::Result<()> {
    let mut command = Command::new(install_tool("cargo-cyclonedx", CARGO_CYCLONEDX)?);
    command
        .args(["cyclonedx", "--quiet", "--format", "json"])
        .args(["--spec-version", "1.5", "--describe", "binaries"])
        .args(["--all-features", "--target", target])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        // Sets the time, and leaves out the serial number, which would be random.
        .env("SOURCE_DATE_EPOCH", time_secs.to_string());
    status(&mut command)
}

/// Returns the bill of materials of an executable, which [`write_all`] wrote into the folder of its package.
pub fn read(workspace: &Path, folder: &str, executable: &str) -> anyhow::Result<String> {
    let bill = format!("{executable}_bin.cdx.json");
    let path = workspace.join(folder).join(bill);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    without_folder(&text, workspace)
}

/// Returns the text with the paths of crates of this repository relative to it.
fn without_folder(text: &str, workspace: &Path) -> anyhow::Result<String> {
    let folder = workspace.display().to_string();
    let text = text.replace(&format!("{folder}/"), "");
    let text = text.replace(&folder, ".");
    ensure!(
        !text.contains("serialNumber"),
        "bill of materials: got a random `serialNumber`, expected none"
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_of_materials_names_no_folder_of_this_machine() {
        let text = r#""path+file:///home/me/tree/protocol#0.2.0", "file:///home/me/tree""#;
        let text = without_folder(text, Path::new("/home/me/tree")).unwrap();
        assert_eq!(text, r#""path+file://protocol#0.2.0", "file://.""#);
    }

    #[test]
    fn a_bill_of_materials_with_a_random_number_is_refused() {
        let text = r#"{"serialNumber": "urn:uuid:0"}"#;
        assert!(without_folder(text, Path::new("/tree")).is_err());
    }
}
