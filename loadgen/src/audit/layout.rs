//! Finds the files of a directory tree: parts, `<batchId>/<part>.<ext>` at any depth, with parts numbered from 0; their
//! reject lists, `<part>.rejects`; and their manifests, `<part>.manifest.json`. With `SINK_PATH` a part is elsewhere, at the path
//! that its manifest names.
//!
//! Hidden files and files whose names end in `.tmp` are unfinished writes and are ignored. Every other file is a stray,
//! which the audit reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::AuditError;
use super::manifest;
use crate::part_name::{self, MANIFEST, REJECTS};

/// A directory of delivered parts.
pub(super) struct Batch {
    /// The batch id, which is the name of the directory.
    pub id: String,
    /// The number and the file of each part, sorted by number.
    pub parts: Vec<(u64, PathBuf)>,
    /// The part number and the file of each reject list, sorted by number.
    pub rejects: Vec<(u64, PathBuf)>,
    /// The manifests: part number to file.
    pub manifests: BTreeMap<u64, PathBuf>,
}

/// Returns the paths in one directory, sorted, without unfinished writes.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let read = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
    };
    let mut paths = read().map_err(|source| AuditError::read(dir, source))?;
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        !name.starts_with(b".") && !name.ends_with(b".tmp")
    });
    paths.sort();
    Ok(paths)
}

/// Returns all directories below `dir`, sorted by name, each before its own subdirectories. Files
/// directly in `dir` are strays.
pub(super) fn batch_dirs(
    dir: &Path,
    strays: &mut Vec<PathBuf>,
) -> Result<Vec<PathBuf>, AuditError> {
    let (dirs, files): (Vec<_>, Vec<_>) = entries(dir)?.into_iter().partition(|path| path.is_dir());
    strays.extend(files);
    let mut found = Vec::new();
    for dir in dirs {
        add_tree(dir, &mut found)?;
    }
    Ok(found)
}

/// Adds a directory and all directories below it.
fn add_tree(dir: PathBuf, found: &mut Vec<PathBuf>) -> Result<(), AuditError> {
    let inside = entries(&dir)?;
    found.push(dir);
    for dir in inside.into_iter().filter(|path| path.is_dir()) {
        add_tree(dir, found)?;
    }
    Ok(())
}

/// The parts that are not beside their manifests.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// The number and the file of each part, by the directory of its manifest.
    parts: BTreeMap<PathBuf, Vec<(u64, PathBuf)>>,
    files: BTreeSet<PathBuf>,
}

impl Elsewhere {
    /// Reads the manifests in `dirs`, which are below `root`, and finds the files that they name. A file that several manifests
    /// name is the part of the first of them.
    pub(super) fn find(root: &Path, dirs: &[PathBuf]) -> Result<Elsewhere, AuditError> {
        let mut elsewhere = Elsewhere::default();
        for dir in dirs {
            for path in entries(dir)? {
                let name = path.file_name().and_then(|name| name.to_str());
                let Some((part, MANIFEST)) = name.and_then(part_name::split) else {
                    continue;
                };
                let text = fs::read(&path).map_err(|source| AuditError::Read { path, source })?;
                let named = manifest::key(&text).and_then(|key| file_named(root, &key));
                let Some(file) = named.filter(|file| !is_beside(dir, part, file)) else {
                    continue;
                };
                if elsewhere.files.insert(file.clone()) {
                    let parts = elsewhere.parts.entry(dir.clone()).or_default();
                    parts.push((part, file));
                }
            }
        }
        Ok(elsewhere)
    }

    /// Returns whether a file is a part that its manifest names.
    pub(super) fn contains(&self, file: &Path) -> bool {
        self.files.contains(file)
    }
}

/// Returns the file that a manifest names, if it is there. The key of an object may begin with a prefix that is above `root`, so
/// steps are left out at the beginning until there is a file.
fn file_named(root: &Path, key: &str) -> Option<PathBuf> {
    let steps: Vec<&str> = key.split('/').collect();
    if steps.iter().any(|step| ["", ".", ".."].contains(step)) {
        return None;
    }
    (0..steps.len())
        .map(|first| root.join(steps[first..].join("/")))
        .find(|file| file.is_file())
}

/// Returns whether a file is where a part is without `SINK_PATH`, so that its name says which part it is.
fn is_beside(dir: &Path, part: u64, file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    let of_part = name.and_then(part_name::split);
    file.parent() == Some(dir)
        && of_part.is_some_and(|(number, end)| number == part && !end.is_empty())
}

