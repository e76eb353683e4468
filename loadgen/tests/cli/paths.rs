//! Tests of `loadgen audit` with files at the paths that manifests name, as `SINK_PATH` puts them.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::write::GzEncoder;
use loadgen::{Workload, WorkloadConfig};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{loadgen, problems};

const MESSAGES: u64 = 40;
const BATCH: u64 = 10;

/// How the lines of a file are made, and where it is.
#[derive(Clone, Copy)]
struct Shape {
    /// What the keys in the manifests have in front, as those of objects do.
    prefix: &'static str,
    bare: bool,
    compressed: bool,
}

const PLAIN: Shape = Shape {
    prefix: "",
    bare: false,
    compressed: false,
};

/// Returns the lines of a batch, of which each is an event.
fn lines(batch: u64, shape: Shape) -> Vec<String> {
    let config = WorkloadConfig {
        messages: MESSAGES,
        ..WorkloadConfig::default()
    };
    let workload = Workload::new(config).unwrap();
    let line = |seq: u64| {
        let index = batch * BATCH + seq;
        let message = workload.message(index);
        let envelope = json!({
            "batchId": format!("batch-{batch}"), "part": 0, "seq": seq,
            "eventId": message.event_id, "sqsMessageId": format!("message-{index:08}"),
            "source": "arn:aws:sqs:eu-west-1:000000000000:input", "sentAt": 1, "body": message.body,
        });
        match shape.bare {
            true => message.body.to_string(),
            false => envelope.to_string(),
        }
    };
    (0..BATCH).map(line).collect()
}

/// Returns the path of a batch's file. Two batches share a folder, one has a name like a part of another batch, and one is
/// not in a folder.
fn path(batch: u64) -> String {
    match batch {
        0 | 1 => format!("2026/11-25/ORDERS_{batch}.txt"),
        2 => "2026/11-26/7.txt".to_owned(),
        _ => format!("ORDERS_{batch}.dat"),
    }
}

fn write(dir: &Path, batch: u64, lines: &[String], shape: Shape) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let file = dir.join(path(batch));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    match shape.compressed {
        true => {
            let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(text.as_bytes()).unwrap();
            fs::write(file, gzip.finish().unwrap()).unwrap();
        }
        false => fs::write(file, &text).unwrap(),
    }
    let batch_dir = dir.join(format!("batch-{batch}"));
    fs::create_dir_all(&batch_dir).unwrap();
    let manifest = json!({
        "batchId": format!("batch-{batch}"), "part": 0, "key": format!("{}{}", shape.prefix, path(batch)),
        "count": lines.len(), "rejected": 0, "bytes": text.len(),
        "hash": blake3::hash(text.as_bytes()).to_string(),
    });
    fs::write(batch_dir.join("0.manifest.json"), manifest.to_string()).unwrap();
}

fn delivered(shape: Shape) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for batch in 0..MESSAGES / BATCH {
        write(dir.path(), batch, &lines(batch, shape), shape);
    }
    dir
}

fn audit(dir: &Path) -> Value {
    let dir = dir.to_str().unwrap();
    let output = loadgen(&["audit", "--dir", dir, "--messages", "40", "--manifests"]);
    super::json(&output)
}

#[test]
fn files_where_their_manifests_say_are_the_parts() {
    for shape in [
        PLAIN,
        Shape {
            prefix: "out/",
            ..PLAIN
        },
        Shape {
            bare: true,
            ..PLAIN
        },
        Shape {
            compressed: true,
            ..PLAIN
        },
    ] {
        let dir = delivered(shape);
        let report = audit(dir.path());
        assert_eq!(report["ok"], true, "{report}");
        assert_eq!(report["delivered"], MESSAGES, "{report}");
        assert_eq!(report["batches"]["count"], 4, "{report}");
        assert_eq!(report["batches"]["parts"], 4, "{report}");
    }
}

#[test]
fn an_event_that_is_repeated_or_lost_in_a_folder_is_found() {
    let dir = delivered(PLAIN);
    let mut changed = lines(1, PLAIN);
    changed.remove(4);
    let mut moved: Value = serde_json::from_str(&lines(0, PLAIN)[3]).unwrap();
    moved["batchId"] = json!("batch-1");
    moved["seq"] = json!(BATCH);
    changed.push(moved.to_string());
    write(dir.path(), 1, &changed, PLAIN);
    let report = audit(dir.path());
    assert_eq!(report["ok"], false, "{report}");
    assert_eq!(problems(&report), [1, 1, 0, 0, 0], "{report}");
    let repeated = &report["examples"]["repeated"][0];
    assert_eq!(repeated["file"], "2026/11-25/ORDERS_1.txt");
    assert_eq!(repeated["line"], BATCH);
}

#[test]
fn a_part_that_is_gone_is_lost_and_a_file_that_no_manifest_names_is_corrupt() {
    let dir = delivered(PLAIN);
    fs::remove_file(dir.path().join(path(2))).unwrap();
    let copy = dir.path().join("2026/11-25/COPY.txt");
    fs::copy(dir.path().join(path(0)), copy).unwrap();
    let report = audit(dir.path());
    // The copy, and the manifest without its part.
    assert_eq!(problems(&report), [BATCH, 0, 0, 2, 0], "{report}");
    let corrupt = report["examples"]["corrupt"].to_string();
    assert!(corrupt.contains("2026/11-25/COPY.txt"), "{corrupt}");
    assert!(corrupt.contains("nor where it says"), "{corrupt}");
}

#[test]
fn a_file_that_two_manifests_name_is_the_part_of_one() {
    let dir = delivered(PLAIN);
    let manifest = dir.path().join("batch-1/0.manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace(&path(1), &path(0))).unwrap();
    let report = audit(dir.path());
    assert_eq!(problems(&report), [BATCH, 0, 0, 2, 0], "{report}");
}
