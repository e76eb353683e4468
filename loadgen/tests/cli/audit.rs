//! Tests of `loadgen audit`: its counts and its exit codes.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::write::GzEncoder;
use loadgen::{Duplicates, Workload, WorkloadConfig};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{loadgen, problems, stderr};

const MESSAGES: u64 = 400;
const BATCH: usize = 100;
const REQUEUE: [&str; 2] = ["--on-duplicate", "requeue"];

#[test]
fn a_perfect_delivery_is_ok_in_both_formats() {
    for delivery in [Delivery::unique(), Delivery::unique().bare()] {
        let report = found(delivery.audit(&[]), [0; 5]);
        assert_eq!(report["ok"], true);
        assert_eq!(report["sent"], 400);
        assert_eq!(report["unique"], 300);
        assert_eq!(report["delivered"], 300);
        assert_eq!(report["batches"]["count"], 3);
        assert_eq!(report["batches"]["parts"], 6);
        assert_eq!(report["batches"]["sizes"], json!({"100": 3}));
        assert_eq!(report["batches"]["median"], 100);
    }
}

#[test]
fn one_line_removed_and_one_repeated_are_one_lost_and_one_repeated() {
    let mut delivery = Delivery::unique().bare();
    let lines = delivery.lines(0, 1);
    assert!(lines[7].contains(r#""id":"1-57""#) && lines[8].contains(r#""id":"1-58""#));
    lines[7] = lines[8].clone();
    let report = found(delivery.audit(&[]), [1, 1, 0, 0, 0]);
    assert_eq!(report["examples"]["lost"][0]["id"], "1-57");
    let repeated = &report["examples"]["repeated"][0];
    assert_eq!(repeated["id"], "1-58");
    assert_eq!(repeated["file"], "batch-0/1.jsonl");
    assert_eq!(repeated["line"], 9);
}

#[test]
fn a_repeated_line_of_an_envelope_is_repeated_and_nothing_else() {
    let mut delivery = Delivery::unique();
    let lines = delivery.lines(0, 1);
    let again = lines[3].clone();
    lines.remove(5);
    lines.push(again);
    found(delivery.audit(&[]), [1, 1, 0, 0, 0]);
}

#[test]
fn a_repeat_in_another_batch_is_repeated_but_not_mixed() {
    let mut delivery = Delivery::unique();
    let mut line: Value = serde_json::from_str(&delivery.lines(0, 0)[3]).unwrap();
    line["batchId"] = json!("batch-2");
    line["part"] = json!(1);
    line["seq"] = json!(1_000);
    delivery.lines(2, 1).push(line.to_string());
    found(delivery.audit(&[]), [0, 1, 0, 0, 0]);
}

#[test]
fn a_changed_byte_and_a_broken_line_are_corrupt() {
    let mut delivery = Delivery::unique();
    let line = &mut delivery.lines(1, 0)[2];
    *line = line.replace(".\\\"}", "!\\\"}");
    delivery.lines(1, 1)[4].truncate(150);
    let report = found(delivery.audit(&[]), [1, 0, 0, 2, 0]);
    let corrupt = &report["examples"]["corrupt"];
    let why = "the body differs from the workload at byte 297";
    assert_eq!(corrupt[0]["why"], why);
    let why = corrupt[1]["why"].as_str().unwrap();
    assert!(why.contains("not a valid envelope"), "{why}");
}

#[test]
fn an_envelope_of_another_batch_part_event_or_order_is_corrupt() {
    for (field, value) in [
        ("batchId", json!("batch-1")),
        ("part", json!(1)),
        ("eventId", json!("other")),
    ] {
        let mut delivery = Delivery::unique();
        delivery.change(0, 0, 5, field, value);
        found(delivery.audit(&[]), [0, 0, 0, 1, 0]);
    }
    let mut delivery = Delivery::unique();
    delivery.lines(0, 0).swap(5, 6);
    let report = found(delivery.audit(&[]), [0, 0, 0, 1, 0]);
    let why = "seqs do not ascend: seq `5` follows seq `6`";
    assert_eq!(report["examples"]["corrupt"][0]["why"], why);
}

#[test]
fn event_ids_may_have_a_prefix_or_be_unrelated_but_not_be_of_another_event() {
    let with_ids = |make: &dyn Fn(&Value) -> Value| {
        let mut delivery = Delivery::unique();
        delivery.change_all("eventId", make);
        problems(&delivery.audit(&[]).1)
    };
    let prefixed = |line: &Value| json!(format!("tenant:{}", line["eventId"].as_str().unwrap()));
    assert_eq!(with_ids(&prefixed), [0; 5]);
    assert_eq!(with_ids(&|line| line["sqsMessageId"].clone()), [0; 5]);
    assert_eq!(with_ids(&|_| json!("0123456789abcdef")), [0; 5]);
    assert_eq!(with_ids(&|_| json!("1-7")), [0, 0, 0, 299, 0]);
}

#[test]
fn another_bursts_events_are_foreign() {
    let delivery = Delivery::unique();
    let report = found(delivery.audit(&["--seed", "2"]), [300, 0, 300, 0, 0]);
    assert_eq!(report["examples"]["foreign"].as_array().unwrap().len(), 20);
}

#[test]
fn missing_deliveries_can_be_allowed() {
    let mut delivery = Delivery::unique();
    delivery.lines(2, 0).truncate(48);
    assert_eq!(delivery.audit(&[]).0, 1);
    assert_eq!(delivery.audit(&["--allow-missing", "1"]).0, 1);
    assert_eq!(delivery.audit(&["--allow-missing", "2"]).0, 0);
}

#[test]
fn with_the_requeue_rule_every_message_must_be_delivered() {
    let report = found(Delivery::all().audit(&REQUEUE), [0; 5]);
    assert_eq!(report["delivered"], 400);

    found(Delivery::unique().audit(&REQUEUE), [100, 0, 0, 0, 0]);

    found(Delivery::all().audit(&[]), [0, 100, 0, 0, 0]);
}

#[test]
fn one_sqs_message_delivered_twice_does_not_count_for_another() {
    let mut delivery = Delivery::all();
    // The last batch holds only repeats. Give one of them the message id of its original.
    let last = delivery.files.len() - 1;
    let repeat: Value = serde_json::from_str(&delivery.lines(last, 0)[0]).unwrap();
    let original = delivery
        .all_lines()
        .find(|line| line["eventId"] == repeat["eventId"] && line["batchId"] != repeat["batchId"])
        .unwrap();
    let id = original["sqsMessageId"].clone();
    delivery.change(last, 0, 0, "sqsMessageId", id);
    let report = found(delivery.audit(&REQUEUE), [1, 1, 0, 0, 0]);
    let why = "its SQS message was delivered before";
    assert_eq!(report["examples"]["repeated"][0]["why"], why);
}

#[test]
fn unfinished_files_are_ignored_and_strays_are_reported() {
    let delivery = Delivery::unique();
    let dir = delivery.write();
    fs::write(dir.path().join("batch-0/.2.jsonl"), "half a li").unwrap();
    fs::write(dir.path().join("batch-0/2.jsonl.tmp"), "half a li").unwrap();
    fs::create_dir(dir.path().join("batch-9")).unwrap();
    let report = found(audit(dir.path(), &[]), [0; 5]);
    assert_eq!(report["batches"]["count"], 3);
    fs::write(dir.path().join("batch-0/readme"), "").unwrap();
    let report = found(audit(dir.path(), &[]), [0, 0, 0, 1, 0]);
    assert_eq!(report["examples"]["corrupt"][0]["file"], "batch-0/readme");
}

#[test]
fn rejected_events_are_neither_lost_nor_repeated_unless_they_are_delivered_too() {
    let mut delivery = Delivery::unique();
    let mut rejected: Vec<Value> = delivery
        .lines(1, 0)
        .drain(3..5)
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect();
    let dir = delivery.write();
    let list = |rejected: &[Value]| {
        let text: String = rejected.iter().map(|line| format!("{line}\n")).collect();
        fs::write(dir.path().join("batch-1/0.rejects"), text).unwrap();
        audit(dir.path(), &[])
    };
    found(list(&rejected), [0, 0, 0, 2, 0]);
    for line in &mut rejected {
        line["reason"] = json!("too wide");
    }
    let report = found(list(&rejected), [0; 5]);
    assert_eq!(report["delivered"], 298);
    assert_eq!(report["rejected"], 2);
    assert_eq!(report["batches"]["sizes"], json!({"98": 1, "100": 2}));

    let mut both: Value = serde_json::from_str(&delivery.lines(1, 0)[7]).unwrap();
    both["reason"] = json!("too wide");
    rejected.push(both);
    let report = found(list(&rejected), [0, 1, 0, 0, 0]);
    let repeated = &report["examples"]["repeated"][0];
    assert_eq!(repeated["file"], "batch-1/0.rejects");
}

#[test]
fn compressed_parts_are_read_and_broken_ones_are_corrupt() {
    let dir = Delivery::unique().write();
    let batch = dir.path().join("batch-0");
    let [zstd, gzip] = ["0.jsonl", "1.jsonl"].map(|name| fs::read(batch.join(name)).unwrap());
    let zstd = zstd::encode_all(&zstd[..], 3).unwrap();
    fs::write(batch.join("0.jsonl.zst"), zstd).unwrap();
    let mut to = GzEncoder::new(Vec::new(), flate2::Compression::default());
    to.write_all(&gzip).unwrap();
    let gzip = to.finish().unwrap();
    fs::write(batch.join("1.jsonl.gz"), &gzip).unwrap();
    fs::remove_file(batch.join("0.jsonl")).unwrap();
    fs::remove_file(batch.join("1.jsonl")).unwrap();
    found(audit(dir.path(), &[]), [0; 5]);
    fs::write(batch.join("1.jsonl.gz"), &gzip[..gzip.len() / 2]).unwrap();
    let (code, report) = audit(dir.path(), &[]);
    assert_eq!((code, &report["corrupt"]), (1, &json!(1)), "{report}");
    let why = report["examples"]["corrupt"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("the file cannot be decompressed"), "{why}");
}

#[test]
fn a_manifest_must_match_its_part_and_exist_if_required() {
    let dir = Delivery::unique().write();
    let batch = dir.path().join("batch-0");
    let part = fs::read(batch.join("0.jsonl")).unwrap();
    let mut manifest = json!({
        "batchId": "batch-0", "part": 0, "key": "batch-0/0.jsonl", "count": 50, "rejected": 0, "bytes": part.len(),
        "hash": blake3::hash(&part).to_string(),
    });
    let write = |manifest: &Value| {
        fs::write(batch.join("0.manifest.json"), manifest.to_string()).unwrap();
    };
    write(&manifest);
    found(audit(dir.path(), &[]), [0; 5]);
    // Only one of the six parts has a manifest.
    let report = found(audit(dir.path(), &["--manifests"]), [0, 0, 0, 5, 0]);
    let missing = &report["examples"]["corrupt"][0];
    assert_eq!(missing["file"], "batch-0/1.jsonl");
    let why = "no manifest: expected `1.manifest.json` in the directory of the batch";
    assert_eq!(missing["why"], why);
    manifest["bytes"] = json!(1);
    write(&manifest);
    let (code, report) = audit(dir.path(), &[]);
    assert_eq!((code, &report["corrupt"]), (1, &json!(1)), "{report}");
    let bytes = part.len();
    let why = format!("wrong `bytes` in the manifest: got `1`, expected `{bytes}`");
    assert_eq!(report["examples"]["corrupt"][0]["why"], why);
    fs::remove_file(batch.join("0.jsonl")).unwrap();
    let (_, report) = audit(dir.path(), &["--allow-missing", "50"]);
    let why = "the manifest has no part, neither beside it nor where it says";
    assert_eq!(report["examples"]["corrupt"][0]["why"], why);
}

#[test]
fn unreadable_directories_and_wrong_options_are_usage_errors() {
    let missing = loadgen(&["audit", "--dir", "/nonexistent/deliveries"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("failed to read `/nonexistent/deliveries`"));
    for args in [
        &["audit"][..],
        &["audit", "--dir", ".", "--messages", "0"],
        &["nonsense"],
    ] {
        assert_eq!(loadgen(args).status.code(), Some(2), "{args:?}");
    }
}

/// Checks an audit by its counts of problems and its exit code; returns its report.
fn found((code, report): (i32, Value), expected: [u64; 5]) -> Value {
    assert_eq!(problems(&report), expected, "{report}");
    assert_eq!(code, i32::from(expected != [0; 5]), "{report}");
    report
}

/// Delivered lines by batch and part. Each batch has two parts.
struct Delivery {
    files: Vec<[Vec<String>; 2]>,
}

impl Delivery {
    /// Returns what a service delivers that drops duplicates.
    fn unique() -> Self {
        let workload = workload();
        let originals = (0..workload.len()).filter(|index| !workload.is_duplicate(*index));
        let originals: Vec<u64> = originals.collect();
        Self::of(&workload, originals.chunks(BATCH))
    }

    /// Returns what a service delivers that requeues duplicates: repeats are in other batches than their originals.
    fn all() -> Self {
        let workload = workload();
        let (mut rounds, mut rounds_by_event) = (Vec::<Vec<u64>>::new(), vec![0; 300]);
        for index in 0..workload.len() {
            let round = &mut rounds_by_event[workload.event_number(index) as usize];
            if rounds.len() == *round {
                rounds.push(Vec::new());
            }
            rounds[*round].push(index);
            *round += 1;
        }
        let batches = rounds.iter().flat_map(|round| round.chunks(BATCH));
        Self::of(&workload, batches)
    }

    fn of<'m>(workload: &Workload, batches: impl Iterator<Item = &'m [u64]>) -> Self {
        let files = batches.enumerate().map(|(batch, messages)| {
            let mut parts = [Vec::new(), Vec::new()];
            for (seq, index) in messages.iter().enumerate() {
                let message = workload.message(*index);
                let part = usize::from(seq >= BATCH / 2);
                let line = json!({
                    "batchId": format!("batch-{batch}"), "part": part, "seq": seq,
                    "eventId": message.event_id, "sqsMessageId": format!("message-{index:08}"),
                    "source": "arn:aws:sqs:eu-west-1:000000000000:input", "sentAt": 1,
                    "body": message.body,
                });
                parts[part].push(line.to_string());
            }
            parts
        });
        Self {
            files: files.collect(),
        }
    }

    fn bare(mut self) -> Self {
        for line in self.files.iter_mut().flatten().flatten() {
            let envelope: Value = serde_json::from_str(line).unwrap();
            *line = envelope["body"].as_str().unwrap().to_owned();
        }
        self
    }

    fn lines(&mut self, batch: usize, part: usize) -> &mut Vec<String> {
        &mut self.files[batch][part]
    }

    fn all_lines(&self) -> impl Iterator<Item = Value> {
        self.files
            .iter()
            .flatten()
            .flatten()
            .map(|line| serde_json::from_str(line).unwrap())
    }

    fn change(&mut self, batch: usize, part: usize, line: usize, field: &str, value: Value) {
        let line = &mut self.files[batch][part][line];
        change(line, field, &|_| value.clone());
    }

    fn change_all(&mut self, field: &str, make: &dyn Fn(&Value) -> Value) {
        for line in self.files.iter_mut().flatten().flatten() {
            change(line, field, make);
        }
    }

    fn write(&self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (batch, parts) in self.files.iter().enumerate() {
            let batch_dir = dir.path().join(format!("batch-{batch}"));
            fs::create_dir(&batch_dir).unwrap();
            for (part, lines) in parts.iter().enumerate() {
                let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
                fs::write(batch_dir.join(format!("{part}.jsonl")), text).unwrap();
            }
        }
        dir
    }

    fn audit(&self, options: &[&str]) -> (i32, Value) {
        audit(self.write().path(), options)
    }
}

fn change(line: &mut String, field: &str, make: &dyn Fn(&Value) -> Value) {
    let mut json: Value = serde_json::from_str(line).unwrap();
    json[field] = make(&json);
    *line = json.to_string();
}

fn audit(dir: &Path, options: &[&str]) -> (i32, Value) {
    let dir = dir.to_str().unwrap();
    let workload = ["audit", "--messages=400", "--duplicates=25", "--dir", dir];
    let output = loadgen(&[&workload[..], options].concat());
    (output.status.code().unwrap(), super::json(&output))
}

fn workload() -> Workload {
    let config = WorkloadConfig {
        messages: MESSAGES,
        duplicates: Duplicates::any(25.0),
        ..WorkloadConfig::default()
    };
    Workload::new(config).unwrap()
}
