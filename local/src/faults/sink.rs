//! A sink that cannot be written to: where its directory should be, there is a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::task::JoinHandle;

/// The file in the way. It is removed after its time, and when this is dropped.
#[derive(Debug)]
pub struct SinkDown {
    obstacle: PathBuf,
    lifting: JoinHandle<()>,
}

impl SinkDown {
    /// Puts a file where the directory should be, for so long.
    ///
    /// # Errors
    /// When the directory is there and cannot be removed, or the file cannot be written.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(directory: &Path, time: Duration) -> anyhow::Result<SinkDown> {
        let obstacle = directory.to_owned();
        match fs::symlink_metadata(directory) {
            Ok(there) if there.is_dir() => fs::remove_dir(directory),
            Ok(_) => bail!("`{}` is not a directory", directory.display()),
            // Its parents may be missing too.
            Err(_) => directory.parent().map_or(Ok(()), fs::create_dir_all),
        }
        .and_then(|()| fs::write(directory, "the sink is down\n"))
        .with_context(|| format!("put a file in place of `{}`", directory.display()))?;
        let path = obstacle.clone();
        let lifting = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            if let Err(error) = fs::remove_file(&path) {
                eprintln!("error: `{}` stays down: {error}", path.display());
            }
        });
        Ok(SinkDown { obstacle, lifting })
    }
}

impl Drop for SinkDown {
    fn drop(&mut self) {
        if !self.lifting.is_finished() {
            self.lifting.abort();
            // It may have been removed just now.
            let _ = fs::remove_file(&self.obstacle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_directory_cannot_be_made_until_the_time_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("missing/out");
        let down = SinkDown::start(&out, Duration::from_millis(50)).unwrap();
        assert!(fs::create_dir_all(out.join("batch")).is_err());
        while !down.lifting.is_finished() {
            tokio::task::yield_now().await;
        }
        fs::create_dir_all(out.join("batch")).unwrap();
        drop(down);
        assert!(out.join("batch").is_dir());
    }

    #[tokio::test]
    async fn an_end_before_its_time_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        fs::create_dir(&out).unwrap();
        drop(SinkDown::start(&out, Duration::from_secs(3_600)).unwrap());
        assert!(!out.exists());
    }
}
