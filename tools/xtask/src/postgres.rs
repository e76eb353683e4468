//! Finds a PostgreSQL server for the tests of the sink, or unpacks Debian's packages of one into a folder that git ignores.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::debian;
use crate::tools;

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
    // Without the C library: only the machine's own works with its loader.
    let needed = |_: &str, name: &str| {
        name.starts_with("postgresql") || (name.starts_with("lib") && !name.starts_with("libc6"))
    };
    let root = debian::unpack(&["postgresql"], needed, &tools)?;
    let unpacked =
        programs_below(&root).context("find `initdb` and `postgres` in Debian's packages")?;
    fs::create_dir_all(&programs)?;
    // `PROGRAMS` has the server last, so that an interrupted installation is noticed.
    for name in PROGRAMS {
        debian::write_script(&programs.join(name), &unpacked.join(name), &root, &[])?;
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
