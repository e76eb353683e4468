//! A PostgreSQL server on a loopback port, with its data in a temporary directory.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio_postgres::NoTls;

/// Where the programs `initdb` and `postgres` are, if not where they are looked for.
const POSTGRES_BIN: &str = "POSTGRES_BIN";
/// Where Debian puts the programs, below the version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user and group `nobody`, for the server does not run as root.
const NOBODY: u32 = 65_534;
/// For the server to take connections.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running server; it ends when this is dropped.
pub struct Server {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts the server that `POSTGRES_BIN` names, or one in the search path, or the newest of Debian's packages.
    ///
    /// # Errors
    /// Where there is none, or it does not start.
    pub async fn start() -> anyhow::Result<Server> {
        let programs = programs()?;
        let directory = tempfile::Builder::new().prefix("postgres-").tempdir()?;
        let root = fs::metadata(directory.path())?.uid() == 0;
        if root {
            chown(directory.path(), Some(NOBODY), Some(NOBODY))?;
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700))?;
        let data = directory.path().join("data");
        let program = |name: &str| command(&programs.join(name), directory.path(), root);
        let made = program("initdb")
            .args([
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-sync",
                "--pgdata",
            ])
            .arg(&data)
            .output()
            .with_context(|| format!("run `initdb` of {}", programs.display()))?;
        ensure!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let log = directory.path().join("log");
        // Freed here and taken there: another process may come between, and then the server does not start.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let process = program("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k"])
            .arg(directory.path())
            // A crash of the machine is not what is tried here.
            .args(["-c", "fsync=off", "-c", "max_connections=100"])
            .stderr(fs::File::create(&log)?)
            .spawn()
            .context("run `postgres`")?;
        let mut server = Server {
            process,
            port,
            _directory: directory,
        };
        server.ready(&log).await?;
        Ok(server)
    }

    /// Waits until the server accepts a connection: it listens before it is ready.
    async fn ready(&mut self, log: &Path) -> anyhow::Result<()> {
        let started = Instant::now();
        while tokio_postgres::connect(&self.url(), NoTls).await.is_err() {
            if self.process.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                bail!("postgres does not start: {}", fs::read_to_string(log)?);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    pub fn url(&self) -> String {
        url(self.port)
    }
}

/// A command that runs in `directory`, as `nobody` where this process is root.
fn command(program: &Path, directory: &Path, root: bool) -> Command {
    let mut command = match root {
        false => Command::new(program),
        true => {
            let mut command = Command::new("setpriv");
            let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            command.args(ids).arg("--clear-groups").arg(program);
            command
        }
    };
    command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// The URL of the server, or of what is in front of it.
pub fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once, but with its shared memory given back, which it would leave behind if it were killed.
        let asked = Command::new("kill")
            .args(["-QUIT", &self.process.id().to_string()])
            .status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

fn programs() -> anyhow::Result<PathBuf> {
    let has = |directory: &Path| {
        ["initdb", "postgres"]
            .iter()
            .all(|name| directory.join(name).is_file())
    };
    if let Some(named) = env::var_os(POSTGRES_BIN).map(PathBuf::from) {
        ensure!(
            has(&named),
            "`{POSTGRES_BIN}` is `{}`: no `initdb` and `postgres` there",
            named.display()
        );
        return Ok(named);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories = Vec::from_iter(env::split_paths(&path));
    let mut versions: Vec<PathBuf> = fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    let number = |path: &PathBuf| {
        path.file_name()
            .and_then(OsStr::to_str)?
            .parse::<u32>()
            .ok()
    };
    versions.sort_by_key(number);
    directories.extend(versions.iter().rev().map(|version| version.join("bin")));
    directories.into_iter().find(|directory| has(directory)).with_context(|| {
        format!(
            "no PostgreSQL server is installed: Debian's package is `postgresql`; or say in `{POSTGRES_BIN}` where \
             `initdb` and `postgres` are"
        )
    })
}
