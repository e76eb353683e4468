//! Runs an OpenSSH server on a loopback port, with keys of its own and nothing but SFTP.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context, ensure};
use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::unprivileged::{Home, until_ready};

/// The variable with the executable. Without it the executable is searched for.
const SSHD_BIN: &str = "SSHD_BIN";
/// Where Debian installs it, which is not in the search path of every user.
const DEBIAN: &str = "/usr/sbin/sshd";

/// A running server. Dropping it stops it.
pub struct Server {
    process: Child,
    port: u16,
    user: String,
    host_key: String,
    user_key: String,
    files: PathBuf,
    _home: Home,
}

impl Server {
    /// Starts the server `SSHD_BIN`. Without that variable, starts the one in the search path, or Debian's. The sink writes
    /// below `files`; if that is `None`, below a temporary directory, which is removed with the server.
    pub async fn start(files: Option<&Path>) -> anyhow::Result<Server> {
        let program = program()?;
        let home = Home::new("sftp-")?;
        let files = match files {
            Some(files) => std::path::absolute(files)?,
            None => home.path().join("files"),
        };
        fs::create_dir_all(&files)?;
        home.give(&files)?;
        let [host_key, user_key] = [random_key()?, random_key()?];
        let write = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            use std::os::unix::fs::OpenOptionsExt;
            let path = home.path().join(name);
            let mut options = fs::OpenOptions::new();
            options.create_new(true).write(true).mode(0o600);
            let mut file = options.open(&path)?;
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            home.give(&path)?;
            Ok(path)
        };
        let private = |key: &PrivateKey| key.to_openssh(LineEnding::LF);
        let host_key_file = write("host_key", &private(&host_key)?)?;
        let users = write("authorized_keys", &user_key.public_key().to_openssh()?)?;
        // The port is free again before the server binds it. If another process binds it first, the server does not start.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\nStrictModes no\n\
             UsePAM {}\nPasswordAuthentication yes\nMaxStartups 1000\nLogLevel ERROR\nSubsystem sftp internal-sftp\n\
             ForceCommand internal-sftp\n",
            host_key_file.display(),
            users.display(),
            // Where systemd knows `nobody`, it says that the account is locked, which keeps the user out unless PAM decides.
            if home.is_nobody() { "yes" } else { "no" },
        );
        let config = write("config", &config)?;
        let log = home.path().join("log");
        let mut server = home.command(&program);
        server.args(["-D", "-e", "-f"]).arg(config);
        let process = server.stderr(fs::File::create(&log)?).spawn();
        let mut server = Server {
            process: process.with_context(|| format!("run `{}`", program.display()))?,
            port,
            user: user(&home)?,
            host_key: host_key.public_key().to_openssh()?,
            user_key: private(&user_key)?.to_string(),
            files,
            _home: home,
        };
        let greets = || async move {
            match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(mut stream) => stream.read_u8().await.is_ok(),
                Err(_) => false,
            }
        };
        until_ready("sshd", &mut server.process, &log, greets).await?;
        Ok(server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of the sink's directory, reached at this port: that of the server, or of a proxy.
    pub fn url(&self, port: u16) -> String {
        let (user, files) = (&self.user, self.files.display());
        format!("sftp://{user}@127.0.0.1:{port}{files}")
    }

    /// Returns the public key of the server.
    pub fn host_key(&self) -> &str {
        &self.host_key
    }

    /// Returns the private key of the user, which opens nothing but this server.
    pub fn user_key(&self) -> &str {
        &self.user_key
    }

    /// Returns the directory of the sink.
    pub fn files(&self) -> &Path {
        &self.files
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn random_key() -> anyhow::Result<PrivateKey> {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).context("make a key")
}

/// Returns the name of the user that the server runs as, the only one who can log in.
fn user(home: &Home) -> anyhow::Result<String> {
    let mut id = home.command(Path::new("id"));
    let output = id.arg("-un").stdout(std::process::Stdio::piped()).output();
    let output = output.context("run `id`")?;
    ensure!(output.status.success(), "id: failed: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Returns the executable of the server. It must be an absolute path, because the server starts itself again for each
/// connection.
fn program() -> anyhow::Result<PathBuf> {
    if let Some(named) = env::var_os(SSHD_BIN).map(PathBuf::from) {
        ensure!(
            named.is_absolute() && named.is_file(),
            "`{SSHD_BIN}`: wrong executable: got `{}`, expected the absolute path of `sshd`",
            named.display()
        );
        return Ok(named);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut programs = env::split_paths(&path)
        .map(|directory| directory.join("sshd"))
        .chain([PathBuf::from(DEBIAN)]);
    programs.find(|program| program.is_file()).with_context(|| {
        format!(
            "OpenSSH server: not installed: install Debian's package `openssh-server`, or set `{SSHD_BIN}` to the path of `sshd`"
        )
    })
}
