//! Hunts the planted bugs: in a copy of this workspace, with the patches of `tests/sim/bugs`.
//!
//! `tests/sim/bugs/README.md` says how a patch is made and repaired.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::tools::{self, root, target_dir};

/// The folder of the patches.
const BUGS: &str = "tests/sim/bugs";
/// The file with a seed for each bug. A run in the copy writes it anew if [`UPDATE`] is set.
const SEEDS: &str = "tests/sim/planted_seeds.txt";
/// Has the simulation store seeds that catch the bugs.
const UPDATE: &str = "UPDATE_PLANTED_SEEDS";
/// Tells the simulation, while it is compiled, that it has the patches.
const PATCHED: &str = "SIM_PATCHED";
/// The folders of a patch: the sources before it, and with it.
const BEFORE: &str = "a";
const AFTER: &str = "b";
/// Lines of context in a patch. Few, because it must apply after changes near it.
const CONTEXT: &str = "-U2";

/// How the simulation is built.
#[derive(Clone, Copy)]
pub enum Build {
    /// With the dependencies that tests are built with: quickly built, for a few histories.
    OfTests,
    /// With all optimisations: for many histories.
    Optimised,
}

impl Build {
    /// Returns the arguments of cargo.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            // The test is built for the features of its dependencies only: without it, cargo would compile most of them again.
            Build::OfTests => &[
                "build",
                "--workspace",
                "--bin",
                "sim",
                "--test",
                "histories",
            ],
            Build::Optimised => &[
                "build",
                "--package",
                "sim",
                "--bin",
                "sim",
                "--profile",
                "simulation",
            ],
        }
    }

    pub fn executable(self) -> PathBuf {
        target_dir().join(match self {
            Build::OfTests => "debug/sim",
            Build::Optimised => "simulation/sim",
        })
    }
}

#[derive(clap::Args)]
pub struct RecordBug {
    /// The bug: the name of its patch, without `.patch`
    name: String,
}

/// Builds the copy, and hunts the bugs in it. `arguments` are those of the simulation, `--planted` among them. `cargo xtask test` does this
/// beside tests, so it takes only the time that others leave.
pub fn hunt(arguments: &[String]) -> anyhow::Result<()> {
    let folder = folder();
    let files = patch(&folder)?;
    let tree = folder.join("tree");
    // A file that is as it was keeps its time, so cargo compiles only what has changed.
    update(&tree, &folder.join(AFTER), &files)?;
    let has_ranges = arguments.iter().any(|each| each.starts_with("--ranges"));
    let updates = std::env::var_os(UPDATE).is_some();
    let build = match has_ranges || updates {
        true => Build::Optimised,
        false => Build::OfTests,
    };
    let mut cargo = tools::beside(env!("CARGO"));
    cargo
        .args(build.arguments())
        .current_dir(&tree)
        .env(PATCHED, "1")
        // It changes nothing but the names of what is built of the copy: otherwise, the next build of this workspace would take that for
        // its own.
        .env("RUSTC_WORKSPACE_WRAPPER", "env");
    // The same folder as for this workspace, because the dependencies are the same.
    tools::status(cargo.env("CARGO_TARGET_DIR", std::path::absolute(target_dir())?))?;
    let hunted = tools::status(tools::beside(build.executable()).args(arguments));
    if updates {
        fs::copy(tree.join(SEEDS), root()?.join(SEEDS))?;
    }
    hunted
}

/// Writes the patch of a bug anew: the difference between the two folders that [`hunt`] left when it stopped at this patch.
pub fn record(bug: &RecordBug) -> anyhow::Result<()> {
    let name = &bug.name;
    let folder = folder();
    let [before, after] = [BEFORE, AFTER].map(|name| folder.join(name));
    let (before, after) = (before.display(), after.display());
    ensure!(
        folder.join(BEFORE).exists(),
        "{before}: missing; run `cargo xtask sim --planted`, which makes it when it stops at the patch of `{name}`"
    );
    let path = root()?.join(BUGS).join(format!("{name}.patch"));
    let file = path.display();
    let former = fs::read_to_string(&path).with_context(|| {
        format!("read {file}; make it first, with a sentence that describes the mistake")
    })?;
    let diff = git(&folder)
        .args(["diff", "--no-index", "--no-prefix", "--no-color", CONTEXT])
        .args([BEFORE, AFTER])
        .output()
        .context("run git")?;
    let lines = String::from_utf8(diff.stdout)?;
    // The other lines of a header change with every commit.
    let is_kept = |line: &&str| !line.starts_with("diff ") && !line.starts_with("index ");
    let lines: Vec<&str> = lines.lines().filter(is_kept).collect();
    let switches: BTreeSet<&str> = lines.iter().filter_map(|line| switch_of(line)).collect();
    ensure!(
        switches == BTreeSet::from([&**name]),
        "{after}: got the switches {switches:?}, expected `planted::planted(\"{name}\")` alone, in which it differs from {before}"
    );
    let text = format!("{}\n\n{}\n", sentence(&former), lines.join("\n"));
    fs::write(&path, text)?;
    fs::remove_dir_all(folder.join(BEFORE))?;
    eprintln!("{file}: written");
    Ok(())
}

/// Returns the name of the switch that a line of a patch puts in.
fn switch_of(line: &str) -> Option<&str> {
    let (_, name) = line.strip_prefix('+')?.split_once("planted(\"")?;
    name.split('"').next()
}

/// Returns what stands before the difference in a patch.
fn sentence(patch: &str) -> &str {
    let diff = patch.find("\n--- ").unwrap_or(patch.len());
    patch[..diff].trim()
}

