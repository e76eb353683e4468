//! Files below one directory, by keys that others chose: there whole or not at all.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use uuid::Uuid;

/// Where files stand before they are whole. Hidden, so that whoever reads the directory passes it over.
const UNFINISHED: &str = ".unfinished";

/// A directory of files.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

/// Why a key has no file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("key `{0}` is not a path of plain names")]
pub struct NoFile(String);

impl Files {
    /// Files below `root`, which is created when it is needed.
    pub fn new(root: PathBuf) -> Files {
        Files { root }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the file of a key is.
    ///
    /// # Errors
    /// When the key would leave the directory, hide in it, or name the file of another key.
    pub fn path(&self, key: &str) -> Result<PathBuf, NoFile> {
        let plain = |name: &str| {
            let mut components = Path::new(name).components();
            let normal = matches!(components.next(), Some(Component::Normal(_)));
            normal && !name.starts_with('.') && !name.contains('\0')
        };
        if key.split('/').all(plain) {
            Ok(self.root.join(key))
        } else {
            Err(NoFile(key.to_owned()))
        }
    }

    /// Writes a file that is not there yet; answers whether it is ours. Of several at once, one is first.
    ///
    /// # Errors
    /// When a directory or the file cannot be written.
    pub fn create(&self, path: &Path, bytes: &[u8]) -> io::Result<bool> {
        let unfinished = self.unfinished(path, bytes)?;
        // A link, unlike a rename, never replaces.
        match fs::hard_link(&unfinished.0, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a file, in place of what is there.
    ///
    /// # Errors
    /// When a directory or the file cannot be written.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.unfinished(path, bytes)?;
        fs::rename(&unfinished.0, path)
    }

    fn unfinished(&self, path: &Path, bytes: &[u8]) -> io::Result<Unfinished> {
        let directory = self.root.join(UNFINISHED);
        fs::create_dir_all(&directory)?;
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let unfinished = Unfinished(directory.join(Uuid::now_v7().to_string()));
        fs::write(&unfinished.0, bytes)?;
        Ok(unfinished)
    }
}

/// Removed when dropped.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After a rename it is gone.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_at_once_one_creates_the_file_and_nothing_unfinished_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(directory.path().join("root"));
        let path = files.path("batch/0.jsonl").unwrap();
        let create = |content: u8| files.create(&path, &[content; 10_000]).unwrap();
        let first = std::thread::scope(|scope| {
            let writers =
                [1, 2, 3, 4].map(|content| (content, scope.spawn(move || create(content))));
            let ours = writers.map(|(content, writer)| (content, writer.join().unwrap()));
            Vec::from_iter(ours.into_iter().filter(|(_, ours)| *ours))
        });
        assert_eq!(first.len(), 1);
        assert_eq!(fs::read(&path).unwrap(), [first[0].0; 10_000]);
        files.replace(&path, b"other").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"other");
        let unfinished = fs::read_dir(files.root().join(UNFINISHED)).unwrap();
        assert_eq!(unfinished.count(), 0);
    }

    #[test]
    fn a_key_is_a_path_of_plain_names_or_has_no_file() {
        let files = Files::new("root".into());
        assert_eq!(files.path("a/b c/0.x"), Ok("root/a/b c/0.x".into()));
        for key in [
            "", "/a", "a/", "a//b", "../a", "a/..", "a/./b", ".a", "a/.b", "a\0",
        ] {
            assert_eq!(files.path(key), Err(NoFile(key.to_owned())), "{key:?}");
        }
    }
}
