//! Faults that a test cannot make OpenSSH show: a full disk, a rename that replaces a file, and another attempt at the
//! worst moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use russh_sftp::protocol::{Attrs, Data, FileAttributes, Handle, Status};
use russh_sftp::server::{self, StatusReply};

use super::*;
use crate::sink::Receipt;
use crate::store;
use crate::tests_support::{BATCH, part, reason};
use forms::Compression;
use forms::Format;
use forms::Layout;
use forms::Rendering;

/// A server with files in memory.
#[derive(Clone, Default)]
struct StandIn(Arc<Mutex<Disk>>);

struct Disk {
    files: BTreeMap<String, Vec<u8>>,
    directories: BTreeSet<String>,
    /// A directory that somebody else makes just before it is asked for.
    made_by_another: Option<String>,
    bytes_max: usize,
    /// The file that another attempt writes under the final name just before a rename.
    before_rename: Option<Vec<u8>>,
}

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            files: BTreeMap::new(),
            directories: BTreeSet::from(["/in".to_owned()]),
            made_by_another: None,
            bytes_max: usize::MAX,
            before_rename: None,
        }
    }
}

impl StandIn {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    async fn deliver(&self, bodies: &[&str]) -> Result<Receipt, SinkError> {
        self.deliver_at(None, bodies).await
    }

    /// Delivers a part whose records have a path, if `SINK_PATH` is set.
    async fn deliver_at(&self, path: Option<&str>, bodies: &[&str]) -> Result<Receipt, SinkError> {
        let (here, there) = tokio::io::duplex(1 << 16);
        server::run(there, self.clone()).await;
        let sftp = SftpSession::new(here).await.unwrap();
        let address = "sftp://legacy@host/in".parse().unwrap();
        let rendering = Rendering {
            format: Format::Body,
            compression: Compression::None,
            layout: Layout {
                path: path.map(|path| path.parse().unwrap()),
                ..Layout::default()
            },
        };
        let part = part(0, bodies);
        let records = store::records_name(&part, &rendering)?;
        let files = PartFiles::open(&sftp, &address, &part, &records).await?;
        let receipt = store::deliver(&files, &part, &rendering).await?;
        files.remove_partials().await;
        Ok(receipt)
    }

    fn paths(&self) -> Vec<String> {
        self.disk().files.keys().cloned().collect()
    }
}

/// Returns the directory above a path.
fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn ok(id: u32) -> Status {
    Status {
        id,
        status_code: StatusCode::Ok,
        error_message: String::new(),
        language_tag: String::new(),
    }
}

fn failure() -> StatusReply {
    StatusReply::new(StatusCode::Failure)
}

fn missing() -> StatusReply {
    StatusReply::new(StatusCode::NoSuchFile)
}

/// Returns attributes that do not say what has them.
fn attributes(id: u32, is_there: bool) -> Result<Attrs, StatusReply> {
    let attrs = FileAttributes::empty();
    is_there.then_some(Attrs { id, attrs }).ok_or_else(missing)
}

impl server::Handler for StandIn {
    type Error = StatusReply;

    fn unimplemented(&self) -> StatusReply {
        StatusReply::new(StatusCode::OpUnsupported)
    }

    async fn open(
        &mut self,
        id: u32,
        filename: String,
        flags: OpenFlags,
        _: FileAttributes,
    ) -> Result<Handle, StatusReply> {
        let mut disk = self.disk();
        if !disk.directories.contains(above(&filename)) {
            return Err(missing());
        }
        match flags.contains(OpenFlags::CREATE) {
            true => {
                disk.files.insert(filename.clone(), Vec::new());
            }
            false if disk.files.contains_key(&filename) => {}
            false => return Err(missing()),
        }
        Ok(Handle {
            id,
            handle: filename,
        })
    }

    async fn write(
        &mut self,
        id: u32,
        handle: String,
        _: u64,
        data: Vec<u8>,
    ) -> Result<Status, StatusReply> {
        let mut disk = self.disk();
        let used: usize = disk.files.values().map(Vec::len).sum();
        if used + data.len() > disk.bytes_max {
            return Err(failure());
        }
        disk.files.entry(handle).or_default().extend(data);
        Ok(ok(id))
    }

    async fn read(
        &mut self,
        id: u32,
        handle: String,
        offset: u64,
        _: u32,
    ) -> Result<Data, StatusReply> {
        let disk = self.disk();
        let bytes = disk.files.get(&handle).ok_or_else(missing)?;
        match bytes.get(usize::try_from(offset).unwrap()..) {
            Some(rest) if !rest.is_empty() => Ok(Data {
                id,
                data: rest.to_vec(),
            }),
            Some(_) | None => Err(StatusReply::new(StatusCode::Eof)),
        }
    }

