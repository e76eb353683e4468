//! Files below one directory, named by keys that clients choose. A file is visible only once it is complete.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use uuid::Uuid;

/// The directory of files that are still being written. Its name is hidden, so that readers of the root skip it.
const UNFINISHED: &str = ".unfinished";

/// A directory of files that are written atomically.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

/// The error for a key that cannot name a file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("key: got `{0}`, expected names that are joined by `/` and do not begin with a dot")]
pub struct InvalidKey(String);

impl Files {
    /// Makes a view of the files below `root`. The first write creates `root`.
    pub fn new(root: PathBuf) -> Files {
        Files { root }
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the file with this key, whether or not the file exists.
    ///
    /// # Errors
    /// The file would be outside of the directory or hidden in it, or another key could name the same file.
    pub fn path(&self, key: &str) -> Result<PathBuf, InvalidKey> {
        let plain = |name: &str| {
            let mut components = Path::new(name).components();
            let normal = matches!(components.next(), Some(Component::Normal(_)));
            normal && !name.starts_with('.') && !name.contains('\0')
        };
        match key.split('/').all(plain) {
            true => Ok(self.root.join(key)),
            false => Err(InvalidKey(key.to_owned())),
        }
    }

    /// Writes a file unless it exists already; returns whether it was written. Of several concurrent calls for one path,
    /// exactly one returns `true`.
    ///
    /// # Errors
    /// A directory or the file could not be written.
    pub fn create(&self, path: &Path, bytes: &[u8]) -> io::Result<bool> {
        let unfinished = self.unfinished(path, bytes)?;
        // A hard link fails if the path exists, where a rename would replace the file.
        match fs::hard_link(&unfinished.0, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a file, and replaces it if it exists.
    ///
    /// # Errors
    /// A directory or the file could not be written.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.unfinished(path, bytes)?;
        fs::rename(&unfinished.0, path)
    }

    /// Writes the bytes to a file in the directory of unfinished files.
    fn unfinished(&self, path: &Path, bytes: &[u8]) -> io::Result<Unfinished> {
        let directory = self.root.join(UNFINISHED);
        fs::create_dir_all(&directory)?;
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let unfinished = Unfinished(directory.join(Uuid::now_v7().to_string()));
        fs::write(&unfinished.0, bytes)?;
        Ok(unfinished)
    }
}

/// Path of an unfinished file, which is deleted on drop.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Fails after a rename, which has moved the file.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_concurrent_writers_one_creates_the_file_and_no_unfinished_file_remains() {
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
    fn a_key_is_a_path_of_plain_names_or_is_invalid() {
        let files = Files::new("root".into());
        assert_eq!(files.path("a/b c/0.x"), Ok("root/a/b c/0.x".into()));
        for key in [
            "", "/a", "a/", "a//b", "../a", "a/..", "a/./b", ".a", "a/.b", "a\0",
        ] {
            assert_eq!(files.path(key), Err(InvalidKey(key.to_owned())), "{key:?}");
        }
    }
}
