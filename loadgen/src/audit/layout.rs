//! Finds the files of a directory tree: parts, `<batchId>/<part>.<ext>` at any depth, with parts numbered from 0; their
//! reject lists, `<part>.rejects`; and their manifests, `<part>.manifest.json`.
//!
//! Hidden files and files whose names end in `.tmp` are unfinished writes and are ignored. Every other file is a stray,
//! which the audit reports.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::AuditError;
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
    let mut paths = read().map_err(|source| AuditError::Read {
        path: dir.to_owned(),
        source,
    })?;
    paths.retain(|path| {
        let name = path
            .file_name()
            .map(|name| name.as_encoded_bytes())
            .unwrap_or_default();
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

/// Returns the parts, reject lists and manifests in one directory.
pub(super) fn batch(dir: &Path, strays: &mut Vec<PathBuf>) -> Result<Batch, AuditError> {
    let id = dir
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (mut parts, mut rejects) = (Vec::new(), Vec::new());
    let mut manifests = BTreeMap::new();
    for path in entries(dir)?.into_iter().filter(|path| !path.is_dir()) {
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
        id,
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
        let inner = batch(&nested, &mut strays).unwrap();
        assert_eq!((&*inner.id, inner.parts.len()), ("nested", 1));
        let batch = batch(&dirs[0], &mut strays).unwrap();
        assert_eq!(batch.id, "b1");
        assert_eq!(
            batch
                .parts
                .iter()
                .map(|(part, _)| *part)
                .collect::<Vec<_>>(),
            [9, 10]
        );
        assert_eq!(batch.rejects, [(9, batch_dir.join("9.rejects"))]);
        let manifest = (9, batch_dir.join("9.manifest.json"));
        assert_eq!(batch.manifests, BTreeMap::from([manifest]));
        let names: Vec<_> = strays
            .iter()
            .map(|path| path.file_name().unwrap())
            .collect();
        assert_eq!(names, ["notes.txt", "13", "x.jsonl", "x.manifest.json"]);
    }
}
