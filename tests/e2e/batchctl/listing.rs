//! Many batches, and what is wrong with a command.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use local::dynamodb::BATCH_TABLE;
use protocol::batch::{BatchRecord, Status};
use protocol::time::Timestamp;
use shared::aws::{DynamoBatchStore, SystemClock, SystemEntropy};
use shared::ports::{BatchStore, Clock, Entropy};
use tokio::process::Command;

use super::{Batchctl, YES};
use crate::executables::executable;
use crate::rig::{Rig, Setup};

const BATCHES: u64 = 4_000;

/// Writes records of `count` batches: every fourth in error, the others open; every tenth has the key `rare`.
pub async fn write_batches(rig: &Rig, count: u64) {
    let store = DynamoBatchStore::new(rig.dynamodb(), BATCH_TABLE);
    let now = SystemClock.now();
    let records = (0..count).map(|number| {
        let opened = Timestamp::from_ms(now.as_ms() - 3_600_000 + number);
        let key = if number % 10 == 0 { "rare" } else { "often" };
        let mut record = BatchRecord::open(
            SystemEntropy.batch_id(opened),
            "arn:aws:sqs:us-east-1:000000000000:input-queue"
                .parse()
                .expect("an ARN"),
            Some(key.parse().expect("a key")),
            10,
            opened,
            opened + Duration::from_secs(300),
        );
        if number % 4 == 0 {
            record.status = Some(Status::Error);
            record.error = Some(format!("sink refused part {}", number % 8));
        }
        record
    });
    let records: Vec<BatchRecord> = records.collect();
    let created = stream::iter(&records).map(|record| store.create(record));
    let created: Vec<_> = created.buffer_unordered(32).collect().await;
    created
        .into_iter()
        .for_each(|created| created.expect("the table takes a record"));
}

#[tokio::test]
async fn thousands_of_batches_are_listed_by_the_index() {
    let rig = Setup::new().without_sweep().start().await;
    write_batches(&rig, BATCHES).await;
    let batchctl = Batchctl::of(&rig);
    for (arguments, matching) in [
        (&["list"][..], BATCHES),
        (&["list", "--status", "error"], BATCHES / 4),
        (&["list", "--status", "overdue"], BATCHES * 3 / 4),
        (
            &["list", "--source", "input-queue", "--older-than", "10m"],
            BATCHES,
        ),
        (&["list", "--younger-than", "10m"], 0),
    ] {
        let ran = batchctl.text(&[&["--json"], arguments].concat()).await;
        let listed: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(listed["matching"], matching, "{arguments:?}");
    }
    // By key or error, the records are read.
    let rare = batchctl
        .json(0, &["list", "--key", "rare", "--limit", "7"])
        .await;
    assert_eq!(rare["matching"], BATCHES / 10);
    assert_eq!(rare["batches"].as_array().map(Vec::len), Some(7));
    let refused = batchctl
        .json(4, &["retry", "--error", "part 4", "--younger-than", "2h"])
        .await;
    let refused = refused["batches"].as_array().map(Vec::len);
    assert_eq!(refused, Some(BATCHES as usize / 8));
    let look = batchctl
        .json(0, &["watch", "--looks", "1", "--limit", "1"])
        .await;
    assert_eq!(
        (&look["open"], &look["error"]),
        (&(BATCHES * 3 / 4).into(), &(BATCHES / 4).into())
    );
    rig.stack.stop().await;
}

#[tokio::test]
async fn exit_codes_tell_scripts_what_happened() {
    let rig = Setup::new().without_sweep().start().await;
    let batchctl = Batchctl::of(&rig);
    let nobody = "0190163d-8694-739b-aea5-966c26f8ad91";
    for (code, arguments, words) in [
        (2, &["retry"][..], "no batch is selected"),
        (2, &["retry", "--yes", "--error", "x"], "`--why`: missing"),
        (2, &["show", "xyz"], "batch id: malformed: got `xyz`"),
        (
            2,
            &["pause", "--all", "--for", "9d"],
            "`--for`: out of range",
        ),
        (
            2,
            &["pause", "--for", "1h"],
            "<--source <ARN>|--key <KEY>|--all>",
        ),
        (
            2,
            &["redrive", "--from", "quarantine"],
            "<--where <JMESPATH>|--all>",
        ),
        (2, &["find", ""], "event id: empty"),
        (2, &["show", ""], "batch id: empty"),
        (3, &["show", nobody], "not found"),
        (3, &["show", "0190"], "not found among incomplete batches"),
        (3, &["forget", "nobody"], "event `nobody`: unknown"),
    ] {
        let ran = batchctl.text(arguments).await;
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(words), "{arguments:?}: {ran:?}");
    }
    let ran = batchctl
        .text(&[&["retry", nobody], &YES[..]].concat())
        .await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let ran = batchctl.text(&["list"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "0 batches\n"));
    rig.stack.stop().await;
}

#[tokio::test]
async fn a_stack_that_cannot_be_opened_ends_a_command_with_2() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let batchctl = Batchctl { directory };
    std::fs::write(
        batchctl.directory.path().join("env"),
        "export AWS_REGION=us-east-1\nexport AWS_ACCESS_KEY_ID=a\nexport AWS_SECRET_ACCESS_KEY=b\n",
    )
    .expect("the directory takes a file");
    let ran = batchctl.text(&["list"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("`DDB_LOCK_TABLE`: missing"), "{ran:?}");
    let path = batchctl.directory.path().join("env");
    let credentials = "export AWS_ACCESS_KEY_ID=a\nexport AWS_SECRET_ACCESS_KEY=b\n";
    std::fs::write(&path, credentials).expect("the directory takes a file");
    let mut list = Command::new(executable("batchctl"));
    list.env_clear()
        // A machine in AWS has a region of its own.
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .args(["--env-file", "env", "list"]);
    let no_region = batchctl.run(&mut list).await;
    assert_eq!(no_region.code, Some(2), "{no_region:?}");
    assert!(no_region.err.contains("region: not set"), "{no_region:?}");
    std::fs::remove_file(path).expect("it is there");
    let no_file = batchctl.text(&["list"]).await;
    assert_eq!(no_file.code, Some(2), "{no_file:?}");
    assert!(no_file.err.contains("`env`: "), "{no_file:?}");
}
