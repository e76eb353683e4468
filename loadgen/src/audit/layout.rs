//! Which files of a directory are parts: `<batchId>/<part>.<ext>`, parts numbered from 0.
//!
//! Hidden names and names ending in `.tmp` are writes that were not finished, by anyone's
//! reckoning; they are passed over. Anything else that is not a part is reported as a stray.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::AuditError;

/// A directory of delivered parts.
pub(super) struct Batch {
    /// The directory's name.
    pub id: String,
    /// Part numbers and their files, in order.
    pub parts: Vec<(u64, PathBuf)>,
}

/// Names of one directory, sorted, less what was not finished.
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

/// The directories that may hold batches, in order of their names; files beside them are strays.
pub(super) fn batch_dirs(
    dir: &Path,
    strays: &mut Vec<PathBuf>,
) -> Result<Vec<PathBuf>, AuditError> {
    let (dirs, files): (Vec<_>, Vec<_>) = entries(dir)?.into_iter().partition(|path| path.is_dir());
    strays.extend(files);
    Ok(dirs)
}

/// The parts in one directory.
pub(super) fn batch(dir: &Path, strays: &mut Vec<PathBuf>) -> Result<Batch, AuditError> {
    let id = dir
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut parts = Vec::new();
    for path in entries(dir)? {
        match part_number(&path).filter(|_| path.is_file()) {
            Some(part) => parts.push((part, path)),
            None => strays.push(path),
        }
    }
    parts.sort();
    Ok(Batch { id, parts })
}

/// `3` of `3.jsonl`; also of `3.jsonl.gz`, which will then prove unreadable.
fn part_number(path: &Path) -> Option<u64> {
    let (stem, _) = path.file_name()?.to_str()?.split_once('.')?;
    stem.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| stem.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_numeric_order_and_strays_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let batch_dir = dir.path().join("b1");
        fs::create_dir_all(batch_dir.join("nested")).unwrap();
        for name in [
            "10.jsonl",
            "9.jsonl",
            ".11.jsonl",
            "12.jsonl.tmp",
            "x.jsonl",
            "13",
        ] {
            fs::write(batch_dir.join(name), "").unwrap();
        }
        fs::write(dir.path().join("notes.txt"), "").unwrap();
        fs::create_dir(dir.path().join(".hidden")).unwrap();

        let mut strays = Vec::new();
        let dirs = batch_dirs(dir.path(), &mut strays).unwrap();
        assert_eq!(dirs, [batch_dir.as_path()]);
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
        let names: Vec<_> = strays
            .iter()
            .map(|path| path.file_name().unwrap())
            .collect();
        assert_eq!(names, ["notes.txt", "13", "nested", "x.jsonl"]);
    }
}
