//! Which files a part has, and what an attempt does if some of them exist already.

use super::*;
use crate::tests_support::{assert_has, part, refused, rendering};
use forms::Compression;
use forms::Format;

fn sink(directory: &tempfile::TempDir, format: Format, compression: Compression) -> FileSink {
    FileSink::new(directory.path().to_owned(), rendering(format, compression))
}

fn plain(directory: &tempfile::TempDir, format: Format) -> FileSink {
    sink(directory, format, Compression::None)
}

fn batch(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join(part(0, &[]).batch_id.to_string())
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_second_delivery_leaves_the_file_and_returns_the_same_receipt() {
    let directory = tempfile::tempdir().unwrap();
    for (number, compression, name) in [
        (0, Compression::None, "0.jsonl"),
        (1, Compression::Gzip, "1.jsonl.gz"),
        (2, Compression::Zstd, "2.jsonl.zst"),
    ] {
        let sink = sink(&directory, Format::Envelope, compression);
        let part = part(number, &["a", "b"]);
        let first = sink.deliver(&part).await.unwrap();
        let again = sink.deliver(&part).await.unwrap();
        assert_eq!(first, again);
        let file = batch(&directory).join(name);
        let mut text = String::new();
        let mut reader = compression.reader(File::open(file).unwrap()).unwrap();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 2);
    }
    assert_eq!(
        names(&batch(&directory)),
        [
            "0.jsonl",
            "0.manifest.json",
            "1.jsonl.gz",
            "1.manifest.json",
            "2.jsonl.zst",
            "2.manifest.json"
        ],
        "no temporary file is left"
    );
}

#[tokio::test]
async fn other_content_under_the_same_key_is_refused_and_replaces_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let sink = plain(&directory, Format::Body);
    sink.deliver(&part(0, &["a"])).await.unwrap();
    fs::remove_file(batch(&directory).join("0.manifest.json")).unwrap();
    refused(&sink, &part(0, &["b"]), true).await;
    assert_eq!(
        names(&batch(&directory)),
        ["0.txt"],
        "no manifest is written"
    );
    let file = batch(&directory).join("0.txt");
    assert_eq!(fs::read_to_string(file).unwrap(), "a\n");
}

#[tokio::test]
async fn a_compressed_file_that_cannot_be_read_back_is_other_content() {
    let directory = tempfile::tempdir().unwrap();
    for (compression, name) in [
        (Compression::Gzip, "0.txt.gz"),
        (Compression::Zstd, "0.txt.zst"),
    ] {
        fs::create_dir_all(batch(&directory)).unwrap();
        fs::write(batch(&directory).join(name), "a\n").unwrap();
        let sink = sink(&directory, Format::Body, compression);
        refused(&sink, &part(0, &["a"]), true).await;
    }
}

#[tokio::test]
async fn rejected_records_are_in_the_list_beside_the_part() {
    let directory = tempfile::tempdir().unwrap();
    let sink = plain(&directory, Format::Body);
    for _ in 0..2 {
        let receipt = sink.deliver(&part(0, &["a", "b\n", "c"])).await.unwrap();
        assert_eq!(receipt.rejected.len(), 1);
        assert_eq!(names(&batch(&directory)), FILES);
        let read = |name| fs::read_to_string(batch(&directory).join(name)).unwrap();
        assert_eq!(read("0.txt"), "a\nc\n");
        let list = read("0.rejects");
        assert_has(&list, &[r#""eventId":"e1","#, r#""reason":"body has"#]);
    }
    sink.deliver(&part(1, &["\n"])).await.unwrap();
    let part = fs::read(batch(&directory).join("1.txt")).unwrap();
    assert!(
        part.is_empty(),
        "a part whose records are all rejected has an empty file"
    );
}

#[tokio::test]
async fn a_reject_list_with_other_content_is_refused_before_the_manifest_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let list = batch(&directory).join("0.rejects");
    fs::create_dir_all(batch(&directory)).unwrap();
    fs::write(&list, "other").unwrap();
    let sink = plain(&directory, Format::Body);
    // A part without rejects is refused before anything is written.
    for (bodies, files) in [
        (["a"], &["0.rejects"][..]),
        (["a\n"], &["0.rejects", "0.txt"][..]),
    ] {
        let reason = refused(&sink, &part(0, &bodies), true).await;
        assert!(reason.contains("0.rejects"), "{reason}");
        assert_eq!(names(&batch(&directory)), files);
    }
}

const FILES: [&str; 3] = ["0.manifest.json", "0.rejects", "0.txt"];

#[tokio::test]
async fn files_that_a_consumer_removed_are_not_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let sink = plain(&directory, Format::Body);
    let part = part(0, &["a", "b\n", "c"]);
    let first = sink.deliver(&part).await.unwrap();
    assert_eq!(names(&batch(&directory)), FILES);
    for taken in ["0.txt", "0.rejects"] {
        fs::remove_file(batch(&directory).join(taken)).unwrap();
    }
    let again = sink.deliver(&part).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(names(&batch(&directory)), ["0.manifest.json"]);
}

