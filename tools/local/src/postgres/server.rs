//! Runs a PostgreSQL server on a loopback port, with its data in a temporary directory.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, ensure};
use tokio_postgres::NoTls;

use crate::unprivileged::{Home, until_ready};

/// The variable with the directory of the programs `initdb` and `postgres`. Without it they are searched for.
const POSTGRES_BIN: &str = "POSTGRES_BIN";
/// The directory in which Debian installs the programs, below the version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// A running server. Dropping it stops it.
pub struct Server {
    process: Child,
    port: u16,
    _home: Home,
}

impl Server {
    /// Starts the server in the directory `POSTGRES_BIN`. Without that variable, starts one in the search path, or the
    /// newest of Debian's packages.
    pub async fn start() -> anyhow::Result<Server> {
        let programs = programs()?;
        let home = Home::new("postgres-")?;
        let data = home.path().join("data");
        let program = |name: &str| home.command(&programs.join(name));
        let made = program("initdb")
            .args(["--username=postgres", "--auth=trust", "--no-sync"])
            .args(["--encoding=UTF8", "--pgdata"])
            .arg(&data)
            .output()
            .with_context(|| format!("run `initdb` of {}", programs.display()))?;
        ensure!(
            made.status.success(),
            "initdb: failed: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let log = home.path().join("log");
        // The port is free again before the server binds it. If another process binds it first, the server does not start.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let process = program("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k"])
            .arg(home.path())
            // Crashes of the machine are not tested here.
            .args(["-c", "fsync=off", "-c", "max_connections=100"])
            .stderr(fs::File::create(&log)?)
            .spawn()
            .context("run `postgres`")?;
        let mut server = Server {
            process,
            port,
            _home: home,
        };
        // It listens before it is ready.
        let accepts = || async move { tokio_postgres::connect(&url(port), NoTls).await.is_ok() };
        until_ready("postgres", &mut server.process, &log, accepts).await?;
        Ok(server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        url(self.port)
    }
}

/// Returns the URL of a server or proxy on this port.
pub fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGQUIT ends the server at once, but lets it free its shared memory. SIGKILL would leave the memory behind.
        let process = self.process.id().to_string();
        let asked = Command::new("kill").args(["-QUIT", &process]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// Returns the directory of the programs.
fn programs() -> anyhow::Result<PathBuf> {
    let has = |directory: &Path| {
        let mut programs = ["initdb", "postgres"].iter();
        programs.all(|name| directory.join(name).is_file())
    };
    if let Some(named) = env::var_os(POSTGRES_BIN).map(PathBuf::from) {
        ensure!(
            has(&named),
            "`{POSTGRES_BIN}`: wrong directory: got `{}`, expected one with `initdb` and `postgres`",
            named.display()
        );
        return Ok(named);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories = Vec::from_iter(env::split_paths(&path));
    let versions = fs::read_dir(DEBIAN).into_iter().flatten();
    let versions = versions.filter_map(|entry| Some(entry.ok()?.path()));
    let mut versions: Vec<PathBuf> = versions.collect();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions.sort_by_key(number);
    directories.extend(versions.iter().rev().map(|version| version.join("bin")));
    directories.into_iter().find(|directory| has(directory)).with_context(|| {
        format!(
            "PostgreSQL server: not installed: install Debian's package `postgresql`, or set `{POSTGRES_BIN}` to the \
             directory of `initdb` and `postgres`"
        )
    })
}
