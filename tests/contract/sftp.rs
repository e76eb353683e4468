//! The sink `sftp:` with a real OpenSSH server.

mod access;
mod cuts;
mod files;
mod paths;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use local::faults::{FaultOptions, SinkErrors};
use local::sftp::{Proxy, Server};
use sinks::{
    Compression, Format, Layout, LoginSource, Part, Receipt, Rendering, Secret, SftpServer,
    SftpSink, Sink, SinkError,
};

const TIMEOUT: Duration = Duration::from_secs(60);
/// The directory of the batch of [`parts::part`](crate::parts::part).
const BATCH: &str = "Zo!C3!AB/0190163d-8694-739b-aea5-966c26f8ad91";
/// A value of `SINK_PATH`.
const TEMPLATE: &str = "{date:%Y}/{date:%m-%d}/{key}/{batch}-{part}.dat";

/// A running server, and a proxy in front of it.
struct Rig {
    server: Server,
    proxy: Proxy,
}

impl Rig {
    async fn start() -> Rig {
        let server = Server::start(None).await.expect("a server is installed");
        let errors = Arc::new(SinkErrors::new(&FaultOptions::default()));
        let proxy = Proxy::start(server.port(), errors).await;
        let proxy = proxy.expect("there is a port");
        Rig { server, proxy }
    }

    /// Returns how the server is reached through the proxy.
    fn access(&self) -> SftpServer {
        let url = self.server.url(self.proxy.port());
        let login = Secret::from(self.server.user_key().to_owned());
        SftpServer {
            address: url.parse().expect("the URL is one of the sink"),
            host_keys: self.server.host_key().parse().expect("the value is a key"),
            login: LoginSource::Password(login),
        }
    }

    fn sink(&self, compression: Compression) -> SftpSink {
        self.sink_at(None, compression)
    }

    /// Returns a sink, with `SINK_PATH` if a path is given.
    fn sink_at(&self, path: Option<&str>, compression: Compression) -> SftpSink {
        let mut rendering = bodies(compression);
        rendering.layout.path = path.map(|path| path.parse().expect("the template is right"));
        SftpSink::new(self.access(), rendering, TIMEOUT)
    }

    /// Returns the path of a file of the batch.
    fn path(&self, name: &str) -> PathBuf {
        self.server.files().join(BATCH).join(name)
    }

    /// Returns all files of the sink with their content, hidden ones included, by their paths below it.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let root = self.server.files();
        let mut files = BTreeMap::new();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("the directory is there") {
                let path = entry.expect("it can be read").path();
                if path.is_dir() {
                    directories.push(path);
                    continue;
                }
                let below = path.strip_prefix(root).expect("it is below the sink");
                let content = fs::read(&path).expect("it can be read");
                files.insert(below.to_string_lossy().into_owned(), content);
            }
        }
        files
    }

    /// Returns the names in the directory of the batch, hidden ones included.
    fn names(&self) -> Vec<String> {
        names_in(&self.path(""))
    }
}

fn bodies(compression: Compression) -> Rendering {
    Rendering {
        format: Format::Body,
        compression,
        layout: Layout::default(),
    }
}

async fn delivered(sink: &SftpSink, part: &Part) -> Receipt {
    sink.deliver(part).await.expect("the server takes it")
}

/// Returns the reason of a refusal that is retryable.
async fn retryable(sink: &SftpSink, part: &Part) -> String {
    match sink.deliver(part).await {
        Err(SinkError::Retryable { reason }) => reason,
        other => panic!("not retryable: {other:?}"),
    }
}

/// Returns the reason of a refusal that is permanent.
async fn permanent(sink: &SftpSink, part: &Part) -> String {
    match sink.deliver(part).await {
        Err(SinkError::Permanent { reason }) => reason,
        other => panic!("not permanent: {other:?}"),
    }
}

/// Returns the first part of a batch of its own.
fn new_part(bodies: &[impl AsRef<str>]) -> Part {
    let mut part = crate::parts::part(bodies);
    let id = uuid::Uuid::now_v7().to_string();
    part.batch_id = id.parse().expect("it is an id");
    part
}

/// Returns the directory of the batch of a part.
fn batch_directory(rig: &Rig, part: &Part) -> PathBuf {
    let directory = sinks::directory_of(part.batch_id, part.batch_key.as_ref());
    rig.server.files().join(directory)
}

/// Returns the names in a directory in their order, hidden ones included.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory is there");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names = Vec::from_iter(entries.map(|entry| name(entry.expect("it can be read"))));
    names.sort();
    names
}