/// Returns the folder of the copies.
fn folder() -> PathBuf {
    target_dir().join("planted")
}

/// Copies this workspace below `folder`, and applies the patches to the copy. Returns the files that it has.
fn patch(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let [before, after] = [BEFORE, AFTER].map(|name| folder.join(name));
    tools::remove_folder(&before)?;
    tools::remove_folder(&after)?;
    let files = files()?;
    copy(&files, root()?, &after)?;
    for name in patches()? {
        let path = root()?.join(BUGS).join(&name);
        let Err(problem) = apply(&path, &after) else {
            continue;
        };
        copy(&files, &after, &before)?;
        let bug = name.trim_end_matches(".patch");
        bail!(
            "{BUGS}/{name}: does not apply: {}\nPut the bug into {}, which has the patches before this one, behind \
             `protocol::planted::planted(\"{bug}\")`; then run `cargo xtask record-bug {bug}` ({BUGS}/README.md)",
            problem.trim(),
            after.display()
        );
    }
    Ok(files)
}

/// Returns the paths of all files of this workspace, changed and new ones included, but not of those that git ignores.
fn files() -> anyhow::Result<Vec<PathBuf>> {
    let root = root()?;
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others"]);
    let list = list.arg("--exclude-standard").current_dir(root).output();
    let list = list.context("run git")?;
    ensure!(
        list.status.success(),
        "git failed: {}",
        String::from_utf8_lossy(&list.stderr)
    );
    let list = String::from_utf8(list.stdout)?;
    let files = list.split_terminator('\0').map(PathBuf::from);
    Ok(files.filter(|path| root.join(path).is_file()).collect())
}

/// Returns the file names of the patches, sorted.
fn patches() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root()?.join(BUGS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".patch") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn copy(files: &[PathBuf], from: &Path, to: &Path) -> anyhow::Result<()> {
    for path in files {
        let file = to.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from.join(path), &file).with_context(|| format!("copy {}", path.display()))?;
    }
    Ok(())
}

/// Brings `tree` to what `from` has.
fn update(tree: &Path, from: &Path, files: &[PathBuf]) -> anyhow::Result<()> {
    let is_same = |path: &Path| {
        let [there, wanted] = [tree, from].map(|folder| fs::read(folder.join(path)).ok());
        there == wanted
    };
    let changed = files.iter().filter(|path| !is_same(path));
    let changed: Vec<PathBuf> = changed.cloned().collect();
    copy(&changed, from, tree)?;
    // A file that is gone could still be a module, or a test, of its crate.
    let files = files.iter().map(PathBuf::as_path).collect();
    remove_others(tree, tree, &files)
}

/// Removes the files below `folder` that are not among `files`, which are relative to `tree`.
fn remove_others(tree: &Path, folder: &Path, files: &BTreeSet<&Path>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(tree, &path, files)?;
        } else if !files.contains(path.strip_prefix(tree)?) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Applies a patch to a folder. The error is what git says; the folder is unchanged then.
fn apply(patch: &Path, folder: &Path) -> Result<(), String> {
    // One line of context is enough, because a patch may stand beside what an earlier one changed.
    let applied = git(folder)
        .args(["apply", "-C1", "--whitespace=nowarn"])
        .arg(patch)
        .output();
    match applied {
        Ok(applied) if applied.status.success() => Ok(()),
        Ok(applied) => Err(String::from_utf8_lossy(&applied.stderr).into_owned()),
        Err(error) => Err(format!("git cannot be run: {error}")),
    }
}

/// Returns git in a folder below `target`, as if that were in no repository: otherwise it takes paths from the root of the repository.
fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder);
    git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
    let absolute = std::path::absolute(folder).ok();
    if let Some(above) = absolute.as_deref().and_then(Path::parent) {
        git.env("GIT_CEILING_DIRECTORIES", above);
    }
    git
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_says_what_is_wrong_and_puts_in_its_own_switch() {
        let names = patches().unwrap();
        assert!(names.len() > 100, "{}", names.len());
        for name in names {
            let patch = fs::read_to_string(root().unwrap().join(BUGS).join(&name)).unwrap();
            assert!(sentence(&patch).ends_with('.'), "{name}");
            let switches: BTreeSet<&str> = patch.lines().filter_map(switch_of).collect();
            let own = name.trim_end_matches(".patch");
            assert_eq!(switches, BTreeSet::from([own]), "{name}");
        }
    }

    #[test]
    fn every_patch_applies() {
        let folder = tempfile::tempdir().unwrap();
        // `cargo xtask sim --planted` says the same, and leaves the folders that `record-bug` needs.
        patch(folder.path()).unwrap();
    }

    #[test]
    fn a_copy_keeps_what_is_as_it_was_and_loses_what_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let [from, tree] = ["from", "tree"].map(|name| folder.path().join(name));
        let write = |path: &str, text: &str| {
            let path = from.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("same", "1");
        write("a/changed", "1");
        write("a/gone", "1");
        let files = ["same", "a/changed", "a/gone"].map(PathBuf::from);
        copy(&files, &from, &tree).unwrap();
        let time = |path: &str| fs::metadata(tree.join(path)).unwrap().modified().unwrap();
        let earlier = time("same");
        write("a/changed", "2");
        update(&tree, &from, &files[..2]).unwrap();
        assert_eq!(time("same"), earlier);
        assert_eq!(fs::read_to_string(tree.join("a/changed")).unwrap(), "2");
        assert!(!tree.join("a/gone").exists());
    }
}
