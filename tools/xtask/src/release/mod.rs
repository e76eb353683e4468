//! Makes `dist`: what somebody needs to deploy and operate the service without a Rust toolchain.
//!
//! The same commit gives the same bytes in every folder and on every machine: archives have no time but the commit's, and
//! executables no path of the machine. `--check` builds it again in another folder, and compares.

mod archive;
mod publish;
mod sbom;
mod template;

use std::fs;
use std::os::unix;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use self::archive::File;
use crate::infra;
use crate::package::{self, Architecture, FUNCTIONS, Package};
use crate::remap;
use crate::tools::{remove_folder, root, status, target_dir};

#[derive(clap::Args)]
pub struct Release {
    /// Also check that the crates for others can be published under this version, and that a second build in another folder
    /// gives the same bytes; takes hours
    #[arg(long)]
    check: bool,
}

/// The programs of a release beside the functions: names of packages, their folders, and names of executables.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("batchctl", "tools/batchctl", "batchctl"),
    ("loadgen", "loadgen", "loadgen"),
    ("local", "tools/local", "batch-local"),
];

/// The file with the hashes of all others.
const SUMS: &str = "SHA256SUMS";

/// Makes `dist`.
///
/// # Errors
/// The tree has changes, a tool or a target is missing, something cannot be built, or a check fails.
pub fn run(release: &Release) -> anyhow::Result<()> {
    ensure_committed()?;
    ensure_tag(&git(&["tag", "--points-at", "HEAD", "--list", "v*"])?)?;
    build(&root()?.join("dist"))?;
    if release.check {
        publish::check_versions()?;
        publish::dry_run()?;
        build_again()?;
    }
    Ok(())
}

fn build(dist: &Path) -> anyhow::Result<()> {
    for arch in Architecture::ALL {
        package::ensure_std(&arch.target())?;
        package::ensure_std(&arch.static_target())?;
    }
    remove_folder(dist)?;
    fs::create_dir_all(dist)?;
    let time_secs = time_of_commit()?;
    let put = |name: &str, content: &[u8]| {
        fs::write(dist.join(name), content).with_context(|| format!("write `{name}`"))
    };
    for arch in Architecture::ALL {
        package::package(&Package::for_arch(arch))?;
        for function in FUNCTIONS {
            let path = package::packaged()?.join(function).join("bootstrap");
            let zip = archive::zip(vec![executable("bootstrap", &path)?])?;
            put(&format!("{function}-{}.zip", arch.name()), &zip)?;
        }
        let tools = archive::tar_gz(programs(arch)?, time_secs)?;
        put(&format!("tools-{}.tar.gz", arch.name()), &tools)?;
    }
    write_bills_of_materials(dist, time_secs)?;
    write_templates(dist)?;
    write_sums(dist)
}

/// Builds the programs, linked statically, for an architecture; returns them with the licence.
fn programs(arch: Architecture) -> anyhow::Result<Vec<File>> {
    let packages = PROGRAMS.map(|(package, ..)| package);
    package::build_static(&packages, arch)?;
    let built = target_dir().join(arch.static_target()).join("release");
    let mut files = vec![File {
        name: "LICENSE".to_owned(),
        mode: 0o644,
        content: fs::read(root()?.join("LICENSE"))?,
    }];
    for (.., name) in PROGRAMS {
        files.push(executable(name, &built.join(name))?);
    }
    Ok(files)
}

/// Reads an executable, which must name no path of this machine.
fn executable(name: &str, path: &Path) -> anyhow::Result<File> {
    let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    remap::ensure_none_in(name, &content)?;
    Ok(File {
        name: name.to_owned(),
        mode: 0o755,
        content,
    })
}

fn write_bills_of_materials(dist: &Path, time_secs: u64) -> anyhow::Result<()> {
    // The tool writes beside the manifests.
    let tree = target_dir().join("bills");
    clone_to(&tree)?;
    for arch in Architecture::ALL {
        let functions = FUNCTIONS.map(|name| (name, name));
        let programs = PROGRAMS.map(|(_, folder, name)| (folder, name));
        for (target, executables) in [
            (arch.target(), &functions[..]),
            (arch.static_target(), &programs),
        ] {
            sbom::write_all(&tree, &target, time_secs)?;
            for (folder, name) in executables {
                let bill = sbom::read(&tree, folder, name)?;
                fs::write(dist.join(format!("{name}-{}.cdx.json", arch.name())), bill)?;
            }
        }
    }
    remove_folder(&tree)
}

/// Writes the template, the CDK package, and the schema of the configuration.
fn write_templates(dist: &Path) -> anyhow::Result<()> {
    let root = root()?;
    let template = fs::read_to_string(root.join("infra/sam/template.yaml"))?;
    let derived = dist.join("template.yaml");
    fs::write(&derived, template::derive(&template)?)?;
    infra::validate(&derived)?;
    infra::pack_cdk(dist)?;
    let schema = "service.schema.json";
    fs::copy(root.join("docs").join(schema), dist.join(schema))?;
    Ok(())
}

