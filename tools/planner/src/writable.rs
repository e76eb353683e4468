//! Checks that an output can be written before the work whose result it takes.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// An output that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("`{option}`: cannot be written: got `{}`: {source}", .path.display())]
pub struct NotWritable {
    /// The option that names the output.
    option: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Checks that a file can be written, and makes its directory if there is none. A file that is there stays as it is.
///
/// # Errors
/// [`NotWritable`]
pub fn check_file(option: &'static str, file: &Path) -> Result<(), NotWritable> {
    probe(file).map_err(|source| NotWritable {
        option,
        path: file.to_owned(),
        source,
    })
}

/// Checks that files can be written into a directory, and makes it if there is none.
///
/// # Errors
/// [`NotWritable`]
pub fn check_directory(option: &'static str, directory: &Path) -> Result<(), NotWritable> {
    let file = directory.join(format!(".writable-{}", std::process::id()));
    probe(&file).map_err(|source| NotWritable {
        option,
        path: directory.to_owned(),
        source,
    })
}

fn probe(file: &Path) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let is_new = !file.try_exists()?;
    OpenOptions::new().append(true).create(true).open(file)?;
    match is_new {
        true => fs::remove_file(file),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_below_a_file_is_refused_with_its_option_and_others_are_left_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "kept").unwrap();
        let below = file.join("out");
        for error in [
            check_directory("--out", &below).unwrap_err(),
            check_file("--out", &below).unwrap_err(),
            check_file("--out", directory.path()).unwrap_err(),
        ] {
            let words = error.to_string();
            assert!(
                words.starts_with("`--out`: cannot be written: got `"),
                "{words}"
            );
        }
        check_file("--record", &file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        let new = directory.path().join("new");
        check_file("--record", &new.join("record.json")).unwrap();
        check_directory("--out", &new).unwrap();
        assert_eq!(fs::read_dir(&new).unwrap().count(), 0);
    }
}