/// Returns the parts, reject lists and manifests of one directory, with the parts that its manifests name elsewhere.
pub(super) fn batch(
    dir: &Path,
    elsewhere: &Elsewhere,
    strays: &mut Vec<PathBuf>,
) -> Result<Batch, AuditError> {
    let id = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut parts = elsewhere.parts.get(dir).cloned().unwrap_or_default();
    let mut rejects = Vec::new();
    let mut manifests = BTreeMap::new();
    let paths = entries(dir)?.into_iter();
    for path in paths.filter(|path| !elsewhere.contains(path) && !path.is_dir()) {
        let name = path.file_name().and_then(|name| name.to_str());
        let (list, part) = match name.and_then(part_name::split) {
            Some((part, MANIFEST)) => {
                manifests.insert(part, path);
                continue;
            }
            Some((part, REJECTS)) => (&mut rejects, part),
            Some((part, extension)) if !extension.is_empty() => (&mut parts, part),
            Some(_) | None => {
                strays.push(path);
                continue;
            }
        };
        list.push((part, path));
    }
    parts.sort();
    rejects.sort();
    Ok(Batch {
        id: id.into_owned(),
        parts,
        rejects,
        manifests,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_numeric_order_and_other_files_are_strays() {
        let dir = tempfile::tempdir().unwrap();
        let batch_dir = dir.path().join("b1");
        let nested = batch_dir.join("nested");
        fs::create_dir_all(&nested).unwrap();
        for name in [
            "10.jsonl",
            "9.jsonl.gz",
            "9.rejects",
            "9.manifest.json",
            ".11.jsonl",
            "12.jsonl.tmp",
            "x.jsonl",
            "13",
            "x.manifest.json",
            "nested/7.csv",
        ] {
            fs::write(batch_dir.join(name), "").unwrap();
        }
        fs::write(dir.path().join("notes.txt"), "").unwrap();
        fs::create_dir(dir.path().join(".hidden")).unwrap();

        let mut strays = Vec::new();
        let dirs = batch_dirs(dir.path(), &mut strays).unwrap();
        assert_eq!(dirs, [batch_dir.as_path(), nested.as_path()]);
        let none = Elsewhere::find(dir.path(), &dirs).unwrap();
        let inner = batch(&nested, &none, &mut strays).unwrap();
        assert_eq!((&*inner.id, inner.parts.len()), ("nested", 1));
        let batch = batch(&dirs[0], &none, &mut strays).unwrap();
        assert_eq!(batch.id, "b1");
        assert!(batch.parts.iter().map(|(part, _)| *part).eq([9, 10]));
        assert_eq!(batch.rejects, [(9, batch_dir.join("9.rejects"))]);
        let manifest = (9, batch_dir.join("9.manifest.json"));
        assert_eq!(batch.manifests, BTreeMap::from([manifest]));
        let names = strays.iter().map(|path| path.file_name().unwrap());
        let names: Vec<_> = names.collect();
        assert_eq!(names, ["notes.txt", "13", "x.jsonl", "x.manifest.json"]);
    }

    #[test]
    fn a_part_is_where_its_manifest_says_and_a_file_is_one_part_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // Names that look like those of parts of other batches, and one directly in the root.
        for file in ["2026/11/7.txt", "2026/11/8.txt", "ORDERS.txt"] {
            write(file, "");
        }
        for (manifest, key) in [
            ("b1/0.manifest.json", "2026/11/7.txt"),
            ("b1/1.manifest.json", "out/ORDERS.txt"),
            ("b2/0.manifest.json", "out/b2/0.jsonl"),
            ("b3/0.manifest.json", "2026/11/7.txt"),
            ("b4/0.manifest.json", "../2026/11/8.txt"),
        ] {
            write(manifest, &format!(r#"{{"key":"{key}"}}"#));
        }
        write("b2/0.jsonl", "");
        let mut strays = Vec::new();
        let dirs = batch_dirs(root, &mut strays).unwrap();
        let elsewhere = Elsewhere::find(root, &dirs).unwrap();
        assert_eq!(strays, [root.join("ORDERS.txt")]);
        assert!(elsewhere.contains(&strays[0]));
        let parts = |name: &str| {
            let found = batch(&root.join(name), &elsewhere, &mut Vec::new()).unwrap();
            found.parts
        };
        let [first, second] = ["2026/11/7.txt", "ORDERS.txt"].map(|file| root.join(file));
        assert_eq!(parts("b1"), [(0, first), (1, second)]);
        assert_eq!(parts("b2"), [(0, root.join("b2/0.jsonl"))]);
        assert_eq!(parts("b3"), []);
        assert_eq!(parts("b4"), []);
        assert_eq!(parts("2026/11"), [(8, root.join("2026/11/8.txt"))]);
    }
}
