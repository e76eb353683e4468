//! Unpacks Debian's packages into a folder that git ignores: installing them would need root and change the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::status;

/// The names of packages, each with those that it depends on.
type Dependencies = BTreeMap<String, Vec<String>>;

/// Downloads packages and what they depend on, and unpacks them into `root` in this folder; returns that. `needed` is asked for
/// each package and each of its dependencies. A package that is installed is not downloaded.
///
/// # Errors
/// This is no Debian, or a package cannot be downloaded.
pub fn unpack(
    packages: &[&str],
    needed: impl Fn(&str, &str) -> bool,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let downloads = folder.join("packages");
    fs::create_dir_all(&downloads)?;
    if let Err(error) = status(Command::new("apt-get").args(["-qq", "update"])) {
        eprintln!("cannot update the package lists, the existing ones are used: {error:#}");
    }
    let all = dependencies(packages)?;
    let names = missing(with_dependencies(packages, needed, &all))?;
    ensure!(!names.is_empty(), "{packages:?} are installed already");
    let mut download = Command::new("apt-get");
    download.args(["-qq", "download"]).args(&names);
    status(download.current_dir(&downloads))?;
    let root = folder.join("root");
    for entry in fs::read_dir(&downloads)? {
        let package = entry?.path();
        let mut extract = Command::new("dpkg-deb");
        status(extract.arg("--extract").arg(package).arg(&root))?;
    }
    fs::remove_dir_all(downloads)?;
    Ok(root)
}

/// Writes a script that runs an unpacked program with the unpacked libraries and these variables.
pub fn write_script(
    script: &Path,
    program: &Path,
    root: &Path,
    variables: &[(&str, String)],
) -> anyhow::Result<()> {
    let libraries = ("LD_LIBRARY_PATH", libraries_below(root)?.join(":"));
    let variables = variables.iter().chain([&libraries]);
    let variables = variables.map(|(name, value)| format!("{name}='{value}' "));
    let (variables, program) = (String::from_iter(variables), program.display());
    let text = format!("#!/bin/sh\n{variables}exec '{program}' \"$@\"\n");
    fs::write(script, text)?;
    fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Returns the dependencies of packages, and those of each of them.
fn dependencies(packages: &[&str]) -> anyhow::Result<Dependencies> {
    let output = Command::new("apt-cache")
        .args(["depends", "--recurse", "--no-recommends", "--no-suggests"])
        .args(["--no-conflicts", "--no-breaks"])
        .args(["--no-replaces", "--no-enhances"])
        .args(packages)
        .output()
        .with_context(|| format!("run apt-cache, because this machine lacks {packages:?}"))?;
    ensure!(
        output.status.success(),
        "apt-cache: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(parse_dependencies(&String::from_utf8(output.stdout)?))
}

/// Reads the output of `apt-cache depends`. A line that is not indented is the name of a package; `<...>` is a virtual one.
fn parse_dependencies(text: &str) -> Dependencies {
    let mut all = Dependencies::new();
    let mut package = String::new();
    for line in text.lines() {
        if !line.starts_with([' ', '|']) {
            package = line.to_owned();
            all.entry(package.clone()).or_default();
        } else if let Some((_, name)) = line.split_once("Depends: ") {
            let dependencies = all.entry(package.clone()).or_default();
            dependencies.push(name.to_owned());
        }
    }
    all.retain(|name, _| name.starts_with(|letter: char| letter.is_ascii_alphanumeric()));
    all
}

/// Returns packages with those of their dependencies that are needed, and so on.
fn with_dependencies(
    packages: &[&str],
    needed: impl Fn(&str, &str) -> bool,
    all: &Dependencies,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = packages.to_vec();
    while let Some(name) = next.pop() {
        let Some(dependencies) = all.get(name) else {
            continue;
        };
        if found.insert(name.to_owned()) {
            let dependencies = dependencies.iter().map(String::as_str);
            next.extend(dependencies.filter(|dependency| needed(name, dependency)));
        }
    }
    found
}

/// Returns the packages that are not installed. The archive may no longer have the version of one that is.
fn missing(mut packages: BTreeSet<String>) -> anyhow::Result<BTreeSet<String>> {
    // The status is of no use: it tells whether all packages are known.
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat"])
        .arg("${db:Status-Status} ${Package}\\n")
        .args(&packages)
        .output()
        .context("run dpkg-query")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines();
    for name in lines.filter_map(|line| line.strip_prefix("installed ")) {
        packages.remove(name);
    }
    Ok(packages)
}

/// Returns the folders with libraries. A package may have a folder of its own below the common one.
fn libraries_below(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut libraries = Vec::new();
    for directory in ["usr/lib", "lib"] {
        for path in folders(&root.join(directory))? {
            if path.to_string_lossy().ends_with("-linux-gnu") {
                libraries.push(path.display().to_string());
                let below = folders(&path)?.into_iter();
                libraries.extend(below.map(|path| path.display().to_string()));
            }
        }
    }
    Ok(libraries)
}

/// Returns the folders in a folder; none if it does not exist.
fn folders(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_dependencies_are_followed_and_others_are_not() {
        let all = parse_dependencies(
            "browser\n  Depends: libone\n |Depends: tools\n  PreDepends: libc6\nlibone\n  Depends: libtwo\n  Depends: <virtual>\n\
             tools\n  Depends: libthree\n<virtual>\n  libreal\nlibtwo\nlibthree\nlibc6\n",
        );
        let needed = |_: &str, name: &str| name.starts_with("lib") && name != "libc6";
        let found = with_dependencies(&["browser"], needed, &all);
        assert_eq!(Vec::from_iter(found), ["browser", "libone", "libtwo"]);
    }
}