    async fn close(&mut self, id: u32, _: String) -> Result<Status, StatusReply> {
        Ok(ok(id))
    }

    async fn lstat(&mut self, id: u32, path: String) -> Result<Attrs, StatusReply> {
        attributes(id, self.disk().files.contains_key(&path))
    }

    async fn stat(&mut self, id: u32, path: String) -> Result<Attrs, StatusReply> {
        attributes(id, self.disk().directories.contains(&path))
    }

    async fn mkdir(
        &mut self,
        id: u32,
        path: String,
        _: FileAttributes,
    ) -> Result<Status, StatusReply> {
        let mut disk = self.disk();
        if disk.made_by_another.as_ref() == Some(&path) {
            disk.directories.insert(path.clone());
        }
        if !disk.directories.contains(above(&path)) {
            return Err(missing());
        }
        match disk.directories.insert(path) {
            true => Ok(ok(id)),
            false => Err(failure()),
        }
    }

    /// This server lets nobody list a directory.
    async fn opendir(&mut self, _: u32, _: String) -> Result<Handle, StatusReply> {
        Err(StatusReply::new(StatusCode::PermissionDenied))
    }

    async fn remove(&mut self, id: u32, filename: String) -> Result<Status, StatusReply> {
        match self.disk().files.remove(&filename) {
            Some(_) => Ok(ok(id)),
            None => Err(missing()),
        }
    }

    async fn rename(
        &mut self,
        id: u32,
        oldpath: String,
        newpath: String,
    ) -> Result<Status, StatusReply> {
        let mut disk = self.disk();
        if let Some(others) = disk.before_rename.take() {
            disk.files.insert(newpath, others);
            return Err(failure());
        }
        let bytes = disk.files.remove(&oldpath).ok_or_else(missing)?;
        disk.files.insert(newpath, bytes);
        Ok(ok(id))
    }
}

#[tokio::test]
async fn a_full_disk_is_retryable_and_the_upload_is_removed() {
    let server = StandIn::default();
    server.disk().bytes_max = 100;
    let body = "x".repeat(200);
    let reason = reason(server.deliver(&[&body]).await.unwrap_err(), false);
    assert!(reason.contains("cannot write its content"), "{reason}");
    assert!(server.paths().is_empty());
    server.disk().bytes_max = 10_000;
    server.deliver(&[&body]).await.unwrap();
    assert_eq!(server.paths(), [manifest(), of_batch("0.txt")]);
}

#[tokio::test]
async fn a_server_that_would_replace_a_file_is_not_asked_to() {
    let server = StandIn::default();
    let path = of_batch("0.txt");
    let files = [(path.clone(), b"other\n".to_vec())];
    server.disk().files.extend(files);
    // The directory is new to the sink, so it does not list what is there.
    reason(server.deliver(&["a"]).await.unwrap_err(), true);
    assert_eq!(server.disk().files[&path], b"other\n");
    assert_eq!(server.paths(), [path]);
}

#[tokio::test]
async fn a_name_that_another_attempt_takes_before_the_rename_is_compared() {
    for (others, delivered) in [("a\n", true), ("other\n", false)] {
        let server = StandIn::default();
        server.disk().before_rename = Some(others.as_bytes().to_vec());
        let result = server.deliver(&["a"]).await;
        assert_eq!(result.is_ok(), delivered, "{result:?}");
        assert!(server.paths().iter().all(|path| !path.contains("/.")));
    }
}

const PATH: &str = "{date:%Y}/{date:%m}/{batch}-{part}.dat";

fn at_path() -> String {
    format!("/in/2026/11/{BATCH}-0.dat")
}

/// Returns the path of a file in the directory of the batch.
fn of_batch(name: &str) -> String {
    format!("/in/{BATCH}/{name}")
}

fn manifest() -> String {
    of_batch("0.manifest.json")
}

#[tokio::test]
async fn a_path_directly_below_the_sink_needs_no_directory() {
    let server = StandIn::default();
    let path = Some("ORDERS_{batch}-{part}.dat");
    server.deliver_at(path, &["a"]).await.unwrap();
    let name = format!("/in/ORDERS_{BATCH}-0.dat");
    assert_eq!(server.paths(), [manifest(), name]);
}

#[tokio::test]
async fn a_directory_that_another_attempt_makes_at_the_same_time_is_used() {
    for raced in ["/in/2026", "/in/2026/11"] {
        let server = StandIn::default();
        server.disk().made_by_another = Some(raced.to_owned());
        server.deliver_at(Some(PATH), &["a"]).await.unwrap();
        assert_eq!(server.paths(), [manifest(), at_path()], "{raced}");
    }
}
