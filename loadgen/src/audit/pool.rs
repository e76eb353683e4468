//! Reads files on several threads, some of them ahead of the one that is being counted.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, PoisonError};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::check::{Checker, Finding, Place};
use super::line::Corruption;
use crate::workload::Workload;

const READ_BUFFER_BYTES: usize = 1 << 20;

/// How a file begins that is compressed by gzip. Source: RFC 1952, section 2.3.1.
const GZIP_START: &[u8] = &[0x1F, 0x8B];
/// How a file begins that is compressed by zstd. Source: RFC 8878, section 3.1.1.
const ZSTD_START: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// The number of lines that are passed on together.
const CHUNK_LINES: usize = 1_024;
/// How many chunks a thread may be ahead: as many lines as most parts have. They take 10 MB.
const CHUNKS_AHEAD_MAX: usize = 256;
/// More threads would only wait for the one that counts.
const THREADS_MAX: usize = 4;

/// A file to read, and where to put what is found in it.
struct Job {
    path: PathBuf,
    place: Place,
    /// Whether the SHA-256 of the file is needed.
    sha256: bool,
    found: SyncSender<Found>,
}

/// What was found in a file, in order. The last one is an end.
pub(super) enum Found {
    /// One finding for each line.
    Lines(Vec<Finding>),
    End(io::Result<End>),
}

/// How a file ended.
pub(super) enum End {
    Whole(FileContent),
    /// It could not be decompressed any further.
    Cut(Corruption),
}

/// The facts about a file that was read to its end.
pub(super) struct FileContent {
    pub lines: u64,
    pub bytes: u64,
    pub hash: blake3::Hash,
    /// The SHA-256, in hexadecimal, if it was needed.
    pub sha256: Option<String>,
}

/// The threads that read.
pub(super) struct Pool(Sender<Job>);

impl Pool {
    /// Runs `count` with a pool, and ends the pool's threads afterwards.
    pub fn with<R>(workload: &Workload, count: impl FnOnce(Pool) -> R) -> R {
        let (jobs, queue) = mpsc::channel();
        let queue = Mutex::new(queue);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(THREADS_MAX) {
                scope.spawn(|| work(&queue, workload));
            }
            count(Pool(jobs))
        })
    }

    /// Reads a file, once the files before it are read or being read. `sha256` is whether its SHA-256 is needed.
    pub fn read(&self, path: &Path, place: Place, sha256: bool) -> Receiver<Found> {
        let (found, receiver) = mpsc::sync_channel(CHUNKS_AHEAD_MAX);
        let path = path.to_owned();
        // The threads end only after the pool. If one has panicked, the scope passes that on.
        let _ = self.0.send(Job {
            path,
            place,
            sha256,
            found,
        });
        receiver
    }
}

fn work(queue: &Mutex<Receiver<Job>>, workload: &Workload) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else {
            return;
        };
        let mut checker = Checker::new(workload, &job.place);
        let end = read(&job, &mut checker);
        // Nobody receives any more if the audit has failed.
        let _ = job.found.send(Found::End(end));
    }
}

fn read(job: &Job, checker: &mut Checker<'_>) -> io::Result<End> {
    let (plain, compressed) = reader(&job.path)?;
    let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, plain);
    let mut hasher = blake3::Hasher::new();
    let mut sha256 = job.sha256.then(Sha256::new);
    let (mut text, mut chunk) = (Vec::new(), Vec::new());
    let mut lines = 0;
    let mut cut = None;
    loop {
        text.clear();
        match reader.read_until(b'\n', &mut text) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if compressed => {
                cut = Some(Corruption::Compression(error.to_string()));
                break;
            }
            Err(error) => return Err(error),
        }
        hasher.update(&text);
        if let Some(sha256) = &mut sha256 {
            sha256.update(&text);
        }
        lines += 1;
        chunk.push(checker.line(text.strip_suffix(b"\n").unwrap_or(&text)));
        if chunk.len() == CHUNK_LINES {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_LINES));
            if job.found.send(Found::Lines(full)).is_err() {
                break;
            }
        }
    }
    let _ = job.found.send(Found::Lines(chunk));
    Ok(match cut {
        Some(corruption) => End::Cut(corruption),
        None => End::Whole(FileContent {
            lines,
            bytes: hasher.count(),
            hash: hasher.finalize(),
            sha256: sha256.map(|hasher| hex::encode(hasher.finalize())),
        }),
    })
}

/// Returns a reader of the decompressed file, and whether the file is compressed. With `SINK_PATH` the name may not say so, but no
/// text begins as a compressed file does.
fn reader(path: &Path) -> io::Result<(Box<dyn io::Read>, bool)> {
    let mut file = BufReader::new(File::open(path)?);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let start = file.fill_buf()?;
    let (is_gzip, is_zstd) = (start.starts_with(GZIP_START), start.starts_with(ZSTD_START));
    Ok(match extension {
        Some("gz") => (Box::new(MultiGzDecoder::new(file)), true),
        Some("zst") => (Box::new(zstd::Decoder::with_buffer(file)?), true),
        Some(_) | None if is_gzip => (Box::new(MultiGzDecoder::new(file)), true),
        Some(_) | None if is_zstd => (Box::new(zstd::Decoder::with_buffer(file)?), true),
        Some(_) | None => (Box::new(file), false),
    })
}
