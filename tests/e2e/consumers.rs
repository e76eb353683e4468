//! A consumer that keeps its side of the contract: it takes a part once its manifest exists, and leaves the manifest.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use local::faults::{KillAt, Percent};
use local::sink::{BUCKET, SinkKind};
use protocol::batch::Status;
use tokio::process::Command;

use crate::calls::s3;
use crate::output::{Line, json_of, lines, manifests};
use crate::rig::{Rig, Setup, cases, workload};

/// The consumer in docs/sinks.md.
const CONSUME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/consume.py");

/// Prints what the consumer has stored.
const STORED: &str = "import sqlite3, sys; [print(line.decode()) for (line,) in \
                      sqlite3.connect(sys.argv[1]).execute('SELECT line FROM lines')]";

/// Time between two looks for manifests.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Takes away every part that has a manifest; returns the events in the parts.
async fn take(rig: &Rig, kind: SinkKind, s3: &aws_sdk_s3::Client) -> Vec<Line> {
    let out = &rig.stack.out;
    let mut taken = Vec::new();
    for manifest in manifests(out) {
        let manifest = json_of(&manifest);
        let key = manifest["key"].as_str().expect("it names the part");
        // In a bucket, the key begins with the prefix, which is the name of the directory.
        let below = match kind {
            SinkKind::S3 => out.parent().expect("it is below the bucket"),
            _ => out,
        };
        let part = below.join(key);
        let Ok(text) = fs::read_to_string(&part) else {
            continue;
        };
        match kind {
            SinkKind::S3 => {
                let request = s3.delete_object().bucket(BUCKET).key(key);
                request.send().await.expect("the object can be deleted");
            }
            _ => fs::remove_file(&part).expect("it was there"),
        }
        taken.extend(lines(&text));
    }
    taken
}

async fn every_part_is_taken_once(kind: SinkKind) {
    let mut setup = Setup::new().mortal().batches_of(50);
    setup.options.sink = kind;
    // The sink has the part, and the batch record does not say so yet.
    setup.options.faults.kill_at = vec![KillAt {
        text: "part written".to_owned(),
        percent: Percent::ALL,
        kills_max: Some(3),
    }];
    let rig = setup.start().await;
    let s3 = s3(&rig);
    let workload = workload(14, 500, 0.0);
    rig.burst(&workload).await;
    let mut taken = Vec::new();
    let consumer = async {
        loop {
            taken.extend(take(&rig, kind, &s3).await);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        () = rig.until_drained() => {}
        () = consumer => {}
    }
    taken.extend(take(&rig, kind, &s3).await);
    assert_eq!(rig.statuses().await[&Status::Error], 0);
    let ids = BTreeSet::from_iter(taken.iter().map(|line| &line.event_id));
    assert_eq!(ids.len() as u64, workload.unique(), "{kind}");
    assert_eq!(taken.len(), ids.len(), "{kind}: none a second time");
    rig.stack.stop().await;
}

#[tokio::test]
async fn parts_that_a_consumer_takes_away_do_not_come_again() {
    for kind in cases(&[SinkKind::File, SinkKind::S3]) {
        every_part_is_taken_once(kind).await;
    }
}

/// Runs Python with these arguments.
async fn python(arguments: &[&str]) -> Output {
    let output = Command::new("python3").args(arguments).output().await;
    output.expect("there is a Python 3")
}

#[tokio::test]
async fn the_documented_consumer_takes_each_part_once_and_refuses_one_that_was_changed() {
    let document = include_str!("../../docs/sinks.md");
    let consumer = fs::read_to_string(CONSUME).expect("it can be read");
    let block = format!("```python\n{consumer}```\n");
    assert!(document.contains(&block), "docs/sinks.md has another");
    let setup = Setup::new().batches_of(100);
    let setup = setup.var("SINK_COMPRESSION", "gzip");
    let rig = setup.start().await;
    let workload = workload(15, 1_000, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    rig.stack.stop().await;

    let text = |path: &Path| path.to_str().expect("paths here are text").to_owned();
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let database = |name: &str| text(&directory.path().join(name));
    let out = text(&rig.stack.out);
    let first = python(&[CONSUME, &out, &database("first")]).await;
    assert!(first.status.success(), "{first:?}");
    let parts = manifests(&rig.stack.out);
    let printed = String::from_utf8_lossy(&first.stdout).lines().count();
    assert_eq!(printed, parts.len(), "{first:?}");
    let again = python(&[CONSUME, &out, &database("first")]).await;
    assert_eq!((again.status.code(), &*again.stdout), (Some(0), &b""[..]));
    let stored = python(&["-c", STORED, &database("first")]).await;
    let stored = String::from_utf8(stored.stdout).expect("lines are text");
    let stored = Vec::from_iter(lines(&stored));
    let ids = BTreeSet::from_iter(stored.iter().map(|line| &line.event_id));
    assert_eq!(ids.len() as u64, workload.unique());
    assert_eq!(stored.len(), ids.len());

    let manifest = fs::read_to_string(&parts[0]).expect("a manifest stays where it is");
    let zeros = format!("\"sha256\":\"{}", "0".repeat(64));
    let start = manifest.find("\"sha256\":\"").expect("it has the hash");
    let mut changed = manifest;
    changed.replace_range(start..start + zeros.len(), &zeros);
    fs::write(&parts[0], changed).expect("the directory takes a file");
    let refused = python(&[CONSUME, &out, &database("second")]).await;
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(error.contains("'sha256': False, 'count': True"), "{error}");
}
