//! Checks that ARCHITECTURE.md names every folder of the repository, and that no file is long.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::files::{read, root};

/// Folders that git ignores.
const BUILT: [&str; 3] = ["dist", "node_modules", "target"];

/// The most lines of a Rust file.
const LINES_MAX: usize = 500;

/// Returns the folders in a folder, by its path from the root.
fn folders(path: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(path)).expect("a folder can be read");
    let folders = entries.filter_map(|entry| {
        let entry = entry.expect("an entry can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = !name.starts_with('.') && !BUILT.contains(&name.as_str());
        (is_ours && entry.path().is_dir()).then_some(name)
    });
    folders.collect()
}

#[test]
fn the_map_has_every_folder() {
    let text = read("ARCHITECTURE.md");
    let (_, map) = text.split_once("\n## Folders\n").expect("the map");
    let rows = map.lines().filter_map(|line| line.strip_prefix("| [`"));
    let named = rows.filter_map(|row| row.split_once('`'));
    let named: BTreeSet<String> = named.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(folders(""), named);
    for tool in folders("tools") {
        let link = format!("[`{tool}`](tools/{tool})");
        assert!(map.contains(&link), "ARCHITECTURE.md: {link}");
    }
}

/// Adds the long Rust files below a folder, each with its number of lines.
fn add_long_files(folder: &Path, long: &mut Vec<(String, usize)>) {
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("an entry can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !BUILT.contains(&&*name) {
            add_long_files(&path, long);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let lines = fs::read_to_string(&path)
                .expect("a file can be read")
                .lines()
                .count();
            if lines > LINES_MAX {
                long.push((path.display().to_string(), lines));
            }
        }
    }
}

#[test]
fn no_file_is_long() {
    let mut long = Vec::new();
    add_long_files(&root(), &mut long);
    assert!(
        long.is_empty(),
        "expected at most {LINES_MAX} lines: got {long:?}"
    );
}
