//! `--env-file`: a file with the variables that other clients need, for as long as the stack runs.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

/// A file that can be written, and is not there yet.
pub struct EnvFile {
    path: PathBuf,
    /// In the same directory, so that the file can appear with all its lines at once.
    temporary: NamedTempFile,
}

/// A file of variables. Dropping this removes it.
pub struct WrittenEnvFile(PathBuf);

impl EnvFile {
    /// Checks that the file can be written, and is not there yet.
    ///
    /// # Errors
    /// It is there, or its directory takes no files.
    pub fn prepare(path: &Path) -> anyhow::Result<EnvFile> {
        if path.symlink_metadata().is_ok() {
            bail!(
                "`--env-file`: exists already: got `{}`, expected a new file: it is removed at the end",
                path.display()
            );
        }
        let path = std::path::absolute(path)?;
        let directory = path.parent().unwrap_or(&path);
        let temporary = NamedTempFile::new_in(directory).with_context(|| {
            format!(
                "`--env-file`: cannot be written: got `{}`, expected a file in a directory that takes files",
                path.display()
            )
        })?;
        Ok(EnvFile { path, temporary })
    }

    /// Writes the file, which only its owner may read: a sink's password may be in it.
    ///
    /// # Errors
    /// It cannot be written, or another process has made it in the meantime.
    pub fn write(mut self, text: &str) -> anyhow::Result<WrittenEnvFile> {
        let path = self.path;
        let written = writeln!(self.temporary, "{text}");
        let there = written.and_then(|()| Ok(self.temporary.persist_noclobber(&path)?));
        there.with_context(|| format!("`--env-file`: write `{}`", path.display()))?;
        Ok(WrittenEnvFile(path))
    }
}

impl Drop for WrittenEnvFile {
    fn drop(&mut self) {
        // A user may have removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_until_the_end_and_nothing_else_is_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stack.env");
        let prepared = EnvFile::prepare(&path).unwrap();
        assert!(!path.exists());
        let written = prepared.write("export A='1'").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "export A='1'\n");
        drop(written);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_there_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stack.env");
        std::fs::write(&path, "mine").unwrap();
        assert!(EnvFile::prepare(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
