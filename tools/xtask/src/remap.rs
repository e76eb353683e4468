//! Keeps the paths of this machine out of executables, so that another folder or machine builds the same bytes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::tools::{cargo, root, rustc_prints, target_dir};

/// The variable that gives rustc its flags, which may contain spaces.
pub const VARIABLE: &str = "CARGO_ENCODED_RUSTFLAGS";

/// Returns the value of [`VARIABLE`] that replaces the paths of this machine.
pub fn flags() -> anyhow::Result<String> {
    // So that the folders of all registries are there. Their names depend on where cargo downloads from.
    cargo(&["fetch", "--quiet", "--locked"])?;
    let mut flags = Vec::new();
    for (path, name) in paths()? {
        flags.push(format!("--remap-path-prefix={}={name}", path.display()));
    }
    Ok(flags.join("\u{1f}"))
}

/// Fails if an executable contains a path of this machine.
pub fn ensure_none_in(name: &str, executable: &[u8]) -> anyhow::Result<()> {
    // The name of a folder such as `/src` is part of other paths too.
    let long = |path: &Path| path.components().count() > 2;
    for (path, _) in paths()?.into_iter().filter(|(path, _)| long(path)) {
        ensure_not_in(name, executable, &path)?;
    }
    Ok(())
}

fn ensure_not_in(name: &str, executable: &[u8], path: &Path) -> anyhow::Result<()> {
    let path = path.as_os_str().as_encoded_bytes();
    let mut windows = executable.windows(path.len());
    let found = windows.position(|window| window == path);
    ensure!(
        found.is_none(),
        "`{name}`: contains a path of this machine: got `{}`, expected only paths that are the same on every machine",
        String::from_utf8_lossy(&executable[found.unwrap_or_default()..])
            .chars()
            .take_while(|letter| letter.is_ascii_graphic())
            .take(200)
            .collect::<String>()
    );
    Ok(())
}

/// Returns the folders that rustc sees, each with what replaces it. Of several that match, rustc takes the last.
fn paths() -> anyhow::Result<Vec<(PathBuf, &'static str)>> {
    let mut paths = vec![
        (cargo_home()?, "/cargo"),
        (rustc_prints(&["sysroot"])?, "/rust"),
        (root()?.to_owned(), "/source"),
        (target_dir(), "/target"),
    ];
    for registry in fs::read_dir(cargo_home()?.join("registry/src"))? {
        paths.push((registry?.path(), "/crates"));
    }
    Ok(paths)
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = env::var_os("HOME").context("`HOME` is not set, and cargo's folder is below it")?;
    Ok(Path::new(&home).join(".cargo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_with_a_path_of_this_machine_is_refused() {
        let refused = ensure_not_in("tool", b"\0/home/me/src/lib.rs\0", Path::new("/home/me"));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "`tool`: contains a path of this machine: got `/home/me/src/lib.rs`, \
             expected only paths that are the same on every machine"
        );
        ensure_not_in("tool", b"\0/source/src/lib.rs\0", Path::new("/home/me")).unwrap();
    }
}
