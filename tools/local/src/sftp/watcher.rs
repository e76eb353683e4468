//! Looks at the files of a sink all the time, as a consumer would: a file under its final name must be complete when it
//! appears, and stay as it is.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use protocol::text::counted;
use serde::{Deserialize, Serialize};

use crate::locked::locked;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// The most violations that are kept.
const VIOLATIONS_MAX: usize = 20;
const MANIFEST: &str = ".manifest.json";

/// A thread that looks at a directory until it is dropped.
pub struct Watcher {
    shared: Arc<Shared>,
    looking: Option<JoinHandle<()>>,
}

struct Shared {
    directory: PathBuf,
    seen: Mutex<Seen>,
    ended: AtomicBool,
}

#[derive(Default)]
struct Seen {
    /// The files under final names, by their path.
    files: BTreeMap<PathBuf, SeenFile>,
    report: WatchReport,
}

/// A file as it was when it appeared.
struct SeenFile {
    hash: blake3::Hash,
    state: FileState,
}

/// What changes with the content of a file: its inode, its length, and when it was modified. (The time of a change of its links is left
/// out: a rename makes and removes one.)
type FileState = (u64, u64, (i64, i64));

fn state_of(path: &Path) -> io::Result<FileState> {
    let metadata = fs::metadata(path)?;
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    Ok((metadata.ino(), metadata.len(), modified))
}

/// What a watcher has seen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WatchReport {
    /// How often it looked at all files.
    pub looks: u64,
    /// Files that it has seen under their final names.
    pub files: u64,
    /// How often a file was not complete when it appeared, or changed or disappeared later.
    pub violations: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

/// The fields of a manifest that are checked.
#[derive(Deserialize)]
struct Manifest {
    key: String,
    compression: String,
    hash: String,
}

impl Watcher {
    pub fn start(directory: PathBuf) -> Watcher {
        let shared = Arc::new(Shared {
            directory,
            seen: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let looking = std::thread::spawn(move || {
            while !of_thread.ended.load(Ordering::Relaxed) {
                of_thread.look();
                std::thread::sleep(PAUSE);
            }
        });
        Watcher {
            shared,
            looking: Some(looking),
        }
    }

    /// Looks once more, reads every file again, and returns what was seen.
    pub fn report(&self) -> WatchReport {
        self.shared.look();
        let mut seen = locked(&self.shared.seen);
        let Seen { files, report } = &mut *seen;
        for (path, file) in files {
            match fs::read(path) {
                Ok(bytes) if blake3::hash(&bytes) == file.hash => {}
                Ok(_) => report.add(path, "other content than when it appeared"),
                Err(error) => report.add(path, &error.to_string()),
            }
        }
        report.clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(looking) = self.looking.take() {
            let _ = looking.join();
        }
    }
}

impl Shared {
    fn look(&self) {
        let mut seen = locked(&self.seen);
        let Seen { files, report } = &mut *seen;
        report.looks += 1;
        for (path, file) in files.iter_mut() {
            match state_of(path) {
                Ok(state) if state == file.state => {}
                Ok(state) => {
                    report.add(path, "changed under its final name");
                    file.state = state;
                }
                Err(error) => report.add(path, &error.to_string()),
            }
        }
        let mut paths = Vec::new();
        // A directory may be made while it is read. The next look sees it.
        let _ = final_names(&self.directory, &mut paths);
        paths.retain(|path| !files.contains_key(path));
        for path in paths {
            match self.appeared(&path, report) {
                Ok(file) => {
                    files.insert(path, file);
                    report.files += 1;
                }
                Err(error) => report.add(&path, &error.to_string()),
            }
        }
    }

    /// Reads a file that has appeared. If it is a manifest, the part that it names must be there as it says.
    fn appeared(&self, path: &Path, report: &mut WatchReport) -> io::Result<SeenFile> {
        let state = state_of(path)?;
        let bytes = fs::read(path)?;
        if path.to_string_lossy().ends_with(MANIFEST) {
            match serde_json::from_slice::<Manifest>(&bytes) {
                Ok(manifest) => self.check_part(&manifest, report),
                Err(error) => report.add(path, &format!("not a complete manifest: {error}")),
            }
        }
        Ok(SeenFile {
            hash: blake3::hash(&bytes),
            state,
        })
    }

    fn check_part(&self, manifest: &Manifest, report: &mut WatchReport) {
        let part = self.directory.join(&manifest.key);
        match fs::read(&part) {
            // The hash is of the content before compression. The audit decompresses the part.
            Ok(_) if manifest.compression != "none" => {}
            Ok(bytes) if blake3::hash(&bytes).to_string() == manifest.hash => {}
            Ok(_) => report.add(&part, "other content than its manifest says"),
            Err(error) => report.add(&part, &format!("its manifest is there: {error}")),
        }
    }
}

impl WatchReport {
    fn add(&mut self, path: &Path, problem: &str) {
        self.violations += 1;
        if self.examples.len() < VIOLATIONS_MAX {
            self.examples
                .push(format!("`{}`: {problem}", path.display()));
        }
    }
}

/// A line for people, and one for each example, each with its line break.
impl fmt::Display for WatchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  watched   {} in {}: {} half, changed or gone under a final name",
            counted(self.files, "file"),
            counted(self.looks, "look"),
            self.violations
        )?;
        let mut examples = self.examples.iter();
        examples.try_for_each(|example| writeln!(f, "    {example}"))
    }
}

/// Adds the paths of all files whose names do not begin with a dot.
fn final_names(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => final_names(&entry.path(), found)?,
            false => found.push(entry.path()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(content: &str) -> String {
        let hash = blake3::hash(content.as_bytes());
        format!(r#"{{"key":"b/0.jsonl","compression":"none","hash":"{hash}"}}"#)
    }

    #[test]
    fn complete_files_are_no_violation_and_half_or_changed_ones_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join("b").join(name);
        fs::create_dir(directory.path().join("b")).unwrap();
        let watcher = Watcher::start(directory.path().to_owned());
        fs::write(path(".0.jsonl.partial"), "half").unwrap();
        fs::write(path(".0"), "content").unwrap();
        fs::rename(path(".0"), path("0.jsonl")).unwrap();
        fs::write(path(".m"), manifest("content")).unwrap();
        fs::rename(path(".m"), path("0.manifest.json")).unwrap();
        let report = watcher.report();
        assert_eq!((report.files, report.violations), (2, 0), "{report}");
        assert!(report.looks > 0);
        fs::write(path("0.jsonl"), "other").unwrap();
        let report = watcher.report();
        assert!(report.violations > 0, "{report}");
        assert!(report.to_string().contains("0.jsonl"), "{report}");
    }

    #[test]
    fn a_manifest_before_its_part_is_a_violation() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("b")).unwrap();
        let watcher = Watcher::start(directory.path().to_owned());
        let hidden = directory.path().join("b/.m");
        fs::write(&hidden, manifest("content")).unwrap();
        fs::rename(hidden, directory.path().join("b/0.manifest.json")).unwrap();
        let report = watcher.report();
        assert_eq!(report.violations, 1, "{report}");
    }
}
