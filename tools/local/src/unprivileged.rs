//! Runs servers that refuse to run as root, or that must not have its rights.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::bail;

/// The time limit within which a server must be ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The user and group `nobody`.
const NOBODY: u32 = 65_534;

/// A temporary directory of a server. The server runs in it as `nobody` if this process runs as root, and otherwise as the
/// same user.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    is_root: bool,
}

impl Home {
    /// Makes the directory.
    pub(crate) fn new(prefix: &str) -> std::io::Result<Home> {
        let directory = tempfile::Builder::new().prefix(prefix).tempdir()?;
        let is_root = fs::metadata(directory.path())?.uid() == 0;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700))?;
        let home = Home { directory, is_root };
        home.give(home.path())?;
        Ok(home)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns whether the server runs as `nobody`.
    pub(crate) fn is_nobody(&self) -> bool {
        self.is_root
    }

    /// Makes the server's user the owner of a file or directory.
    pub(crate) fn give(&self, path: &Path) -> std::io::Result<()> {
        match self.is_root {
            true => chown(path, Some(NOBODY), Some(NOBODY)),
            false => Ok(()),
        }
    }

    /// Returns a command that runs a program in the directory, as the server's user.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = match self.is_root {
            false => Command::new(program),
            true => {
                let mut command = Command::new("setpriv");
                let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
                command.args(ids).arg("--clear-groups").arg(program);
                command
            }
        };
        command.current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// Waits until a server that was started is ready.
///
/// # Errors
/// It ended, or it takes too long.
pub(crate) async fn until_ready<F: Future<Output = bool>>(
    name: &str,
    process: &mut Child,
    log: &Path,
    is_ready: impl Fn() -> F,
) -> anyhow::Result<()> {
    let started = Instant::now();
    while !is_ready().await {
        if process.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
            bail!("{name}: does not start: {}", fs::read_to_string(log)?);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
