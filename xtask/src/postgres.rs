//! Finds a PostgreSQL server for the tests of the sink, or unpacks Debian's packages of one into a folder that git ignores.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::{self, status};

/// Debian's folder of PostgreSQL; its subfolders are versions.
const DEBIAN: &str = "usr/lib/postgresql";
/// The programs that the tests run.
const PROGRAMS: [&str; 2] = ["initdb", "postgres"];

/// Makes sure that there is a server. Returns the directory of its programs, or `None` if the tests find them by themselves:
/// in the search path, or where Debian installs them.
pub fn install() -> anyhow::Result<Option<PathBuf>> {
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).any(|directory| has_programs(&directory))
        || programs_below(Path::new("/")).is_some()
    {
        return Ok(None);
    }
    let tools = tools::target_dir().join("tools/postgres");
    let programs = tools.join("bin");
    if has_programs(&programs) {
        return Ok(Some(programs));
    }
    // The packages are only unpacked: installing them would need root and change the machine.
    let packages = tools.join("packages");
    fs::create_dir_all(&packages)?;
    if let Err(error) = status(Command::new("apt-get").args(["-qq", "update"])) {
        eprintln!("cannot update the package lists, the existing ones are used: {error:#}");
    }
    let names = dependencies("postgresql")?;
    status(
        Command::new("apt-get")
            .args(["-qq", "download"])
            .args(&names)
            .current_dir(&packages),
    )?;
    let root = tools.join("root");
    for entry in fs::read_dir(&packages)? {
        let package = entry?.path();
        status(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(package)
                .arg(&root),
        )?;
    }
    let unpacked =
        programs_below(&root).context("find `initdb` and `postgres` in Debian's packages")?;
    let libraries = libraries_below(&root)?;
    fs::create_dir_all(&programs)?;
    // `PROGRAMS` has the server last, so that an interrupted installation is noticed.
    for name in PROGRAMS {
        let script = format!(
            "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
            libraries.join(":"),
            unpacked.join(name).display()
        );
        let path = programs.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(Some(programs))
}

fn has_programs(directory: &Path) -> bool {
    PROGRAMS.iter().all(|name| directory.join(name).is_file())
}

fn programs_below(root: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(root.join(DEBIAN)).ok()?;
    let mut directories = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    directories.find(|directory| has_programs(directory))
}

/// Returns the names of a package and its dependencies, without the C library: only the machine's own works with its loader.
fn dependencies(package: &str) -> anyhow::Result<Vec<String>> {
    let output = Command::new("apt-cache")
        .args(["depends", "--recurse", "--no-recommends", "--no-suggests"])
        .args([
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
            "--no-enhances",
        ])
        .arg(package)
        .output()
        .context(
            "run apt-cache, because the tests need a PostgreSQL server and this machine has none",
        )?;
    ensure!(
        output.status.success(),
        "apt-cache: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout)?;
    // A line that is not indented is the name of a package. `<...>` is a virtual package.
    let names = text
        .lines()
        .filter(|line| line.starts_with(|letter: char| letter.is_ascii_alphanumeric()))
        .filter(|name| {
            name.starts_with("postgresql")
                || (name.starts_with("lib") && !name.starts_with("libc6"))
        });
    Ok(names.map(str::to_owned).collect())
}

fn libraries_below(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut libraries = Vec::new();
    for directory in ["usr/lib", "lib"] {
        for entry in fs::read_dir(root.join(directory)).into_iter().flatten() {
            let path = entry?.path();
            if path.to_string_lossy().ends_with("-linux-gnu") {
                libraries.push(path.display().to_string());
            }
        }
    }
    Ok(libraries)
}