/// Writes the hashes of all files in the format of `sha256sum`.
fn write_sums(dist: &Path) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dist)? {
        let entry = entry?;
        let hash = hex::encode(Sha256::digest(fs::read(entry.path())?));
        let name = entry.file_name();
        lines.push((name.clone(), format!("{hash}  {}\n", name.display())));
    }
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    fs::write(dist.join(SUMS), text)?;
    Ok(())
}

/// Makes the release again from a copy of this repository in another folder, and compares.
fn build_again() -> anyhow::Result<()> {
    let tree = target_dir().join("again");
    clone_to(&tree)?;
    // What was installed for the first build; the second compiles everything else anew.
    let tools = tree.join("target/tools");
    fs::create_dir_all(tree.join("target"))?;
    unix::fs::symlink(target_dir().join("tools"), tools)?;
    let mut release = Command::new(env!("CARGO"));
    release.args(["xtask", "release"]).current_dir(&tree);
    status(release.env_remove("CARGO_TARGET_DIR"))?;
    let sums = |folder: &Path| fs::read_to_string(folder.join("dist").join(SUMS));
    compare(&sums(root()?)?, &sums(&tree)?)?;
    remove_folder(&tree)
}

fn compare(first: &str, second: &str) -> anyhow::Result<()> {
    let differing: Vec<_> = first
        .lines()
        .filter(|line| !second.lines().any(|other| other == *line))
        .filter_map(|line| line.split_once("  "))
        .map(|(_, name)| name)
        .collect();
    ensure!(
        first == second,
        "two builds of one commit differ: got other bytes in {differing:?}, expected the same"
    );
    Ok(())
}

/// Fails if files differ from the commit: a release is what its tag says.
fn ensure_committed() -> anyhow::Result<()> {
    let changes = git(&["status", "--porcelain"])?;
    ensure!(
        changes.is_empty(),
        "the tree: not committed: got {} changed or new files, expected none; commit or remove\n{changes}",
        changes.lines().count()
    );
    Ok(())
}

/// Fails if the commit has a tag of another version.
fn ensure_tag(tags: &str) -> anyhow::Result<()> {
    let expected = concat!("v", env!("CARGO_PKG_VERSION"));
    ensure!(
        tags.is_empty() || tags == expected,
        "the tag of the commit: not its version: got `{tags}`, expected `{expected}` or none"
    );
    Ok(())
}

/// Returns the time of the commit in seconds since 1970.
fn time_of_commit() -> anyhow::Result<u64> {
    let time = git(&["log", "-1", "--format=%ct"])?;
    time.parse()
        .with_context(|| format!("read the time of the commit: got `{time}`"))
}

fn clone_to(folder: &Path) -> anyhow::Result<()> {
    remove_folder(folder)?;
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--local"]);
    status(clone.arg(root()?).arg(folder))
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root()?)
        .output()
        .context("run git")?;
    if !output.status.success() {
        bail!(
            "git {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_sha256sum_by_name() {
        let dist = tempfile::tempdir().unwrap();
        fs::write(dist.path().join("second"), "").unwrap();
        fs::write(dist.path().join("first"), "abc").unwrap();
        write_sums(dist.path()).unwrap();
        let sums = fs::read_to_string(dist.path().join(SUMS)).unwrap();
        // The test vectors of FIPS 180-4.
        assert_eq!(
            sums,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  first\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  second\n"
        );
    }

    #[test]
    fn each_program_is_in_its_folder() {
        for (package, folder, _) in PROGRAMS {
            let manifest = root().unwrap().join(folder).join("Cargo.toml");
            let text = fs::read_to_string(manifest).unwrap();
            assert!(text.contains(&format!("name = \"{package}\"\n")), "{text}");
        }
    }

    #[test]
    fn a_tag_of_another_version_is_refused() {
        ensure_tag("").unwrap();
        ensure_tag(&format!("v{}", env!("CARGO_PKG_VERSION"))).unwrap();
        let error = ensure_tag("v0.0.1").unwrap_err().to_string();
        assert!(error.contains("got `v0.0.1`"), "{error}");
    }

    #[test]
    fn the_cdk_package_has_the_version_of_the_crates() {
        let text = fs::read_to_string(root().unwrap().join("infra/cdk/package.json")).unwrap();
        let package: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn two_releases_that_differ_are_refused_by_the_names_of_the_files() {
        compare("1  a\n2  b\n", "1  a\n2  b\n").unwrap();
        let error = compare("1  a\n2  b\n", "1  a\n3  b\n").unwrap_err();
        let words =
            "two builds of one commit differ: got other bytes in [\"b\"], expected the same";
        assert_eq!(error.to_string(), words);
        assert!(compare("1  a\n", "1  a\n2  b\n").is_err());
    }
}