#[tokio::test]
async fn an_attempt_after_a_crash_writes_the_missing_files() {
    let read = |directory: &tempfile::TempDir| {
        FILES.map(|name| fs::read(batch(directory).join(name)).unwrap())
    };
    let part = part(0, &["a", "b\n", "c"]);
    // The sink writes the files in this order.
    for written in [
        &[][..],
        &["0.txt"],
        &["0.txt", "0.rejects"],
        // Version 0.2.0 wrote the reject list first.
        &["0.rejects"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let sink = plain(&directory, Format::Body);
        let first = sink.deliver(&part).await.unwrap();
        let before = read(&directory);
        for name in FILES.iter().filter(|name| !written.contains(name)) {
            fs::remove_file(batch(&directory).join(name)).unwrap();
        }
        let again = sink.deliver(&part).await.unwrap();
        assert_eq!(first, again, "{written:?}");
        assert_eq!(before, read(&directory), "{written:?}");
    }
}

#[tokio::test]
async fn a_manifest_of_other_content_is_an_error_with_both_hashes_and_no_writes() {
    let directory = tempfile::tempdir().unwrap();
    let sink = plain(&directory, Format::Body);
    sink.deliver(&part(0, &["a"])).await.unwrap();
    fs::remove_file(batch(&directory).join("0.txt")).unwrap();
    let reason = refused(&sink, &part(0, &["b"]), true).await;
    let hashes = ["a\n", "b\n"].map(|text| blake3::hash(text.as_bytes()).to_string());
    assert_has(&reason, &[&hashes[0], &hashes[1], "0.manifest.json`"]);
    assert_eq!(names(&batch(&directory)), ["0.manifest.json"]);
}

#[test]
fn parents_of_a_new_directory_are_synced_from_the_top_down() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("mount/out");
    let files = Files {
        directory: root.clone(),
    };
    let made = |batch: &Path| {
        let mut synced = Vec::new();
        files
            .make(batch, |path| {
                assert!(
                    batch.is_dir(),
                    "the directory exists before its parents are synced"
                );
                synced.push(path.to_owned());
                Ok(())
            })
            .unwrap();
        synced
    };
    let above = [directory.path().to_owned(), directory.path().join("mount")];
    let below = [root.clone(), root.join("key")];
    let batch = root.join("key/batch");
    assert_eq!(made(&batch), [above, below.clone()].concat());
    // The process that made them may have died before it synced them.
    assert_eq!(made(&batch), below);
    assert_eq!(made(&root.join("batch")), below[..1]);
}

#[test]
fn parents_of_a_relative_directory_are_synced() {
    let files = Files {
        directory: "out".into(),
    };
    let parents = |existing: &[&str]| {
        let exists = |path: &Path| existing.iter().any(|each| Path::new(each) == path);
        files.unsynced_parents("out/key/batch".as_ref(), exists)
    };
    assert_eq!(parents(&[]), [".", "out", "out/key"].map(PathBuf::from));
    assert_eq!(parents(&["out"]), ["out", "out/key"].map(PathBuf::from));
}

#[test]
fn a_directory_that_cannot_be_synced_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let files = Files {
        directory: directory.path().to_owned(),
    };
    let refused = |_: &Path| Err(io::Error::other("no"));
    let error = files.make(&directory.path().join("batch"), refused);
    assert_eq!(error.unwrap_err().to_string(), "no");
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_retryable() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let rendering = rendering(Format::Body, Compression::None);
    let sink = FileSink::new(file.path().join("below"), rendering);
    refused(&sink, &part(0, &["a"]), false).await;
}

#[tokio::test]
async fn a_part_with_a_path_is_there_and_its_manifest_stays_with_the_batch() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = plain(&directory, Format::Body);
    sink.rendering.layout.path = Some("{date:%Y/%m}/O-{sequence:03}.txt".parse().unwrap());
    let part = Part {
        file_number: Some(7),
        link: None,
        ..part(0, &["a", "b\n"])
    };
    let first = sink.deliver(&part).await.unwrap();
    let file = directory.path().join("2026/11/O-007.txt");
    assert_eq!(fs::read_to_string(&file).unwrap(), "a\n");
    let expected = ["0.manifest.json", "0.rejects"];
    assert_eq!(names(&batch(&directory)), expected);
    let manifest = fs::read_to_string(batch(&directory).join(expected[0])).unwrap();
    assert_has(&manifest, &["\"key\":\"2026/11/O-007.txt\""]);
    // The consumer has taken the file.
    fs::remove_file(&file).unwrap();
    assert_eq!(sink.deliver(&part).await.unwrap(), first);
    assert!(!file.exists());
    let without_number = Part {
        file_number: None,
        link: None,
        ..self::part(1, &["a"])
    };
    refused(&sink, &without_number, true).await;
}

#[tokio::test]
async fn a_dry_run_leaves_no_file_and_names_a_directory_that_cannot_be_made() {
    let directory = tempfile::tempdir().unwrap();
    plain(&directory, Format::Body).dry_run().await.unwrap();
    assert!(names(directory.path()).is_empty());
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let rendering = rendering(Format::Body, Compression::None);
    let error = FileSink::new(file.join("in"), rendering).dry_run().await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&*file.to_string_lossy()), "{error}");
}
